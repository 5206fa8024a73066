"""MAX of Modular: once its socket is up it is ready."""

from __future__ import annotations

from sparkgate.engines.spec import Engine, Route

MAX = Engine(
    name="max",
    title="MAX",
    port=8000,
    proof=Route("/openapi.json", "info", says="MAX Serve"),
    version=Route("/version", "version"),
)
