"""The whole judgement of one request at the door: its head before its body is read, then all of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sparkgate.policy.model_door import fields, router
from sparkgate.policy.model_door.framing import Head
from sparkgate.policy.model_door.reading import read_object
from sparkgate.policy.model_door.refusal import Refused, Shape
from sparkgate.policy.model_door.router import Routing
from sparkgate.policy.model_door.routes import Route, find, takes

JSON = "application/json"
HEADERS = ("accept", "user-agent", "anthropic-version", "anthropic-beta", "openai-beta", "x-request-id")
"""Headers that pass as they are; everything else is the door's or nobody's."""
KEYS = ("authorization", "x-api-key")
"""Headers with a key of the agent, which pass where the engine has none of the operator's."""
NAMED_BY: Mapping[Shape, tuple[str, ...]] = {"openai": ("model",), "anthropic": ("model",), "ollama": ("model", "name")}
"""Fields with the name of the model; another spelling of one would be read by some engines and not by others."""
CLOUD_TAGS = (":cloud", "-cloud")
"""Ends of names of models that Ollama asks in its cloud."""


@dataclass(frozen=True, slots=True)
class Engine:
    """The engine behind a door, as far as a judgement needs it.

    Attributes:
        kind: its name in the table of engines.
        authority: `host:port` of its Host header.
        base: path in its URL.
        key: the operator's key for it; it is in no `repr`.
        models: the only names that may be asked for; None where any may.
        routing: what is known of it where it is a router.
    """

    name: str
    kind: str
    authority: str
    base: str = ""
    key: str = field(default="", repr=False)
    models: frozenset[str] | None = None
    routing: Routing | None = None


@dataclass(frozen=True, slots=True)
class Passed:
    """A request that may go: its bytes, and the model it asks for."""

    data: bytes
    model: str


def check_head(engine: Engine, head: Head) -> Route:
    """The route of a request. Raises Refused."""
    route = find(head.method, head.path, engine.kind, engine.base)
    if route is None:
        raise Refused("not_offered")
    if engine.routing is not None and not route.router:
        raise Refused("not_by_router")
    if not takes(route, head.query):
        raise Refused("query")
    if route.kind == "ask":
        _check_type(head.headers.get("content-type", JSON))
    return route


def check(engine: Engine, head: Head, route: Route, body: bytes | bytearray) -> Passed:
    """What is sent to the engine. Raises Refused."""
    if route.kind == "look":
        if body:
            raise Refused("bad_framing")
        return Passed(_head(engine, head, route, None), "")
    found = read_object(body)
    fields.check(found)
    model = _model(found, engine, route)
    if engine.routing:
        router.check_fields(engine.routing, found)
        router.check_model(engine.routing, model)
        if engine.routing.stays and engine.routing.headers:
            body = router.without_fallbacks(body, found)
    return Passed(_head(engine, head, route, len(body)) + body, model)


def _check_type(value: str) -> None:
    kind, _, parameters = value.lower().partition(";")
    if kind.strip() != JSON or parameters.strip().replace('"', "") not in ("", "charset=utf-8"):
        raise Refused("content_type")


def _model(body: Mapping[str, Any], engine: Engine, route: Route) -> str:
    """The name of the model that is asked for; "" where none is named, which a router is not left to choose."""
    names = NAMED_BY[route.shape]
    told = {key: value for key, value in body.items() if key.casefold() in names}
    if not all(isinstance(value, str) for value in told.values()):
        raise Refused("model_path")
    if not told.keys() <= set(names) or len(set(told.values())) > 1:
        raise Refused("duplicate_key")
    model = next(iter(told.values()), "")
    _check_name(model)
    if engine.routing and not model:
        raise Refused("model_leaves")
    if engine.models is not None and model and model not in engine.models:
        raise Refused("unknown_model")
    return str(model)


def _check_name(model: str) -> None:
    plain = model.strip().lower()
    if ":" in plain and plain.endswith(CLOUD_TAGS):
        raise Refused("cloud_model")
    if "://" in plain or ".." in plain or plain.startswith("~") or "\\" in plain or not plain.isprintable():
        raise Refused("model_path")


def _head(engine: Engine, head: Head, route: Route, length: int | None) -> bytes:
    """The request line and headers that the engine gets; `length` of the body, None where there is none."""
    target = f"{head.path}?{head.query}" if head.query else head.path
    lines = [f"{route.method} {target} HTTP/1.1", f"Host: {engine.authority}", "Connection: close"]
    lines += ["Accept-Encoding: identity"]
    if length is not None:
        lines += [f"Content-Type: {JSON}", f"Content-Length: {length}"]
    names = HEADERS if engine.key else (*HEADERS, *KEYS)
    lines += [f"{name}: {head.headers[name]}" for name in names if name in head.headers]
    if engine.key:
        lines.append(f"Authorization: Bearer {engine.key}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
