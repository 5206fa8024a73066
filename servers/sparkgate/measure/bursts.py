"""The bursts of a run, each with what was seen around it."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sparkgate.measure import quality_run, verify
from sparkgate.measure.calibrate import Lengths
from sparkgate.measure.clock import Sensors
from sparkgate.measure.crew import Crew
from sparkgate.measure.energy import PowerLog
from sparkgate.measure.engine_counters import Counting, swapped_in_pages, watching
from sparkgate.measure.order import Writer
from sparkgate.measure.plan import WARMUP_BURSTS, Cell, Plan
from sparkgate.measure.quality import Outcome, items
from sparkgate.measure.sample import Sample, to_json
from sparkgate.measure.timeline import stream_of
from sparkgate.measure.verify import BurstRecord

CANARY, CANARY_WORDS, CANARY_S = Cell("canary", output_tokens=64), 64, 0.5
MAX_CANARY_TOKENS = 1024
MAX_WARMUP = WARMUP_BURSTS + 1
UNKNOWN_DEADLINE_S = 600.0
Emit = Callable[[Mapping[str, Any]], None]

NO_POWER = "it is not there, or the engine runs elsewhere"
TIME_UP = "max_seconds had gone before all was measured"
UNPRIMED = "a prefix could not be shown to the engine before a burst that should find it cached"


class Stopped(Exception):
    """It was cancelled, or its time is up; what was measured is kept."""


@dataclass(slots=True)
class CellRun:
    """A cell and what was measured of it so far; `outcomes` are those of tasks by their id."""

    cell: Cell
    bursts: list[BurstRecord] = field(default_factory=list)
    warmup_ms: list[float] = field(default_factory=list)
    remeasured: BurstRecord | None = None
    outcomes: dict[str, list[Outcome]] = field(default_factory=dict)


@dataclass(slots=True)
class Course:
    """How far a run is.

    Attributes:
        emit: takes one event as JSON.
        cancel: set when it shall end; connections are closed at once.
        idle_power_w: of the GPU before anything was asked of it.
        power: readings of this machine's GPU; None where there is none or the engine is elsewhere.
        of: bursts planned, with those of the warm-up.
        ends_s: on the monotonic clock.
        deadline_s: of one burst.
        canaries: rates of the canary, before and after.
    """

    emit: Emit
    cancel: asyncio.Event
    power: PowerLog | None = None
    idle_power_w: float | None = None
    cells: list[CellRun] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    canaries: list[float] = field(default_factory=list)
    done: int = 0
    of: int = 0
    ends_s: float = float("inf")
    deadline_s: float = UNKNOWN_DEADLINE_S

    def check(self) -> None:
        """Raises Stopped when it shall end."""
        if self.cancel.is_set():
            raise Stopped
        if time.monotonic() > self.ends_s:
            self.notes.append(TIME_UP)
            raise Stopped

    def note_once(self, what: str, why: str) -> None:
        """Note what has happened, with the first reason for it."""
        if not any(note.startswith(what) for note in self.notes):
            self.notes.append(f"{what}: {why}")

    def step(self, cell: Cell, headline: Mapping[str, float] | None = None) -> None:
        """One more burst has ended."""
        self.done += 1
        of = max(self.of, self.done)
        self.emit({"event": "progress", "done": self.done, "of": of, "cell": cell.key, "headline": headline})

    def tell(self, cell: Cell, burst: BurstRecord) -> None:
        """A burst as it was measured."""
        self.emit(
            {
                "event": "burst",
                "cell": cell.key,
                "repeat": burst.repeat,
                "samples": [json.loads(to_json(sample)) for sample in burst.samples],
                "sensors": burst.sensors.as_json() | {f"{name}_max": value for name, value in burst.peaks.items()},
                "engine_before": dict(burst.before),
                "engine_after": dict(burst.after),
            }
        )


@dataclass(slots=True)
class Bench:
    """Makes the bursts of a run. Each method raises Stopped, after it has told what had come, and StreamDoorError."""

    course: Course
    writer: Writer
    lengths: Lengths
    crew: Crew
    counting: Counting
    context: int | None = None
    stream_tok_s: float | None = None

    async def all(self, planned: Plan) -> None:
        """Everything that is measured, in the order of the plan."""
        for cell in self.course.cells:
            await self.warm(cell)
        await self.canary()
        until_s = time.monotonic() + planned.soak_s
        for repeat in itertools.count():
            if repeat >= planned.repeats and time.monotonic() >= until_s:
                break
            for place in planned.order(repeat):
                await self.measure(self.course.cells[place], repeat)
        if planned.kind == "sweep":
            best = max(self.course.cells, key=lambda one: verify.median_of(one.bursts, "agg_decode_tok_s") or 0.0)
            best.remeasured = await self.burst(best.cell, -1)
        await self.canary()

    async def warm(self, one: CellRun) -> None:
        """Bursts that are thrown away, until the first-token time has settled."""
        while len(one.warmup_ms) < MAX_WARMUP:
            burst = await self.burst(one.cell, -1)
            self.course.step(one.cell)
            ttft_ms = burst.metrics.values.get("ttft_any_ms")
            one.warmup_ms.append(ttft_ms if ttft_ms is not None else 0.0)
            if len(one.warmup_ms) >= WARMUP_BURSTS and verify.settled(one.warmup_ms):
                break

    async def measure(self, one: CellRun, repeat: int) -> None:
        """One burst that counts."""
        burst = await self.burst(one.cell, repeat)
        self.course.tell(one.cell, burst)
        one.bursts.append(burst)
        name = verify.headline_metric(one.cell)
        value = burst.metrics.values.get(name)
        self.course.step(one.cell, None if value is None else {name: round(value, 2)})

    async def canary(self) -> None:
        """A short cell, the same before and after; so long that a late timer of this process does not show in it."""
        tokens = min(MAX_CANARY_TOKENS, max(CANARY.output_tokens, round(CANARY_S * (self.stream_tok_s or 0.0))))
        cell = replace(CANARY, output_tokens=tokens, thinking=self.course.cells[0].cell.thinking)
        burst = await self.burst(cell, -1, CANARY_WORDS)
        if (rate := burst.metrics.values.get("decode_tok_s")) is not None:
            self.course.canaries.append(rate)

    async def burst(self, cell: Cell, repeat: int, words: int | None = None) -> BurstRecord:
        """One burst; a `repeat` below 0 is thrown away."""
        self.course.check()
        words = self.lengths.of(cell) if words is None else words
        prefix_of, unprimed = await self._prime(cell, words) if cell.cache_mode == "warm" else (None, "")
        if unprimed and repeat >= 0:
            self.course.note_once(UNPRIMED, unprimed)
        bodies = self.writer.burst(cell, words, prefix_of)
        before, swapped, since_ns = await self.counting.read(), swapped_in_pages(), time.perf_counter_ns()
        with watching(self.counting) as watched:
            burst = await self.crew.burst(bodies, self.course.deadline_s, self.course.cancel)
        record = BurstRecord(repeat, burst.samples, burst.sensors, before, engine=self.writer.engine, unprimed=unprimed)
        if self.course.cancel.is_set():
            if repeat >= 0:
                self.course.tell(cell, record)
            raise Stopped
        tokens, now = sum(stream_of(sample).n for sample in burst.samples), swapped_in_pages()
        return replace(
            record,
            after=await self.counting.settled(before, tokens),
            peaks=watched.peaks(self.counting.names),
            runnable=tuple(watched.runnable),
            swapped_in_pages=None if now is None or swapped is None else now - swapped,
            gpu=self.course.power.since(since_ns) if self.course.power else (),
            idle_power_w=self.course.idle_power_w,
            power_said=self.course.power.said if self.course.power else NO_POWER,
            gpu_share=await self.counting.gpu_share(self.writer.model),
            other_gpu_processes=self.course.power.others if self.course.power else None,
        )

    async def _prime(self, cell: Cell, words: int) -> tuple[int, str]:
        """Let the engine see a prefix. The number of the request that had it, and why it failed or ""."""
        prompt = self.writer.prompt(words, cell.family)
        body = self.writer.body(prompt, 1, cell.thinking, warm=True)
        sample = await self.crew.clock.one(body, self.course.deadline_s, self.course.cancel)
        self.course.check()
        return prompt.number, sample.error if sample.outcome == "failed" else ""

    async def trials(self, planned: Plan) -> None:
        """Every task of a quality run, once in each repeat."""
        for repeat, one in itertools.product(range(planned.repeats), self.course.cells):
            before, samples, sensors = await self.counting.read(), list[Sample](), Sensors()
            for item in items():
                self.course.check()
                body = quality_run.body(self.writer, item, one.cell, self.context)
                burst = await self.crew.clock.burst([body], self.course.deadline_s, self.course.cancel)
                self.course.check()
                one.outcomes.setdefault(item.id, []).append(quality_run.judge(item, burst, self.crew.clock.dialect))
                samples += burst.samples
                sensors = sensors.worse(burst.sensors)
                self.course.step(one.cell)
            after = await self.counting.read()
            record = BurstRecord(repeat, tuple(samples), sensors, before, after, engine=self.writer.engine)
            self.course.tell(one.cell, record)
            one.bursts.append(record)
