"""What an engine says of itself, as one record. What it does not tell is None, never 0."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from sparkgate.engine_settings import EngineSettings
from sparkgate.engines import ENGINES
from sparkgate.engines.spec import Engine, Model, line
from sparkgate.identify import NEEDS_KEY, Asked, identify
from sparkgate.policy.local import Answer, LocalDoor, LocalDoorError

State = Literal["down", "starting", "loading", "ready", "sleeping", "wedged", "failed", "unknown"]
Processor = Literal["gpu", "cpu", "mixed", "unknown"]
PROOF = {"prompt": "1", "max_tokens": 1, "temperature": 0}
STOPPED = ("down", "failed", "starting")
STATE_REQUESTS = 12
MODELS_SHOWN = 50
SHARES = ("kv_usage", "prefix_hit_rate", "accept_rate")
"""Gauges from 0 to 1: of several series the largest is told, not the sum."""
_SAMPLE = re.compile(
    r"^([a-zA-Z_:][\w:]*)(?:\{[^\n]*\})?[ \t]+(\d+(?:\.\d*)?(?:[eE][+-]?\d{1,3})?)(?=\s|$)", re.MULTILINE
)
"""A sample of the Prometheus text format; NaN and Inf are left out."""

_STRANGER = "something answers at {url}, and it is no engine that is known here"
_OTHER = "the catalogue says {wanted}, but {found} answers: an old process may have kept the port"
_NOTHING = "no model is loaded"
_CPU = "{model} lies outside GPU memory: the CPU computes it"
_KEY = "it wants a key for its state"
_WEDGED = "it says it is ready and generates nothing"
_UNPROVEN = "whether it generates cannot be asked (status {status})"
_BUSY = "it did not generate a token in time, and is busy with other requests"
_SILENT = "{path}: {reason}"


@dataclass(frozen=True, slots=True)
class Status:
    """One engine now.

    `front` is a router that stands before engines. `models` is None when it does not tell. `load` holds what its
    metrics tell: requests running and waiting, shares from 0 to 1, tokens since its start. `proven` tells whether it
    generated a token when asked to.
    """

    name: str
    engine: str
    state: State
    title: str = ""
    version: str | None = None
    front: bool = False
    processor: Processor = "unknown"
    models: tuple[Model, ...] | None = None
    load: Mapping[str, float] | None = None
    proven: bool | None = None
    warnings: tuple[str, ...] = ()

    @property
    def loaded(self) -> str:
        """Id of a model that is surely loaded; "" when there is none."""
        return next((model.id for model in self.models or () if model.loaded), "")


def status_of(name: str, entry: EngineSettings, door: LocalDoor, proof_door: LocalDoor | None = None) -> Status:
    """Ask an engine for its state; with `proof_door`, which may wait longer, also for one token.

    What answers decides what is asked, not what the catalogue says: a route that is harmless with one engine costs
    money or loads a model with another.
    """
    asked = Asked(lambda path: door.get(entry.base + path))
    try:
        found = identify(asked)
        engine = found.engine if found.because and found.engine is not ENGINES["openai"] else None
        engine = engine or (_named(entry, asked) or found.engine)
        if engine is None:
            return _stranger(name, entry, asked)
        status = read(name, engine, Asked(asked.get, asked.answers, asked.failures, limit=STATE_REQUESTS))
    except LocalDoorError as error:
        state: State = "unknown" if error.reason == "locked" else "down"
        return Status(name, entry.engine or "unknown", state, warnings=(str(error),))
    if entry.engine and engine.name != entry.engine:
        return _warn(status, _OTHER.format(wanted=ENGINES[entry.engine].title, found=engine.title))
    if proof_door and status.state == "ready" and status.loaded and engine.completions and not engine.front:
        return _proven(status, entry.base + engine.completions, proof_door)
    return status


def _named(entry: EngineSettings, asked: Asked) -> Engine | None:
    """The engine of the catalogue, where nothing speaks against it and something for an engine at all."""
    speaks = asked.json("/v1/models") is not None or asked.met(503)
    return ENGINES.get(entry.engine) if speaks else None


def _stranger(name: str, entry: EngineSettings, asked: Asked) -> Status:
    if asked.met(*NEEDS_KEY):
        return Status(name, entry.engine or "unknown", "unknown", warnings=(_KEY,))
    if asked.met(503):
        return Status(name, entry.engine or "unknown", "loading")
    return Status(name, entry.engine or "unknown", "unknown", warnings=(_STRANGER.format(url=entry.base),))


def read(name: str, engine: Engine, asked: Asked) -> Status:
    """The state of a known engine, from at most five routes.

    Raises:
        LocalDoorError: nobody answers.
    """
    ready = asked(engine.ready)
    version = asked.json(engine.version.path) if engine.version else None
    listed = asked.json(engine.models.path)
    asleep = _asleep(engine, asked)
    metrics = asked(engine.metrics) if engine.metrics and not asleep else None
    models = None if listed is None else tuple(engine.read_models(listed))
    told = version.get(engine.version.key) if engine.version and isinstance(version, dict) else None
    status = Status(
        name=name,
        engine=engine.name,
        state="sleeping" if asleep or _asleep(engine, asked) else _state(ready),
        title=engine.title,
        version=line(told) or None,
        front=engine.front,
        processor=_processor(models or ()),
        models=models,
        load=gauges(metrics.text, engine.gauges) if metrics and metrics.status == 200 else None,
    )
    return replace(status, warnings=(*_warnings(status, asked), *_silent(asked)))


def _asleep(engine: Engine, asked: Asked) -> bool:
    texts = (answer.text for answer in asked.answers.values() if answer is not None)
    return bool(engine.asleep) and any(re.search(engine.asleep, text) for text in texts)


def _state(ready: Answer | None) -> State:
    """A key that is wanted means: it is up; whether it serves is not told."""
    if ready is None:
        return "unknown"
    return "ready" if ready.status == 200 else "loading" if ready.status == 503 else "unknown"


def _processor(models: tuple[Model, ...]) -> Processor:
    shares = [model.gpu_share for model in models if model.gpu_share is not None]
    if not shares:
        return "unknown"
    return "gpu" if min(shares) >= 1 else "cpu" if max(shares) == 0 else "mixed"


def _warnings(status: Status, asked: Asked) -> list[str]:
    key = [_KEY] if asked.met(*NEEDS_KEY) else []
    models = status.models or ()
    empty = status.models is not None and all(model.loaded is False for model in models)
    nothing = [_NOTHING] if status.state == "ready" and empty else []
    return key + nothing + [_CPU.format(model=m.id) for m in models if m.gpu_share is not None and m.gpu_share < 1]


def _silent(asked: Asked) -> list[str]:
    return [_SILENT.format(path=path, reason=reason) for path, reason in asked.failures.items()]


def _warn(status: Status, warning: str) -> Status:
    return replace(status, warnings=(*status.warnings, warning))


def _proven(status: Status, url: str, door: LocalDoor) -> Status:
    """Ready is only what generates: an engine can answer 200 on its health route for hours and be stuck."""
    try:
        answer = door.post_json(url, PROOF | {"model": status.loaded})
    except LocalDoorError:
        busy = (status.load or {}).get("running", 0) > 0
        return _warn(status, _BUSY) if busy else _warn(replace(status, proven=False, state="wedged"), _WEDGED)
    if answer.status == 200 and _generated(answer):
        return replace(status, proven=True)
    if answer.status == 200 or answer.status >= 500:
        return _warn(replace(status, proven=False, state="wedged"), _WEDGED)
    return _warn(status, _UNPROVEN.format(status=answer.status))


def _generated(answer: Answer) -> bool:
    try:
        return bool(json.loads(answer.text).get("choices"))
    except (ValueError, AttributeError, RecursionError):
        return False


def gauges(text: str, names: Mapping[str, str]) -> dict[str, float]:
    """Prometheus text → our names; counts of several series are added up. Rates are made where both parts are there."""
    series: dict[str, list[float]] = {}
    for name, value in _SAMPLE.findall(text):
        if math.isfinite(float(value)):
            series.setdefault(name, []).append(float(value))
    told = {
        ours: max(series[theirs]) if ours in SHARES else sum(series[theirs])
        for ours, theirs in names.items()
        if theirs in series
    }
    for rate, part, whole in (
        ("prefix_hit_rate", "prefix_hits", "prefix_queries"),
        ("accept_rate", "accepted_tokens", "draft_tokens"),
    ):
        if told.get(whole):
            told[rate] = round(told.get(part, 0.0) / told[whole], 4)
    return told


def as_json(status: Status) -> dict[str, Any]:
    """The record as the tool and `sparkgate engine status --json` give it; nothing that is not known.

    `models` is always there: [] when the engine does not run, null when it runs and does not tell. Of a path only its
    last part is told, as it names folders of this machine.
    """
    models = [_model(model) for model in (status.models or ())[:MODELS_SHOWN]]
    told: dict[str, Any] = {"name": status.name, "engine": status.engine, "state": status.state}
    told |= {"version": status.version, "processor": status.processor, "front": status.front or None}
    more = len(status.models or ()) - len(models)
    told |= {"proven": status.proven, "models_left_out": more or None}
    told |= {"load": dict(status.load) if status.load else None}
    known = {key: value for key, value in told.items() if value is not None}
    nothing = status.models is None and status.state not in STOPPED
    return known | {"models": None if nothing else models, "warnings": list(status.warnings)}


def _model(model: Model) -> dict[str, Any]:
    root = model.root.rstrip("/").rpartition("/")[2] if model.root else None
    told = {"id": model.id, "root": root, "context": model.context, "loaded": model.loaded}
    return {key: value for key, value in told.items() if value is not None}
