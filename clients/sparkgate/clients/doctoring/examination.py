"""The doctor: what is to be looked at is looked at first, then a table of levels says what that means."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from sparkgate.clients.doctoring import native
from sparkgate.clients.doctoring.case import Case
from sparkgate.clients.doctoring.child import Child, child_of
from sparkgate.clients.doctoring.entries import examine_entries
from sparkgate.clients.doctoring.finding import Finding, Level, Report, only_warned, worst
from sparkgate.clients.doctoring.grace import Starts, examine_grace, examine_list, is_quick
from sparkgate.clients.doctoring.hiding import examine_doors, examine_gates
from sparkgate.clients.doctoring.interpreters import Probe, examine_interpreter, probe
from sparkgate.clients.doctoring.spawned import examine_visit
from sparkgate.clients.doctoring.trust import is_trusted, not_trusted
from sparkgate.clients.doctoring.visit import Visit, visit


@dataclass(frozen=True, slots=True)
class Means:
    """How the doctor looks at what runs; each is to be replaced in tests.

    Attributes:
        spawns: whether it may start anything at all.
        asks: whether it may ask the host's own program.
    """

    spawns: bool = True
    asks: bool = False
    probe: Callable[[Child], Probe | None] = probe
    visit: Callable[[Child, str, str, tuple[str, ...]], Visit] = visit
    ask: native.Ask = native.ask


@dataclass(frozen=True, slots=True)
class Seen:
    """What was looked at, by the names of servers. What was not has no name in it."""

    case: Case
    asked: bool
    children: Mapping[str, Child]
    trusted: frozenset[str] = frozenset()
    probes: Mapping[str, Probe | None] = field(default_factory=dict)
    visits: Mapping[str, Visit] = field(default_factory=dict)
    starts: Mapping[str, Starts] = field(default_factory=dict)
    answers: Mapping[str, native.Answer] = field(default_factory=dict)


Cold = dict[str, float]
"""Socket of a gate, "" when it is not known → how long the start took that started it; counts for every host."""


def look(case: Case, means: Means, cold: Cold) -> Seen:
    """Start what is trusted; the order matters, as the first start may start the gate."""
    where, planted = case.place.where, secrets.token_hex(16)
    children = {name: child_of(case.host, entry, where, planted) for name, entry in case.ours().items()}
    probes: dict[str, Probe | None] = {}
    visits: dict[str, Visit] = {}
    starts: dict[str, Starts] = {}
    trusted = [name for name, child in children.items() if is_trusted(case, name, child)]
    for name in trusted if means.spawns else ():
        probes[name] = means.probe(children[name])
        if children[name].program:
            visits[name], starts[name] = _visited(case, name, children[name], probes[name], means, cold)
    answers = _answers(case, means, trusted)
    return Seen(case, means.spawns, children, frozenset(trusted), probes, visits, starts, answers)


def _visited(case: Case, name: str, child: Child, told: Probe | None, means: Means, cold: Cold) -> tuple[Visit, Starts]:
    """One visit; another where the first may have started the gate, or was slow, as machines are busy at times."""
    greeting = case.host.protocol, case.host.opens
    seen, socket = means.visit(child, name, *greeting), told.socket if told else ""
    if seen.listed_ms is None:
        return seen, Starts()
    warm = bool(told and told.gate)
    if warm and is_quick(case.host, seen.listed_ms):
        return seen, Starts(cold.get(socket), seen.listed_ms)
    again = means.visit(child, name, *greeting).listed_ms
    if not warm:
        cold.setdefault(socket, seen.listed_ms)
        return seen, Starts(seen.listed_ms, again)
    return seen, Starts(cold.get(socket), min(seen.listed_ms, again or seen.listed_ms))


def _answers(case: Case, means: Means, names: Iterable[str]) -> dict[str, native.Answer]:
    """One answer where a command is the same for all servers."""
    check, where = native.CHECKS.get(case.host.name), case.place.where
    if check is None or not (means.asks and means.spawns):
        return {}
    argvs = {name: check.argv(case.place.target.profile, name) for name in names}
    folder = str(where.project or where.home)
    known = {argv: means.ask(argv, where.environment, folder) for argv in dict.fromkeys(argvs.values())}
    return {name: known[argv] for name, argv in argvs.items()}


def _entry(seen: Seen) -> Iterable[Finding]:
    return examine_entries(seen.case)


def _interpreter(seen: Seen) -> Iterator[Finding]:
    way_out = f"`{seen.case.register} --replace`, from the sparkgate that is to stay"
    for name, child in seen.children.items():
        yield from examine_interpreter(name, child, seen.probes.get(name), seen.asked, way_out)


def _spawn(seen: Seen) -> Iterator[Finding]:
    for name, child in seen.children.items():
        if name in seen.visits:
            yield from examine_visit(seen.case.host, name, seen.visits[name])
        elif seen.asked and child.program and name not in seen.trusted:
            yield not_trusted(seen.case, name, child)
        else:
            why = "its command is not there" if seen.asked else "--no-spawn"
            yield Finding("spawn", "not_started", "skip", f"{name} was not started: {why}.", server=name)


def _grace(seen: Seen) -> Iterator[Finding]:
    for name, entry in seen.case.ours().items():
        yield examine_grace(seen.case.host, name, entry, seen.starts.get(name, Starts()))
        yield from examine_list(seen.case.host, name, seen.visits[name].list_ms if name in seen.visits else None)


def _gates(seen: Seen) -> Iterable[Finding]:
    return examine_gates(seen.case)


def _doors(seen: Seen) -> Iterable[Finding]:
    return examine_doors(seen.case)


def _native(seen: Seen) -> Iterator[Finding]:
    for name in seen.children:
        yield native.examine_native(seen.case.host, name, seen.answers.get(name))


LEVELS: tuple[tuple[Level, Callable[[Seen], Iterable[Finding]]], ...] = (
    ("entry", _entry),
    ("interpreter", _interpreter),
    ("spawn", _spawn),
    ("grace", _grace),
    ("gates", _gates),
    ("doors", _doors),
    ("native", _native),
)
"""Behind level `file`, which says whether there is anything to look at; a level may find something of another."""


def examine(case: Case, of_file: Iterable[Finding], means: Means, cold: Cold, named: bool) -> Report:
    """All levels of one file that reads.

    Args:
        of_file: findings of level `file`.
        named: by the user, so that no entry of ours is a failure.
    """
    found = [*of_file]
    if case.ours():
        seen = look(case, means, cold)
        found += [finding for _, level in LEVELS for finding in level(seen)]
        return report(case, found, worst(found))
    found = [*(found if named else only_warned(found)), *examine_entries(case)]
    if named and not any(finding.state == "fail" for finding in found):
        words = f"None of sparkgate's servers is registered with {case.host.title}."
        found.append(Finding("entry", "not_registered", "fail", words, case.host.why or f"`{case.register}`"))
    return report(case, found, "fail" if worst(found) == "fail" else "not registered")


def report(case: Case, found: Iterable[Finding], state: str) -> Report:
    place = case.place
    return Report(
        case.host.name,
        case.host.title,
        place.target.profile,
        str(place.target.file),
        state,
        tuple(found),
        case.host.minds,
    )
