"""NVIDIA NIM: alive as soon as its container is up, ready much later. Models and metrics are of the engine inside.

Its first start fetches tens of gigabytes, hence the patience.
"""

from __future__ import annotations

from sparkgate.engines.spec import Engine, Route

NIM = Engine(
    name="nim",
    title="NVIDIA NIM",
    port=8000,
    owned_by="vllm",
    proof=Route("/v1/metadata", "modelInfo"),
    ready="/v1/health/ready",
    patience_s=7200.0,
)
