"""Further processes that read streams, where one cannot keep up with all of a burst."""

from __future__ import annotations

import asyncio
import json
import math
import os
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

from sparkgate.measure.clock import Burst, Clock, Sensors
from sparkgate.measure.hand import MAX_LINE_BYTES
from sparkgate.measure.sample import from_json
from sparkgate.policy.guard import Guard

COMMAND = (sys.executable, "-I", "-m", "sparkgate.measure.hand")
EVENTS_A_PROCESS = 40_000
"""A second. One process reads 32,000 with a third of a core, off by less than 0.1 %: the rest is for slower cores."""
TOGETHER_NS = 100_000_000
"""From telling all to begin until they do."""
_GONE = "a process that helps to read streams has ended; the log of the gate says why"


class CrewError(Exception):
    """A further process has ended, or cannot reach the engine."""


def processes(streams: int, events_a_stream: float | None, cores: int | None = None) -> int:
    """How many processes a burst of so many streams needs, by events a second; 1 when their rate is not known.

    No more than there are cores.
    """
    most = cores or os.cpu_count() or 1
    needed = math.ceil(streams * (events_a_stream or 0.0) / EVENTS_A_PROCESS)
    return max(1, min(needed, most, streams))


@dataclass(slots=True)
class Crew:
    """Makes bursts like the clock it has, and gives away what that cannot read alone.

    Use it in an `async with` statement: its processes are gone when it is left.

    Args:
        clock: of this process; it makes a share of each burst.
        origin: url and headers of the engine.
        events_a_stream: that one stream brings in a second; None when not known.
        cores: of this machine, by default those it has.
    """

    clock: Clock
    origin: Mapping[str, Any]
    events_a_stream: float | None = None
    guard: Guard | None = None
    cores: int | None = None
    _hands: list[Process] = field(default_factory=list)

    @property
    def pids(self) -> Sequence[int]:
        """Of the further processes."""
        return [hand.pid for hand in self._hands]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        for hand in self._hands:
            with suppress(ProcessLookupError):
                hand.kill()
            await hand.wait()
        self._hands.clear()

    async def burst(self, bodies: Sequence[bytes], deadline_s: float, cancel: asyncio.Event | None = None) -> Burst:
        """All requests at once, as `Clock.burst` does it.

        Raises:
            StreamDoorError: no connection can be opened.
            CrewError: a further process cannot do its share.
        """
        count = processes(len(bodies), self.events_a_stream, self.cores)
        if count == 1:
            return await self.clock.burst(bodies, deadline_s, cancel)
        shares = [bodies[place::count] for place in range(count)]
        hands = await self._ready(shares[1:], deadline_s)
        await self.clock.door.connect(len(shares[0]))
        begins_ns = time.perf_counter_ns() + TOGETHER_NS
        for hand in hands:
            _tell(hand, {"begins_ns": begins_ns})
        watch = asyncio.create_task(_pass_on(cancel, hands))
        try:
            own, *others = await asyncio.gather(
                self.clock.burst(shares[0], deadline_s, cancel, begins_ns), *map(_measured, hands)
            )
        finally:
            watch.cancel()
        return _joined([own, *others], len(bodies))

    async def _ready(self, shares: Sequence[Sequence[bytes]], deadline_s: float) -> Sequence[Process]:
        """One process a share, with its connections open."""
        while len(self._hands) < len(shares):
            self._hands.append(await self._hire())
        hands = self._hands[: len(shares)]
        for hand, bodies in zip(hands, shares, strict=True):
            _tell(hand, {"bodies": [body.decode() for body in bodies], "deadline_s": deadline_s})
        await asyncio.gather(*map(_heard, hands))
        return hands

    async def _hire(self) -> Process:
        with self.guard.child(COMMAND) if self.guard else nullcontext():
            hand = await asyncio.create_subprocess_exec(
                *COMMAND, stdin=PIPE, stdout=PIPE, cwd="/", limit=MAX_LINE_BYTES
            )
        _tell(hand, {**self.origin, "path": self.clock.path, "dialect": self.clock.dialect})
        return hand


def _tell(hand: Process, told: Mapping[str, Any]) -> None:
    """That it is gone shows in its answer."""
    assert hand.stdin
    hand.stdin.write(json.dumps(told).encode() + b"\n")


async def _heard(hand: Process) -> dict[str, Any]:
    """The next line of a process. Raises CrewError."""
    assert hand.stdout
    line = await hand.stdout.readline()
    told: dict[str, Any] = json.loads(line) if line.endswith(b"\n") else {"error": _GONE}
    if error := told.get("error"):
        raise CrewError(error)
    return told


async def _measured(hand: Process) -> Burst:
    told = await _heard(hand)
    return Burst(tuple(map(from_json, told["samples"])), Sensors(**told["sensors"]))


async def _pass_on(cancel: asyncio.Event | None, hands: Sequence[Process]) -> None:
    if cancel is not None:
        await cancel.wait()
        for hand in hands:
            _tell(hand, {})


def _joined(parts: Sequence[Burst], count: int) -> Burst:
    """One burst in the order of its bodies, with the worst of the sensors and the skew over all of them."""
    samples = tuple(parts[place % len(parts)].samples[place // len(parts)] for place in range(count))
    sensors = parts[0].sensors
    for part in parts[1:]:
        sensors = sensors.worse(part.sensors)
    starts_ns = [one.t0_ns for one in samples if one.t0_ns]
    skew_ms = (max(starts_ns) - min(starts_ns)) / 1e6 if starts_ns else None
    return Burst(samples, replace(sensors, start_skew_ms=skew_ms))
