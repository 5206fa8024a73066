"""What a check is, and the small parts that most of them are made of."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from sparkgate.doctor.evidence import Evidence

Level = Literal["info", "warning", "error"]
About = TypeVar("About")
Find = Callable[[Evidence], str]
"""Evidence → what was found, in words; "" when the trap is not there. Never holds the value of a variable."""

PROGRAMS = {
    "vllm": r"vllm",
    "sglang": r"sglang",
    "llamacpp": r"llama-server|llama\.cpp|llama_server|llamacpp",
    "llamacpp-router": r"llama-server|llama\.cpp|llama_server|llamacpp",
    "atlas": r"atlas(?:-gb10)?|spark serve",
    "litellm": r"litellm",
    "ollama": r"ollama",
}
"""Engine → its program or image in a command: behind it stand all the flags it was given."""
RECIPES = ("sparkrun",)
"""Programs that give an engine flags which do not stand in their own command."""


@dataclass(frozen=True, slots=True)
class Check(Generic[About]):
    """One trap.

    Attributes:
        engines: those it concerns; () for any.
        find: see `Find`; a check of the whole machine takes a `Box`.
        text: what it means. advice: what to do about it. One or two sentences each.
    """

    id: str
    level: Level
    engines: tuple[str, ...]
    find: Callable[[About], str]
    text: str
    advice: str


def words(evidence: Evidence) -> tuple[str, ...]:
    """Words of its command, also those inside a shell's `-c`, with `--name=value` parted and _ in names as -."""
    parts = (part for word in evidence.argv for piece in word.split() for part in _parted(piece))
    return tuple(part.replace("_", "-") if part.startswith("--") else part for part in parts)


def _parted(word: str) -> tuple[str, ...]:
    name, equals, value = word.partition("=")
    return (name, value) if equals and name.startswith("-") else (word,)


def option(evidence: Evidence, *names: str) -> str | None:
    """The value of an option, "" for one without, None when it is not given; of several the last counts."""
    said = words(evidence)
    for at in range(len(said) - 1, -1, -1):
        if said[at] in names:
            value = said[at + 1] if at + 1 < len(said) else ""
            return "" if value.startswith("--") else value
    return None


def whole_option(evidence: Evidence, *names: str) -> int | None:
    value = option(evidence, *names) or ""
    return int(value) if value.isdecimal() and len(value) < 10 else None


def knows_flags(evidence: Evidence) -> bool:
    """Whether its command is known with every flag: a flag that is not in a script's name may be in the script."""
    program = PROGRAMS.get(evidence.status.engine)
    said = words(evidence)
    if not program or not said or any(word.rpartition("/")[2] in RECIPES for word in said):
        return False
    image = evidence.look.image if evidence.look else ""
    return re.search(rf"(?:^|[\s/])(?:{program})(?=$|[\s./:-])(?![\w.-]*\.sh\b)", " ".join((image, *said))) is not None


def last_line(evidence: Evidence, pattern: str) -> re.Match[str] | None:
    """The last line of its log that matches; `.string` is the line."""
    wanted = re.compile(pattern, re.IGNORECASE)
    return next((found for text in reversed(evidence.log) if (found := wanted.search(text))), None)


def number_in_log(evidence: Evidence, pattern: str) -> float | None:
    """The number that the first group matches in the last line that tells it."""
    found = last_line(evidence, pattern)
    return float(found[1]) if found else None


def metric(evidence: Evidence, name: str) -> float | None:
    """Sum of the series of this name in its /metrics; None when it has none."""
    rows = re.findall(
        rf"^{re.escape(name)}(?:\{{[^\n]*\}})?[ \t]+([\d.]+(?:e[+-]?\d{{1,3}})?)\b", _metrics(evidence), re.M
    )
    return sum(map(float, rows)) if rows else None


def _metrics(evidence: Evidence) -> str:
    return evidence.pages.get("/metrics", "")


def gauge(evidence: Evidence, name: str) -> float | None:
    return (evidence.status.load or {}).get(name)


def log_says(pattern: str) -> Find:
    """A line of its log matches, in any case."""

    def find(evidence: Evidence) -> str:
        found = last_line(evidence, pattern)
        return found.string.strip() if found else ""

    return find


def flag_missing(*names: str) -> Find:
    """Its command is known, and has none of these options."""

    def find(evidence: Evidence) -> str:
        missing = knows_flags(evidence) and all(option(evidence, name) is None for name in names)
        return f"its command has no {names[0]}" if missing else ""

    return find


def flag_given(*names: str) -> Find:
    """Its command has one of these options."""

    def find(evidence: Evidence) -> str:
        given = next((name for name in names if option(evidence, name) is not None), "")
        return f"its command has {given}" if given else ""

    return find


def variable_is(name: str, pattern: str) -> Find:
    """A variable is set to what matches; its value is not told."""

    def find(evidence: Evidence) -> str:
        value = evidence.environment.get(name)
        matches = value is not None and re.fullmatch(pattern, value.strip(), re.IGNORECASE)
        return f"{name} is set to a value that does this" if matches else ""

    return find


def variable_missing(name: str) -> Find:
    """Its variables are known, and this one is not among them."""

    def find(evidence: Evidence) -> str:
        known = bool(evidence.look and evidence.look.environment)
        return f"{name} is not set" if known and name not in evidence.environment else ""

    return find


def either(*finds: Find) -> Find:
    """The first that finds something."""
    return lambda evidence: next((found for find in finds if (found := find(evidence))), "")


def both(*finds: Find) -> Find:
    """All of them must find something; they are told together."""

    def find(evidence: Evidence) -> str:
        found = [one(evidence) for one in finds]
        return "; ".join(found) if all(found) else ""

    return find


def when(condition: Callable[[Evidence], bool], find: Find) -> Find:
    return lambda evidence: find(evidence) if condition(evidence) else ""


def is_up(evidence: Evidence) -> bool:
    return evidence.status.state == "ready"


def shares_memory(evidence: Evidence) -> bool:
    """CPU and GPU share one memory."""
    return evidence.memory.unified is True
