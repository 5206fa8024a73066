"""What the gate tells its door process, one JSON line each time: every door with all that is known of its engine."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sparkgate.policy.model_door.router import Routing
from sparkgate.policy.model_door.screen import Engine

State = Literal["open", "removed", "locked", "misconfigured", "not_known_yet", "unreachable"]
"""Whether a door carries; else the rule by which it refuses everything."""


@dataclass(frozen=True, slots=True)
class Door:
    """One door.

    Attributes:
        scheme, host, port: the only origin that is connected to.
        addresses: IP addresses of the host, which are tried in this order.
        leads_away: nothing may go there while the kill switch is locked.
    """

    engine: Engine
    scheme: str
    host: str
    port: int
    addresses: tuple[str, ...]
    state: State = "open"
    leads_away: bool = True


@dataclass(frozen=True, slots=True)
class First:
    """What the first line alone tells: descriptors of listeners by name, and the files of the kill switch."""

    listeners: Mapping[str, int]
    switch: Sequence[str]


def written(doors: Iterable[Door], first: First | None = None) -> bytes:
    """The line; with `first` it is the first."""
    told: dict[str, Any] = {"doors": [asdict(door) for door in doors]}
    if first is not None:
        told["first"] = asdict(first)
    return json.dumps(told, default=sorted).encode() + b"\n"


def read(line: bytes) -> dict[str, Door]:
    """Doors by name. Raises ValueError, TypeError, KeyError or AttributeError for another line."""
    doors = [_door(one) for one in json.loads(line)["doors"]]
    return {door.engine.name: door for door in doors}


def read_first(line: bytes) -> First:
    """Raises as `read` does."""
    return First(**json.loads(line)["first"])


def _door(told: dict[str, Any]) -> Door:
    return Door(**{**told, "engine": _engine(told["engine"]), "addresses": tuple(told["addresses"])})


def _engine(told: dict[str, Any]) -> Engine:
    models, routing = told["models"], told["routing"]
    sets = {name: frozenset(routing[name]) for name in ("closed", "home", "away")} if routing else {}
    made = {
        "models": None if models is None else frozenset(models),
        "routing": Routing(**{**routing, **sets}) if routing else None,
    }
    return Engine(**{**told, **made})
