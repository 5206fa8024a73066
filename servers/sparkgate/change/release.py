"""Whether a stopped engine has really let go: a stop is not done when its owner says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparkgate.change.fit import kept_free
from sparkgate.fleet import Fleet
from sparkgate.machine.listeners import is_listened, listening_pids
from sparkgate.machine.origins import local_port
from sparkgate.machine.processes import command_of
from sparkgate.runtimes.spec import Look

RETURNED_SHARE = 0.8
"""So much of what an engine held must be free again."""


@dataclass(frozen=True, slots=True)
class Before:
    """Memory before the stop, in GiB: what was available, and what comes back from each engine; None for unknown."""

    available_gib: float | None
    held_gib: Mapping[str, float | None]


def is_gone(look: Look) -> bool:
    """Nothing of it runs, and its owner is not about to start it again."""
    return look.state == "stopped" or (look.state == "failed" and not look.pids and not look.revived_by)


def is_up(look: Look) -> bool:
    """Something of it runs, or will again: one that its owner restarts in a circle comes back beside another."""
    return look.state != "unknown" and not is_gone(look)


def still_held(names: Sequence[str], fleet: Fleet, before: Before, wanted_gib: float, headroom_gib: float) -> str:
    """What is not free yet, in words; "" when processes, ports and memory all are."""
    for name in names:
        look = fleet.look(name)
        if look is not None and not is_gone(look):
            return f"{name}, which its owner ({look.revived_by}) runs again," if look.revived_by else name
        port = None if fleet.catalogue[name].resident else local_port(fleet.catalogue[name].url)
        if port and is_listened(port):
            return f"port {port} of {name} ({listener_words(port)})"
    return _memory_held(fleet, before, wanted_gib, headroom_gib)


def _memory_held(fleet: Fleet, before: Before, wanted_gib: float, headroom_gib: float) -> str:
    """Enough is enough: either what is wanted next is free, or what was held has come back."""
    memory = fleet.memory()
    if before.available_gib is None or memory.available_gib is None or memory.total_gib is None:
        return ""
    enough_gib = wanted_gib + kept_free(headroom_gib, memory)
    returned_gib = before.available_gib + RETURNED_SHARE * sum(gib for gib in before.held_gib.values() if gib)
    if memory.available_gib >= min(enough_gib, returned_gib):
        return ""
    holders = ", ".join(f"{one.name} {one.pid} {one.held_gib or 0:.1f} GiB" for one in (memory.holders or ())[:3])
    return f"memory ({memory.available_gib:.1f} GiB are free; {holders or 'no holder is known'})"


def listener_words(port: int) -> str:
    """Who listens on a port, for a person."""
    pids = listening_pids(port)
    return f"process {pids[0]} ({(command_of(pids[0]) or ('?',))[0].rpartition('/')[2]})" if pids else "another user"
