"""Level 8: what the host itself says of our servers, where its own check can be believed.

Exit codes count only where they say something: that of Hermes is 0 whatever happens.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkgate.clients.doctoring.finding import Finding
from sparkgate.clients.hosts.host import Host

PATIENCE_S = 180.0
"""A host takes 20 s for this on a busy machine, and one asks each of its servers in turn."""
COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
NOT_ASKED = "only with --native"


@dataclass(frozen=True, slots=True)
class Answer:
    """How a command of a host ended; `code` is None when it did not run to its end, and `out` then says why."""

    code: int | None
    out: str = ""


Ask = Callable[[Sequence[str], Mapping[str, str], str], Answer]
"""(argv, environment, folder) → how it ended."""


def ask(argv: Sequence[str], environment: Mapping[str, str], folder: str) -> Answer:
    """Run a command of a host with a long time-out; what it writes on standard error does not count."""
    program = shutil.which(argv[0], path=environment.get("PATH"))
    if program is None:
        return Answer(None, f"there is no {argv[0]} on PATH")
    try:
        run = subprocess.run(
            [program, *argv[1:]],
            env=dict(environment),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Answer(None, f"{argv[0]} did not end within {PATIENCE_S:g} s")
    except OSError as error:
        return Answer(None, f"{argv[0]} cannot be run: {error.strerror}")
    return Answer(run.returncode, COLOUR.sub("", run.stdout.decode("utf-8", "replace")))


@dataclass(frozen=True, slots=True)
class Check:
    """Attributes:
    argv: (profile, server) → the command.
    judge: (server, answer) → "" when all is well, else what the host says.
    """

    argv: Callable[[str, str], tuple[str, ...]]
    judge: Callable[[str, Answer], str]


def _hermes(server: str, answer: Answer) -> str:
    found = re.search(r"Tools discovered:\s*(\d+)", answer.out)
    return "" if "✓ Connected" in answer.out and found and int(found[1]) else "it does not connect"


def _openclaw(server: str, answer: Answer) -> str:
    """Warnings on standard error may stand before; diagnostics tell what is wrong even with exit code 0."""
    told = _object(answer.out)
    tools = told.get("servers", {}).get(server, {}).get("tools", 0) if isinstance(told.get("servers"), dict) else 0
    if answer.code == 0 and tools and not told.get("diagnostics"):
        return ""
    return "its probe finds no tools" if not tools else "its probe has something to say"


def _listed(server: str, answer: Answer) -> str:
    """`NAME: COMMAND - ✓ Connected`, as Claude Code and Qwen Code print it."""
    lines = [line for line in answer.out.splitlines() if re.search(rf"(?:^|\s){re.escape(server)}:", line)]
    if not lines:
        return "it does not list the server"
    status = lines[0].rpartition(" - ")[2].strip()
    good = "Connected" in status and "Disconnected" not in status
    return "" if good else f"it says {status[:60]!r}"


def _codex(server: str, answer: Answer) -> str:
    """It reads its whole file for this, and refuses it when one table is bad; it starts nothing."""
    told = _object(answer.out)
    if answer.code != 0 or told.get("name") != server:
        return "it does not know the server, or cannot read its file"
    return "the server is switched off" if told.get("enabled") is False else ""


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text[text.index("{") :])
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _with_profile(option: str, *argv: str) -> Callable[[str, str], tuple[str, ...]]:
    """The command, with the option for a profile behind the program where one is meant."""
    program, *rest = argv

    def words(profile: str, server: str) -> tuple[str, ...]:
        chosen = (option, profile) if profile and option else ()
        return (program, *chosen, *(word.format(server=server) for word in rest))

    return words


CHECKS: Mapping[str, Check] = {
    "hermes": Check(_with_profile("-p", "hermes", "mcp", "test", "{server}"), _hermes),
    "openclaw": Check(_with_profile("--profile", "openclaw", "mcp", "probe", "{server}", "--json"), _openclaw),
    "claude_code": Check(_with_profile("", "claude", "mcp", "list"), _listed),
    "codex": Check(_with_profile("", "codex", "mcp", "get", "{server}", "--json"), _codex),
    "qwen": Check(_with_profile("", "qwen", "mcp", "list"), _listed),
}


def examine_native(host: Host, server: str, answer: Answer | None) -> Finding:
    """Args:
    answer: None when the host was not asked.
    """
    check = CHECKS.get(host.name)
    if check is None:
        words = f"{host.title} has no check of its own that can be believed."
        return Finding("native", "none", "skip", words, server=server)
    if answer is None:
        return Finding("native", "not_asked", "skip", f"{host.title} itself is asked {NOT_ASKED}.", server=server)
    if answer.code is None:
        return Finding("native", "not_run", "skip", f"{host.title} was not asked: {answer.out}.", server=server)
    if problem := check.judge(server, answer):
        command = " ".join(check.argv("", server))
        words = f"{host.title} itself is not content with {server}: {problem}."
        return Finding("native", "refused", "fail", words, f"`{command}` shows what it says", server)
    return Finding("native", "content", "ok", f"{host.title} itself is content with {server}.", server=server)
