"""Waiting until a started engine is ready, and the proof that it is the right one. Alive is not ready is not right."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sparkgate.engine_settings import EngineSettings
from sparkgate.engine_state import Status
from sparkgate.engines.spec import Engine, Model
from sparkgate.failures.diagnosis import Diagnosis, diagnose, stalled
from sparkgate.fleet import PROOF_S, Fleet, base_url
from sparkgate.policy.local import LocalDoorError
from sparkgate.runtimes.spec import Look

LOG_LINES = 400
POLL_S, POLL_MAX_S = 0.1, 1.0
POLL_SHARE = 0.05
"""The wait between two looks grows with the time the load has taken."""
READY_IN_A_ROW = 2
_PRESSED = "for {:.0f} % of the last 10 s everything waited for it, and a machine that shares it with its GPU freezes"
GONE_POLLS = 5
"""A process that is not there yet after so many looks does not come any more."""
STARTING = {"down": "starting", "unknown": "starting"}


class NotRight(Exception):
    """The engine failed to start, or what started is not what was wanted."""

    def __init__(self, code: str, message: str, diagnosis: Diagnosis | None = None) -> None:
        super().__init__(message)
        self.code, self.diagnosis = code, diagnosis


@dataclass(frozen=True, slots=True)
class Wait:
    """How to wait.

    Attributes:
        pause: waits some seconds; raises when the job is cancelled.
        tell: takes the stage the engine is in, in words.
        patience_s: longest wait in all.
        stall_s: longest time without a new line in its log and without an answer.
        restarts: how often its owner had restarted it before.
        pressure_max_percent: share of the time in which everything may wait for memory.
    """

    pause: Callable[[float], None]
    tell: Callable[[str], None]
    patience_s: float
    stall_s: float
    restarts: int = 0
    pressure_max_percent: float = 50.0


def wait_until_ready(name: str, fleet: Fleet, wait: Wait) -> None:
    """Return when the engine says twice in a row that it is ready; fail as soon as it cannot become so.

    Raises:
        NotRight: it ended, restarts in a circle, prints nothing any more, or takes too long; with a diagnosis.
    """
    began = last_news = time.monotonic()
    in_a_row = gone = 0
    stage, seen = "", ""
    while in_a_row < READY_IN_A_ROW:
        look, lines = fleet.look(name), fleet.log(name, LOG_LINES)
        gone = gone + 1 if look and look.state == "stopped" else 0
        _fail_if_dead(name, look, lines, gone, wait.restarts)
        status = fleet.status(name)
        in_a_row = in_a_row + 1 if _is_up(status, look) else 0
        if (pressure := fleet.pressure()) is not None and pressure > wait.pressure_max_percent:
            raise NotRight("memory_pressure", f"{name} takes more memory than there is: {_PRESSED.format(pressure)}")
        now = time.monotonic()
        news = repr((lines[-1:], len(lines), status.state))
        last_news, seen = (now, news) if news != seen else (last_news, seen)
        if now - last_news > wait.stall_s and status.state != "ready":
            found = stalled(now - last_news)
            raise NotRight("stalled", f"{name}: {found.cause}", found)
        if now - began > wait.patience_s:
            raise NotRight("too_slow", f"{name} is not ready after {wait.patience_s:.0f} s", diagnose(lines, look))
        if (stage_now := stage_of(fleet.kind(name), lines) or STARTING.get(status.state, status.state)) != stage:
            stage = stage_now
            wait.tell(f"{name}: {stage}")
        if in_a_row < READY_IN_A_ROW:
            wait.pause(min(POLL_MAX_S, POLL_S + POLL_SHARE * (now - began)))


def _is_up(status: Status, look: Look | None) -> bool:
    return status.state == "ready" and (look is None or look.state == "running")


def _fail_if_dead(name: str, look: Look | None, lines: Sequence[str], gone: int, restarts: int) -> None:
    if look is None:
        return
    if look.state == "failed" or gone >= GONE_POLLS:
        found = diagnose(lines, look)
        raise NotRight("ended", f"{name} ended while it was starting: {found.cause}", found)
    if (look.restarts or 0) > restarts:
        found = diagnose(lines, look)
        raise NotRight("crash_loop", f"{name} ends and is started again by its owner: {found.cause}", found)


def stage_of(engine: Engine, lines: Sequence[str]) -> str:
    """What a loading engine is doing, from the last line of its log that tells; "" when none does."""
    for line in reversed(lines):
        for pattern, words in engine.stages:
            if re.search(pattern, line):
                return words
    return ""


def prove_right(name: str, fleet: Fleet, *, gpu: bool) -> Status:
    """The proof that the engine is the one of the catalogue and really generates; `gpu`: this machine has one.

    Raises:
        NotRight: another engine or model answers, its context is too small, it computes on the CPU, or it generates
            nothing.
    """
    entry, status = fleet.catalogue[name], fleet.status(name, prove=True)
    if entry.engine and status.engine != entry.engine:
        raise NotRight("wrong_engine", f"{name}: {status.title or status.engine} answers, not {fleet.kind(name).title}")
    if status.state != "ready" or status.proven is False:
        raise NotRight("wedged", f"{name} says it is ready and generates nothing")
    model = _served(name, entry, status)
    if entry.context and model and model.context is not None and model.context < entry.context:
        raise NotRight(
            "context_small", f"{name} serves {model.context} tokens of context, and {entry.context} are wanted"
        )
    if gpu and not entry.allow_cpu and status.processor in ("cpu", "mixed"):
        raise NotRight("on_cpu", f"{name} computes on the CPU; set allow_cpu = true when that is meant")
    if entry.chat and model and not status.front:
        _prove_chat(name, fleet, model.id)
    return status


def _served(name: str, entry: EngineSettings, status: Status) -> Model | None:
    loaded = [model for model in status.models or () if model.loaded is not False]
    if not entry.model:
        return loaded[0] if loaded else None
    for model in loaded:
        if entry.model in (model.id, model.root) or model.id == f"{entry.model}:latest":
            return model
    there = ", ".join(model.id for model in loaded) or "none"
    raise NotRight("wrong_model", f"{name} serves {there}, not {entry.model}")


def _prove_chat(name: str, fleet: Fleet, model: str) -> None:
    """One token by way of its chat template: a missing or broken template is seen here and nowhere else."""
    verb = fleet.kind(name).generate
    url = base_url(fleet.catalogue[name]) + verb.path
    body = verb.body(model, fleet.catalogue[name].context) if verb.body else None
    try:
        answer = fleet.door(name, PROOF_S).ask(verb.method, url, body, verb.headers)
    except LocalDoorError as error:
        raise NotRight("wedged", f"{name} does not answer a chat: {error}") from error
    try:
        told = json.loads(answer.text)
    except ValueError:
        told = None
    if answer.status != 200 or not isinstance(told, dict) or not (told.get("choices") or told.get("message")):
        raise NotRight("no_chat", f"{name} answers a chat with status {answer.status}; its template may be missing")
