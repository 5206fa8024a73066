"""Levels 6 and 7: what in the host's configuration hides our tools, and its own ways to the network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sparkgate.clients.doctoring.case import Case
from sparkgate.clients.doctoring.finding import CONFINED, Finding, State
from sparkgate.clients.hosts.host import Door, Gate
from sparkgate.confine import record

SWITCH = "switched_off"
"""Code of a gate that stands in the entry itself."""


def examine_gates(case: Case) -> list[Finding]:
    """Of the file, of the others that count, and of the environment."""
    names = list(case.ours())
    gates = [*case.host.gates(case.data, names), *case.host.around(case.place.where.environment)]
    unread: list[Finding] = []
    for beside, file, data in case.beside():
        if isinstance(data, str):
            words = f"{file} cannot be read, so what it hides is not known: {data}."
            unread.append(Finding("gates", "unreadable", "fail", words, "repair the file"))
        else:
            gates += beside.gates(data, names)
    found = [*(_gate(gate) for gate in gates), *unread]
    return found or [Finding("gates", "open", "ok", "Nothing in its configuration hides the tools.")]


def _gate(gate: Gate) -> Finding:
    """A switch in an entry counts for the level of the entry."""
    state: State = "fail" if gate.certain else "warn"
    return Finding("entry" if gate.code == SWITCH else "gates", gate.code, state, gate.what, gate.way_out)


def examine_doors(case: Case) -> list[Finding]:
    read = [(beside, data) for beside, _, data in case.beside() if not isinstance(data, str)]
    found = [*case.host.doors(case.data), *(door for beside, data in read for door in beside.doors(data))]
    return list(_doors(found, case)) or [Finding("doors", "shut", "ok", "No way of its own to the network is known.")]


def _doors(found: Iterable[Door], case: Case) -> Iterator[Finding]:
    walls = record.found(case.config)
    for door in found:
        if walls and not walls.missing:
            yield Finding("doors", door.code, "ok", f"{door.what} Here it does not: this is confined.")
        elif door.confine:
            facts = {"door": door.code, "confine": True}
            yield Finding("doors", CONFINED, "warn", door.what, door.way_out, facts=facts)
        else:
            closes = f"{door.way_out}, or `{case.register} --close-doors`" if door.changes else door.way_out
            yield Finding("doors", door.code, "warn", door.what, closes, facts={"door": door.code, "confine": False})
