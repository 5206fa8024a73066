"""What an engine is and does, from a few requests before anything is measured."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from sparkgate.engines import ENGINES
from sparkgate.engines.spec import Model, line
from sparkgate.measure.budget import Rates
from sparkgate.measure.clock import Clock
from sparkgate.measure.lengths import PROBE_TOKENS, LengthClass, LengthForm, length_class, length_forms
from sparkgate.measure.metrics import request_metrics
from sparkgate.measure.order import Order, Writer
from sparkgate.measure.sample import Sample
from sparkgate.policy.local_stream import StreamDoor, StreamDoorError

FIRST_TOKENS = 8
PROBE_WORDS = 192
RTT_TRIES = 5
DEADLINE_S = 600.0
"""Of one probing request: the first may load the model."""


class ProbeError(Exception):
    """The engine cannot be measured; `code` is a word, the message one line."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Probe:
    """What was found.

    Attributes:
        writer: writes requests in the way that the engine obeyed.
        context: tokens that one request may have; None when it does not tell.
        first: the very first request, which may have loaded or compiled something.
        rtt_ms: median of some GETs; None when that route is not there.
        sample: the answer to the probe of lengths.
        aliases: other names of the model.
    """

    writer: Writer
    version: str
    context: int | None
    shown: LengthClass
    rates: Rates
    first: Sample
    rtt_ms: float | None
    sample: Sample
    aliases: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """For the first event of the run."""
        first = request_metrics(self.first).values
        return {
            "engine": self.writer.engine,
            "version": self.version or None,
            "model": self.writer.model,
            "context": self.context,
            "length_class": self.shown,
            "length_form": self.writer.length.name,
            "thinking_switch": self.writer.thinks,
            "rates": {"prefill_tok_s": self.rates.prefill_tok_s, "decode_tok_s": self.rates.decode_tok_s},
            "first_request": {"wall_ms": first["wall_ms"], "ttft_any_ms": first["ttft_any_ms"]},
            "rtt_ms": self.rtt_ms,
            "fields": _fields(self.sample),
        }


def _fields(sample: Sample) -> dict[str, Any]:
    """What its stream tells."""
    return {
        "counts": sample.counts.source,
        "cached": sample.counts.cached is not None,
        "timings": sample.engine.predicted_ms is not None,
        "role_chunk": sample.notes.role_ns is not None,
        "streams": not sample.notes.not_streaming,
    }


async def probe(order: Order, door: StreamDoor, numbers: Iterator[int]) -> Probe:
    """Ask what the engine is, and how it takes a length.

    Raises:
        ProbeError: it cannot be measured.
        StreamDoorError: it cannot be reached.
    """
    model, version = await _model(order, door), await _version(order.engine, door)
    writer = Writer(order.engine, model.id, order.plan.seed, length_forms(order.engine, model.id)[0], numbers)
    clock = Clock(door, writer.path, writer.dialect)
    writer, first = await _first(writer, clock)
    writer, sample = await _length(writer, clock)
    values = request_metrics(sample).values
    return Probe(
        writer=writer,
        version=version,
        context=order.context or model.context,
        shown=length_class(PROBE_TOKENS, sample.counts.completion, sample.finish),
        rates=Rates(values["pp_tok_s"], values["decode_tok_s"]),
        first=first,
        rtt_ms=await _rtt_ms(order.engine, door),
        sample=sample,
        aliases=(model.root,) if model.root else (),
    )


async def _get(door: StreamDoor, path: str) -> Any:
    """None when there is no such JSON."""
    try:
        status, body = await door.ask("GET", path)
        return json.loads(body) if status == 200 else None
    except (StreamDoorError, ValueError, RecursionError):
        return None


async def _model(order: Order, door: StreamDoor) -> Model:
    engine = ENGINES.get(order.engine, ENGINES["openai"])
    await door.connect(1)
    listed = await _get(door, engine.models.path)
    models: Sequence[Model] = [] if listed is None else engine.read_models(listed)
    if not order.model and not models:
        raise ProbeError("no_model", "the engine lists no model: load one, or name it")
    loaded = [one for one in models if one.loaded]
    return next((one for one in models if one.id == order.model), None) or (
        Model(order.model) if order.model else (loaded or list(models))[0]
    )


async def _version(engine: str, door: StreamDoor) -> str:
    route = ENGINES[engine].version if engine in ENGINES else None
    told = await _get(door, route.path) if route else None
    return line(told.get(route.key)) if route and isinstance(told, dict) else ""


async def _first(writer: Writer, clock: Clock) -> tuple[Writer, Sample]:
    """The first request, in the first way that is not refused: a server may know neither switch nor length."""
    first = None
    for way in _ways(writer):
        sample = await clock.one(way.body(way.prompt(16, "prose"), FIRST_TOKENS, False), DEADLINE_S)
        first = first or sample
        if sample.outcome == "ok":
            return way, first if first.outcome == "ok" else sample
    raise ProbeError("no_answer", first.error if first else "the engine was not asked")


def _ways(writer: Writer) -> list[Writer]:
    forms = length_forms(writer.engine, writer.model)
    return [replace(writer, length=form, thinks=thinks) for thinks in (True, False) for form in forms]


async def _length(writer: Writer, clock: Clock) -> tuple[Writer, Sample]:
    """The strictest way that gives the length asked for, or else the last that is answered."""
    forms = length_forms(writer.engine, writer.model)
    answered: list[tuple[Writer, Sample]] = []
    for form in forms[_place(forms, writer.length) :]:
        way = replace(writer, length=form)
        sample = await clock.one(way.body(way.prompt(PROBE_WORDS, "prose"), PROBE_TOKENS, False), DEADLINE_S)
        if sample.outcome != "ok":
            continue
        answered.append((way, sample))
        if length_class(PROBE_TOKENS, sample.counts.completion, sample.finish) != "short":
            break
    if not answered:
        raise ProbeError("no_answer", f"it did not answer a prompt of {PROBE_WORDS} words: {sample.error}")
    return answered[-1]


def _place(forms: Sequence[LengthForm], form: LengthForm) -> int:
    return next((place for place, one in enumerate(forms) if one.name == form.name), 0)


async def _rtt_ms(engine: str, door: StreamDoor) -> float | None:
    path = ENGINES.get(engine, ENGINES["openai"]).ready
    times_ms = []
    for _ in range(RTT_TRIES):
        before_ns = time.perf_counter_ns()
        try:
            await door.ask("GET", path)
        except StreamDoorError:
            return None
        times_ms.append((time.perf_counter_ns() - before_ns) / 1e6)
        await asyncio.sleep(0)
    return round(median(times_ms), 3)
