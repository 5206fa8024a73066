"""EXO: /v1/models is its whole catalogue, /state tells which instances run.

Its answers to commands say that they came in, not that anything was done; only /state tells. A context cannot be asked
for.
"""

from __future__ import annotations

from sparkgate.engines.spec import JSON, Engine, Model, Phase, Route, Verb, model

SERVING = ("RunnerReady", "RunnerRunning")
ENDED = ("RunnerShutdown", "RunnerFailed")


def _models(answer: JSON) -> list[Model]:
    """`{"instances": {id: {kind: {"shardAssignments": {"modelId"}}}}, "runners": {id: {kind: …}}}`.

    An instance serves when all runners that it names do. A runner that no instance names is told as one that is still
    leaving; an instance without a model keeps its own id.
    """
    instances = _object(answer).get("instances")
    runners = _object(answer).get("runners")
    if not isinstance(instances, dict) or not isinstance(runners, dict):
        return []
    named = {name: _runner_ids(one) for name, one in instances.items()}
    if not all(named.values()):
        only = list(runners) if len(runners) == 1 else []
        return [_instance(name, instances[name], own or only, runners) for name, own in named.items()]
    placed = [_instance(name, instances[name], own, runners) for name, own in named.items()]
    return placed + _left_over({one for own in named.values() for one in own}, runners)


def _instance(name: str, instance: JSON, own: list[str], runners: dict[str, JSON]) -> Model:
    kinds = [_kind(runners.get(one)) for one in own]
    serves = bool(kinds) and all(kind in SERVING for kind in kinds)
    failures = [_body(runners[one]).get("errorMessage") for one in own if _kind(runners.get(one)) == "RunnerFailed"]
    return model(
        _assigned(instance).get("modelId") or _object(instance).get("model") or name,
        loaded=serves,
        phase="" if serves else _phase(kinds),
        handle=name,
        detail=next(iter(failures), ""),
    )


def _phase(kinds: list[str]) -> Phase:
    if "RunnerFailed" in kinds:
        return "failed"
    return "leaving" if "RunnerShuttingDown" in kinds or "RunnerShutdown" in kinds else "loading"


def _assigned(instance: JSON) -> dict[str, JSON]:
    return _object(_body(instance).get("shardAssignments"))


def _runner_ids(instance: JSON) -> list[str]:
    """`{"runnerToShard": {id: …}}`, or `{"shards": [[node, id, …]]}` in newer versions."""
    assigned = _assigned(instance)
    shards = assigned.get("shards")
    listed = [one[1] for one in shards if isinstance(one, list) and len(one) > 1] if isinstance(shards, list) else []
    return [one for one in (*_object(assigned.get("runnerToShard")), *listed) if isinstance(one, str)]


def _left_over(named: set[str], runners: dict[str, JSON]) -> list[Model]:
    left = [name for name, runner in runners.items() if name not in named and _kind(runner) not in ENDED]
    return [model(f"runner {name}", loaded=False, phase="leaving") for name in left]


def _kind(runner: JSON) -> str:
    return next(iter(_object(runner)), "")


def _body(tagged: JSON) -> dict[str, JSON]:
    """What stands under the one key of a tagged object."""
    return _object(next(iter(_object(tagged).values()), None))


def _object(value: JSON) -> dict[str, JSON]:
    return value if isinstance(value, dict) else {}


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
    load=Verb(
        "/place_instance",
        lambda name, context: {
            "model_id": name,
            "sharding": "Pipeline",
            "instance_meta": "MlxRing",
            "min_nodes": 1,
        },
    ),
    unload=Verb("/instance/{model}", method="DELETE"),
)
