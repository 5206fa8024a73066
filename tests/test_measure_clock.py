"""The clock of the benchmarks against an engine that knows what it sent and when.

No time is compared with a fixed number: a client that is late says so in its sensors, and may be off by no more.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import sim_engine
from sim_engine import Engine, Scenario, Truth

from sparkgate.measure.cell_facts import CellFacts
from sparkgate.measure.clock import Burst, Clock, Sensors
from sparkgate.measure.metrics import burst_metrics, request_metrics
from sparkgate.measure.sample import Sample
from sparkgate.measure.validity import flags
from sparkgate.policy.guard import Guard
from sparkgate.policy.http_framing import Framing
from sparkgate.policy.local_stream import Exchange, StreamDoor, StreamDoorError

pytestmark = pytest.mark.measuring

DEADLINE_S = 120.0
TOLERANCE = 0.005


def body(number: int, tokens: int) -> bytes:
    asked = {"model": "sim-1", "stream": True, "max_tokens": tokens, "stream_options": {"include_usage": True}}
    return json.dumps(asked | {"messages": [{"role": "user", "content": f"{number} of the words"}]}).encode()


def bodies(count: int, tokens: int) -> list[bytes]:
    return [body(number, tokens) for number in range(count)]


async def burst_of(engine: Engine, count: int, tokens: int) -> tuple[Burst, list[tuple[Sample, Truth]]]:
    """A burst, and what each of its streams really was."""
    async with StreamDoor(engine.url) as door:
        burst = await Clock(door).burst(bodies(count, tokens), DEADLINE_S)
    truths = {truth.body["messages"][0]["content"].split()[0]: truth for truth in engine.truths()}
    return burst, [(sample, truths[str(number)]) for number, sample in enumerate(burst.samples)]


def late_ns(burst: Burst, truth: Truth) -> float:
    """By how much a time may be off: what the client saw of its own delay, and the engine of its own."""
    return 1e6 * ((burst.sensors.loop_lag_max_ms or 0.0) + 5.0) + truth.slowest_ns


@pytest.mark.parametrize("count", [1, 4, 16])
def test_rates_and_first_tokens_are_those_the_engine_sent(count: int) -> None:
    with sim_engine.running(Scenario(rate=200, ttft_ms=50)) as engine:
        burst, pairs = asyncio.run(burst_of(engine, count, 120))
    for sample, truth in pairs:
        assert (sample.outcome, sample.counts.completion, sample.counts.prompt) == ("ok", 120, truth.prompt)
        assert sample.t0_ns <= truth.t0_ns and truth.first_ns <= (sample.first_ns or 0)
        assert (sample.first_ns or 0) - truth.first_ns <= late_ns(burst, truth)
        true_s = (truth.last_ns - truth.first_ns) / 1e9
        rate = request_metrics(sample).values["decode_tok_s"]
        assert rate == pytest.approx(119 / true_s, rel=TOLERANCE + late_ns(burst, truth) / 1e9 / true_s)


def test_the_sums_of_a_burst_are_those_of_the_engine() -> None:
    with sim_engine.running(Scenario(rate=200, ttft_ms=50)) as engine:
        burst, pairs = asyncio.run(burst_of(engine, 8, 120))
    values, truths = burst_metrics(burst.samples).values, [truth for _, truth in pairs]
    span_s = (max(one.last_ns for one in truths) - min(one.first_ns for one in truths)) / 1e9
    off = TOLERANCE + max(late_ns(burst, truth) for truth in truths) / 1e9 / span_s
    assert values["agg_decode_tok_s"] == pytest.approx(8 * 119 / span_s, rel=off)
    wall_s = (max(one.last_ns for one in truths) - min(sample.t0_ns for sample in burst.samples)) / 1e9
    assert values["agg_wall_tok_s"] == pytest.approx(8 * 120 / wall_s, rel=off)
    assert burst.sensors.start_skew_ms is not None and burst.sensors.start_skew_ms == values["start_skew_ms"]


@pytest.mark.parametrize("role", ["immediate", "progress", "none"])
def test_a_chunk_without_a_token_is_no_first_token(role: sim_engine.Role) -> None:
    with sim_engine.running(Scenario(role=role, ttft_ms=300)) as engine:
        _, [(sample, truth)] = asyncio.run(burst_of(engine, 1, 32))
    assert truth.first_ns <= (sample.first_ns or 0)
    assert (request_metrics(sample).values["ttft_any_ms"] or 0) >= 299
    assert (sample.notes.progress_chunks > 0) == (role == "progress")


def test_reasoning_is_the_first_token_and_content_comes_later() -> None:
    with sim_engine.running(Scenario(reasoning=40)) as engine:
        _, [(sample, _)] = asyncio.run(burst_of(engine, 1, 64))
    values = request_metrics(sample).values
    assert values["ttft_reasoning_ms"] == values["ttft_any_ms"]
    assert (values["ttft_content_ms"] or 0) > (values["ttft_any_ms"] or 0)
    assert sample.counts.completion == 64


def test_chunks_of_several_tokens_are_counted_as_tokens() -> None:
    with sim_engine.running(Scenario(tokens_per_chunk=3, rate=200)) as engine:
        _, [(sample, truth)] = asyncio.run(burst_of(engine, 1, 99))
    values = request_metrics(sample).values
    assert (truth.tokens, sample.counts.completion, values["tokens_per_chunk"]) == (99, 99, 3)


def test_without_usage_chunks_are_counted_and_that_is_told() -> None:
    with sim_engine.running(Scenario(usage="never")) as engine:
        _, [(sample, _)] = asyncio.run(burst_of(engine, 1, 64))
    assert sample.counts.completion is None and len(sample.events) == 64
    assert "tokens_estimated" in request_metrics(sample).flags


def test_a_stall_is_seen_as_a_gap_and_decode_is_still_tokens_over_time() -> None:
    with sim_engine.running(Scenario(stall_ms=1000, stall_at=30, rate=200)) as engine:
        burst, [(sample, truth)] = asyncio.run(burst_of(engine, 1, 64))
    values, true_s = request_metrics(sample).values, (truth.last_ns - truth.first_ns) / 1e9
    late = late_ns(burst, truth)
    assert (values["chunk_gap_max_ms"] or 0) >= 1000 - late / 1e6 and values["stalls"] == 1
    assert values["decode_tok_s"] == pytest.approx(63 / true_s, rel=TOLERANCE + late / 1e9 / true_s)


def test_a_client_that_cannot_keep_up_says_so() -> None:
    async def starved(engine: Engine) -> Burst:
        async with StreamDoor(engine.url) as door:
            asyncio.get_running_loop().call_later(0.1, time.sleep, 0.3)
            return await Clock(door).burst(bodies(1, 100), DEADLINE_S)

    with sim_engine.running(Scenario(rate=200)) as engine:
        sensors = asyncio.run(starved(engine)).sensors
    assert (sensors.loop_lag_max_ms or 0) > 100
    found = flags(CellFacts(1, loop_lag_max_ms=sensors.loop_lag_max_ms, loop_lag_p99_ms=sensors.loop_lag_p99_ms))
    assert [one.id for one in found] == ["client_saturated"]


def test_a_wall_clock_that_is_set_is_told_and_changes_no_number() -> None:
    steps = iter([0, 3_600_000_000_000])

    async def stepped(engine: Engine) -> Burst:
        async with StreamDoor(engine.url) as door:
            clock = Clock(door, wall_ns=lambda: time.perf_counter_ns() + next(steps))
            return await clock.burst(bodies(1, 64), DEADLINE_S)

    with sim_engine.running() as engine:
        burst = asyncio.run(stepped(engine))
        [truth] = engine.truths()
    assert burst.sensors.clock_step_ms == pytest.approx(3_600_000, rel=0.01)
    assert truth.first_ns <= (burst.samples[0].first_ns or 0) <= truth.first_ns + late_ns(burst, truth)


def test_cancelled_in_the_middle_it_hangs_up_and_keeps_what_had_come() -> None:
    async def cancelled(engine: Engine) -> Burst:
        cancel = asyncio.Event()
        async with StreamDoor(engine.url) as door:
            task = asyncio.create_task(Clock(door).burst(bodies(4, 5000), DEADLINE_S, cancel))
            while len(seen := await asyncio.to_thread(engine.truths)) < 4 or min(one.tokens for one in seen) < 20:
                pass
            cancel.set()
            return await task

    with sim_engine.running() as engine:
        burst = asyncio.run(cancelled(engine))
        while not all(one.closed_ns for one in engine.truths()):
            pass
        assert not any(one.ended for one in engine.truths())
    assert {one.outcome for one in burst.samples} == {"cancelled"}
    assert all(one.events and one.counts.completion is None for one in burst.samples)


def test_a_kept_connection_that_had_gone_costs_one_more_try_and_no_time() -> None:
    async def thrice(engine: Engine) -> list[Sample]:
        async with StreamDoor(engine.url) as door:
            return [await Clock(door).one(body(number, 32), DEADLINE_S) for number in range(3)]

    with sim_engine.running(Scenario(drops_kept=2)) as engine:
        samples = asyncio.run(thrice(engine))
        truths = engine.truths()
    assert [one.outcome for one in samples] == ["ok"] * 3
    assert sum(one.notes.reconnects for one in samples) == 2
    assert all(sample.t0_ns <= truth.t0_ns for sample, truth in zip(samples, truths, strict=True))


def test_errors_are_failures_with_the_words_of_the_engine() -> None:
    with sim_engine.running(Scenario(fail_every=2)) as engine:
        burst, _ = asyncio.run(burst_of_any(engine, 4))
    failed = [one for one in burst.samples if one.outcome == "failed"]
    assert len(failed) == 2 and "500" in failed[0].error and "out of order" in failed[0].error
    assert burst_metrics(burst.samples).values["requests"] == 2


async def burst_of_any(engine: Engine, count: int) -> tuple[Burst, None]:
    async with StreamDoor(engine.url) as door:
        return await Clock(door).burst(bodies(count, 32), DEADLINE_S), None


def test_an_error_within_the_stream_is_a_failure() -> None:
    with sim_engine.running(Scenario(error_at=20)) as engine:
        _, [(sample, _)] = asyncio.run(burst_of(engine, 1, 64))
    assert (sample.outcome, sample.error, len(sample.events)) == ("failed", "the sim gave up", 20)


def test_an_answer_that_takes_too_long_is_a_failure_and_hangs_up() -> None:
    async def impatient(engine: Engine) -> Sample:
        async with StreamDoor(engine.url) as door:
            return await Clock(door).one(body(0, 100_000), 0.5)

    with sim_engine.running() as engine:
        sample = asyncio.run(impatient(engine))
        while not engine.truths()[0].closed_ns:
            pass
    assert sample.outcome == "failed" and "0.5 s" in sample.error


# -- the door


def test_a_guarded_process_reaches_the_origin_while_the_door_is_open() -> None:
    guard = Guard()

    async def asked(engine: Engine) -> tuple[int, bool, bool]:
        port = int(engine.url.rpartition(":")[2])
        async with StreamDoor(engine.url, guard=guard) as door:
            status, _ = await door.ask("GET", "/v1/models")
            within = guard._covers_address(("127.0.0.1", port))
        return status, within, guard._covers_address(("127.0.0.1", port))

    with sim_engine.running() as engine:
        assert asyncio.run(asked(engine)) == (200, True, False)


BAD_URLS = (
    "ftp://127.0.0.1/",
    "http://",
    "http://user:key@127.0.0.1/",
    "http://127.0.0.1:x/",
    "http://a b/",
    "nothing",
)


@pytest.mark.parametrize("url", BAD_URLS)
def test_only_plain_origins_are_served(url: str) -> None:
    with pytest.raises(StreamDoorError) as raised:
        StreamDoor(url)
    assert "key" not in str(raised.value)


@pytest.mark.parametrize("headers", [{"X": "a\r\nY: b"}, {"X\r\nY": "b"}, {"X": "ü"}])
def test_a_header_that_is_none_is_refused_without_its_value(headers: dict[str, str]) -> None:
    with pytest.raises(StreamDoorError) as raised:
        StreamDoor("http://127.0.0.1:1", headers)
    assert "Y" not in str(raised.value)


def test_where_nobody_listens_the_origin_is_named() -> None:
    async def ask() -> None:
        async with StreamDoor("http://127.0.0.1:1") as door:
            await door.ask("GET", "/")

    with pytest.raises(StreamDoorError, match=r"http://127\.0\.0\.1:1 cannot be reached"):
        asyncio.run(ask())


def test_the_sensors_tell_only_what_is_known() -> None:
    assert Sensors(loop_lag_max_ms=1.23456).as_json() == {"loop_lag_max_ms": 1.235}


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
ANSWERS = {
    "a length": (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello", True),
    "no body": (b"HTTP/1.1 204 No Content\r\n\r\n", b"", True),
    "an empty body": (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", b"", True),
    "chunks": (CHUNKED + b"3\r\nhel\r\n2;name=value\r\nlo\r\n0\r\n\r\n", b"hello", True),
    "line ends in chunks": (CHUNKED + b"4\r\n\r\n\r\n\r\n1\r\nx\r\n0\r\n\r\n", b"\r\n\r\nx", True),
    "a trailer": (CHUNKED + b"5\r\nhello\r\n0\r\nX-Time: 1\r\n\r\n", b"hello", True),
    "an interim answer": (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", b"x", True),
    "the end of the connection": (b"HTTP/1.0 200 OK\r\n\r\nhello", b"hello", False),
}


@pytest.mark.parametrize(("raw", "wanted", "ends"), ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_a_body_is_the_same_wherever_its_bytes_are_cut(raw: bytes, wanted: bytes, ends: bool, size: int) -> None:
    framing = Framing()
    got = b"".join(framing.feed(raw[at : at + size]) for at in range(0, len(raw), size))
    assert (got, framing.ended, framing.until_eof) == (wanted, ends, not ends)


NO_ANSWERS = (
    b"SSH-2.0-OpenSSH\r\n\r\n",
    CHUNKED + b"zz\r\n",
    CHUNKED + b"-1\r\n",
    CHUNKED + b"0\r\n\r\nmore",
    b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxy",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx",
    b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000,
)


@pytest.mark.parametrize("raw", NO_ANSWERS)
def test_what_is_no_answer_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        Framing().feed(raw)


@contextmanager
def raw_server(sent: bytes) -> Iterator[tuple[asyncio.AbstractEventLoop, list[int]]]:
    """A loop with a server that sends these bytes and leaves the connection open; its port."""
    loop, ports = asyncio.new_event_loop(), list[int]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(sent)
        await reader.read()
        writer.close()

    server = loop.run_until_complete(asyncio.start_server(serve, "127.0.0.1", 0))
    ports.append(server.sockets[0].getsockname()[1])
    try:
        yield loop, ports
    finally:
        server.close()
        loop.run_until_complete(server.wait_closed())
        loop.close()


def test_a_stream_that_is_done_but_stays_open_ends_with_its_last_event() -> None:
    sent = CHUNKED + b"e\r\ndata: [DONE]\n\n\r\n"

    async def post(port: int) -> Exchange:
        into = Exchange()
        async with StreamDoor(f"http://127.0.0.1:{port}") as door:
            await door.post("/", b"{}", into, DEADLINE_S)
        return into

    with raw_server(sent) as (loop, [port]):
        into = loop.run_until_complete(post(port))
    assert (into.error, into.body) == ("", b"data: [DONE]\n\n")
    assert into.eof_ns == into.pieces[-1][0]
