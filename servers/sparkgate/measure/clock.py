"""Requests with a clock: one, or many at once, and sensors for whether this process kept up.

While streams run, nothing is done but to note bytes and times: what they mean is read when the last has ended, so that
reading one does not delay another.
"""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass, field
from typing import Any

from sparkgate.engines.spec import line
from sparkgate.measure.chunk import Dialect, error_message
from sparkgate.measure.fold import SampleBuilder
from sparkgate.measure.sample import Sample
from sparkgate.measure.statistics import percentile
from sparkgate.policy.local_stream import Exchange, StreamDoor

LAG_S = 0.005
Now = Callable[[], int]

_STATUS = "it answered with status {status}"


@dataclass(frozen=True, slots=True)
class Sensors:
    """What was seen of this process while streams ran; None for what was too short to tell.

    Attributes:
        loop_lag_max_ms, loop_lag_p99_ms: how late a timer of 5 ms was.
        cpu_share: of one core, that this process used.
        start_skew_ms: between the first and the last request of the burst.
        clock_step_ms: by how much the wall clock was set meanwhile.
    """

    loop_lag_max_ms: float | None = None
    loop_lag_p99_ms: float | None = None
    cpu_share: float | None = None
    start_skew_ms: float | None = None
    clock_step_ms: float | None = None

    def worse(self, other: Sensors) -> Sensors:
        """The worse of each of two, where either is known."""
        pairs = zip(astuple(self), astuple(other), strict=True)
        return Sensors(*(max((one for one in pair if one is not None), key=abs, default=None) for pair in pairs))

    def as_json(self) -> dict[str, float]:
        """What is known of them."""
        return {name: round(value, 3) for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True)
class Burst:
    """Requests that were sent at once, in the order of their bodies; `exchanges` are the bytes behind the samples."""

    samples: tuple[Sample, ...]
    sensors: Sensors
    exchanges: tuple[Exchange, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Clock:
    """Sends requests through an open door.

    Attributes:
        path: route of the requests.
        wall_ns: the wall clock; no measured time depends on it.
    """

    door: StreamDoor
    path: str = "/v1/chat/completions"
    dialect: Dialect = "openai"
    wall_ns: Now = time.time_ns

    async def one(self, body: bytes, deadline_s: float, cancel: asyncio.Event | None = None) -> Sample:
        """One request alone."""
        return (await self.burst([body], deadline_s, cancel)).samples[0]

    async def burst(
        self, bodies: Sequence[bytes], deadline_s: float, cancel: asyncio.Event | None = None, begins_ns: int = 0
    ) -> Burst:
        """All requests at once, each on a connection opened before; ends with the last answer.

        Failures are in the samples. When `cancel` is set, or this call is cancelled, all connections are closed; in
        the first case what had come until then is returned.

        Args:
            begins_ns: not before this time of the monotonic clock, which all processes of a machine share.

        Raises:
            StreamDoorError: no connection can be opened.
        """
        await self.door.connect(len(bodies))
        exchanges = [Exchange() for _ in bodies]
        with _quiet(), _watched(self.wall_ns) as watch:
            await asyncio.sleep(max(0, begins_ns - time.perf_counter_ns()) / 1e9)
            tasks = [
                asyncio.create_task(self.door.post(self.path, body, into, deadline_s))
                for body, into in zip(bodies, exchanges, strict=True)
            ]
            await _all_or_cancelled(tasks, cancel)
        samples = [
            sample_of(exchange, self.dialect, cancelled=task.cancelled())
            for exchange, task in zip(exchanges, tasks, strict=True)
        ]
        starts_ns = [one.t0_ns for one in exchanges if one.t0_ns]
        return Burst(tuple(samples), watch.sensors(starts_ns), tuple(exchanges))


def sample_of(exchange: Exchange, dialect: Dialect = "openai", *, cancelled: bool = False) -> Sample:
    """What an exchange means."""
    builder = SampleBuilder(exchange.t0_ns, dialect=dialect)
    builder.headers_ns = exchange.headers_ns
    refused = exchange.status is not None and exchange.status >= 300
    for at_ns, piece in () if refused else exchange.pieces:
        builder.feed(piece, at_ns)
    error = exchange.error or (_refusal(exchange) if refused else "")
    return builder.end(exchange.eof_ns, error=error, cancelled=cancelled, reconnects=exchange.reconnects)


def _refusal(exchange: Exchange) -> str:
    told = _STATUS.format(status=exchange.status)
    try:
        answer = json.loads(exchange.body)
    except (ValueError, RecursionError):
        return told
    message = error_message(answer.get("error", answer)) if isinstance(answer, dict) else ""
    return line(f"{told}: {message}") if message else told


async def _all_or_cancelled(tasks: Sequence[asyncio.Task[None]], cancel: asyncio.Event | None) -> None:
    """Wait for all tasks, or cancel those that are left."""
    stop: asyncio.Future[Any] = asyncio.create_task((cancel or asyncio.Event()).wait())
    everything: asyncio.Future[Any] = asyncio.gather(*tasks, return_exceptions=True)
    try:
        await asyncio.wait([everything, stop], return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop.cancel()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def _quiet() -> Iterator[None]:
    """No garbage collection within."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


class _Watch:
    """Sensors of this process from its making on."""

    def __init__(self, wall_ns: Now) -> None:
        self._wall_ns = wall_ns
        self._lags_ms: list[float] = []
        self._drift_ns = self._since_ns = self._cpu_ns = self._slept_ns = 0
        self._step_ns = self._took_ns = self._used_ns = 0

    def begin(self) -> None:
        self._drift_ns = self._wall_ns() - time.perf_counter_ns()
        self._since_ns, self._cpu_ns = time.perf_counter_ns(), time.process_time_ns()
        self._slept_ns = self._since_ns

    def end(self) -> None:
        self._woke()
        self._step_ns = self._wall_ns() - time.perf_counter_ns() - self._drift_ns
        self._took_ns = time.perf_counter_ns() - self._since_ns
        self._used_ns = time.process_time_ns() - self._cpu_ns

    async def probe(self) -> None:
        """Note how late a timer is, again and again."""
        while True:
            self._slept_ns = time.perf_counter_ns()
            await asyncio.sleep(LAG_S)
            self._woke()

    def _woke(self) -> None:
        """At the end the timer may be late, and not have come yet."""
        self._lags_ms.append(max(0.0, (time.perf_counter_ns() - self._slept_ns) / 1e6 - 1e3 * LAG_S))

    def sensors(self, starts_ns: Sequence[int]) -> Sensors:
        lags_ms = self._lags_ms
        return Sensors(
            loop_lag_max_ms=max(lags_ms) if lags_ms else None,
            loop_lag_p99_ms=percentile(lags_ms, 99) if lags_ms else None,
            cpu_share=self._used_ns / self._took_ns if self._took_ns else None,
            start_skew_ms=(max(starts_ns) - min(starts_ns)) / 1e6 if starts_ns else None,
            clock_step_ms=self._step_ns / 1e6,
        )


@contextmanager
def _watched(wall_ns: Now) -> Iterator[_Watch]:
    watch = _Watch(wall_ns)
    watch.begin()
    probe = asyncio.create_task(watch.probe())
    try:
        yield watch
    finally:
        probe.cancel()
        watch.end()
