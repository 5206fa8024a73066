"""LMCache's own server beside vLLM; inside vLLM it shows in vLLM's external prefix cache metrics."""

from __future__ import annotations

from sparkgate.engines.spec import Engine, Route

LMCACHE = Engine(
    name="lmcache",
    title="LMCache",
    port=8080,
    says="LMCache HTTP API",
    proof=Route("/lmc_version"),
    ready="/healthcheck",
    completions="",
    patience_s=120.0,
)
