"""llama.cpp's llama-server as a router over several models.

Asking /props, /metrics or /slots for a model loads it, so nothing here names one.
"""

from __future__ import annotations

from sparkgate.engines.spec import JSON, Engine, Model, Route, entries, model


def _models(answer: JSON) -> list[Model]:
    """`{"data": [{"id", "status": {"value"}}]}`."""
    return [
        model(item["id"], item.get("path"), loaded=_status(item) == "loaded")
        for item in entries(answer, "data")
        if "id" in item
    ]


def _status(item: dict[str, JSON]) -> str:
    status = item.get("status")
    return str(status.get("value", "")) if isinstance(status, dict) else ""


LLAMACPP_ROUTER = Engine(
    name="llamacpp-router",
    title="llama.cpp router",
    port=8080,
    owned_by="llamacpp",
    proof=Route("/props", "max_instances"),
    version=Route("/props", "build_info"),
    models=Route("/models", "data"),
    read_models=_models,
)
