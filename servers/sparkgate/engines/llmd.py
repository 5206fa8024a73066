"""ZML's LLMD: OpenAI-compatible, and known by the owner of its models only."""

from __future__ import annotations

from sparkgate.engines.spec import Engine

LLMD = Engine(
    name="llmd",
    title="ZML / LLMD",
    port=8000,
    owned_by="local",
    ready="/v1/models",
    metrics="/metrics",
    stages=(
        (r"\bDevices:", "devices found"),
        (r"\bAllocating \d+ pages for the KvCache\b", "making the KV cache"),
        (r"\bCompiled all models\b", "loading weights"),
        (r"\bLoaded weights\b", "weights loaded"),
        (r"\bListening on\b", "ready"),
    ),
)
