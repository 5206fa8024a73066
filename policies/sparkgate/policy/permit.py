"""What the way out is asked for, and what it answers."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from sparkgate.policy.audit import Caller
from sparkgate.policy.decision import Decision
from sparkgate.policy.finding import Class, Where


@dataclass(frozen=True, slots=True)
class Permit:
    """Leave to send one request: who, with which tool, where to.

    Attributes:
        destination: class of destination, a key of `request.SYNTAX`.
        origin: base URL of the destination, as it is logged.
        path: what follows it; a request built for anywhere else is refused.
        fields: everything that goes out beside the text, by name; logged with it, and nothing else may be added.
        headers: constant headers of the tool.
        timeout_s: seconds for look-up, connection, sending and reading together.
        max_bytes: longest answer read, in bytes, packed as well as unpacked.
        public: only addresses of the public web are connected to; one other among those of a name stops it.
        whole: the text leaves as it is or not at all, as an address with a part replaced is another address.
        ca_file: PEM file of authorities that are trusted beside the usual ones; "" for none.
        cache_s: seconds for which the answer may serve equal requests; those at the same time share one.
    """

    caller: Caller
    tool: str
    destination: str
    origin: str
    path: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 15.0
    max_bytes: int = 4_000_000
    public: bool = False
    whole: bool = False
    ca_file: str = ""
    cache_s: float = 0.0

    @property
    def where(self) -> Where:
        return Where(self.tool, self.destination)


@dataclass(frozen=True, slots=True)
class Sent:
    """An answer came back. `key` is where it is kept, None when it is not; `cached` when it came from there."""

    decision: Decision
    status: int
    headers: dict[str, str]
    body: bytes
    key: Hashable = None
    cached: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing left. `rules` name why, and `classes` what kind of thing they found; never the text."""

    rules: tuple[str, ...]
    notes: tuple[str, ...] = ()
    classes: tuple[Class, ...] = ()


@dataclass(frozen=True, slots=True)
class Failed:
    """It was sent or tried, and no whole answer came back. `kind` is what `failures.failure_kind` gives."""

    kind: str
    decision: Decision
