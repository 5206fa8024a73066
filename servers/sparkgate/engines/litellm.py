"""LiteLLM, a router. Its /health sends paid requests to every upstream, so it is never asked.

Its /model/new adds a route and loads nothing, so it is no way to load a model.
"""

from __future__ import annotations

from sparkgate.engines.spec import Engine, Route, listed_only

LITELLM = Engine(
    name="litellm",
    title="LiteLLM",
    port=4000,
    front=True,
    says="LiteLLM",
    owned_by="openai",
    proof=Route("/health/readiness", "db"),
    ready="/health/readiness",
    read_models=listed_only,
    patience_s=300.0,
)
