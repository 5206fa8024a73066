"""Where a router in front of engines sends requests, and whether they can leave this box.

Only read, with GETs that reach no engine: no request is sent through the router to try it out. LiteLLM's
`mock_testing_fallbacks` is no way either: it fails the first model only, and then really sends to the fallback.
What a router cannot show is not in here: logs and guardrails that copy what passes, `fallbacks` that a client writes
into its own request, and hidden aliases where the settings of the router are not told.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from ipaddress import ip_address, ip_network
from types import MappingProxyType
from typing import Literal
from urllib.parse import quote, urlsplit

from sparkgate.engines.spec import JSON, entries, line
from sparkgate.identify import Asked, Get
from sparkgate.machine.origins import LOCAL_NAMES

Where = Literal["box", "lan", "off"]
"""This machine; an address or name that only a private network has; anything else."""

ANSWER_BYTES_MAX = 8_000_000
"""Longest answer a door should take: a catch-all makes LiteLLM list every model of a provider, 8.5 kB each."""

LAN_SUFFIXES = (".svc", ".cluster.local", ".local", ".lan", ".home.arpa", ".internal", ".localdomain")
_LAN_TEXT = "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 169.254.0.0/16 fc00::/7 fe80::/10"
LAN = tuple(ip_network(text) for text in _LAN_TEXT.split())
"""Not 100.64.0.0/10: an overlay such as Tailscale goes through other people's networks."""

ELSEWHERE = "(an address of its own)"
"""A fallback that is no routed name: a provider's model, or an address that stands in the fallback itself."""

UNTOLD = {"ollama": 11434, "ollama_chat": 11434, "lm_studio": 1234, "llamafile": 8080} | dict.fromkeys(
    ("vllm", "hosted_vllm", "openai_like", "custom_openai", "litellm_proxy", "auto_router", ELSEWHERE)
)
"""Providers whose address the environment of the router may give, and their usual port; None: they have none."""

KINDS = ("general", "context_window", "content_policy")
HIDDEN_MAX = 8
_LISTED = "/v1/models?include_metadata=true&return_wildcard_routes=true&fallback_type={kind}"
_FALLBACK = "/fallback/{name}?fallback_type={kind}"
_NONE_SET = "fallbacks configured for model"
_PORTS = {"http": 80, "https": 443}
_NUMBER = re.compile(r"\d+|0x[0-9a-f]*")
"""A name that resolvers take for an address."""

Whereabouts = Mapping[str, Where | None]
"""What the operator says of an origin `host:port`, a host or a provider; None: nobody can tell what lies behind it."""


@dataclass(frozen=True, slots=True)
class RoutedModel:
    """One name that clients of a router may ask for.

    Attributes:
        via: where its requests go at first: `host:port`, or the provider when no address is told.
        off_box: whether any of `via` is off this box and its private network; None when that cannot be told.
        fallbacks: names they may go to besides, for any reason: the router's defaults count, and silent copies. None
            when it does not tell.
        fallbacks_off_box: the same as `off_box` for all that fallbacks lead to, through any number of steps.
        besides: those of `fallbacks` that a request cannot switch off: a deployment's own, and silent copies.
        catch_all: it takes every name that nothing else takes, so a wrong name is answered by another model.
    """

    name: str
    via: tuple[str, ...]
    off_box: bool | None
    fallbacks: tuple[str, ...] | None
    fallbacks_off_box: bool | None
    catch_all: bool = False
    besides: tuple[str, ...] = ()


def place_of(api_base: str) -> Where:
    """Where the host of a URL, or of `host:port`, is. Names are not looked up: one that only looks public is off."""
    host, _ = _host_port(api_base)
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return _place_of_name(host)
    address = getattr(address, "ipv4_mapped", None) or address
    if address.is_loopback or address.is_unspecified:
        return "box"
    return "lan" if any(address in network for network in LAN) else "off"


def read_routes(
    get: Get, engine: str = "litellm", places: Whereabouts = MappingProxyType({})
) -> tuple[RoutedModel, ...] | None:
    """The routes of the router that `get` (path → answer) asks; None when it does not tell them, or wants a key.

    Raises:
        LocalDoorError: nobody answers.
    """
    reader = READERS.get(engine)
    return reader(get, places) if reader else None


