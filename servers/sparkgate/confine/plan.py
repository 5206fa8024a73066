"""What one confinement is to be: the command, what it sees, and what it may write. Made outside, obeyed inside."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sparkgate.confine.trail import holds

Kind = Literal["show", "write", "hide", "link", "fresh", "proc", "dev"]
"""`show` is there and cannot be changed, `write` can; `hide` is there and empty, `fresh` is empty and can be filled.

`link` is a symbolic link with the source as its text.
"""
Wall = Literal["bubblewrap", "unshare"]
"""Who makes the namespaces."""
CLOSED_PROC = ("sys", "sysrq-trigger", "irq", "bus")
"""Of /proc: who is root outside owns these files, also without a capability. bubblewrap leaves them open to root."""


@dataclass(frozen=True, slots=True)
class Mount:
    """One place of the view; a later one lies over those before it. `source` is empty where nothing is shown.

    One that is `optional` is left out when it has vanished by the time it is made.
    """

    kind: Kind
    target: str
    source: str = ""
    is_file: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """One confinement.

    Attributes:
        argv: the command, its program as it is to be looked up inside.
        environment: all that the command gets.
        folder: where it starts.
        mounts: the view, from the bottom to the top.
        config: path of the configuration whose gate is the one door.
        socket: where that gate's socket is, outside and inside.
        shared: sockets of others that may be connected to, paths.
        system: the gate is that of the machine.
        best_effort: go on with a wall that cannot be closed, and say so.
        wall: who makes the namespaces; None for whoever can.
        notes: what is to be said on standard error before it starts.
    """

    argv: tuple[str, ...]
    environment: dict[str, str]
    folder: str
    mounts: tuple[Mount, ...]
    config: str
    socket: str
    shared: tuple[str, ...] = ()
    system: bool = False
    best_effort: bool = False
    wall: Wall | None = None
    notes: tuple[str, ...] = ()

    @property
    def writable(self) -> list[str]:
        """Folders and files that may be changed inside."""
        return [mount.target for mount in self.mounts if mount.kind in ("write", "fresh")]

    def dumped(self) -> bytes:
        return json.dumps(asdict(self)).encode()


def loaded(data: bytes) -> Plan:
    """The plan as `dumped` wrote it."""
    told: dict[str, Any] = json.loads(data)
    listed = {name: tuple(told[name]) for name in ("argv", "shared", "notes")}
    return Plan(**{**told, **listed, "mounts": tuple(Mount(**mount) for mount in told["mounts"])})


def to_close(mounts: Sequence[Mount]) -> Iterator[Mount]:
    """Empty folders that are made read-only when all that lies in them is there; not those that are mounted over."""
    for number, mount in enumerate(mounts):
        over = (later for later in mounts[number + 1 :] if later.kind in ("show", "write", "hide"))
        if mount.kind == "hide" and not mount.is_file and not any(holds(later.target, mount.target) for later in over):
            yield mount
