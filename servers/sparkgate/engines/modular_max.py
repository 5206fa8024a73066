"""MAX of Modular: once its socket is up it is ready."""

from __future__ import annotations

from sparkgate.engines.spec import Engine, Route

MAX = Engine(
    name="max",
    title="MAX",
    port=8000,
    proof=Route("/openapi.json", "info", says="MAX Serve"),
    version=Route("/version", "version"),
    patience_s=1800.0,
    stages=((r"\bServer ready on\b", "ready"),),
)
