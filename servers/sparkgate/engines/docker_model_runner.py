"""Docker Model Runner. An empty /engines/ps during a load is no proof that nothing is loaded.

Its /models/load is none: it puts an archive into the store. A context cannot be asked for with a load; it is a setting
of the model (`docker model configure`).
"""

from __future__ import annotations

from sparkgate.engines.spec import JSON, Engine, Model, Route, Verb, entries, model


def _models(answer: JSON) -> list[Model]:
    """`[{"model_name", "loading"}]`."""
    return [
        model(
            item["model_name"],
            loaded=item.get("loading") is False,
            phase="loading" if item.get("loading") is True else "",
        )
        for item in entries(answer, "")
        if "model_name" in item
    ]


def _unloaded(answer: JSON) -> str:
    """`{"unloaded_runners"}`."""
    done = answer.get("unloaded_runners") if isinstance(answer, dict) else None
    return "" if done else "it unloaded none: the model is in use, or not known by this name"


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
    patience_s=600.0,
    stages=((r"installed llama-server\b", "its llama.cpp is installed"),),
    load=Verb(
        "/engines/v1/chat/completions",
        lambda name, context: {"model": name, "messages": []},
        headers={"X-Preload-Only": "true"},
        blocks=True,
    ),
    unload=Verb(
        "/engines/unload",
        # An empty backend means all of them, so a model of its vLLM goes too.
        lambda name, context: {"all": False, "backend": "", "models": [name]},
        refusal=_unloaded,
    ),
)
