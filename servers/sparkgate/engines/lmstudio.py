"""LM Studio and llmster: unknown paths answer 200, so only `loaded_instances` proves it.

A model may be loaded twice ("m" and "m:2"); each copy is unloaded by the id of its instance.
"""

from __future__ import annotations

from sparkgate.engines.spec import JSON, Engine, Model, Route, Verb, entries, line, model


def _models(answer: JSON) -> list[Model]:
    """`{"models": [{"key", "loaded_instances": [{"id", "config": {"context_length"}}]}]}`."""
    return [
        model(one.get("id", item.get("key")), item.get("key"), _config(one).get("context_length"))
        for item in entries(answer, "models")
        for one in entries(item, "loaded_instances")
    ]


def _config(instance: dict[str, JSON]) -> dict[str, JSON]:
    config = instance.get("config")
    return config if isinstance(config, dict) else {}


def _refused(answer: JSON) -> str:
    """`{"error"}`, which a path that it does not know answers with status 200."""
    error = answer.get("error") if isinstance(answer, dict) else None
    return line(error.get("message") if isinstance(error, dict) else error)


LMSTUDIO = Engine(
    name="lmstudio",
    title="LM Studio / llmster",
    port=1234,
    proof=Route("/api/v1/models", "models", says="loaded_instances"),
    ready="/api/v1/models",
    models=Route("/api/v1/models", "models"),
    read_models=_models,
    patience_s=600.0,
    load=Verb(
        "/api/v1/models/load",
        lambda name, context: {"model": name} | ({"context_length": context} if context else {}),
        blocks=True,
        refusal=_refused,
    ),
    unload=Verb("/api/v1/models/unload", lambda name, context: {"instance_id": name}, refusal=_refused),
)
