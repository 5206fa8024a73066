"""Anything else that speaks the OpenAI protocol; what a request to it would load or cost is not known."""

from __future__ import annotations

from sparkgate.engines.spec import Engine, listed_only

OPENAI = Engine(
    name="openai", title="OpenAI-compatible", port=8000, ready="/v1/models", read_models=listed_only, completions=""
)