def leaks(routes: Iterable[RoutedModel], origin: str) -> tuple[str, ...]:
    """Names whose requests leave this box, or may, while the engine at `origin` (URL or `host:port`) is down.

    They are those that may reach the engine, at first or by fallbacks, and from which something leads off this box;
    the order of fallbacks does not count, as the other engines of a box are mostly down too.
    """
    by_name = {route.name: route for route in routes}
    return tuple(
        route.name
        for route in by_name.values()
        if any(may_reach(one, origin) for one in _reached(route, by_name)) and _leads_off(route) is not False
    )


def words(route: RoutedModel) -> str:
    """One route in one line for people."""
    off = {True: ", off this box", False: "", None: ", which may leave this box"}
    first = f"{', '.join(route.via) or 'it does not tell where'}{off[route.off_box]}"
    if route.fallbacks is None:
        return f"{route.name}: {first}; default_fallbacks cannot be read"
    if not route.fallbacks:
        return f"{route.name}: {first}; no fallbacks"
    return f"{route.name}: {first}; falls back to {', '.join(route.fallbacks)}{off[route.fallbacks_off_box]}"


# -- places


def _host_port(text: str) -> tuple[str, int | None]:
    """Host in lower case and port of a URL or `host:port`; ("", None) for what no client would read in one way."""
    url = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return "", None
    if not url.isascii() or re.search(r"[\s\\\x00-\x1f]", url) or parts.scheme not in _PORTS:
        return "", None
    return parts.hostname or "", port


def _place_of_name(host: str) -> Where:
    plain = host.removesuffix(".")
    if plain in LOCAL_NAMES or plain.endswith(".localhost"):
        return "box"
    single = host.isascii() and "." not in host and host != "" and not _NUMBER.fullmatch(host)
    return "lan" if single or plain.endswith(LAN_SUFFIXES) else "off"


def _off_box(via: str, places: Whereabouts) -> bool | None:
    """Whether a first hop is off this box; the operator's word comes first."""
    host, _ = _host_port(via)
    for key in (via, host):
        if key in places:
            place = places[key]
            return None if place is None else place == "off"
    return None if via in UNTOLD else ":" not in via or place_of(via) == "off"


def may_reach(route: RoutedModel, origin: str) -> bool:
    """Whether a route's first hop may be the engine at `origin`; of one that tells no hop, it may."""
    return not route.via or any(_may_be(via, origin) for via in route.via)


def _may_be(via: str, origin: str) -> bool:
    """Whether two addresses may be the same engine. A service name may stand for any port of any machine here."""
    (host, port), (at, at_port) = _host_port(via), _host_port(origin)
    if ":" not in via:
        return via in UNTOLD and UNTOLD[via] in (None, at_port)
    if host == at:
        return port == at_port
    places = (place_of(via), place_of(origin))
    if "off" in places:
        return False
    names = [name for name, place in zip((host, at), places, strict=True) if place == "lan" and not _is_address(name)]
    if len(names) == 2:
        return host.split(".")[0] == at.split(".")[0]
    return bool(names) or (port == at_port and "box" in places)


def _is_address(host: str) -> bool:
    return ":" in host or host.replace(".", "").isdigit()


# -- what fallbacks lead to


def _route(target: str, by_name: Mapping[str, RoutedModel]) -> RoutedModel | None:
    """The route that takes a name: its own, else the most specific pattern."""
    if target in by_name or target == ELSEWHERE:
        return by_name.get(target)
    patterns = [name for name in by_name if "*" in name and _matches(name, target)]
    return by_name[max(patterns, key=len)] if patterns else None


def _matches(pattern: str, name: str) -> bool:
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), name) is not None


def _reached(route: RoutedModel, by_name: Mapping[str, RoutedModel]) -> list[RoutedModel]:
    """The route and all that its fallbacks lead to."""
    found, todo = {route.name: route}, [route]
    while todo:
        targets = (_route(target, by_name) for target in todo.pop().fallbacks or ())
        new = {one.name: one for one in targets if one is not None and one.name not in found}
        found |= new
        todo += new.values()
    return list(found.values())


