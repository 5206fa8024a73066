"""One run from its order to its last event: probe, lengths, bursts, and what they are worth."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

from sparkgate.measure import quality_run, validity, verify
from sparkgate.measure.bursts import TIME_UP, Bench, CellRun, Course, Stopped
from sparkgate.measure.calibrate import Lengths, calibrate
from sparkgate.measure.cell_facts import CellFacts
from sparkgate.measure.clock import Clock
from sparkgate.measure.crew import Crew, CrewError
from sparkgate.measure.energy import idle_w
from sparkgate.measure.engine_counters import Counting
from sparkgate.measure.metrics import request_metrics
from sparkgate.measure.order import Order
from sparkgate.measure.plan import WARMUP_BURSTS, Plan, PlanError, estimate_s, for_upper_bound, within_budget
from sparkgate.measure.probe import Probe, ProbeError, probe
from sparkgate.measure.prompts import PromptError
from sparkgate.measure.quality import items
from sparkgate.measure.verify import Around
from sparkgate.policy.guard import Guard
from sparkgate.policy.local_stream import StreamDoor, StreamDoorError

T = TypeVar("T")
DEADLINE_FACTOR, DEADLINE_MORE_S = 3.0, 60.0

IDLE_POWER_S = 2.0
LATE_S = 15.0
"""Longer than max_seconds by so much, for the burst that is under way."""
_DROPPED = "{streams} streams were left out: {why}"
_NO_CANARY = "that the machine stayed the same was not proven: the check before and after did not both come off"
_BUSY = "the engine was busy with other requests when the run began"
_UNSEEN = "other requests on this engine cannot be seen: it counts neither requests nor tokens"
_SHORTER = "answers were cut to {tokens} tokens, so that the run fits into {seconds} s"
_NO_SWITCH = "the engine refuses the switch for thinking: it was left as the server has it"
_LONG = "this engine cannot be made to give an exact length: prose was replaced by a text too long to end early"


@dataclass(slots=True)
class Found:
    """What is known before the first burst; `needed_s` is about how long the run takes, None when not known."""

    probe: Probe
    lengths: Lengths
    plan: Plan
    needed_s: float | None


@dataclass(slots=True)
class Run:
    """One run of an order through an open door; `course` takes what comes of it.

    Attributes:
        guard: of this process, which lets further ones be started.
    """

    order: Order
    door: StreamDoor
    course: Course
    guard: Guard | None = None
    wall_ns: Callable[[], int] = time.time_ns

    async def whole(self) -> None:
        """All of it, ending with an "end" or a "failed" event."""
        self.course.ends_s = time.monotonic() + self.order.plan.max_seconds
        late = asyncio.get_running_loop().call_later(self.order.plan.max_seconds + LATE_S, self._time_up)
        try:
            found = await self._unless_cancelled(self._prepare())
            status = "cancelled" if found is None else await self._measure(found)
            self.course.emit({"event": "end", "validity": status, "notes": self.course.notes})
        except (ProbeError, PlanError, PromptError, StreamDoorError, CrewError) as error:
            self.course.emit({"event": "failed", "code": _code(error), "message": str(error)})
        finally:
            late.cancel()

    def _time_up(self) -> None:
        """Also an engine that hangs in its first answer does not keep the run."""
        self.course.notes.append(TIME_UP)
        self.course.cancel.set()

    async def _unless_cancelled(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Its result, or None as soon as the run is cancelled."""
        task, stop = asyncio.create_task(work), asyncio.create_task(self.course.cancel.wait())
        await asyncio.wait([task, stop], return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if task.done():
            return task.result()
        self.door.close()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return None

    async def _prepare(self) -> Found:
        """What the engine is, how long its prompts are, and the plan that fits it."""
        found = await probe(self.order, self.door, itertools.count())
        planned, needed_s = self._fitted(found)
        tasks = planned.kind == quality_run.QUALITY
        lengths = await calibrate(() if tasks else planned.cells, found.writer, self._clock(found))
        template = lengths.template_tokens(planned.cells[0])
        told = {"template_tokens": template, "lengths_by": lengths.method, "estimate_s": needed_s}
        self.course.emit({"event": "probe", **found.as_json(), **told})
        return Found(found, lengths, planned, needed_s)

    def _fitted(self, found: Probe) -> tuple[Plan, float | None]:
        """The plan for what was found, and about how many seconds it takes. Raises PlanError."""
        planned = self.order.plan
        if found.shown != "exact" and planned != for_upper_bound(planned):
            planned = for_upper_bound(planned)
            self.course.notes.append(_LONG)
        if not found.writer.thinks:
            self.course.notes.append(_NO_SWITCH)
        if planned.kind == quality_run.QUALITY:
            return planned, None
        fitted = within_budget(planned, found.rates)
        dropped = fitted.left_out[len(planned.left_out) :]
        self.course.notes += [_DROPPED.format(streams=cell.concurrency, why=why) for cell, why in dropped]
        if (tokens := fitted.cells[0].output_tokens) < planned.cells[0].output_tokens:
            self.course.notes.append(_SHORTER.format(tokens=tokens, seconds=fitted.max_seconds))
        planned = fitted
        return planned, estimate_s(planned, found.rates)

    def _clock(self, found: Probe) -> Clock:
        return Clock(self.door, found.writer.path, found.writer.dialect, self.wall_ns)

    def _crew(self, found: Probe) -> Crew:
        """The probe had one stream: no stream of many is faster."""
        values = request_metrics(found.sample).values
        rate, each = values["decode_tok_s"], values["tokens_per_chunk"]
        origin = {"url": self.order.url, "headers": dict(self.order.headers)}
        return Crew(self._clock(found), origin, rate / (each or 1.0) if rate else None, self.guard)

    async def _measure(self, found: Found) -> str:
        """All bursts, and what they are worth. The status of the run."""
        course, planned = self.course, found.plan
        tasks = planned.kind == quality_run.QUALITY
        course.cells = [CellRun(cell) for cell in planned.cells]
        course.of = len(course.cells) * (len(items()) * planned.repeats if tasks else WARMUP_BURSTS + planned.repeats)
        if found.needed_s is not None:
            course.deadline_s = DEADLINE_FACTOR * found.needed_s + DEADLINE_MORE_S
        counting = Counting.of(self.door, self.order.engine)
        await self._unless_cancelled(self._look(counting))
        async with self._crew(found.probe) as crew:
            bench = Bench(
                course,
                found.probe.writer,
                found.lengths,
                crew,
                counting,
                found.probe.context,
                found.probe.rates.decode_tok_s,
            )
            with suppress(Stopped):
                await (bench.trials(planned) if tasks else bench.all(planned))
        statuses = [self._verify(one, found) for one in course.cells]
        if not tasks and len(course.canaries) < 2:
            course.notes.append(_NO_CANARY)
            statuses.append("tainted")
        return "cancelled" if course.cancel.is_set() else _worst(statuses)

    async def _look(self, counting: Counting) -> None:
        """Whether the engine is idle, and what power its GPU draws while nothing is asked of it."""
        idle = await counting.idle()
        if idle is False:
            self.course.notes.append(_BUSY)
        if idle is None and "generated_tokens" not in await counting.read():
            self.course.notes.append(_UNSEEN)
        if self.course.power is not None:
            began_ns = time.perf_counter_ns()
            await asyncio.sleep(IDLE_POWER_S)
            self.course.idle_power_w = idle_w(self.course.power.since(began_ns))

    def _verify(self, one: CellRun, found: Found) -> str:
        """Tell what came of a cell. Its status."""
        seen = self._facts(one, found)
        flags = validity.flags(seen) if one.bursts else ()
        stats, why_null = verify.stats(one.bursts, found.plan.seed)
        scored = True
        if found.plan.kind == quality_run.QUALITY:
            flags, left_out = quality_run.held_against(flags)
            rates = {name: told for name, told in stats.items() if name not in left_out}
            stats, why_null = quality_run.stats(one.outcomes, rates), why_null | left_out
            scored = "pass_1" in stats
        whole = len(one.bursts) >= found.plan.repeats
        status = "cancelled" if not whole else validity.status(flags) if scored else "invalid"
        self.course.emit(
            {
                "event": "cell",
                "key": one.cell.key,
                "hash": one.cell.hash,
                "facts": verify.as_json(seen),
                "flags": [asdict(flag) for flag in flags],
                "status": status,
                "stats": stats,
                "why_null": why_null,
            }
        )
        return status

    def _facts(self, one: CellRun, found: Found) -> CellFacts:
        seen = verify.facts(one.cell, one.bursts, self._around(one, found))
        if found.plan.kind == quality_run.QUALITY:
            return quality_run.facts(seen)
        return replace(seen, warmup_settled=verify.settled(one.warmup_ms))

    def _around(self, one: CellRun, found: Found) -> Around:
        alone = [other for other in self.course.cells if other.cell == replace(one.cell, concurrency=1)]
        again = verify.median_of([one.remeasured], verify.headline_metric(one.cell)) if one.remeasured else None
        before, after = self.course.canaries if len(self.course.canaries) == 2 else (None, None)
        return Around(
            model=found.probe.writer.model,
            aliases=(*self.order.aliases, *found.probe.aliases),
            context=found.probe.context,
            gpu=self.order.gpu,
            shown=found.probe.shown,
            thinks=found.probe.writer.thinks,
            rtt_ms=found.probe.rtt_ms,
            template_tokens=found.lengths.template_tokens(one.cell),
            single_tok_s=verify.median_of(alone[0].bursts, "agg_decode_tok_s") if alone else None,
            remeasured_tok_s=again,
            canary_before_tok_s=before,
            canary_after_tok_s=after,
            reference_prefill_tok_s=self.order.reference_prefill_tok_s,
            weights_gib=self.order.weights_gib,
            quantization=self.order.quantization or "",
            speculation=self.order.speculation,
        )


def _worst(statuses: Sequence[str]) -> str:
    """Of a run: a cell that there was no time for taints it."""
    told = [{"cancelled": "tainted"}.get(status, status) for status in statuses]
    return next((status for status in ("invalid", "tainted") if status in told), "valid")


def _code(error: Exception) -> str:
    if isinstance(error, ProbeError):
        return error.code
    codes = {PlanError: "bad_plan", PromptError: "prompt", StreamDoorError: "unreachable", CrewError: "process_ended"}
    return codes.get(type(error), "failed")
