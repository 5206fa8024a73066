"""What is said of one file of one host, to people and to programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparkgate.clients.hosts.host import Door
from sparkgate.clients.registering.apply import Done
from sparkgate.clients.registering.diff import shown


@dataclass(frozen=True, slots=True)
class Report:
    """Attributes:
    servers: name → what happens to it.
    doors: the host's own ways to the network: open, closed by us, or open again.
    why: sentences, for what is refused or kept.
    after: what to do so that the host takes it.
    dead: names of the servers whose entry, as it is, names an interpreter that is not there.
    """

    host: str
    title: str
    profile: str
    file: str
    servers: Mapping[str, str] = field(default_factory=dict)
    doors: Sequence[Mapping[str, Any]] = ()
    backup: str = ""
    changed: bool = False
    would_change: bool = False
    failed: bool = False
    why: tuple[str, ...] = ()
    diff: str = ""
    after: str = ""
    dead: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        names = ("host", "profile", "file", "servers", "doors", "backup", "changed", "would_change", "failed", "diff")
        return {name: getattr(self, name) for name in names} | {"why": " ".join(self.why)}


@dataclass(frozen=True, slots=True)
class Job:
    """Something to do to one file: `look` says what, `carry_out` does it."""

    look: Callable[[], Report]
    carry_out: Callable[[], Report]


def told(done: Done, more: Sequence[Door] = (), **about: Any) -> Report:
    """What a plan does, or has done.

    Args:
        more: doors that are open in other files of the host.
        about: host, title, profile, file and after.
    """
    plan, would = done.plan, done.would_change and not done.plan.refused
    doors = [_door(door, "closed" if door.code in plan.shut else "open") for door in (*plan.doors, *more)]
    return Report(
        **about,
        servers={step.name: step.action for step in plan.steps},
        doors=[*doors, *(_again(code) for code in plan.opened)],
        backup=str(done.backup or ""),
        changed=done.changed,
        would_change=would,
        failed=plan.refused,
        why=(*(f"{step.name}: {step.why}." for step in plan.steps if step.why), *plan.stays),
        dead=tuple(step.name for step in plan.steps if step.dead),
        diff=shown(done.before, plan.text, about["file"], plan.words) if would else "",
    )


def _door(door: Door, state: str) -> dict[str, Any]:
    return {"code": door.code, "state": state, "what": door.what, "way_out": door.way_out, "confine": door.confine}


def _again(code: str) -> dict[str, Any]:
    return {"code": code, "state": "open again", "what": "as it was before", "way_out": "", "confine": False}
