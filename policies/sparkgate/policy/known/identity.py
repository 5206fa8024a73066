"""Who the user is: login, host, home folder, and the name and address in his git configuration, as whole words.

These are no secrets, so their words are kept as they are; they are in no repr and no file. Names that say nothing of
anybody (`root`, `ubuntu`, `localhost`, `spark`, words of the trade, one or two letters) are not taken.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import monotonic

from sparkgate.policy.checking.ordinary import GENERIC_HOSTS, GENERIC_USERS
from sparkgate.policy.checking.wording import EMPTY_WORDS, words
from sparkgate.policy.checks import mail
from sparkgate.policy.finding import Finding, Label, Overrun
from sparkgate.policy.forms.view import View
from sparkgate.policy.names.words import is_common

LABELS = {
    "own-home": Label("own-home", "local", "redact", "[home]", "The home folder of this user."),
    "own-mail": Label("own-mail", "pii", "redact", "[email]", "The e-mail address in this user's git configuration."),
    "own-name": Label("own-name", "pii", "redact", "[name]", "The name of this user."),
    "own-host": Label("own-host", "local", "redact", "[host]", "The name of this machine."),
    "own-user": Label("own-user", "local", "redact", "[user]", "The login name of this user."),
}
Name = tuple[str, str]
"""(id of a label, text)"""

TRADE_WORDS = words(
    """ada agent agents ai amd ampere api apple art arm asus bench benchmark bill blackwell browser cache chat claude
    client cloud cluster code codex coder compute core cpu cuda data dell demo docs email engine file files flash flux
    gemini gemma gold google gpt gpu grace gradio grok hermes home hopper hp intel jetson jupyter kernel kimi known
    kube lab lenovo linux list llama llm local lovelace mac main mark max mcp may memory micro mini mistral mlx model
    models msi my neo net nic none note nova nvidia office open openai openclaw orin path phi pip pro prod project
    python qwen ram ray redacted rose run save search self service session shell sky snap space spark ssd stack
    station store strix studio sudo super system tesla thor titan torch train turing ultra unix value vllm volta web
    will windows work workstation"""
)
MACHINE_WORDS = re.compile(
    r"(?:nvidia-?)?(?:dgx|spark|gb\d+|gx\d+|h\d00|b\d00|a\d00|rtx|jetson|orin|thor|tesla)(?:-?(?:dgx|spark|gb\d+))?[-_]?\d{0,2}"
)
HEX_NAME = re.compile(r"[0-9a-f]{12}|[0-9a-f]{64}")
_SETTING = re.compile(r"^\s*(name|email|path)\s*=\s*(.*?)\s*(?:[#;].*)?$", re.IGNORECASE)
_SECTION = re.compile(r"^\s*\[\s*([\w.-]+)")


def telling(name: str) -> bool:
    """Whether a login or host name says anything of anybody."""
    plain = name.lower()
    stem = plain.rstrip("0123456789").rstrip("-_")
    generic = {plain, stem} & (GENERIC_USERS | GENERIC_HOSTS | EMPTY_WORDS | TRADE_WORDS)
    if len(stem) < 3 or generic or is_common(plain):
        return False
    return not MACHINE_WORDS.fullmatch(plain) and not HEX_NAME.fullmatch(plain)


def of_user(user: str, full_name: str, home: str) -> Iterator[Name]:
    """What the account says; `full_name` is the first field of its GECOS."""
    folder = home.rstrip("/").rpartition("/")[2]
    yield from (("own-user", name) for name in dict.fromkeys([user, folder]) if telling(name))
    if telling(folder) and home.count("/") > 1:
        yield "own-home", home.rstrip("/")
    yield from person(full_name)


def person(name: str) -> Iterator[Name]:
    """A full name counts as a phrase, a single word as a login."""
    words = name.split()
    if len(words) > 1 and any(telling(word.strip(".,")) for word in words):
        yield "own-name", " ".join(words)
    elif len(words) == 1 and telling(name.strip()):
        yield "own-user", name.strip()


def of_host(host: str, hosts_file: str) -> Iterator[Name]:
    """The name of the machine, short and full; `hosts_file` is the text of /etc/hosts. No name is looked up."""
    short = host.partition(".")[0]
    if not telling(short):
        return
    yield "own-host", short
    names = {word for line in hosts_file.splitlines() for word in line.partition("#")[0].split()[1:]}
    full = {name.rstrip(".") for name in (*names, host) if name.lower().startswith(f"{short.lower()}.")}
    yield from (("own-host", name) for name in sorted(full))


def git_settings(text: str) -> Iterator[tuple[str, str]]:
    """`name` and `email` of [user] sections and `path` of included files."""
    section = ""
    for line in text.splitlines():
        opened, found = _SECTION.match(line), _SETTING.match(line)
        section = opened[1].lower() if opened else section
        if found and (section == "user") == (found[1].lower() != "path") and section[:7] in ("user", "include"):
            yield found[1].lower(), found[2].strip('"')


def of_git(text: str) -> Iterator[Name]:
    """Name and address from a git configuration."""
    for key, value in git_settings(text):
        if key == "name":
            yield from person(value)
        elif key == "email" and "@" in value and mail(value, value, 0):
            yield "own-mail", value


def git_includes(text: str, folder: Path, home: Path) -> Iterator[Path]:
    """Files that a git configuration in `folder` includes."""
    for key, value in git_settings(text):
        if key == "path" and value:
            yield home / value[2:] if value.startswith("~/") else folder / value


class Identity:
    """Finds the names of the user as whole words in any case."""

    def __init__(self, names: Iterable[Name]) -> None:
        by_label: dict[str, set[str]] = {}
        for label, name in names:
            by_label.setdefault(label, set()).update({name, _unaccented(name)})
        self._searches = [
            (LABELS[label], tuple(sorted({_needle(name) for name in texts})), _pattern(label, texts))
            for label, texts in by_label.items()
        ]
        self.count = len(self._searches)

    def find(self, view: View, deadline: float) -> list[Finding]:
        """Every name in a form.

        Raises:
            Overrun: `deadline` (time.monotonic seconds) passed.
        """
        lower, found = view.lower, []
        for label, needles, pattern in self._searches:
            if not any(needle in lower for needle in needles):
                continue
            for match in pattern.finditer(view.text):
                found.append(Finding(label, match.start(), match.end()))
                if monotonic() > deadline:
                    raise Overrun(label.id)
        return found


def _unaccented(name: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFKD", name) if not unicodedata.combining(c))


def _needle(name: str) -> str:
    return max(name.lower().split(), key=len)


def _pattern(label: str, names: Iterable[str]) -> re.Pattern[str]:
    """The longest first; the words of a person's name may be joined in the usual ways, or the last come first."""
    literals = sorted((literal for name in names for literal in _literals(label, name)), key=len, reverse=True)
    before = "" if label == "own-home" else r"(?<![^\W_])"
    return re.compile(rf"{before}(?:{'|'.join(literals)})(?![^\W_])", re.IGNORECASE)


def _literals(label: str, name: str) -> Iterator[str]:
    words = [re.escape(word) for word in name.split()]
    if label != "own-name":
        yield re.escape(name)
        return
    yield r"[\s_.+-]{0,3}".join(words)
    yield words[-1] + r",?[\s_.+-]{1,3}" + r"[\s_.+-]{1,3}".join(words[:-1])
