"""What has to be known of an inference engine to recognise it and to read its state, without side effects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from sparkgate.policy.views import is_invisible

JSON = Any
Phase = Literal["", "loading", "leaving", "asleep", "failed"]


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
    `phase` is what it does when it is neither loaded nor just on disk, `detail` one line about that. `handle` is what
    this very copy is unloaded by, when that is not `id`.
    """

    id: str
    root: str | None = None
    context: int | None = None
    loaded: bool | None = True
    gpu_share: float | None = None
    phase: Phase = ""
    handle: str = ""
    detail: str = ""

    @property
    def held(self) -> bool:
        """Whether its engine holds something for it: memory, a process, or an instance that has failed."""
        return self.loaded is True or bool(self.handle) or self.phase in ("loading", "leaving", "asleep")

    @property
    def copy(self) -> str:
        """What this copy is unloaded by."""
        return self.handle or self.id

    def is_called(self, name: str) -> bool:
        """Whether `name` means this model: by its id or its root, with or without what a registry adds to them."""
        return bool(name) and _bare(name) in (_bare(self.id), _bare(self.root or ""))


@dataclass(frozen=True, slots=True)
class Verb:
    """A request about a model: by which a resident engine loads or unloads it, or by which one is asked for a token.

    Attributes:
        path: `{model}` stands for the id, percent-encoded.
        body: (model, context in tokens or 0) → JSON object that is sent; for unloading, model is the id of what is
            loaded. None sends no body.
        headers: constant headers.
        blocks: it is answered when it has been done, which may take minutes; otherwise once it has begun.
        refusal: reads the JSON of an answer below 400; why it was not done, "" when it was.
    """

    path: str
    body: Callable[[str, int], Mapping[str, object]] | None = None
    method: Literal["GET", "POST", "DELETE"] = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    blocks: bool = False
    refusal: Callable[[JSON], str] = field(default=lambda answer: "")


CHAT = Verb(
    "/v1/chat/completions",
    lambda model, context: {"model": model, "messages": [{"role": "user", "content": "1"}], "max_tokens": 1},
)


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
        patience_s: seconds its start may take before it has failed.
        stages: (pattern of a log line, what it is doing then), in the order in which they come.
        load, unload: how a resident one is told to; None when only its process can be started and stopped.
        generate: how a model that is loaded is asked for one token of a chat.
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
    patience_s: float = 900.0
    stages: tuple[tuple[str, str], ...] = ()
    load: Verb | None = None
    unload: Verb | None = None
    generate: Verb = CHAT

    @property
    def resident(self) -> bool:
        """Whether models come and go in it by request."""
        return self.load is not None and self.unload is not None


def _bare(name: str) -> str:
    return name.removeprefix("docker.io/").removesuffix(":latest")


def model(
    id_: JSON,
    root: JSON = None,
    context: JSON = None,
    *,
    loaded: bool | None = True,
    gpu_share: float | None = None,
    phase: Phase = "",
    handle: JSON = "",
    detail: JSON = "",
) -> Model:
    """A model from what an engine says: its text may be anything, and ends up before a language model."""
    return Model(line(id_), line(root) or None, whole(context), loaded, gpu_share, phase, line(handle), line(detail))


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
