"""What the model doors are told of each engine: where it is, what it is, and which of its models stay on this box."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from time import monotonic
from urllib.parse import urlsplit

from sparkgate.engine_settings import EngineSettings
from sparkgate.engine_state import status_of
from sparkgate.engines import ENGINES
from sparkgate.fleet import authorization
from sparkgate.identify import Asked, proves
from sparkgate.policy.guard import Guard, canonical
from sparkgate.policy.kill_switch import KillSwitch, is_loopback
from sparkgate.policy.local import LocalDoor, LocalDoorError
from sparkgate.policy.model_door.plan import Door
from sparkgate.policy.model_door.router import PORTS, Routing, host_port, is_home
from sparkgate.policy.model_door.screen import Engine
from sparkgate.routes import ANSWER_BYTES_MAX, READERS, RoutedModel, place_of, read_routes
from sparkgate.settings import Settings

BY_NAME = frozenset({"mlx", "exo", "atlas"})
"""Engines that look for a model they do not have wherever its name leads."""
HERE = "llama-swap"
"""What llama-swap's own models are reached by."""


@dataclass(frozen=True, slots=True)
class Answers:
    """What an engine has told, at `told_s` of the monotonic clock; `kind` is "" while nobody answers."""

    kind: str = ""
    models: frozenset[str] | None = None
    routes: tuple[RoutedModel, ...] | None = None
    told_s: float = 0.0


def carried(name: str, entry: EngineSettings) -> str:
    """Why an engine cannot have a door; "" when it can."""
    parts = urlsplit(entry.url)
    if parts.scheme not in PORTS or not parts.hostname:
        return f"{name}: its url is none of http or https"
    return ""


def port_of(entry: EngineSettings) -> int:
    """The port at which a confined agent finds it."""
    parts = urlsplit(entry.url)
    return parts.port or PORTS.get(parts.scheme, 0)


def ask(name: str, entry: EngineSettings, guard: Guard | None, switch: KillSwitch) -> Answers:
    """Ask an engine what it is, with GETs that start nothing. Blocks."""
    headers = authorization(entry)
    with LocalDoor([entry.url], entry.timeout_s, ANSWER_BYTES_MAX, guard, headers, switch) as door:
        status = status_of(name, entry, door)
        told = "" if status.engine == "unknown" else status.engine
        kind = told if not entry.engine or _is_surely(told, entry, door) else entry.engine
        models = frozenset(model.id for model in status.models or ()) if kind in BY_NAME else None
        routes = None
        if kind in READERS:
            with suppress(LocalDoorError):
                routes = read_routes(lambda path: door.get(entry.base + path), kind)
        return Answers(kind, models, routes, monotonic())


def _is_surely(kind: str, entry: EngineSettings, door: LocalDoor) -> bool:
    """Whether a router answers, whatever it is called in the configuration: by the route that only it has."""
    proof = ENGINES[kind].proof if kind in READERS else None
    with suppress(LocalDoorError):
        return proof is not None and proves(Asked(lambda path: door.get(entry.base + path)), proof)
    return False


async def addresses(entry: EngineSettings, guard: Guard | None) -> tuple[str, ...]:
    """The IP addresses of its host; () when its name cannot be looked up."""
    host = urlsplit(entry.url).hostname or ""
    with suppress(OSError, ValueError):
        return (canonical(host),)
    with suppress(OSError):
        loop = asyncio.get_running_loop()
        if guard is None:
            found = await loop.getaddrinfo(host, port_of(entry), type=1)
        else:
            with guard.name(host):
                found = await loop.getaddrinfo(host, port_of(entry), type=1)
        return tuple(dict.fromkeys(canonical(str(one[4][0])) for one in found))
    return ()


def door_of(
    name: str,
    entry: EngineSettings,
    answers: Answers,
    found: tuple[str, ...],
    settings: Settings,
    kinds: Mapping[str, str],
) -> Door:
    """The door to an engine; `kinds` are what all the engines are."""
    parts = urlsplit(entry.url)
    host, port, kind = parts.hostname or "", port_of(entry), answers.kind
    shown = f"[{host}]" if ":" in host else host
    engine = Engine(
        name=name,
        kind=kind,
        authority=shown if port == PORTS[parts.scheme] else f"{shown}:{port}",
        base=parts.path.rstrip("/").removesuffix("/v1"),
        key=authorization(entry).get("Authorization", "").removeprefix("Bearer "),
        models=answers.models if answers.models is None else answers.models | {"default_model"},
        routing=_routing(entry, answers, settings, kinds) if kind in READERS else None,
    )
    # A router may send anywhere, and a name is only as near as its addresses.
    away = is_router(kind) or not all(map(is_loopback, (host, *found)))
    door = Door(engine, parts.scheme, host, port, found, leads_away=away)
    if not found:
        return replace(door, state="unreachable")
    return door if kind else replace(door, state="not_known_yet")


def _routing(entry: EngineSettings, answers: Answers, settings: Settings, kinds: Mapping[str, str]) -> Routing:
    others = {one: other.url for one, other in settings.engines.items() if place_of(other.url) != "off"}
    routers = [url for one, url in others.items() if is_router(kinds.get(one, ""))]
    home = {host_port(url) for url in (*others.values(), *entry.home)} | set(entry.home)
    away = {host_port(one) for one in (*settings.control.off_box, *routers)}
    routing = Routing(answers.kind == "litellm", home=frozenset(home), away=frozenset(away), stays=entry.stays_home)
    if answers.routes is None:
        return routing
    by_name = {route.name: route for route in answers.routes}
    return replace(routing, models={name: _stays(route, by_name, routing) for name, route in by_name.items()})


def _stays(route: RoutedModel, by_name: Mapping[str, RoutedModel], routing: Routing) -> bool:
    """Whether all requests for a name stay, when they forbid fallbacks."""
    hops = [route.via]
    for target in route.besides:
        if target not in by_name or by_name[target].besides:
            return False
        hops.append(by_name[target].via)
        if by_name[target].fallbacks_off_box is not False:
            return False
    return all(via and all(_is_home(one, routing) for one in via) for via in hops)


def _is_home(via: str, routing: Routing) -> bool:
    return via == HERE or via in routing.home or (":" in via and is_home(via, routing.home, routing.away))


def is_router(kind: str) -> bool:
    """Whether an engine of this kind stands before others."""
    return kind in ENGINES and ENGINES[kind].front


def closed(door: Door, models: Iterable[str]) -> Door:
    """The door with these models of its router closed."""
    routing = door.engine.routing
    if routing is None:
        return door
    return replace(door, engine=replace(door.engine, routing=replace(routing, closed=frozenset(models))))
