"""What the doctor says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Level = Literal["file", "entry", "interpreter", "spawn", "grace", "gates", "doors", "native"]
State = Literal["ok", "warn", "fail", "skip"]
WORST: tuple[State, ...] = ("fail", "warn", "ok", "skip")
CONFINED = "only_confinement"


@dataclass(frozen=True, slots=True)
class Finding:
    """Attributes:
    code: stable, for programs.
    words: sentences, without secrets.
    way_out: what to do; "" where there is nothing to do.
    server: which of ours; "" when it is about all.
    facts: numbers and the like, for programs.
    """

    level: Level
    code: str
    state: State
    words: str
    way_out: str = ""
    server: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        names = ("level", "code", "state", "words", "way_out", "server")
        return {name: getattr(self, name) for name in names} | ({"facts": dict(self.facts)} if self.facts else {})


@dataclass(frozen=True, slots=True)
class Report:
    """One file of one host. `state` is the worst of the findings, `not registered` or `not installed`.

    `notes` are what a person should know of the host, whatever was found.
    """

    host: str
    title: str
    profile: str
    file: str
    state: str
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        return any(finding.state == "fail" for finding in self.findings)

    def as_json(self) -> dict[str, Any]:
        names = ("host", "title", "profile", "file", "state")
        told = {name: getattr(self, name) for name in names}
        return told | {"findings": [finding.as_json() for finding in self.findings], "notes": list(self.notes)}


def only_warned(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The same where nothing of ours depends on it."""
    return tuple(replace(one, state="warn") if one.state == "fail" else one for one in findings)


def worst(findings: Iterable[Finding]) -> State:
    states = {finding.state for finding in findings}
    return next((state for state in WORST if state in states), "skip")
