"""A resident engine, which stays up while models come and go in it: they are loaded and unloaded by requests."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from sparkgate.engines import ENGINES
from sparkgate.engines.spec import Model, Verb, line
from sparkgate.identify import NEEDS_KEY
from sparkgate.policy.local import Answer, LocalDoor, LocalDoorError
from sparkgate.runtimes.spec import Look, Owned, Place, RuntimeFault

POLL_S = 0.5
LISTS_ALL = frozenset({"llamacpp-router"})
"""Engines that list what they could load as well: a model that is not listed cannot be loaded."""
DOWN = "down"
_KEEPS = "{name} has not let go of {models}{why}; see what uses it, or restart the daemon"
_LOADING = "{name} is loading {models}; wait until that is done"
_UNKNOWN = "{name} cannot be loaded: the daemon lists no model {model}; there are {models}"
_UNLISTED = "it said that {model} is loaded, and does not list it"


@dataclass(slots=True)
class _Load:
    """A request to load that was sent: `failure` is "" while it is under way and when it was accepted."""

    under_way: bool = True
    failure: str = ""


@dataclass(frozen=True, slots=True)
class _Daemon:
    """How a resident engine is asked."""

    base: str
    door: LocalDoor
    patient_door: LocalDoor
    load: Verb
    unload: Verb
    path: str
    key: str
    read: Callable[[Any], list[Model]]

    def models(self) -> list[Model]:
        """What it lists now. Raises RuntimeFault: `down`, `needs_key`, `no_answer`."""
        answer = _asked(self.door, "GET", self.base + self.path)
        if answer.status in NEEDS_KEY:
            raise RuntimeFault("needs_key", f"{self.base} wants a key before it tells its models")
        listed = _parsed(answer.text)
        fits = isinstance(listed, dict) and self.key in listed if self.key else isinstance(listed, list)
        if answer.status != 200 or not fits:
            raise RuntimeFault("no_answer", f"{self.path} answered {answer.status} and no list of models")
        return self.read(listed)

    def ask(self, door: LocalDoor, verb: Verb, model: str, context: int = 0) -> str:
        """Send a request; why it was not done, "" when that is not known. Raises RuntimeFault: `down`, `no_answer`."""
        url = self.base + verb.path.replace("{model}", quote(model, safe=""))
        answer = _asked(door, verb.method, url, verb.body(model, context) if verb.body else None, verb.headers)
        told = _parsed(answer.text)
        return verb.refusal(told) if answer.status < 400 else f"it answered {answer.status} {_error(told, answer.text)}"


class DaemonRuntime:
    """One model of a resident engine, in which one copy of one model is loaded at a time.

    No answer to a request proves anything: what is loaded and what is gone is read from its list of models.
    `pause` and `clock` are in seconds.
    """

    def __init__(
        self,
        place: Place,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._place, self._pause, self._clock = place, pause, clock
        self._model = place.entry.model
        self._lock = threading.Lock()
        self._load: _Load | None = None

    def look(self) -> Look:
        load = self._load
        waits = load is not None and load.under_way
        try:
            models = self._daemon().models()
        except RuntimeFault as fault:
            state: Owned = "starting" if waits else "stopped" if fault.code == DOWN else "unknown"
            return Look(state, detail=str(fault))
        if waits:
            return Look("starting", detail=f"asked to load {self._model}")
        found = self._judged([model for model in models if self._is_ours(model)], load)
        if found.state == "running" and self._load is load:
            self._load = None
        return found

    def start(self) -> None:
        """Unload every other model, wait until they are gone, then begin to load; what is loaded already is kept.

        Raises:
            RuntimeFault: `not_configured`; `unknown_model` it has no such model; `busy` another model is loading;
                `not_released` another one stays; `down`, `needs_key`, `no_answer` the daemon does not tell its models.
        """
        with self._lock:
            if self._under_way():
                return
            daemon = self._daemon()
            models = daemon.models()
            self._must_be_known(models)
            kept = self._kept(models)
            self._clear(daemon, lambda model: self._gives_way(model, kept), self._place.entry.stop_grace_s)
            if not kept:
                self._load = _Load()
                threading.Thread(
                    target=self._send, args=(daemon, self._load), daemon=True, name=f"load-{self._place.name}"
                ).start()

    def stop(self, grace_s: float) -> None:
        """Unload all copies of the model and wait until none is listed; a daemon that is down holds none.

        Raises:
            RuntimeFault: `not_configured`; `not_released` a copy stays after `grace_s` seconds; `busy` it is still
                loading then; `needs_key`, `no_answer` the daemon does not tell its models.
        """
        with self._lock:
            try:
                self._clear(
                    self._daemon(),
                    lambda model: model.phase == "leaving" or (model.held and self._is_ours(model)),
                    grace_s,
                    cancel=True,
                )
            except RuntimeFault as fault:
                if fault.code != DOWN:
                    raise
            self._load = None

    def log(self, lines: int) -> Sequence[str]:
        """[]: what the daemon prints is with its own owner."""
        return []

    def steps(self) -> Sequence[str]:
        daemon = self._daemon()
        return [
            f"{_step(daemon.unload, 'MODEL', 0)} for every other model that is loaded",
            _step(daemon.load, self._model, self._place.entry.context),
        ]

    def _daemon(self) -> _Daemon:
        """Raises RuntimeFault: `not_configured`."""
        place, engine = self._place, ENGINES.get(self._place.entry.engine)
        if engine is None or engine.load is None or engine.unload is None:
            able = ", ".join(name for name, one in ENGINES.items() if one.resident)
            raise RuntimeFault("not_configured", f"engines.{place.name} needs an engine that loads by request: {able}")
        if not self._model:
            raise RuntimeFault("not_configured", f"engines.{place.name} needs a model to be loaded")
        return _Daemon(
            place.entry.base,
            place.door,
            place.patient_door or place.door,
            engine.load,
            engine.unload,
            engine.models.path,
            engine.models.key,
            engine.read_models,
        )

    def _is_ours(self, model: Model) -> bool:
        return model.is_called(self._model)

    def _must_be_known(self, models: list[Model]) -> None:
        """Nothing gives way for a model that cannot come. Raises RuntimeFault: `unknown_model`."""
        if self._place.entry.engine in LISTS_ALL and not any(map(self._is_ours, models)):
            there = ", ".join(model.id for model in models) or "none"
            raise RuntimeFault(
                "unknown_model", _UNKNOWN.format(name=self._place.name, model=self._model, models=line(there))
            )

    def _gives_way(self, model: Model, kept: str) -> bool:
        """Whether a model must leave before ours is loaded: all but the copy that is kept and what may run beside."""
        if self._place.entry.beside and not self._is_ours(model):
            return False
        return model.held and model.copy != kept and not any(map(model.is_called, self._place.beside))

    def _under_way(self) -> bool:
        return self._load is not None and self._load.under_way

    def _kept(self, models: list[Model]) -> str:
        """The copy that may stay: it loads, or is loaded with the context it needs; "" when there is none."""
        wanted = self._place.entry.context
        return next(
            (
                model.copy
                for model in models
                if self._is_ours(model)
                and (model.loaded or model.phase in ("loading", "asleep"))
                and (model.context is None or model.context >= wanted)
            ),
            "",
        )

    def _clear(self, daemon: _Daemon, chosen: Callable[[Model], bool], grace_s: float, *, cancel: bool = False) -> None:
        """Unload what is chosen, and wait until none of it is listed; only with `cancel` also what is loading."""
        deadline = self._clock() + grace_s
        accepted: set[str] = set()
        left = [model for model in daemon.models() if chosen(model)]
        while left or self._under_way():
            loading = ", ".join(model.id for model in left if model.phase == "loading")
            if loading and not cancel:
                raise RuntimeFault("busy", _LOADING.format(name=self._place.name, models=loading))
            why = _let_go(daemon, left, accepted)
            left = [model for model in daemon.models() if chosen(model)]
            if left and self._clock() >= deadline:
                stay = ", ".join(model.copy for model in left)
                raise RuntimeFault("not_released", _KEEPS.format(name=self._place.name, models=stay, why=why))
            if self._under_way() and self._clock() >= deadline:
                raise RuntimeFault("busy", _LOADING.format(name=self._place.name, models=self._model))
            if left or self._under_way():
                self._pause(POLL_S)

    def _send(self, daemon: _Daemon, load: _Load) -> None:
        """Load, in a thread of its own: an engine may answer only when it is done, and give up when the caller does."""
        try:
            load.failure = daemon.ask(daemon.patient_door, daemon.load, self._model, self._place.entry.context)
        except (RuntimeFault, RuntimeError) as error:
            load.failure = line(str(error))
        finally:
            load.under_way = False

    def _judged(self, copies: list[Model], load: _Load | None) -> Look:
        """What a list that was read after the answer to `load` says of our model."""
        phases = {model.phase: model.detail for model in copies}
        failed = next((model for model in copies if model.phase == "failed" and (load or model.handle)), None)
        if any(model.loaded for model in copies):
            return Look("running")
        if "asleep" in phases:
            return Look("running", detail="asleep; a request wakes it")
        if "loading" in phases:
            return Look("starting", detail=f"loading {self._model}")
        if "leaving" in phases:
            return Look("running", detail="it is being unloaded")
        if load and load.failure:
            return Look("failed", detail=load.failure)
        if failed:
            return Look("failed", detail=failed.detail or f"{self._model} has failed")
        return self._unlisted(load)

    def _unlisted(self, load: _Load | None) -> Look:
        if load is None:
            return Look("stopped", detail=f"{self._model} is not loaded")
        if self._daemon().load.blocks:
            return Look("failed", detail=_UNLISTED.format(model=self._model))
        return Look("starting", detail=f"asked to load {self._model}, which is not listed yet")


def _let_go(daemon: _Daemon, left: list[Model], accepted: set[str]) -> str:
    """Unload what has not `accepted` it before, and note what does now; why others refuse, as they may be in use."""
    refusals: dict[str, str] = {}
    for model in left:
        if model.copy not in accepted and (model.handle or model.phase != "leaving"):
            refusals[model.copy] = _refusal(daemon, model)
            accepted |= set() if refusals[model.copy] else {model.copy}
    return "".join(f" ({refusal})" for refusal in refusals.values() if refusal)


def _refusal(daemon: _Daemon, model: Model) -> str:
    """Why a copy is not unloaded; a daemon that does not answer in time may still be at it."""
    try:
        return daemon.ask(daemon.door, daemon.unload, model.copy)
    except RuntimeFault as fault:
        if fault.code == DOWN:
            raise
        return ""


def _asked(
    door: LocalDoor,
    method: str,
    url: str,
    body: Mapping[str, object] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    try:
        return door.ask(method, url, body, headers)
    except LocalDoorError as error:
        code = DOWN if error.reason == "unreachable" else "no_answer"
        raise RuntimeFault(code, f"{error}; is the daemon running?" if code == DOWN else str(error)) from error


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _error(told: Any, text: str) -> str:
    """`{"error": text}`, `{"error": {"message": text}}`, or the text itself, as one line."""
    error = told.get("error") if isinstance(told, dict) else text
    return line(error.get("message") if isinstance(error, dict) else error)


def _step(verb: Verb, model: str, context: int) -> str:
    body = f" {json.dumps(verb.body(model, context))}" if verb.body else ""
    return f"{verb.method} {verb.path.replace('{model}', model)}{body}"
