"""ZML's LLMD: OpenAI-compatible, and known by the owner of its models only."""

from __future__ import annotations

from sparkgate.engines.spec import Engine

LLMD = Engine(name="llmd", title="ZML / LLMD", port=8000, owned_by="local", ready="/v1/models", metrics="/metrics")
