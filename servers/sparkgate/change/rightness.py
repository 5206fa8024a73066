"""The proof that what is ready is what was wanted: engine, model, context, processor, template, one token."""

from __future__ import annotations

import json

from sparkgate.change.readiness import NotRight
from sparkgate.engine_settings import EngineSettings
from sparkgate.engine_state import Status
from sparkgate.engines.spec import Model
from sparkgate.fleet import PROOF_S, Fleet
from sparkgate.machine.memory import Memory
from sparkgate.policy.local import LocalDoorError
from sparkgate.processor import processor_of


def prove_right(name: str, fleet: Fleet, memory: Memory) -> Status:
    """The proof that the engine is the one of the catalogue and really generates.

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
    if memory.gpu and not entry.allow_cpu:
        _prove_gpu(name, fleet, status, memory)
    if entry.chat and model and not status.front:
        _prove_chat(name, fleet, model.id)
    return status


def _prove_gpu(name: str, fleet: Fleet, status: Status, memory: Memory) -> None:
    """A build without the GPU, or layers that did not fit, are slow and say nothing of it."""
    found = processor_of(status.processor, fleet.log(name), fleet.look(name), memory)
    if found in ("cpu", "mixed"):
        part = "in part " if found == "mixed" else ""
        raise NotRight("on_cpu", f"{name} computes {part}on the CPU; set allow_cpu = true when that is meant")


def _served(name: str, entry: EngineSettings, status: Status) -> Model | None:
    loaded = [model for model in status.models or () if model.loaded is not False]
    if not entry.model:
        return loaded[0] if loaded else None
    for model in loaded:
        if model.is_called(entry.model):
            return model
    there = ", ".join(model.id for model in loaded) or "none"
    raise NotRight("wrong_model", f"{name} serves {there}, not {entry.model}")


def _prove_chat(name: str, fleet: Fleet, model: str) -> None:
    """One token by way of its chat template: a missing or broken template is seen here and nowhere else."""
    verb = fleet.kind(name).generate
    url = fleet.catalogue[name].base + verb.path
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
