"""What a load, unload or swap would do, and what speaks against it. Reads everything, changes nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sparkgate.change.fit import Fit, fits, need
from sparkgate.change.jobs import Jobs, Kind
from sparkgate.change.objections import Draft, Refusal, refusals, warnings
from sparkgate.change.protect import Served, served_by
from sparkgate.change.scene import Scene, evicted_by, in_the_place_of, look_around
from sparkgate.engine_settings import ControlSettings
from sparkgate.failures.diagnosis import without_secrets
from sparkgate.fleet import Fleet, launch_digest
from sparkgate.machine.weights import weights_gib


@dataclass(frozen=True, slots=True)
class Plan:
    """One change, as it would be done now.

    Attributes:
        stops: engines that are stopped first, in this order.
        start: engine that is started; "" for an unload.
        steps: what is run or asked, one line each, without secrets.
        evicts: models without an entry of their own that a daemon lets go of.
        available_gib: memory that is free now; None for unknown.
        held_gib: what comes back when the outgoing engines end, by name; None for unknown.
        fit: whether the incoming one has room.
        outage_s: predicted seconds without an engine, from earlier loads.
        hosts: agents that live on an outgoing engine; the plan then needs a person.
        nothing_to_do: the wish is fulfilled already.
        digest: tells this plan from one that would do something else.
    """

    kind: Kind
    target: str
    stops: tuple[str, ...] = ()
    start: str = ""
    steps: tuple[str, ...] = ()
    evicts: tuple[str, ...] = ()
    available_gib: float | None = None
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
    scene = look_around(fleet)
    others = tuple(in_the_place_of(target, fleet, scene)) if kind != "unload" else ()
    stops = {"load": (), "swap": others, "unload": (target,) if scene.is_up(target) else ()}[kind]
    start = "" if kind == "unload" else target
    held_gib = {name: fleet.held(scene.looks[name], scene.memory).returns_gib for name in stops}
    learnt_gib, load_s = jobs.learnt(target, launch_digest(fleet.catalogue[target]))
    fit = _fit(target, fleet, scene, learnt_gib, held_gib, control) if start and not scene.is_up(target) else None
    evicts = evicted_by(target, fleet, scene) if start else ()
    leaving = (*stops, target) if evicts else stops
    hosts = tuple(found for name in leaving for found in served_by(name, fleet, scene))
    draft = Draft(kind, target, others, stops, start, fit, evicts, hosts, scene, fleet, control)
    done = not others and not evicts and _is_done(draft)
    return Plan(
        kind=kind,
        target=target,
        stops=stops,
        start=start,
        steps=tuple(without_secrets(step) for step in _steps(stops, start, fleet)),
        evicts=evicts,
        available_gib=scene.memory.available_gib,
        held_gib=held_gib,
        fit=fit,
        outage_s=load_s if start else None,
        hosts=hosts,
        warnings=warnings(draft),
        refusals=() if done else refusals(draft),
        nothing_to_do=done,
        digest=_digest(kind, target, (*stops, *evicts), fleet),
    )


def _is_done(draft: Draft) -> bool:
    look = draft.scene.looks[draft.target]
    if look is None or look.state == "unknown":
        return False
    if not draft.start:
        return not draft.stops
    return draft.scene.is_up(draft.target) and draft.scene.statuses[draft.target].state == "ready"


def _fit(
    target: str,
    fleet: Fleet,
    scene: Scene,
    learnt_gib: float | None,
    held_gib: Mapping[str, float | None],
    control: ControlSettings,
) -> Fit:
    """Whether the target has room, counting what the outgoing engines give back."""
    entry, look = fleet.catalogue[target], scene.looks[target]
    words = entry.command or (look.argv if look else ())
    size_gib = weights_gib(entry.weights) if entry.weights else None
    wanted = need(replace(entry, command=words), size_gib, learnt_gib, scene.memory.total_gib)
    credit_gib = sum(gib for gib in held_gib.values() if gib)
    return fits(scene.memory, credit_gib, wanted, control.headroom_gib, control.pressure_max_percent)


def _steps(stops: tuple[str, ...], start: str, fleet: Fleet) -> tuple[str, ...]:
    steps = [f"stop {name} ({fleet.catalogue[name].runtime}), at the latest by force" for name in stops]
    steps += [f"wait until memory and port of {name} are free" for name in stops]
    runtime = fleet.runtime(start) if start else None
    steps += [f"start {start}: {step}" for step in (runtime.steps() if runtime else ())]
    return (*steps, *([f"wait until {start} generates, and check that it is the right one"] if start else []))


def _digest(kind: str, target: str, stops: tuple[str, ...], fleet: Fleet) -> str:
    entries = {name: launch_digest(fleet.catalogue[name]) for name in (*stops, target) if name in fleet.catalogue}
    return hashlib.sha256(json.dumps([kind, target, stops, entries]).encode()).hexdigest()[:16]


def plan_as_json(plan: Plan) -> dict[str, Any]:
    """A plan as the command prints it; nothing that is not known."""
    told = {
        "kind": plan.kind,
        "engine": plan.target,
        "stops": list(plan.stops),
        "steps": list(plan.steps),
        "evicts": list(plan.evicts) or None,
        "held_gib": dict(plan.held_gib) or None,
        "memory": asdict(plan.fit) if plan.fit else None,
        "outage_s": plan.outage_s,
        "protected_for": [served.host for served in plan.hosts] or None,
        "nothing_to_do": plan.nothing_to_do or None,
        "digest": plan.digest,
        "refusals": [asdict(refusal) for refusal in plan.refusals] or None,
        "warnings": list(plan.warnings) or None,
    }
    return {name: value for name, value in told.items() if value is not None}
