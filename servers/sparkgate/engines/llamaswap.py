"""llama-swap: healthy with nothing loaded; /running tells what it has started."""

from __future__ import annotations

from sparkgate.engines.spec import JSON, Engine, Model, Route, entries, model


def _models(answer: JSON) -> list[Model]:
    """`{"running": [{"model", "state"}]}`."""
    return [
        model(item["model"], loaded=item.get("state") == "ready")
        for item in entries(answer, "running")
        if "model" in item
    ]


LLAMASWAP = Engine(
    name="llama-swap",
    title="llama-swap",
    port=8080,
    front=True,
    owned_by="llama-swap",
    proof=Route("/running", "running"),
    models=Route("/running", "running"),
    read_models=_models,
)