def _leads_off(route: RoutedModel) -> bool | None:
    return _any((route.off_box, route.fallbacks_off_box))


def _any(values: Iterable[bool | None]) -> bool | None:
    """Whether one is true; None when none is and one is unknown."""
    seen = set(values)
    return True if True in seen else None if None in seen else False


def _followed(route: RoutedModel, by_name: Mapping[str, RoutedModel]) -> RoutedModel:
    """The route with what its fallbacks lead to."""
    off: list[bool | None] = []
    for one in _reached(route, by_name):
        targets = [_route(target, by_name) for target in one.fallbacks or ()]
        off += [None if target is None else target.off_box for target in targets]
        off += [None] if one.fallbacks is None else []
    return replace(route, fallbacks_off_box=_any(off))


# -- LiteLLM


def _litellm(get: Get, places: Whereabouts) -> tuple[RoutedModel, ...] | None:
    """Addresses from /model/info, fallbacks from /v1/models, which resolves them as requests do.

    /router/settings is asked for hidden aliases only: it leaves default_fallbacks out when both sections of LiteLLM's
    file set fallbacks.
    """
    asked = Asked(get, limit=2 + len(KINDS) * (1 + HIDDEN_MAX))
    info = asked.json("/model/info")
    if not isinstance(info, dict) or not isinstance(info.get("data"), list):
        return None
    aliases = _aliases(asked.json("/router/settings"))
    listed = _listed([asked.json(_LISTED.format(kind=kind)) for kind in KINDS])
    rows = [row for row in entries(info, "data") if _name(row)]
    shown = _shown(rows, [name for name in listed if "*" in name], aliases)
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(shown[_name(row)], []).append(row)
    for name in listed:
        groups.setdefault(shown.get(name, name), [])
    made = {name: _made(name, group, _fallbacks(name, group, shown, listed), places) for name, group in groups.items()}
    made |= {name: _hidden(name, target, made, asked) for name, target in aliases.items() if name not in made}
    return tuple(_followed(route, made) for route in made.values())


Row = Mapping[str, JSON]


def _name(row: Row) -> str:
    return line(row.get("model_name"))


def _made(name: str, rows: list[Row], fallbacks: tuple[str, ...] | None, places: Whereabouts) -> RoutedModel:
    vias = tuple(dict.fromkeys(_via(row) for row in rows))
    off = _any(_off_box(via, places) for via in vias) if vias else None
    besides = tuple(target for row in rows for target in _own(_object(row, "litellm_params")))
    return RoutedModel(name, vias, off, fallbacks, None, name == "*", besides)


def _via(row: Row) -> str:
    """`host:port` of a deployment, else its provider; never what stands before the host, which may be a password."""
    params = _object(row, "litellm_params")
    base = params.get("api_base") or params.get("base_url")
    if base:
        host, port = _host_port(base) if isinstance(base, str) else ("", None)
        host = f"[{host}]" if ":" in host else host
        return line(f"{host}:{port}") if host and port else ELSEWHERE
    model = line(params.get("model"))
    prefix = model.partition("/")[0] if "/" in model else ""
    known = line(_object(row, "model_info").get("litellm_provider"))
    return line(params.get("custom_llm_provider")) or prefix or known or model or ELSEWHERE


def _shown(rows: list[dict[str, JSON]], patterns: list[str], aliases: Mapping[str, str]) -> dict[str, str]:
    """The name of each row → the name of its route: a pattern is told as one row for each model that it might mean."""
    named: dict[str, set[str]] = {}
    for row in rows:
        if _name(row) not in aliases:
            named.setdefault(line(_object(row, "model_info").get("id")), set()).add(_name(row))
    shown = {_name(row): _name(row) for row in rows}
    for id_, names in named.items():
        fits = [one for one in patterns if all(_matches(one, name) for name in names)]
        if id_ and len(names) > 1 and fits:
            shown |= dict.fromkeys(names, max(fits, key=len))
    return shown


