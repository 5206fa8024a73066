"""LM Studio and llmster: unknown paths answer 200, so only `loaded_instances` proves it."""

from __future__ import annotations

from sparkgate.engines.spec import JSON, Engine, Model, Route, entries, model


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


LMSTUDIO = Engine(
    name="lmstudio",
    title="LM Studio / llmster",
    port=1234,
    proof=Route("/api/v1/models", "models", says="loaded_instances"),
    ready="/api/v1/models",
    models=Route("/api/v1/models", "models"),
    read_models=_models,
)
