"""Everything as it is before a change: what owners and engines say, where routers lead, and the memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sparkgate.change.release import is_up
from sparkgate.engine_state import Status
from sparkgate.fleet import Fleet
from sparkgate.machine.memory import Memory
from sparkgate.machine.origins import origin
from sparkgate.routes import RoutedModel
from sparkgate.runtimes.spec import Look

Routes = tuple[RoutedModel, ...] | None


@dataclass(frozen=True, slots=True)
class Scene:
    """One moment.

    Attributes:
        looks: what the owner of each engine says; None for one that is only watched.
        statuses: what each engine says of itself.
        routers: routes of every router that answers; None where it does not tell them.
    """

    looks: Mapping[str, Look | None]
    statuses: Mapping[str, Status]
    routers: Mapping[str, Routes]
    memory: Memory

    def is_up(self, name: str) -> bool:
        look = self.looks[name]
        return look is not None and is_up(look)

    def occupies(self, name: str) -> bool:
        """Whether something at its URL may hold a model: also what wants a key, or is too busy to answer."""
        status = self.statuses[name]
        return not status.front and status.state != "down"


def leads_to(route: RoutedModel, url: str) -> bool:
    """Whether a route goes to this engine at first."""
    return any(origin(f"http://{via}") == origin(url) for via in route.via)


def look_around(fleet: Fleet) -> Scene:
    """Ask everybody; changes nothing."""
    statuses = fleet.statuses()
    answering = {
        name: one for name, one in statuses.items() if one.state != "down" and _may_be_router(name, one, fleet)
    }
    return Scene(
        looks={name: fleet.look(name) for name in fleet.catalogue},
        statuses=statuses,
        routers={name: fleet.routes(name, one.engine if one.front else "litellm") for name, one in answering.items()},
        memory=fleet.memory(),
    )


def _may_be_router(name: str, status: Status, fleet: Fleet) -> bool:
    """One that is slow, or wants a key, does not say what it is; it then counts as what could do harm."""
    entry = fleet.catalogue[name]
    unknown = status.state == "unknown" and not entry.runtime and not entry.engine
    return status.front or fleet.kind(name).front or unknown


def in_the_place_of(target: str, fleet: Fleet, scene: Scene) -> list[str]:
    """Engines that must leave before the target is started: one model copy at a time, apart from those `beside`.

    An entry that only watches the URL of another is no engine of its own.
    """
    if fleet.catalogue[target].beside:
        return []
    owned = {origin(entry.url) for entry in fleet.catalogue.values() if entry.runtime}
    others = {name: entry for name, entry in fleet.catalogue.items() if name != target and not entry.beside}
    return [
        name
        for name, entry in others.items()
        if scene.is_up(name) or (scene.occupies(name) and _is_all_there_is(scene.looks[name], origin(entry.url), owned))
    ]


def evicted_by(target: str, fleet: Fleet, scene: Scene) -> tuple[str, ...]:
    """Models without an entry of their own that a daemon lets go of when it loads the target."""
    entry = fleet.catalogue[target]
    if entry.beside or not fleet.catalogue[target].resident:
        return ()
    known = [other.model for other in fleet.catalogue.values() if origin(other.url) == origin(entry.url)]
    held = [model for model in scene.statuses[target].models or () if model.held]
    return tuple(model.id for model in held if not any(map(model.is_called, known)))


def _is_all_there_is(look: Look | None, place: tuple[str, int], owned: set[tuple[str, int]]) -> bool:
    """Whether what answers there is known by nothing but its answer."""
    return place not in owned if look is None else look.state == "unknown"
