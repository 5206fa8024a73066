"""Several processes send one burst, as if they were one."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import sim_engine
from sim_engine import Engine, Scenario

from sparkgate.measure.clock import Burst, Clock
from sparkgate.measure.crew import EVENTS_A_PROCESS, Crew, CrewError, processes
from sparkgate.measure.metrics import burst_metrics
from sparkgate.policy.local_stream import StreamDoor, StreamDoorError

pytestmark = pytest.mark.measuring

DEADLINE_S = 120.0


def body(number: int, tokens: int) -> bytes:
    asked = {"model": "sim", "stream": True, "max_tokens": tokens, "stream_options": {"include_usage": True}}
    return json.dumps(asked | {"messages": [{"role": "user", "content": f"{number} of the words"}]}).encode()


def bodies(count: int, tokens: int) -> list[bytes]:
    """Each asks for one token more than the one before."""
    return [body(number, tokens + number) for number in range(count)]


@asynccontextmanager
async def crew_of(url: str, people: int) -> AsyncIterator[Crew]:
    """A crew that needs so many processes for eight streams."""
    async with StreamDoor(url) as door:
        origin = {"url": url, "headers": {"Authorization": "Bearer k"}}
        async with Crew(Clock(door), origin, EVENTS_A_PROCESS * people / 8, cores=people) as crew:
            yield crew


async def burst_of(engine: Engine, people: int, *, bursts: int = 1, tokens: int = 60) -> Burst:
    async with crew_of(engine.url, people) as crew:
        for _ in range(bursts):
            burst = await crew.burst(bodies(8, tokens), DEADLINE_S)
    return burst


@pytest.mark.parametrize(
    ("streams", "events_a_stream", "cores", "needed"),
    [
        (16, 500.0, 20, 1),
        (16, None, 20, 1),
        (20, EVENTS_A_PROCESS / 10, 20, 2),
        (21, EVENTS_A_PROCESS / 10, 20, 3),
        (64, EVENTS_A_PROCESS, 4, 4),
        (1, 10.0 * EVENTS_A_PROCESS, 4, 1),
        (64, EVENTS_A_PROCESS, 1, 1),
    ],
)
def test_processes_are_as_many_as_the_events_need_and_no_more_than_cores_and_streams(
    streams: int, events_a_stream: float | None, cores: int, needed: int
) -> None:
    assert processes(streams, events_a_stream, cores) == needed


@pytest.mark.parametrize("people", [1, 2, 3])
def test_a_burst_of_several_processes_has_all_its_samples_in_the_order_of_its_bodies(people: int) -> None:
    with sim_engine.running(Scenario(rate=500)) as engine:
        burst = asyncio.run(burst_of(engine, people))
        asked = {truth.asked for truth in engine.truths()}
    assert [sample.counts.completion for sample in burst.samples] == list(range(60, 68))
    assert {sample.outcome for sample in burst.samples} == {"ok"} and asked == set(range(60, 68))


def test_the_streams_of_all_processes_run_at_the_same_time() -> None:
    with sim_engine.running(Scenario(rate=200, ttft_ms=300)) as engine:
        burst = asyncio.run(burst_of(engine, 2, tokens=800))
    values = burst_metrics(burst.samples).values
    assert values["agg_steady_tok_s"] is not None and values["start_skew_ms"] == burst.sensors.start_skew_ms
    assert burst.sensors.loop_lag_max_ms is not None and burst.sensors.cpu_share is not None


def test_a_crew_makes_one_burst_after_another_with_the_same_processes() -> None:
    async def twice() -> tuple[set[int], set[int], list[Burst]]:
        async with crew_of(engine.url, 3) as crew:
            first = await crew.burst(bodies(8, 40), DEADLINE_S)
            before = set(crew.pids)
            return before, set(crew.pids), [first, await crew.burst(bodies(8, 50), DEADLINE_S)]

    with sim_engine.running() as engine:
        before, after, bursts = asyncio.run(twice())
    assert before == after and len(before) == 2
    assert [burst.samples[7].counts.completion for burst in bursts] == [47, 57]
    assert not any(Path(f"/proc/{pid}").exists() for pid in before)


def test_cancelling_ends_the_streams_of_every_process_and_keeps_what_had_come() -> None:
    async def cancelled() -> Burst:
        cancel = asyncio.Event()
        async with crew_of(engine.url, 2) as crew:
            burst = asyncio.create_task(crew.burst(bodies(8, 100_000), DEADLINE_S, cancel))
            while sum(truth.tokens > 20 for truth in await asyncio.to_thread(engine.truths)) < 8:
                pass
            cancel.set()
            return await burst

    with sim_engine.running(Scenario(rate=500)) as engine:
        burst = asyncio.run(cancelled())
        asyncio.run(until_closed(engine))
    assert {sample.outcome for sample in burst.samples} == {"cancelled"}
    assert all(sample.events for sample in burst.samples)


async def until_closed(engine: Engine) -> None:
    """Until the engine has seen every stream closed."""
    while not all(truth.closed_ns for truth in await asyncio.to_thread(engine.truths)):
        pass


def test_a_process_that_dies_is_told_and_no_half_burst_is_taken_for_a_whole_one() -> None:
    async def robbed() -> None:
        async with crew_of(engine.url, 2) as crew:
            await crew.burst(bodies(8, 20), DEADLINE_S)
            for pid in crew.pids:
                os.kill(pid, signal.SIGKILL)
            await crew.burst(bodies(8, 20), DEADLINE_S)

    with sim_engine.running() as engine, pytest.raises(CrewError, match="has ended"):
        asyncio.run(robbed())


def test_an_engine_that_is_gone_is_an_error_of_the_door_or_the_crew() -> None:
    async def late() -> None:
        async with crew_of(url, 2) as crew:
            await crew.burst(bodies(8, 20), DEADLINE_S)

    with sim_engine.running() as engine:
        url = engine.url
    with pytest.raises((StreamDoorError, CrewError)) as told:
        asyncio.run(late())
    assert "cannot be reached" in str(told.value) and "Bearer" not in str(told.value)
