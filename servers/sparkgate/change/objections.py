"""What speaks against a change, as a table of checks; each reads the draft of a plan and changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sparkgate.change.fit import Fit
from sparkgate.change.lock import holder
from sparkgate.change.protect import Served
from sparkgate.change.release import listener_words
from sparkgate.change.scene import Routes, Scene, leads_to
from sparkgate.engine_settings import ControlSettings, EngineSettings
from sparkgate.fleet import Fleet
from sparkgate.machine.listeners import is_listened
from sparkgate.machine.origins import local_port, origin
from sparkgate.routes import leaks
from sparkgate.runtimes.daemon import LISTS_ALL

FALL_BACK = frozenset({"litellm", "unknown"})
"""Routers that send a request elsewhere when its engine is down, and what does not say what it is."""

REFUSALS = {
    "watched_only": "{name} is only watched; give [engines.{name}] a runtime to have it started and stopped",
    "occupied": "{others} runs; one model copy at a time: use engine_swap to put {name} in its place",
    "cannot_stop": "{name} runs and is only watched: stop it, give it a runtime, or mark it beside = true",
    "owner_unknown": "who owns {name} cannot be asked ({detail})",
    "daemon_down": "nobody answers at {url}, where {name} would be loaded; start the daemon first",
    "unknown_model": "{name} has no model {model}; there are {there}",
    "no_program": "{program}, which starts {name}, is not there or may not be run",
    "no_weights": "the weights of {name} are not at {path}",
    "port_in_use": "port {port} of {name} is listened on already by {holder}; stop that first",
    "no_memory": "{detail}",
    "would_leak": "while {name} is down, {router} sends requests for {models} off this box: take the fallback out, "
    "or set control.allow_cloud_fallback = true",
    "routes_unknown": "whether {router} sends requests off this box while {name} is down cannot be told; "
    "control.allow_cloud_fallback = true goes on all the same",
}
"""code → words; `needs_confirmation` is decided where the caller is known."""

CUT_OFF = (
    "{one.host} asks {one.url}, where {name} will not answer: the old engine comes back unless a person confirms {name}"
)
MEASURED = "a benchmark is being measured: its numbers will be worth nothing"
REVIVED = "{name} may come back by itself: {by}"


@dataclass(frozen=True, slots=True)
class Refusal:
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Draft:
    """A change before it is judged.

    Attributes:
        others: engines that are in the place of the target.
        stops: those that would be stopped, in this order.
        start: the engine that would be started; "" for an unload.
        fit: whether it has room; None when nothing is to be loaded.
        evicts: models without an entry of their own that a daemon would let go of.
        hosts: agents that live on what would be stopped.
    """

    kind: str
    target: str
    others: tuple[str, ...]
    stops: tuple[str, ...]
    start: str
    fit: Fit | None
    evicts: tuple[str, ...]
    hosts: tuple[Served, ...]
    scene: Scene
    fleet: Fleet
    control: ControlSettings


def refusals(draft: Draft) -> tuple[Refusal, ...]:
    """Everything against it, the most telling first."""
    return tuple(refusal for check in CHECKS for refusal in check(draft))


def _watched_only(draft: Draft) -> Iterator[Refusal]:
    if draft.scene.looks[draft.target] is None:
        yield refusal("watched_only", name=draft.target)


def _cannot_start(draft: Draft) -> Iterator[Refusal]:
    """What surely cannot be started is not worth the stop of what runs."""
    look = draft.scene.looks[draft.target]
    if look is not None and look.state == "unknown":
        yield refusal("owner_unknown", name=draft.target, detail=look.detail)
    if not draft.start or draft.scene.is_up(draft.start):
        return
    entry = draft.fleet.catalogue[draft.start]
    if draft.fleet.catalogue[draft.start].resident and draft.scene.statuses[draft.start].state == "down":
        yield refusal("daemon_down", name=draft.start, url=entry.url)
    if missing := _missing_model(draft, entry):
        yield refusal("unknown_model", name=draft.start, model=entry.model, there=missing)
    if entry.runtime == "process" and entry.command and not draft.fleet.finds(entry.command[0]):
        yield refusal("no_program", name=draft.start, program=entry.command[0])
    if entry.weights and not Path(entry.weights).expanduser().exists():
        yield refusal("no_weights", name=draft.start, path=entry.weights)


def _missing_model(draft: Draft, entry: EngineSettings) -> str:
    """The models a daemon lists, when it lists all it has and the wanted one is not among them; else ""."""
    status = draft.scene.statuses[draft.start]
    if not draft.fleet.catalogue[draft.start].resident or status.engine not in LISTS_ALL or not status.models:
        return ""
    names = {name for model in status.models for name in (model.id, model.root)}
    return "" if entry.model in names else ", ".join(model.id for model in status.models[:20])


def _in_the_way(draft: Draft) -> Iterator[Refusal]:
    for name in draft.others:
        look = draft.scene.looks[name]
        if look is None:
            yield refusal("cannot_stop", name=name)
        elif look.state == "unknown":
            yield refusal("owner_unknown", name=name, detail=look.detail)


def _occupied(draft: Draft) -> Iterator[Refusal]:
    others = (*draft.others, *draft.evicts)
    if draft.kind == "load" and others:
        yield refusal("occupied", name=draft.target, others=" and ".join(others))


def _port_in_use(draft: Draft) -> Iterator[Refusal]:
    """Something that is not about to be stopped listens where the new engine will: better known before the stop."""
    if not draft.start or draft.scene.is_up(draft.start) or draft.fleet.catalogue[draft.start].resident:
        return
    url = draft.fleet.catalogue[draft.start].url
    port = local_port(url)
    leaving = {origin(draft.fleet.catalogue[name].url) for name in draft.stops}
    if port and origin(url) not in leaving and is_listened(port):
        yield refusal("port_in_use", name=draft.start, port=port, holder=listener_words(port))


def _no_memory(draft: Draft) -> Iterator[Refusal]:
    if draft.fit and not draft.fit.ok:
        yield refusal("no_memory", detail=draft.fit.reason)


def _leaks(draft: Draft) -> Iterator[Refusal]:
    """Prompts that would go elsewhere while their engine is stopped."""
    if not draft.control.allow_cloud_fallback:
        yield from _all_leaks(draft)


def _all_leaks(draft: Draft) -> Iterator[Refusal]:
    for router, routes in draft.scene.routers.items():
        kinds = {draft.scene.statuses[router].engine, draft.fleet.catalogue[router].engine}
        if kinds & FALL_BACK:
            for name in draft.stops:
                yield from _leak(router, routes, name, draft.fleet.catalogue[name].url)


def _leak(router: str, routes: Routes, name: str, url: str) -> Iterator[Refusal]:
    if routes is None:
        yield refusal("routes_unknown", router=router, name=name)
    elif models := leaks(routes, url):
        yield refusal("would_leak", router=router, name=name, models=", ".join(models))


CHECKS: tuple[Callable[[Draft], Iterator[Refusal]], ...] = (
    _watched_only,
    _cannot_start,
    _in_the_way,
    _occupied,
    _port_in_use,
    _no_memory,
    _leaks,
)


def refusal(code: str, **words: object) -> Refusal:
    return Refusal(code, REFUSALS[code].format(**words))


def warnings(draft: Draft) -> tuple[str, ...]:
    """What a person should know and what does not keep it from being done."""
    back = [(name, look.revived_by) for name in draft.stops if (look := draft.scene.looks[name]) and look.revived_by]
    cut_off = [one for one in draft.hosts if draft.start and not _reaches(one, draft)]
    return (
        *(draft.fit.warnings if draft.fit else ()),
        *((MEASURED,) if holder(f"{draft.control.lock}-bench") else ()),
        *(REVIVED.format(name=name, by=by) for name, by in back),
        *(one.message for one in _all_leaks(draft) if draft.control.allow_cloud_fallback),
        *(CUT_OFF.format(one=one, name=draft.start) for one in cut_off),
    )


def _reaches(served: Served, draft: Draft) -> bool:
    """Whether an agent finds the new engine where it asks now."""
    url = draft.fleet.catalogue[draft.start].url
    doors = {origin(url)}
    for router, routes in draft.scene.routers.items():
        if any(leads_to(route, url) for route in routes or ()):
            doors.add(origin(draft.fleet.catalogue[router].url))
    return origin(served.url) in doors
