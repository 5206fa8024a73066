"""What has to be known of an inference engine to recognise it and to read its state, without side effects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sparkgate.policy.views import is_invisible

JSON = Any


@dataclass(frozen=True, slots=True)
class Route:
    """A GET route; `key` must be in the JSON object it answers ("" when any JSON will do), `says` in its text."""

    path: str
    key: str = ""
    says: str = ""


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
        proof: a route that only this engine answers in this way.
        ready: route that is 200 when it can serve.
        models: route that lists the models, and how to read it.
        gauges: our name → its Prometheus name.
        metrics: Prometheus route; "" when it has none, or when reading it takes something away.
        version: route and key of its version.
        asleep: pattern that stands in its metrics, models or version while it sleeps; a request would wake it.
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
    asleep: str = ""
    completions: str = "/v1/completions"


def model(
    id_: JSON, root: JSON = None, context: JSON = None, *, loaded: bool | None = True, **more: float | None
) -> Model:
    """A model from what an engine says: its text may be anything, and ends up before a language model."""
    return Model(line(id_), line(root) or None, whole(context), loaded, **more)


def openai_models(answer: JSON) -> list[Model]:
    """`{"data": [{"id", "root", "max_model_len" | "meta": {"n_ctx"}}]}`; all of it counts as loaded."""
    return [
        model(item["id"], item.get("root"), item.get("max_model_len") or _meta(item).get("n_ctx"))
        for item in entries(answer, "data")
        if "id" in item
    ]


def listed_only(answer: JSON) -> list[Model]:
    """The same list of an engine that lists what it could load."""
    return [replace(one, loaded=None) for one in openai_models(answer)]


def line(value: JSON) -> str:
    """Text of an engine as one short line without invisible characters; "" for anything else."""
    if not isinstance(value, str):
        return ""
    return " ".join("".join(c for c in value[:400] if c.isspace() or not is_invisible(c)).split())[:200]


def entries(answer: JSON, key: str) -> list[dict[str, JSON]]:
    """The objects in the list `answer[key]`, or in `answer` itself when key is ""."""
    found = answer.get(key) if key and isinstance(answer, dict) else answer
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def whole(value: JSON) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _meta(item: dict[str, JSON]) -> dict[str, JSON]:
    meta = item.get("meta")
    return meta if isinstance(meta, dict) else {}
