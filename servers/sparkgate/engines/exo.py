"""EXO: /v1/models is its whole catalogue, /state tells which instances run."""

from __future__ import annotations

from sparkgate.engines.spec import JSON, Engine, Model, Route


def _models(answer: JSON) -> list[Model]:
    """`{"instances": {id: …}, "runners": {id: {kind: …}}}`: an instance is loaded when a runner is ready."""
    instances = answer.get("instances") if isinstance(answer, dict) else None
    ready = "Ready" in str(answer.get("runners")) if isinstance(answer, dict) else False
    return [Model(str(name), loaded=ready) for name in instances] if isinstance(instances, dict) else []


EXO = Engine(
    name="exo",
    title="EXO",
    port=52415,
    owned_by="exo",
    proof=Route("/node_id"),
    ready="/state",
    models=Route("/state", "instances"),
    read_models=_models,
    completions="",
)
