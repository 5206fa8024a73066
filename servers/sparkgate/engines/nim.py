"""NVIDIA NIM: alive as soon as the container is up, ready much later; its metrics are those of the engine inside."""

from __future__ import annotations

from sparkgate.engines.spec import Engine, Route

NIM = Engine(
    name="nim",
    title="NVIDIA NIM",
    port=8000,
    proof=Route("/v1/metadata", "modelInfo"),
    ready="/v1/health/ready",
)
