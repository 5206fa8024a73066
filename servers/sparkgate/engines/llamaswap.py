"""llama-swap: healthy with nothing loaded; /running tells what it has started, by the names of its own file.

Any request through /upstream/MODEL/ starts a model and is answered once it is ready. Its context is in its file.
"""

from __future__ import annotations

from sparkgate.engines.spec import JSON, Engine, Model, Phase, Route, Verb, entries, model

PHASES: dict[JSON, Phase] = {"starting": "loading", "stopping": "leaving"}


def _models(answer: JSON) -> list[Model]:
    """`{"running": [{"model", "state"}]}`."""
    return [
        model(item["model"], loaded=item.get("state") == "ready", phase=PHASES.get(str(item.get("state")), ""))
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
    load=Verb("/upstream/{model}/v1/models", method="GET", blocks=True),
    unload=Verb("/api/models/unload/{model}"),
)
