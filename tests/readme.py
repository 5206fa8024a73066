"""The tables of the README, made from the code. `python tests/readme.py` writes them; a test compares them."""

from __future__ import annotations

import dataclasses
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from recorded_engine import recording

from sparkgate.access_settings import AccessSettings
from sparkgate.clients.attacking.command import ATTACKS
from sparkgate.clients.hosts import HOSTS
from sparkgate.clients.hosts.host import Where
from sparkgate.engine_settings import NEEDS, EngineSettings
from sparkgate.engines import ENGINES
from sparkgate.engines.spec import Engine
from sparkgate.measure.plan import KINDS
from sparkgate.page_problems import PROBLEMS as PAGE_PROBLEMS
from sparkgate.policy.rules import shipped
from sparkgate.policy.syntax import FORMS
from sparkgate.reading.page import MESSAGES
from sparkgate.runtimes import RUNTIMES
from sparkgate.searxng import PROBLEMS
from sparkgate.settings import Settings, rows

README = Path(__file__).parent.parent / "README.md"
PROMISES = Path(__file__).parent / "promises.toml"
LEVELS = Path(__file__).parent / "levels.toml"


def promises() -> list[dict[str, object]]:
    return list(tomllib.loads(PROMISES.read_text())["promise"])


def promises_table() -> str:
    lines = ["| promise | proven by |", "|---|---|"]
    for promise in promises():
        tests = promise["tests"]
        assert isinstance(tests, list)
        lines.append(f"| {promise['text']} | " + ", ".join(f"`{test.partition('::')[2]}`" for test in tests) + " |")
    return "\n".join(lines)


def threats() -> list[dict[str, object]]:
    return list(tomllib.loads(LEVELS.read_text())["threat"])


def levels_table() -> str:
    lines = ["| an agent tries | same user | own user | confined |", "|---|---|---|---|"]
    lines += [f"| {one['what']} | {one['same_user']} | {one['own_user']} | {one['confined']} |" for one in threats()]
    return "\n".join(lines)


def escapes_list() -> str:
    return "; ".join(attack.title for attack in ATTACKS) + "."


def settings_table() -> str:
    lines = ["| setting | default | unit | meaning |", "|---|---|---|---|"]
    for row in rows(Settings(), Path("/nonexistent")):
        lines.append(f"| `{row.key}` | {row.default!r} | {row.unit} | {row.meaning} |")
    for one in dataclasses.fields(AccessSettings):
        about = one.metadata
        lines.append(f"| `access.{one.name}.NAME` | () | {about['unit']} | {about['meaning']} |")
    for one in dataclasses.fields(EngineSettings):
        about = one.metadata
        lines.append(f"| `engines.NAME.{one.name}` | {one.default!r} | {about['unit']} | {about['meaning']} |")
    return "\n".join(lines)


def changed_by(engine: Engine) -> str:
    if engine.load:
        return "its own requests"
    return "nothing: it is a router" if engine.front else "its owner"


def engines_table() -> str:
    """How each engine was met; the one that runs in the tests is named here, the others by their recordings."""
    met = {"recorded": "recording of a running one", "documented": "answers made from its documentation"}
    lines = ["| engine | usual port | recognised and read against | a model is changed by |", "|---|---|---|---|"]
    for engine in sorted(ENGINES.values(), key=lambda engine: engine.title.lower()):
        source = met[recording(engine.name)["source"]] + (", and a real one" if engine.name in RUN_FOR_REAL else "")
        lines.append(f"| {engine.title} | {engine.port} | {source} | {changed_by(engine)} |")
    return "\n".join(lines)


RUN_FOR_REAL = ("llamacpp", "llamacpp-router", "litellm", "vllm")
RUNTIME_WORDS = {
    "process": ("a process it starts itself", "for real, with real engines"),
    "docker": ("a container", "answers of docker's documentation; no container was run"),
    "systemd": ("a unit; `user:NAME` for the user manager", "answers of its documentation"),
    "kubernetes": ("a Deployment, as `namespace/name`; `sparkgate engine role` prints the Role", "documented answers"),
    "sparkrun": ("a recipe", "its real `status`, else documented answers"),
    "daemon": ("a model of a resident engine", "a fake with a profile for each"),
}


def runtimes_table() -> str:
    lines = ["| `runtime` | what it owns | needs | tested against |", "|---|---|---|---|"]
    for name in RUNTIMES:
        what, how = RUNTIME_WORDS[name]
        lines.append(f"| `{name}` | {what} | {', '.join(f'`{key}`' for key in NEEDS[name])} | {how} |")
    return "\n".join(lines)


def kinds_table() -> str:
    lines = ["| `bench run` | measures |", "|---|---|"]
    lines += [f"| `{kind.name}` | {kind.about} |" for kind in KINDS.values()]
    return "\n".join(lines)


def rules_table() -> str:
    counts = Counter((rule.cls, rule.verdict) for rule in shipped())
    lines = ["| class | verdict | rules |", "|---|---|---|"]
    lines += [f"| {cls} | {verdict} | {number} |" for (cls, verdict), number in sorted(counts.items())]
    return "\n".join(lines)


def syntax_table() -> str:
    lines = ["| word | what happens |", "|---|---|"]
    lines += [
        f"| `{form.rule}` | {'the query is refused: ' if form.rewrite is None else ''}{form.note} |" for form in FORMS
    ]
    return "\n".join(lines)


def hosts_table() -> str:
    """Each host with the file of its usual profile, and how we know what we know of it."""
    how = {"file": "edits it", "command": "by its own command", "print": "explains only"}
    lines = ["| host | its file on Linux | `register` | known from |", "|---|---|---|---|"]
    for host in HOSTS.values():
        file = str(host.targets(Where(Path("/home/you"), {}))[0].file).replace("/home/you", "~")
        page = f"[{host.title}](.publish/hosts/{host.name}.md)"
        lines.append(f"| {page} | `{file}` | {how[host.how]} | {SEEN[host.seen]} |")
    return "\n".join(lines)


SEEN = {"run": "running it", "read": "its code", "told": "documentation and reports"}


def codes_list() -> str:
    own = ("blocked", "locked", "log_unavailable", "config_error", "policy_error", "empty_query", "query_too_long")
    arguments = ("invalid_argument", "missing_argument", "unknown_argument", "unknown_tool")
    pages = (*PAGE_PROBLEMS, *WEB_ADDRESS_CODES, *MESSAGES)
    return ", ".join(f"`{code}`" for code in dict.fromkeys((*own, *arguments, *PROBLEMS, *pages))) + "."


WEB_ADDRESS_CODES = ("bad_address", "scheme", "user_info", "port", "inner_name", "special_address", "too_long")
"""Codes of `policy.web_address.BadAddress`, as read_page tells them."""
TABLES: dict[str, Callable[[], str]] = {
    "promises": promises_table,
    "settings": settings_table,
    "levels": levels_table,
    "escapes": escapes_list,
    "engines": engines_table,
    "runtimes": runtimes_table,
    "kinds": kinds_table,
    "rules": rules_table,
    "syntax": syntax_table,
    "codes": codes_list,
    "hosts": hosts_table,
}


def with_tables(text: str) -> str:
    """The README with every table made anew."""
    for name, make in TABLES.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        assert found and closed, f"the README has no place for {name}"
        text = f"{before}{begin}{make()}\n{end}{after}"
    return text


if __name__ == "__main__":
    README.write_text(with_tables(README.read_text()))
