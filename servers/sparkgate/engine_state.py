"""What an engine says of itself, as one record. Numbers that it does not tell are None, never 0."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from sparkgate.engines import ENGINES
from sparkgate.engines.spec import Engine, Model
from sparkgate.identify import Asked, identify
from sparkgate.policy.local import Answer, LocalDoor, LocalDoorError
from sparkgate.settings import EngineSettings

_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{[^\n]*\})?[ \t]+([0-9][0-9.eE+-]*)", re.MULTILINE)
"""A sample of the Prometheus text format; NaN and Inf are left out."""
State = Literal["down", "loading", "ready", "wedged", "unknown"]
NEEDS_KEY = (401, 403)
PROOF = {"prompt": "1", "max_tokens": 1, "temperature": 0}


@dataclass(frozen=True, slots=True)
class Status:
    """One engine now.

    `front` is a router that stands before engines. `load` holds what its metrics tell: requests running and waiting,
    shares from 0 to 1, tokens since its start. `proven` tells whether it generated a token when asked to.
    """

    name: str
    engine: str
    state: State
    title: str = ""
    version: str | None = None
    front: bool = False
    processor: str = "unknown"
    models: tuple[Model, ...] = ()
    load: Mapping[str, float] | None = None
    proven: bool | None = None
    warnings: tuple[str, ...] = ()


def status_of(name: str, entry: EngineSettings, door: LocalDoor, *, prove: bool = False) -> Status:
    """Ask an engine for its state; with `prove`, also for one token. Never raises on an engine's account."""
    base = entry.url.rstrip("/").removesuffix("/v1")
    asked = Asked(lambda path: door.get(base + path))
    try:
        found = identify(asked)
    except LocalDoorError as error:
        return Status(name, entry.engine or "unknown", "down", warnings=(str(error),))
    engine = ENGINES.get(entry.engine) or found.engine
    if engine is None:
        return Status(name, "unknown", "unknown", warnings=(_STRANGER.format(url=base),))
    status = read(name, engine, Asked(asked.get, dict(asked.answers), limit=12))
    if found.engine and found.certain and engine.name not in (found.engine.name, "openai"):
        status = _warn(status, _OTHER.format(wanted=engine.title, found=found.engine.title))
    loaded = next((model.id for model in status.models if model.loaded), "")
    if prove and status.state == "ready" and not engine.front and engine.completions and loaded:
        return _proven(status, loaded, base + engine.completions, door)
    return status


_STRANGER = "something answers at {url}, and it is no engine that is known here"
_OTHER = "the catalogue says {wanted}, but {found} answers: an old process may have kept the port"
_NOTHING = "no model is loaded"
_CPU = "{model} lies outside GPU memory: the CPU computes it"
_KEY = "it wants a key for its state"
_WEDGED = "it says it is ready and generates nothing"


def read(name: str, engine: Engine, asked: Asked) -> Status:
    """The state of a known engine, from at most five routes."""
    try:
        ready = asked(engine.ready)
        version = asked.json(engine.version.path) if engine.version else None
        models = tuple(engine.read_models(asked.json(engine.models.path)))
        metrics = asked(engine.metrics) if engine.metrics else None
    except LocalDoorError as error:
        return Status(name, engine.name, "down", engine.title, front=engine.front, warnings=(str(error),))
    told = version.get(engine.version.key) if engine.version and isinstance(version, dict) else None
    status = Status(
        name=name,
        engine=engine.name,
        state=_state(ready),
        title=engine.title,
        version=str(told) if told is not None else None,
        front=engine.front,
        processor=_processor(models),
        models=models,
        load=gauges(metrics.text, engine.gauges) if metrics and metrics.status == 200 else None,
    )
    for warning in _warnings(ready, status):
        status = _warn(status, warning)
    return status


def _state(ready: Answer | None) -> State:
    """A key that is wanted means: it is up; whether it serves is not told."""
    if ready is None or ready.status in NEEDS_KEY:
        return "unknown"
    return "ready" if ready.status == 200 else "loading" if ready.status == 503 else "unknown"


def _processor(models: tuple[Model, ...]) -> str:
    shares = [model.gpu_share for model in models if model.gpu_share is not None]
    if not shares:
        return "unknown"
    return "gpu" if min(shares) >= 1 else "cpu" if max(shares) == 0 else "mixed"


def _warnings(ready: Answer | None, status: Status) -> list[str]:
    needs_key = [_KEY] if ready and ready.status in NEEDS_KEY else []
    loaded = [model for model in status.models if model.loaded is not False]
    nothing = [_NOTHING] if status.state == "ready" and not loaded else []
    slow = [_CPU.format(model=m.id) for m in status.models if m.gpu_share is not None and m.gpu_share < 1]
    return needs_key + nothing + slow


def _warn(status: Status, warning: str) -> Status:
    return replace(status, warnings=(*status.warnings, warning))


def _proven(status: Status, model: str, url: str, door: LocalDoor) -> Status:
    """Ready is only what generates: an engine can answer 200 on its health route for hours and be stuck."""
    try:
        answer = door.post_json(url, PROOF | {"model": model})
        proven = answer.status == 200 and bool(json.loads(answer.text).get("choices"))
    except (LocalDoorError, ValueError, AttributeError):
        proven = False
    if proven:
        return replace(status, proven=True)
    return _warn(replace(status, proven=False, state="wedged"), _WEDGED)


def gauges(text: str, names: Mapping[str, str]) -> dict[str, float]:
    """Prometheus text → our names; the series of one name are added up. Rates are made where both parts are there."""
    sums: dict[str, float] = {}
    for match in _SAMPLE.finditer(text):
        sums[match[1]] = sums.get(match[1], 0.0) + float(match[2])
    told = {ours: sums[theirs] for ours, theirs in names.items() if theirs in sums}
    for rate, part, whole in (
        ("prefix_hit_rate", "prefix_hits", "prefix_queries"),
        ("accept_rate", "accepted_tokens", "draft_tokens"),
    ):
        if told.get(whole):
            told[rate] = round(told.get(part, 0.0) / told[whole], 4)
    return told


def as_json(status: Status) -> dict[str, Any]:
    """The record as the tool and `sparkgate engine status --json` give it; nothing that is not known."""
    models = [
        {
            key: value
            for key, value in (("id", m.id), ("root", m.root), ("context", m.context), ("loaded", m.loaded))
            if value is not None
        }
        for m in status.models
    ]
    told: dict[str, Any] = {"name": status.name, "engine": status.engine, "state": status.state}
    told |= {"version": status.version, "processor": status.processor, "front": status.front or None}
    told |= {"models": models, "load": dict(status.load) if status.load else None, "proven": status.proven}
    return {key: value for key, value in told.items() if value is not None} | {"warnings": list(status.warnings)}
