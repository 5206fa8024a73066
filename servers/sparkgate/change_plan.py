"""What a load, unload or swap would do, and what speaks against it. Reads everything, changes nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from sparkgate.engine_settings import ControlSettings
from sparkgate.engine_state import Status
from sparkgate.fit import Fit, fits, need
from sparkgate.fleet import Fleet, launch_digest
from sparkgate.jobs import Jobs
from sparkgate.memory import Memory
from sparkgate.origins import origin
from sparkgate.protect import Routes, Served, leads_to, served_by
from sparkgate.release import is_up
from sparkgate.routes import leaks
from sparkgate.runtimes.spec import Look
from sparkgate.weights import weights_gib

Kind = Literal["load", "unload", "swap"]
FALL_BACK = ("litellm",)
"""Routers that send a request elsewhere when its engine is down."""
_CUT_OFF = (
    "{one.host} asks {one.url}, where {name} will not answer: the old engine comes back unless a person confirms the new "
    "one"
)
_REVIVED = "{name} may come back by itself: {by}"

REFUSALS = {
    "watched_only": "{name} is only watched; give [engines.{name}] a runtime to have it started and stopped",
    "occupied": "{others} runs; one model copy at a time: use engine_swap to put {name} in its place",
    "cannot_stop": "{name} runs and is only watched: stop it, give it a runtime, or mark it beside = true",
    "owner_unknown": "who owns {name} cannot be asked ({detail})",
    "no_memory": "{detail}",
    "would_leak": "while {name} is down, {router} sends requests for {models} off this box: take the fallback out, "
    "or set control.allow_cloud_fallback = true",
    "routes_unknown": "whether {router} sends requests off this box while {name} is down cannot be told ({detail}); "
    "control.allow_cloud_fallback = true goes on all the same",
}
"""code → words; `needs_confirmation` is decided where the caller is known."""


@dataclass(frozen=True, slots=True)
class Refusal:
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Plan:
    """One change, as it would be done now.

    Attributes:
        stops: engines that are stopped first, in this order.
        start: engine that is started; "" for an unload.
        steps: what is run or asked, one line each.
        held_gib: what comes back when the outgoing engines end, by name; None for unknown.
        fit: whether the incoming one has room.
        outage_s: predicted seconds without an engine, from earlier loads.
        hosts: agents that live on an outgoing engine; the plan then needs a person.
        nothing_to_do: the wish is fulfilled already.
    """

    kind: Kind
    target: str
    stops: tuple[str, ...] = ()
    start: str = ""
    steps: tuple[str, ...] = ()
    held_gib: Mapping[str, float | None] = field(default_factory=dict)
    fit: Fit | None = None
    outage_s: float | None = None
    hosts: tuple[Served, ...] = ()
    warnings: tuple[str, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    nothing_to_do: bool = False
    digest: str = ""

    @property
    def protected(self) -> bool:
        return bool(self.hosts)


def make_plan(kind: Kind, target: str, fleet: Fleet, jobs: Jobs, control: ControlSettings) -> Plan:
    """Look at every engine, at memory and at routers, and say what a change would do.

    Raises:
        JobsUnavailable: what was learnt from earlier loads cannot be read.
    """
    refusals: list[Refusal] = []
    warnings: list[str] = []
    looks = {name: fleet.look(name) for name in fleet.catalogue}
    statuses = fleet.statuses()
    routers = {
        name: fleet.routes(name, one.engine) for name, one in statuses.items() if one.front and one.state != "down"
    }
    target_look = looks[target]
    if target_look is None:
        refusals.append(_refusal("watched_only", name=target))
    others, in_the_way = _others(target, fleet, looks, statuses) if kind != "unload" else ((), [])
    refusals += in_the_way
    up = bool(target_look and is_up(target_look))
    if kind == "load" and others:
        refusals.append(_refusal("occupied", name=target, others=" and ".join(others)))
    stops = {"load": (), "swap": others, "unload": (target,) if up else ()}[kind]
    start = "" if kind == "unload" else target
    done = not stops and (up and statuses[target].state == "ready" if start else not up)
    memory = fleet.memory()
    holding = {name: fleet.held(looks[name], memory).returns_gib for name in stops}
    argv = target_look.argv if target_look else ()
    fit = _fit(target, argv, fleet, jobs, memory, holding, control) if start and not up else None
    if fit is not None:
        refusals += [] if fit.ok else [_refusal("no_memory", detail=fit.reason)]
        warnings += fit.warnings
    warnings += [
        f"{name} may come back: {look.revived_by}" for name in stops if (look := looks[name]) and look.revived_by
    ]
    hosts = tuple(found for name in stops for found in served_by(name, fleet, routers))
    warnings += [
        _CUT_OFF.format(one=one, name=start) for one in hosts if start and not _reaches(one, start, fleet, routers)
    ]
    refusals += _leaks(stops, fleet, statuses, routers) if not control.allow_cloud_fallback else []
    return Plan(
        kind=kind,
        target=target,
        stops=stops,
        start=start,
        steps=_steps(stops, start, fleet),
        held_gib=holding,
        fit=fit,
        outage_s=jobs.learnt(target, launch_digest(fleet.catalogue[target]))[1] if start else None,
        hosts=hosts,
        warnings=tuple(warnings),
        refusals=() if done else tuple(refusals),
        nothing_to_do=done,
        digest=_digest(kind, target, stops, fleet),
    )


def _others(
    target: str, fleet: Fleet, looks: Mapping[str, Look | None], statuses: Mapping[str, Status]
) -> tuple[tuple[str, ...], list[Refusal]]:
    """(engines that run in the place of the target, what cannot be moved out of it)."""
    stops, refusals = [], []
    for name, entry in fleet.catalogue.items():
        if name == target or entry.beside:
            continue
        look = looks[name]
        if look is not None and is_up(look):
            stops.append(name)
        elif look is None and _occupies(statuses[name]):
            refusals.append(_refusal("cannot_stop", name=name))
        elif look is not None and look.state == "unknown" and _occupies(statuses[name]):
            refusals.append(_refusal("owner_unknown", name=name, detail=look.detail))
    return tuple(stops), refusals


def _revived_by(look: Look | None) -> str:
    return look.revived_by if look else ""


def _reaches(served: Served, start: str, fleet: Fleet, routers: Mapping[str, Routes]) -> bool:
    """Whether an agent finds the new engine where it asks now."""
    url = fleet.catalogue[start].url
    doors = {origin(url)}
    for router, routes in routers.items():
        if any(leads_to(route, url) for route in routes or ()):
            doors.add(origin(fleet.catalogue[router].url))
    return origin(served.url) in doors


def _occupies(status: Status) -> bool:
    """Whether something at its URL holds a model; a router holds none."""
    return not status.front and status.state in ("ready", "loading", "wedged", "sleeping")


def _fit(
    target: str,
    argv: tuple[str, ...],
    fleet: Fleet,
    jobs: Jobs,
    memory: Memory,
    holding: Mapping[str, float | None],
    control: ControlSettings,
) -> Fit:
    entry = fleet.catalogue[target]
    learnt, _ = jobs.learnt(target, launch_digest(entry))
    wanted = need(
        replace(entry, command=entry.command or argv),
        weights_gib(entry.weights) if entry.weights else None,
        learnt,
        memory.total_gib,
    )
    credit_gib = sum(gib for gib in holding.values() if gib is not None)
    return fits(memory, credit_gib, wanted, control.headroom_gib)


def _leaks(
    stops: tuple[str, ...], fleet: Fleet, statuses: Mapping[str, Status], routers: Mapping[str, Routes]
) -> list[Refusal]:
    """Routers whose requests would leave the box while an engine is down: a swap is an egress event."""
    found = []
    for router, routes in routers.items() if stops else ():
        if statuses[router].engine not in FALL_BACK:
            continue
        for name in stops:
            if routes is None:
                found.append(_refusal("routes_unknown", router=router, name=name, detail="it does not tell its routes"))
            elif models := leaks(routes, fleet.catalogue[name].url):
                found.append(_refusal("would_leak", router=router, name=name, models=", ".join(models)))
    return found


def _steps(stops: tuple[str, ...], start: str, fleet: Fleet) -> tuple[str, ...]:
    steps = [f"stop {name} ({fleet.catalogue[name].runtime}), at the latest by force" for name in stops]
    steps += [f"wait until memory and port of {name} are free" for name in stops]
    runtime = fleet.runtime(start) if start else None
    steps += [f"start {start}: {step}" for step in (runtime.steps() if runtime else ())]
    return (*steps, *([f"wait until {start} generates, and check that it is the right one"] if start else []))


def _digest(kind: str, target: str, stops: tuple[str, ...], fleet: Fleet) -> str:
    entries = {name: launch_digest(fleet.catalogue[name]) for name in (*stops, target)}
    return hashlib.sha256(json.dumps([kind, target, stops, entries]).encode()).hexdigest()[:16]


def _refusal(code: str, **words: object) -> Refusal:
    return Refusal(code, REFUSALS[code].format(**words))


def plan_as_json(plan: Plan) -> dict[str, Any]:
    """A plan as the command prints it; nothing that is not known."""
    told = {
        "kind": plan.kind,
        "engine": plan.target,
        "stops": list(plan.stops),
        "steps": list(plan.steps),
        "held_gib": dict(plan.held_gib) or None,
        "memory": asdict(plan.fit) if plan.fit else None,
        "outage_s": plan.outage_s,
        "protected_for": [served.host for served in plan.hosts] or None,
        "nothing_to_do": plan.nothing_to_do or None,
        "refusals": [asdict(refusal) for refusal in plan.refusals] or None,
        "warnings": list(plan.warnings) or None,
    }
    return {name: value for name, value in told.items() if value is not None}
