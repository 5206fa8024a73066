"""The measuring process as the gate starts it, against an engine that behaves and one that does not."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import real_llamacpp
import sim_engine
from sim_engine import Engine, Scenario

from sparkgate.measure.clock import Clock, Sensors
from sparkgate.measure.engine_counters import difference, runnable, swapped_in_pages
from sparkgate.measure.metrics import request_metrics
from sparkgate.measure.plan import Options, Plan, plan
from sparkgate.measure.quality import items
from sparkgate.measure.sample import Sample, from_json
from sparkgate.measure.verify import settled
from sparkgate.measure.worker import hidden
from sparkgate.policy.local_stream import StreamDoor

pytestmark = pytest.mark.measuring

COMMAND = (sys.executable, "-I", "-m", "sparkgate.measure.worker")
SEED = 0x5EED
Event = dict[str, Any]


def small(kind: str = "decode", **options: Any) -> Plan:
    usual: dict[str, Any] = {"repeats": 1, "output_tokens": 64, "prompt_tokens": (96,), "concurrency": (1,)}
    return plan(kind, SEED, Options(**usual | options))


def order(to: Engine, planned: Plan, **more: Any) -> dict[str, Any]:
    return {"url": to.url, "engine": "openai", "model": "", "headers": {}, "plan": planned.as_json()} | more


@contextmanager
def worker(told: Mapping[str, Any] | str, more: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """The process with its order and these variables more; its input stays open."""
    process = subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **(more or {})}
    )
    assert process.stdin and process.stdout
    try:
        line = told if isinstance(told, str) else json.dumps(told)
        process.stdin.write(line.encode() + b"\n")
        process.stdin.flush()
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def events_of(process: subprocess.Popen[bytes]) -> list[Event]:
    """All that it tells, until it has ended well."""
    assert process.stdout
    events = [json.loads(line) for line in process.stdout]
    assert process.wait() == 0
    return events


def run(scenario: Scenario, planned: Plan, **more: Any) -> list[Event]:
    with sim_engine.running(scenario) as to, worker(order(to, planned, **more)) as process:
        return events_of(process)


def only(events: list[Event], what: str) -> list[Event]:
    return [one for one in events if one["event"] == what]


def flag_ids(events: list[Event]) -> set[str]:
    return {flag["id"] for cell in only(events, "cell") for flag in cell["flags"]}


def samples(events: list[Event]) -> list[Sample]:
    return [from_json(json.dumps(one)) for burst in only(events, "burst") for one in burst["samples"]]


def test_a_run_tells_probe_progress_bursts_cells_and_its_end() -> None:
    events = run(Scenario(dialect="vllm"), small(concurrency=(1, 2), repeats=2), engine="vllm")
    probe, end = events[0], events[-1]
    assert (probe["event"], probe["engine"], probe["version"], probe["model"]) == ("probe", "vllm", "0.99", "sim-1")
    assert (probe["context"], probe["length_class"], probe["lengths_by"]) == (65536, "exact", "tokenizer")
    assert probe["template_tokens"] == len(sim_engine.TEMPLATE) and probe["rates"]["decode_tok_s"] > 0
    assert end["event"] == "end" and end["validity"] in ("valid", "tainted", "invalid")
    assert [(one["cell"]["concurrency"], len(one["samples"])) for one in only(events, "burst")].count((2, 2)) == 2
    progress = only(events, "progress")
    assert progress[-1]["done"] == progress[-1]["of"] and progress[-1]["headline"]
    for cell in only(events, "cell"):
        assert cell["stats"]["output_tokens"]["median"] == 64 and cell["stats"]["prompt_tokens"]["median"] == 96
        assert cell["facts"]["counted_tokens"] == cell["facts"]["engine_tokens"] == 128 * cell["key"]["concurrency"]
        assert cell["stats"]["agg_decode_tok_s"]["n"] == 2 and cell["hash"].startswith("sha256:")


def test_no_two_prompts_of_a_run_begin_alike() -> None:
    with sim_engine.running(Scenario()) as engine, worker(order(engine, small(concurrency=(4,)))) as process:
        events_of(process)
        prompts = [sim_engine.prompt_tokens(one.body) for one in engine.truths()]
    beginnings = [tuple(one[2:4]) for one in prompts]
    assert len(set(beginnings)) == len(beginnings) > 10


def test_lengths_are_found_from_usage_where_there_is_no_tokenizer() -> None:
    events = run(Scenario(), small(prompt_tokens=(200,)))
    assert events[0]["lengths_by"] == "usage"
    assert {one.counts.prompt for one in samples(events)} <= {199, 200, 201}


def test_answers_that_end_too_soon_have_no_number() -> None:
    events = run(Scenario(cap=50), small())
    assert events[0]["length_class"] == "exact" and "short_output" in flag_ids(events)
    assert events[-1]["validity"] == "invalid"


def test_an_engine_without_a_forced_length_is_asked_for_a_long_text() -> None:
    events = run(Scenario(cap=40, obeys_length=False), small())
    assert (events[0]["length_class"], events[0]["length_form"]) == ("short", "upper")
    assert [one["key"]["family"] for one in only(events, "cell")] == ["long_form"]
    assert events[-1]["notes"] and "short_output" in flag_ids(events)


def test_prompts_that_were_cached_although_new_are_seen() -> None:
    assert "shared_prefix" in flag_ids(run(Scenario(cache="always"), small()))


def test_a_warm_prefix_is_cached_and_a_cold_one_is_not() -> None:
    events = run(Scenario(cache="real", prefill_tok_s=20_000), small("prefix", prompt_tokens=(600,)))
    cells = {one["key"]["cache_mode"]: one for one in only(events, "cell")}
    assert cells["warm"]["stats"]["cached_tokens"]["median"] > 500
    assert cells["cold"]["stats"]["cached_tokens"]["median"] < 10
    assert not {"shared_prefix", "not_cached"} & flag_ids(events)


def test_requests_that_queue_behind_slots_are_seen() -> None:
    scenario = Scenario(dialect="vllm", slots=2, rate=400)
    events = run(scenario, small(concurrency=(8,), output_tokens=100), engine="vllm")
    assert "queued" in flag_ids(events)
    [cell] = only(events, "cell")
    assert (cell["facts"]["running_max"], cell["facts"]["waiting_max"]) == (2, 6)
    firsts_ms = sorted(request_metrics(one).values["ttft_any_ms"] or 0 for one in samples(events))
    waves = [
        first_ms >= wave * 99 / 400 * 1e3 for wave, first_ms in zip((0, 0, 1, 1, 2, 2, 3, 3), firsts_ms, strict=True)
    ]
    assert all(waves)


def test_thinking_between_tags_counts_as_thinking() -> None:
    scenario = Scenario(tagged=20, rate=2000)
    assert "thinking_leak" in flag_ids(run(scenario, small()))
    found = flag_ids(run(scenario, small("thinking", thinking=True)))
    assert "thinking_absent" not in found


def test_a_first_chunk_that_was_held_back_is_seen_and_does_not_raise_the_rate() -> None:
    planned = small(output_tokens=200)
    with sim_engine.running(Scenario(held_back=20, rate=200)) as to, worker(order(to, planned)) as process:
        events = events_of(process)
        slowest_ms = max(truth.slowest_ns for truth in to.truths()) / 1e6
    [cell] = only(events, "cell")
    late = (cell["facts"]["loop_lag_max_ms"] + slowest_ms + 5.0) / 900
    assert "first_chunk_assumed" in flag_ids(events)
    assert cell["stats"]["decode_tok_s"]["median"] == pytest.approx(200, rel=0.005 + late)


def test_a_prefill_that_no_machine_computes_is_told_although_the_engine_tells_no_cache() -> None:
    events = run(Scenario(ttft_ms=0, rate=2000), small(prompt_tokens=(8192,)))
    found = flag_ids(events)
    assert "implausible" in found or only(events, "cell")[0]["stats"]["pp_tok_s"]["median"] < 1_000_000


def test_the_canary_is_long_enough_for_a_fast_engine() -> None:
    with sim_engine.running(Scenario(rate=1500)) as engine, worker(order(engine, small())) as process:
        events_of(process)
        asked = [truth.asked for truth in engine.truths()]
    canaries = [tokens for tokens in asked if tokens not in (1, 8, 48, 64)]
    assert len(canaries) == 2 and canaries[0] == canaries[1] and 500 < canaries[0] <= 1024


def test_another_model_that_answers_is_seen() -> None:
    assert "wrong_model" in flag_ids(run(Scenario(answers_as="fallback"), small()))
    assert "wrong_model" not in flag_ids(run(Scenario(answers_as="alias"), small(), aliases=["alias"]))


def test_failed_requests_are_counted_and_have_no_part_in_the_statistics() -> None:
    events = run(Scenario(fail_every=3), small(concurrency=(4,)))
    [cell] = only(events, "cell")
    assert "errors" in flag_ids(events) and cell["facts"]["failed_requests"] >= 1
    assert cell["stats"]["requests"]["median"] == 4 - cell["facts"]["failed_requests"]


GPU = """#!{python} -IS
import json, sys, time
with open({calls!r}, "a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
if "--query-compute-apps=pid" in sys.argv:
    print("999999999\\n%d" % {pid})
    sys.exit()
while True:
    print("60.0, 95, 60, 2000, 0x0", flush=True)
    time.sleep(0.01)
"""


def test_others_on_the_gpu_and_the_weights_of_an_order_are_in_the_facts(tmp_path: Path) -> None:
    program, calls = tmp_path / "nvidia-smi", tmp_path / "calls"
    program.write_text(GPU.format(python=sys.executable, calls=str(calls), pid=os.getpid()))
    program.chmod(0o755)
    told = {"model": "Qwen2.5-7B-Instruct", "gpu": "NVIDIA GB10", "weights_gib": 14.2, "quantization": None}
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    with sim_engine.running(Scenario()) as to, worker(order(to, small(), **told), path) as process:
        [cell] = only(events_of(process), "cell")
    assert cell["facts"]["other_gpu_processes"] == 1 and cell["facts"]["gb_per_token"] == pytest.approx(15.25, abs=0.01)
    asked = [json.loads(line) for line in calls.read_text().splitlines()]
    assert asked.count(["--query-compute-apps=pid", "--format=csv,noheader"]) == 1 and len(asked) == 2


def test_requests_that_were_sent_again_are_told() -> None:
    events = run(Scenario(drops_kept=3), small(repeats=4))
    [cell] = only(events, "cell")
    again = sum(one.notes.reconnects > 0 for one in samples(events))
    assert "reconnected" in flag_ids(events) and cell["facts"]["resent_requests"] == again > 0


def test_what_generates_for_others_at_the_same_time_is_seen() -> None:
    long, vllm = small(output_tokens=20_000, max_seconds=80_000), {"engine": "vllm"}
    with sim_engine.running(Scenario(dialect="vllm")) as engine, worker(order(engine, long, **vllm)):
        while not any(one.tokens > 10 and one.asked == 20_000 for one in engine.truths()):
            pass
        with worker(order(engine, small(), **vllm)) as process:
            events = events_of(process)
    assert "foreign_load" in flag_ids(events) and events[-1]["notes"]


def test_the_timings_of_llama_cpp_are_beside_ours() -> None:
    events = run(Scenario(dialect="llamacpp"), small(), engine="llamacpp")
    [cell] = only(events, "cell")
    assert events[0]["version"] == "b99999" and events[0]["lengths_by"] == "tokenizer"
    assert {"engine_decode_tok_s", "engine_prompt_ms", "overhead_ms"} <= set(cell["stats"])


@pytest.mark.parametrize("way", ["SIGTERM", "end of input"])
def test_cancelled_it_hangs_up_and_tells_what_it_had(way: str) -> None:
    planned = small(output_tokens=20_000, max_seconds=80_000, concurrency=(2,))
    with sim_engine.running(Scenario()) as engine, worker(order(engine, planned)) as process:
        assert process.stdin and process.stdout
        events = [json.loads(process.stdout.readline())]
        while sum(one.tokens > 10 and one.asked == 20_000 for one in engine.truths()) < 2:
            pass
        process.send_signal(signal.SIGTERM) if way == "SIGTERM" else process.stdin.close()
        events += events_of(process)
        while not all(one.closed_ns for one in engine.truths() if one.asked == 20_000):
            pass
    assert (events[-1]["event"], events[-1]["validity"]) == ("end", "cancelled")
    assert [one["status"] for one in only(events, "cell")] == ["cancelled"]


def test_cancelled_before_anything_was_found_it_ends_too() -> None:
    with sim_engine.running(Scenario(ttft_ms=1e6)) as engine, worker(order(engine, small())) as process:
        while not engine.truths():
            pass
        process.terminate()
        assert [one["validity"] for one in events_of(process)] == ["cancelled"]


def test_requests_in_flight_when_it_is_cancelled_are_told_as_cancelled() -> None:
    planned = small(output_tokens=600, repeats=10, max_seconds=80_000, concurrency=(2,))
    with sim_engine.running(Scenario(rate=2000)) as engine, worker(order(engine, planned)) as process:
        assert process.stdout
        events: list[Event] = []
        while not only(events, "burst"):
            events.append(json.loads(process.stdout.readline()))
        process.terminate()
        events += events_of(process)
    assert events[-1]["validity"] == "cancelled" and {one.outcome for one in samples(events)} <= {"ok", "cancelled"}
    [cell] = only(events, "cell")
    assert cell["status"] == "cancelled" and cell["stats"]["agg_decode_tok_s"]["n"] >= 1


BAD_ORDERS = ("", "nonsense", "{}", "[]", json.dumps({"url": 1, "engine": "vllm", "plan": {}}), '{"plan":{"schema":1}}')


@pytest.mark.parametrize("told", BAD_ORDERS)
def test_an_order_that_is_none_is_told_in_one_event(told: str) -> None:
    with worker(told) as process:
        [event] = events_of(process)
    assert (event["event"], event["code"]) == ("failed", "bad_order")


def test_where_nobody_answers_that_is_told_without_the_key() -> None:
    planned = small()
    told = {"url": "http://127.0.0.1:1", "engine": "vllm", "plan": planned.as_json()}
    with worker(told | {"headers": {"Authorization": "Bearer sk-secret"}}) as process:
        [event] = events_of(process)
    assert event["code"] == "unreachable" and "secret" not in json.dumps(event)


def test_a_plan_beyond_its_time_is_refused_with_what_would_fit() -> None:
    [event] = run(Scenario(rate=50), small(repeats=10, output_tokens=2000, max_seconds=60))
    assert event["code"] == "bad_plan" and "max_seconds" in event["message"]


def test_an_engine_that_only_fails_is_told_with_its_words() -> None:
    [event] = run(Scenario(fail_every=1), small())
    assert event["code"] == "no_answer" and "out of order" in event["message"]


def test_tasks_are_graded_and_an_answer_cut_by_its_length_is_not_wrong() -> None:
    planned = plan("quality", SEED, Options(output_tokens=20, repeats=1))
    events = run(Scenario(rate=2000, ttft_ms=1), planned)
    [cell] = only(events, "cell")
    assert cell["stats"]["truncated"]["median"] == len(items()) and "pass_1" not in cell["stats"]
    assert only(events, "progress")[-1]["of"] == len(items()) == len(samples(events))
    wrong = only(run(Scenario(rate=2000, ttft_ms=1, cap=10, obeys_length=False), planned), "cell")[0]["stats"]
    assert wrong["pass_1"]["n"] == len(items()) and wrong["pass_1"]["median"] < 0.5


def test_an_engine_that_counts_nothing_is_measured_by_chunks_and_says_so() -> None:
    events = run(Scenario(usage="never"), small())
    assert (events[0]["length_class"], events[0]["lengths_by"]) == ("unknown", "none")
    assert "tokens_estimated" in flag_ids(events)


def test_counters_are_compared_only_where_they_grew() -> None:
    before = {"running": 1.0, "generated_tokens": 5.0, "drafts": 9.0}
    after = {"running": 2.0, "generated_tokens": 7.0, "drafts": 1.0, "queued": 3.0}
    assert difference(before, after) == {"generated_tokens": 2.0}


def test_the_host_is_read_where_it_tells(tmp_path: Path) -> None:
    load, vmstat = tmp_path / "loadavg", tmp_path / "vmstat"
    load.write_text("1.50 1.00 0.50 3/512 4711\n")
    vmstat.write_text("pgpgin 5\npswpin 42\npswpout 1\n")
    assert (list(runnable(load)), swapped_in_pages(vmstat)) == ([2], 42)
    assert (list(runnable(tmp_path / "none")), swapped_in_pages(load)) == ([], None)


SETTLING = {(): None, (100.0,): None, (100.0, 110.0): True, (500.0, 100.0): False, (900.0, 100.0, 90.0): True}


@pytest.mark.parametrize(("ttfts_ms", "wanted"), SETTLING.items())
def test_a_warm_up_has_settled_when_its_last_two_agree(ttfts_ms: tuple[float, ...], wanted: bool | None) -> None:
    assert settled(ttfts_ms) is wanted


def test_of_several_sensors_the_worst_stands() -> None:
    one, other = Sensors(loop_lag_max_ms=3.0, clock_step_ms=-9.0), Sensors(loop_lag_max_ms=5.0, clock_step_ms=1.0)
    assert one.worse(other) == Sensors(loop_lag_max_ms=5.0, clock_step_ms=-9.0)


@pytest.mark.engines
def test_a_real_llama_cpp_gives_the_same_numbers_by_its_own_clock() -> None:
    planned = small(output_tokens=96, prompt_tokens=(200,), repeats=3, max_seconds=3600)
    with real_llamacpp.running() as engine:
        told = {"url": engine.url, "engine": "llamacpp", "model": "", "plan": planned.as_json()}
        with worker(told) as process:
            events = events_of(process)
    assert events[0]["length_class"] == "exact"
    for burst in only(events, "burst"):
        [one] = [from_json(json.dumps(sample)) for sample in burst["samples"]]
        values, late_ms = request_metrics(one).values, burst["sensors"]["loop_lag_max_ms"]
        assert (one.outcome, one.counts.completion, one.counts.cached) == ("ok", 96, one.engine.cache_n)
        off = 0.005 + late_ms / (one.engine.predicted_ms or 1)
        assert values["decode_tok_s"] == pytest.approx(values["engine_decode_tok_s"], rel=off)
        assert 0 < (values["overhead_ms"] or 0) < 0.1 * (one.engine.prompt_ms or 0)  # 1 % here
    assert "clocks_disagree" not in flag_ids(events)


@pytest.mark.engines
def test_a_real_llama_cpp_that_tells_its_progress_moves_no_clock() -> None:
    text = " ".join(f"{number} of the words" for number in range(120))
    asked = {"stream": True, "max_tokens": 32, "ignore_eos": True, "return_progress": True, "cache_prompt": False}
    body = json.dumps(asked | {"messages": [{"role": "user", "content": text}]}).encode()

    async def one(url: str) -> Sample:
        async with StreamDoor(url) as door:
            return await Clock(door).one(body, 600.0)

    with real_llamacpp.running() as engine:
        sample = asyncio.run(one(engine.url))
    values = request_metrics(sample).values
    assert sample.outcome == "ok" and sample.notes.progress_chunks >= 1
    assert (sample.notes.progress_ns or 0) < (sample.first_ns or 0)
    assert (values["ttft_any_ms"] or 0) >= (sample.engine.prompt_ms or 0) > 0


def test_a_key_that_an_engine_repeats_is_told_to_nobody() -> None:
    key = "sk-SECRET-987654"
    told = {"message": f"401: Received API Key = {key}", "cut": [f"key {key[:10]}"], "n": 1}
    assert hidden(told, [key]) == {"message": "401: Received API Key = [withheld]", "cut": ["key [withheld]"], "n": 1}
