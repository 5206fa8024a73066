"""Docker Model Runner. An empty /engines/ps during a load is no proof that nothing is loaded."""

from __future__ import annotations

from sparkgate.engines.spec import JSON, Engine, Model, Route, entries, model


def _models(answer: JSON) -> list[Model]:
    """`[{"model_name", "loading"}]`."""
    return [
        model(item["model_name"], loaded=item.get("loading") is False)
        for item in entries(answer, "")
        if "model_name" in item
    ]


DOCKER_MODEL_RUNNER = Engine(
    name="docker-model-runner",
    title="Docker Model Runner",
    port=12434,
    says="Docker Model Runner is running",
    owned_by="docker",
    proof=Route("/engines/status", "llama.cpp"),
    ready="/engines/status",
    models=Route("/engines/ps"),
    read_models=_models,
    completions="/engines/v1/completions",
)
