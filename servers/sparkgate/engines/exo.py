"""EXO: /v1/models is its whole catalogue, /state tells which instances run."""

from __future__ import annotations

import json

from sparkgate.engines.spec import JSON, Engine, Model, Route, model

SERVING = ("RunnerReady", "RunnerRunning")


def _models(answer: JSON) -> list[Model]:
    """`{"instances": {id: …}, "runners": {id: {kind: …}}}`; an instance serves when all runners that it names do.

    The shapes are those of its documentation; an instance without a model keeps its own id.
    """
    instances = answer.get("instances") if isinstance(answer, dict) else None
    runners = answer.get("runners") if isinstance(answer, dict) else None
    if not isinstance(instances, dict) or not isinstance(runners, dict):
        return []
    return [model(_model_of(name, one), loaded=_serves(one, runners)) for name, one in instances.items()]


def _model_of(name: str, instance: JSON) -> str:
    told = instance.get("model") if isinstance(instance, dict) else None
    return told if isinstance(told, str) else name


def _serves(instance: JSON, runners: dict[str, JSON]) -> bool:
    own = [runner for runner_id, runner in runners.items() if f'"{runner_id}"' in json.dumps(instance)]
    return bool(own or len(runners) == 1) and all(
        any(kind in json.dumps(runner) for kind in SERVING) for runner in own or runners.values()
    )


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
