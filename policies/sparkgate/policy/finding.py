"""What a detector says of a text, whatever kind of detector it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from sparkgate.policy.forms.view import View

Class = Literal["secret", "pii", "local", "client", "code"]
Verdict = Literal["allow", "redact", "ask", "block"]
"""`ask` is block unless a person agrees."""


Forms = Literal["all", "words", "plain"]
"""In which forms of a text a finding counts: in all; not where signs were taken out or letters changed; or only where
words stand as they were written. What knows a shape and no literal finds much in letters that were shuffled."""


class Overrun(Exception):
    """The decision did not finish before its deadline."""


class Detector(Protocol):
    """Finds what must not leave in one form of a text. It never keeps a text, and never raises but `Overrun`.

    One that looks at every form finds something in a line by itself only if it finds something in lines of which it is
    one: forms are looked at together first (`suspects`).
    """

    def find(self, view: View, deadline: float) -> list[Finding]:
        """Every accepted match, as indices in this form; `deadline` is in seconds of time.monotonic."""
        ...


class Named(Protocol):
    """What is known of what was found: a rule, a term, a known value."""

    @property
    def id(self) -> str: ...
    @property
    def cls(self) -> Class: ...
    @property
    def verdict(self) -> Verdict: ...
    @property
    def replacement(self) -> str: ...
    @property
    def why(self) -> str: ...
    @property
    def forms(self) -> Forms: ...


@dataclass(frozen=True, slots=True)
class Label:
    """A `Named` that is no rule of a file."""

    id: str
    cls: Class
    verdict: Verdict
    replacement: str
    why: str
    forms: Forms = "all"


@dataclass(frozen=True, slots=True)
class Finding:
    """Where something was found: str indices into the judged text, half open."""

    rule: Named
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Where:
    """A place that text leaves through: the tool, and the class of its destination; "" for any."""

    tool: str = ""
    destination: str = ""

    def covers(self, other: Where) -> bool:
        return self.tool in ("", other.tool) and self.destination in ("", other.destination)


ANYWHERE = Where()


@dataclass(frozen=True, slots=True)
class Withheld:
    """A span of the judged text that must not leave as it is (str indices)."""

    rule: str
    cls: Class
    start: int
    end: int
    replacement: str
    verdict: Verdict
    why: str = ""
    general: bool = False

    def public(self) -> dict[str, object]:
        """What may be told of it: never the value."""
        return {"rule": self.rule, "class": self.cls, "start": self.start, "end": self.end}