def _listed(answers: list[JSON]) -> dict[str, tuple[str, ...] | None]:
    """The fallbacks of each listed name, of all kinds together; None where a kind is not told."""
    told: list[dict[str, tuple[str, ...] | None]] = [
        {line(item.get("id")): _targets(_object(item, "metadata").get("fallbacks")) for item in entries(answer, "data")}
        for answer in answers
    ]
    return {
        name: _joined(one.get(name) for one in told) for name in dict.fromkeys(name for one in told for name in one)
    }


def _fallbacks(
    name: str, rows: list[Row], shown: Mapping[str, str], listed: Mapping[str, tuple[str, ...] | None]
) -> tuple[str, ...] | None:
    """What is listed for a route and for the names that it stands for, and what its deployments say themselves."""
    also = [listed[one] for one, route in shown.items() if route == name and one in listed]
    return _joined([listed.get(name), *also, *(_own(_object(row, "litellm_params")) for row in rows)])


def _own(params: Row) -> tuple[str, ...]:
    """Fallbacks of one deployment, which pass the router by, and names that get a silent copy of each request."""
    silent = params.get("silent_model")
    copies = _targets(silent if isinstance(silent, list) else [silent] if silent else []) or ()
    return (*copies, ELSEWHERE) if params.get("fallbacks") else copies


def _targets(told: JSON) -> tuple[str, ...] | None:
    """Names in a list of fallbacks; None when it is no list."""
    return tuple(map(_target, told)) if isinstance(told, list) else None


def _target(entry: JSON) -> str:
    if not isinstance(entry, dict):
        return line(entry) or ELSEWHERE
    moved = {"api_base", "base_url", "custom_llm_provider"} & entry.keys()
    return ELSEWHERE if moved else line(entry.get("model")) or ELSEWHERE


def _joined(parts: Iterable[tuple[str, ...] | None]) -> tuple[str, ...] | None:
    known = list(parts)
    return None if None in known else tuple(dict.fromkeys(name for part in known for name in part or ()))


def _aliases(settings: JSON) -> dict[str, str]:
    """Alias → name, of /router/settings; empty when it is not told."""
    values = _object(settings, "current_values") if isinstance(settings, dict) else {}
    found = _object(values, "model_group_alias")
    return {line(name): _target(target) for name, target in found.items()}


def _hidden(name: str, target: str, made: Mapping[str, RoutedModel], asked: Asked) -> RoutedModel:
    """An alias that no list tells. It has the fallbacks that are set for it, and not those of what it stands for."""
    meant = _route(target, made) or RoutedModel(target, (), None, None, None)
    path = quote(name, safe="")
    told = _joined(_asked_fallbacks(asked, _FALLBACK.format(name=path, kind=kind)) for kind in KINDS)
    return replace(meant, name=name, fallbacks=told, catch_all=False)


def _asked_fallbacks(asked: Asked, path: str) -> tuple[str, ...] | None:
    answer = asked(path)
    if answer and answer.status == 404 and _NONE_SET in answer.text:
        return ()
    found = asked.json(path)
    return _targets(found.get("fallback_models")) if isinstance(found, dict) else None


def _object(row: Row, key: str) -> dict[str, JSON]:
    found = row.get(key)
    return found if isinstance(found, dict) else {}


# -- llama-swap


def _llamaswap(get: Get, places: Whereabouts) -> tuple[RoutedModel, ...] | None:
    """Its names; a peer may be anywhere and a model's own `proxy` too, and no route tells their addresses."""
    answer = Asked(get).json("/v1/models")
    if not isinstance(answer, dict) or not isinstance(answer.get("data"), list):
        return None
    return tuple(_swapped(item, places) for item in entries(answer, "data"))


def _swapped(item: Row, places: Whereabouts) -> RoutedModel:
    peer = line(_object(_object(item, "meta"), "llamaswap").get("peerID"))
    via = f"peer {peer}" if peer else "llama-swap"
    off = _off_box(via, places) if via in places else None
    return RoutedModel(line(item.get("id")), (via,), off, (), False)


READERS: Mapping[str, Callable[[Get, Whereabouts], tuple[RoutedModel, ...] | None]] = {
    "litellm": _litellm,
    "llama-swap": _llamaswap,
}
