"""What has to be known of an inference engine to recognise it and to read its state, without side effects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

JSON = Any


@dataclass(frozen=True, slots=True)
class Route:
    """A GET route; `key` must be in the JSON object it answers ("" when any JSON will do)."""

    path: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class Model:
    """One model as its engine tells of it; None for what it does not tell.

    `context` is the number of tokens one request may have, `gpu_share` the share of it in GPU memory (0 to 1).
    """

    id: str
    root: str | None = None
    context: int | None = None
    loaded: bool | None = True
    gpu_share: float | None = None


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine.

    Attributes:
        port: where it usually listens; only breaks ties.
        front: it stands before other engines and starts none itself.
        says: text of GET /, which others may copy.
        owned_by: what its /v1/models entries call their owner.
        proof: a route that only this engine has; "" answers do not count.
        ready: route that is 200 when it can serve.
        models: route that lists the models, and how to read it.
        gauges: our name → its Prometheus name.
        metrics: Prometheus route; "" when it has none, or when reading it takes something away.
        version: route and key of its version.
        completions: where a loaded model generates text; "" when it must not be asked just to see.
    """

    name: str
    title: str
    port: int
    front: bool = False
    says: str = ""
    owned_by: str = ""
    proof: Route | None = None
    ready: str = "/health"
    models: Route = Route("/v1/models", "data")
    read_models: Callable[[JSON], list[Model]] = field(default=lambda answer: openai_models(answer))
    gauges: Mapping[str, str] = field(default_factory=dict)
    metrics: str = ""
    version: Route | None = None
    completions: str = "/v1/completions"


def openai_models(answer: JSON) -> list[Model]:
    """`{"data": [{"id", "root", "max_model_len" | "meta": {"n_ctx"}}]}`; all of it counts as loaded."""
    return [
        Model(str(item["id"]), item.get("root"), whole(item.get("max_model_len")) or whole(_meta(item).get("n_ctx")))
        for item in entries(answer, "data")
        if "id" in item
    ]


def listed_only(answer: JSON) -> list[Model]:
    """The same list of an engine that lists what it could load."""
    return [Model(model.id, model.root, model.context, loaded=None) for model in openai_models(answer)]


def entries(answer: JSON, key: str) -> list[dict[str, JSON]]:
    """The objects in the list `answer[key]`, or in `answer` itself when key is ""."""
    found = answer.get(key) if key and isinstance(answer, dict) else answer
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def whole(value: JSON) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _meta(item: dict[str, JSON]) -> dict[str, JSON]:
    meta = item.get("meta")
    return meta if isinstance(meta, dict) else {}
