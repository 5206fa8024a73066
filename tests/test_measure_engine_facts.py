"""What an engine tells of its cache, its drafting and its GPU, by answers or by counters, in the facts of a cell."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import counting_engine
import pytest
from counting_engine import Habits

from sparkgate.measure.clock import Sensors
from sparkgate.measure.energy import GpuSample
from sparkgate.measure.engine_counters import difference, means
from sparkgate.measure.engine_facts import Drafting, accepted_by_chunks, cached_tokens, drafting
from sparkgate.measure.order import OrderError, read
from sparkgate.measure.plan import Cell, Options, plan
from sparkgate.measure.sample import Counts, EngineClock, Notes, Sample, TokenEvent
from sparkgate.measure.seen import BurstRecord
from sparkgate.measure.validity import flags, status
from sparkgate.measure.verify import Around, facts, stats

pytestmark = pytest.mark.measuring

COMMAND = (sys.executable, "-I", "-m", "sparkgate.measure.worker")
MS = 1_000_000
Event = dict[str, Any]


def run(habits: Habits, kind: str = "decode", engine: str = "vllm") -> list[Event]:
    """All that the measuring process tells of an engine with these habits."""
    options = Options(repeats=1, output_tokens=64, prompt_tokens=(300,), concurrency=(1,))
    planned = plan(kind, 7, options)
    with counting_engine.running(habits) as url:
        told = {"url": url, "engine": engine, "model": "", "headers": {}, "plan": planned.as_json()}
        with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin and process.stdout
            process.stdin.write(json.dumps(told).encode() + b"\n")
            process.stdin.flush()
            return [json.loads(line) for line in process.stdout]


def cells(events: list[Event]) -> dict[str, Event]:
    """By what each asked of the prefix cache."""
    return {one["key"]["cache_mode"]: one for one in events if one["event"] == "cell"}


def ids(cell: Event) -> set[str]:
    return {flag["id"] for flag in cell["flags"]}


CACHE_FLAGS = {"cache_unproven", "not_cached", "shared_prefix", "not_primed"}


@pytest.mark.parametrize("habits", [Habits(tells_cached=True, counts_cached=False), Habits()])
def test_cached_tokens_are_told_by_answers_or_by_counters(habits: Habits) -> None:
    told = cells(run(habits, "prefix"))
    cold, warm = told["cold"]["facts"], told["warm"]["facts"]
    assert cold["cached_tokens"] == 0 and warm["cached_tokens"] > 0.8 * warm["prompt_tokens_max"]
    assert told["warm"]["stats"]["cached_tokens"]["median"] == pytest.approx(warm["cached_tokens"], abs=1)
    assert not CACHE_FLAGS & (ids(told["cold"]) | ids(told["warm"]))


def test_a_warm_cell_of_which_nobody_tells_the_cache_is_unproven() -> None:
    told = cells(run(Habits(counts_cached=False), "prefix"))
    assert CACHE_FLAGS & ids(told["warm"]) == {"cache_unproven"} and told["warm"]["status"] != "valid"
    assert "cached_tokens" not in told["warm"]["facts"] and not CACHE_FLAGS & ids(told["cold"])


def test_a_prefix_that_could_not_be_shown_is_told() -> None:
    events = run(Habits(tells_cached=True, refuses_after=64), "prefix")
    warm, end = cells(events)["warm"], events[-1]
    assert {"not_primed", "not_cached"} <= ids(warm) and warm["facts"]["unprimed_bursts"] == 1
    assert warm["status"] == "invalid" and [note for note in end["notes"] if "no room" in note]
    assert "not_primed" not in ids(cells(events)["cold"])


def test_a_prefix_that_could_not_be_shown_taints_also_where_nobody_tells_the_cache() -> None:
    warm = cells(run(Habits(counts_cached=False, refuses_after=64), "prefix"))["warm"]
    assert CACHE_FLAGS & ids(warm) == {"not_primed", "cache_unproven"} and warm["status"] != "valid"


def test_drafting_is_told_by_counters() -> None:
    [cell] = cells(run(Habits(accepted=2, drafted=3))).values()
    assert cell["facts"]["accepted_per_step"] == pytest.approx(2, rel=0.05)
    assert cell["stats"]["accept_rate"]["median"] == pytest.approx(2 / 3, rel=0.05)
    assert cell["stats"]["tokens_per_step"]["median"] == pytest.approx(3, rel=0.05)


def test_an_engine_that_counts_drafts_and_has_none_does_not_draft() -> None:
    """Its chunks may still hold several tokens."""
    [cell] = cells(run(Habits(accepted=1))).values()
    assert cell["facts"]["accepted_per_step"] == 0.0 and cell["facts"]["tokens_per_chunk"] == pytest.approx(2, rel=0.05)
    assert cell["stats"]["tokens_per_step"]["median"] == 1 and "accept_rate" not in cell["stats"]
    assert cell["why_null"]["accept_rate"] == "no token was drafted"


def test_of_gauges_the_acceptance_length_is_used_and_not_added_up() -> None:
    lines = "".join(f'sglang:spec_accept_length{{tp_rank="{rank}"}} 2.5\n' for rank in (0, 1))
    [cell] = cells(run(Habits(gauges=lines + "sglang:cache_hit_rate 0.9\n"), engine="sglang")).values()
    assert (cell["facts"]["accepted_per_step"], cell["stats"]["tokens_per_step"]["median"]) == (1.5, 2.5)
    assert "cached_tokens" not in cell["facts"] and "accept_rate" not in cell["stats"]


@pytest.mark.parametrize(("in_gpu", "share"), [(100, 1.0), (60, 0.6), (None, None)])
def test_the_share_of_a_model_in_gpu_memory_is_told_by_ollama(in_gpu: int | None, share: float | None) -> None:
    [cell] = cells(run(Habits(in_gpu=in_gpu), engine="ollama")).values()
    assert cell["facts"].get("gpu_share") == share and ("cpu_fallback" in ids(cell)) == (share == 0.6)


def spoken(tokens: int = 41, every_ms: float = 25, **told: Any) -> Sample:
    """A stream with its first token after 100 ms."""
    events = tuple(TokenEvent(round((100 + place * every_ms) * MS), "content", 1, 4) for place in range(tokens))
    return Sample(0, eof_ns=events[-1].at_ns, events=events, finish="length", **{"counts": counted(tokens), **told})


def counted(tokens: int, cached: int | None = None) -> Counts:
    return Counts(prompt=1000, completion=tokens, cached=cached, source="usage")


def burst(*samples: Sample, **told: Any) -> BurstRecord:
    return BurstRecord(0, samples, Sensors(loop_lag_p99_ms=1.0), **told)


def clock(predicted: int, drafted: int | None = None, accepted: int | None = None) -> EngineClock:
    return EngineClock(predicted_n=predicted, predicted_ms=1000.0, draft_n=drafted, draft_accepted_n=accepted)


GREW = {"drafts": 10.0, "draft_tokens": 30.0, "accepted_tokens": 20.0, "generated_tokens": 30.0}
NONE_BEFORE = dict.fromkeys(GREW, 0.0)


@pytest.mark.parametrize(
    ("engine", "answers", "after", "expected"),
    [
        ("llamacpp", [clock(40, 30, 20)], {}, Drafting(1.0, 20 / 30)),
        ("llamacpp", [clock(40, 30, 20), clock(20)], {}, Drafting(0.5, 20 / 30)),
        ("llamacpp", [clock(40, 30, 20)], GREW, Drafting(1.0, 20 / 30)),
        ("llamacpp", [clock(40)], {}, Drafting(0.0)),
        ("docker-model-runner", [clock(40)], {}, Drafting(0.0)),
        ("ollama", [clock(40)], {}, None),
        ("openai", [clock(40, 30, 20)], {}, Drafting(1.0, 20 / 30)),
        ("llamacpp", [], {k: v for k, v in GREW.items() if k != "drafts"}, Drafting(2.0, 20 / 30)),
        ("vllm", [], GREW, Drafting(2.0, 20 / 30)),
        ("vllm", [], NONE_BEFORE, Drafting(0.0)),
        ("vllm", [], {"generated_tokens": 40.0}, Drafting(0.0)),
        ("vllm", [], {}, None),
        ("sglang", [], {"accept_length": 2.5}, Drafting(1.5)),
        ("sglang", [], {"accept_length": 0.0}, Drafting(0.0)),
        ("sglang", [], {"generated_tokens": 40.0}, None),
        ("openai", [], {}, None),
    ],
)
def test_what_drafting_gave_is_read_from_answers_before_counters(
    engine: str, answers: list[EngineClock], after: dict[str, float], expected: Drafting | None
) -> None:
    samples = [Sample(0, engine=one) for one in answers]
    assert drafting(engine, samples, NONE_BEFORE, after) == expected


@pytest.mark.parametrize(
    ("engine", "per_chunk", "accepted"),
    [("vllm", 1.0, 0.0), ("sglang", 2.8, 1.8), ("openai", 1.0, None), ("lmstudio", 3.0, 2.0), ("vllm", None, None)],
)
def test_chunks_tell_what_an_engine_does_not(engine: str, per_chunk: float | None, accepted: float | None) -> None:
    assert accepted_by_chunks(engine, per_chunk) == (None if accepted is None else pytest.approx(accepted))


@pytest.mark.parametrize(("speculation", "accepted"), [("", 0.0), ("MTP k=3", None), (None, None)])
def test_a_command_line_without_speculation_stands_for_an_engine_that_does_not_tell(
    speculation: str | None, accepted: float | None
) -> None:
    around = Around("Qwen3.6-27B-NVFP4", gpu="NVIDIA GB10", speculation=speculation)
    seen = facts(Cell("decode", output_tokens=41), [burst(spoken(), engine="openai")], around)
    assert seen.accepted_per_step == accepted and (seen.ceiling_tok_s is None) == (accepted is None)


def test_counted_cached_tokens_are_a_mean_over_the_burst() -> None:
    before, after = {"prefix_hits": 100.0}, {"prefix_hits": 900.0}
    assert cached_tokens(before, after, 4) == 200 and cached_tokens(before, after, 0) is None
    both = {"cached_prompt_tokens": 400.0}
    assert cached_tokens(before | {"cached_prompt_tokens": 0.0}, after | both, 4) == 100
    assert cached_tokens({}, after, 4) is None and cached_tokens(after, before, 4) is None


@pytest.mark.parametrize(("mode", "cached"), [("cold", 500), ("warm", 100)])
def test_the_worst_burst_stands_for_a_cell_whose_answers_do_not_tell(mode: Any, cached: int) -> None:
    some = [burst(spoken(), spoken(), before={"prefix_hits": 0.0}, after={"prefix_hits": n}) for n in (200.0, 1000.0)]
    seen = facts(Cell("decode", output_tokens=41, cache_mode=mode), some, Around("m"))
    assert (seen.cached_tokens, seen.cached_told) == (cached, True)
    told = burst(spoken(counts=counted(41, 7)), before={"prefix_hits": 0.0}, after={"prefix_hits": 9.0})
    assert facts(Cell("decode", cache_mode=mode), [told], Around("m")).cached_tokens == 7


def test_levels_and_rates_do_not_grow() -> None:
    names = ("running", "kv_usage", "prefix_hit_rate", "accept_rate", "accept_length", "generation_tok_s")
    assert difference(dict.fromkeys(names, 0.1), dict.fromkeys(names, 0.5)) == {}
    assert means('a_gauge 1\na_gauge{x="1"} 3\nother 9\n', {"ours": "a_gauge", "none": "gone"}) == {"ours": 2}


def test_requests_that_were_sent_again_are_counted() -> None:
    again = spoken(notes=Notes(reconnects=1))
    seen = facts(Cell("decode", output_tokens=41, concurrency=3), [burst(again, again, spoken())], Around("m"))
    assert seen.resent_requests == 2
    [flag] = [one for one in flags(seen) if one.id == "reconnected"]
    assert "2 requests" in flag.text and flag.severity == "warning"


@pytest.mark.parametrize(
    ("cell", "span_ms"),
    [
        (Cell("decode", output_tokens=41), 500.0),
        (Cell("prefill", output_tokens=41), None),
        (Cell("prefix", output_tokens=41), None),
        (Cell("quality", output_tokens=41, enforced=False), None),
    ],
)
def test_the_shortest_span_of_a_rate_is_told_where_the_rate_matters(cell: Cell, span_ms: float | None) -> None:
    some = [burst(spoken(), spoken(every_ms=12.5)), burst(spoken(tokens=3))]
    assert facts(cell, some, Around("m")).decode_span_ms == span_ms


def readings(*watts: float) -> tuple[GpuSample, ...]:
    """Each with a clock of 10 MHz a watt, 25 ms apart from when the first token comes."""
    return tuple(GpuSample((100 + 25 * place) * MS, value, 95, 60, 10 * value) for place, value in enumerate(watts))


def test_clock_and_power_are_told_from_the_time_in_which_all_streams_ran() -> None:
    late = spoken()
    late = Sample(0, events=tuple(TokenEvent(one.at_ns + 250 * MS, "content", 1, 4) for one in late.events))
    watts = [90.0] * 10 + [60.0] * 16 + [40.0] * 15 + [200.0] * 10
    seen = facts(Cell("decode", concurrency=2), [burst(spoken(), late, gpu=readings(*watts))], Around("m"))
    assert (seen.sm_clock_before_mhz, seen.sm_clock_after_mhz) == (600, 400)
    assert (seen.power_before_w, seen.power_after_w) == (60, 40) and "throttled" in {one.id for one in flags(seen)}


def test_a_few_readings_have_no_before_and_after() -> None:
    seen = facts(Cell("decode"), [burst(spoken(), gpu=readings(*[60.0] * 19))], Around("m"))
    assert seen.sm_clock_before_mhz is None and seen.power_after_w is None and seen.sm_clock_median_mhz == 600


def test_others_on_the_gpu_are_told() -> None:
    seen = facts(Cell("decode", output_tokens=41), [burst(spoken(), other_gpu_processes=1)], Around("m"))
    assert seen.other_gpu_processes == 1 and "busy_host" in {one.id for one in flags(seen)}


@pytest.mark.parametrize(
    ("model", "more", "gb"),
    [
        ("Qwen2.5-7B-Instruct", {"weights_gib": 14.2}, 15.247),
        ("Qwen2.5-7B-Instruct", {"weights_gib": 4.3, "quantization": "Q4_K_M"}, 4.617),
        ("qwen3.6-35b-a3b", {"weights_gib": 20.0, "quantization": "NVFP4"}, 1.5),
        ("nemotron-3-super-120b", {"weights_gib": 70.0, "quantization": "NVFP4"}, None),
    ],
)
def test_what_a_token_reads_follows_from_the_model_or_from_the_size_of_its_weights(
    model: str, more: dict[str, Any], gb: float | None
) -> None:
    seen = facts(Cell("decode"), [burst(spoken())], Around(model, gpu="NVIDIA GB10", **more))
    assert seen.gb_per_token == (None if gb is None else pytest.approx(gb, abs=0.001))


def test_an_order_may_tell_the_weights() -> None:
    told: dict[str, Any] = {"url": "http://127.0.0.1:1", "engine": "vllm", "plan": plan("decode", 1).as_json()}
    order = read(json.dumps(told | {"weights_gib": 14.2, "quantization": "NVFP4", "speculation": ""}).encode())
    assert (order.weights_gib, order.quantization, order.speculation) == (14.2, "NVFP4", "")
    bare = read(json.dumps(told | {"weights_gib": None, "quantization": None}).encode())
    assert (bare.weights_gib, bare.quantization) == (None, None) == (read(json.dumps(told).encode()).weights_gib, None)
    with pytest.raises(OrderError, match="weights_gib"):
        read(json.dumps(told | {"weights_gib": "14"}).encode())


def test_percentiles_of_a_soak_are_over_its_requests_and_resampled_are_only_its_bursts() -> None:
    some = [burst(*[spoken(every_ms=20 + place / 10)] * 4) for place in range(30)]
    told, _ = stats(some, 3)
    rate = told["decode_tok_s"]
    assert (rate["n"], rate["requests"]) == (30, 120) and rate["ci95"][0] <= rate["median"] <= rate["ci95"][1]
    assert rate["median"] < rate["p95"] < rate["p99"] <= rate["high"]


def test_what_a_burst_means_is_derived_once() -> None:
    one = burst(spoken())
    assert one.metrics is one.metrics and one.requests is one.requests


def test_a_cell_that_is_short_for_the_clock_has_no_headline() -> None:
    late = BurstRecord(0, (spoken(),), Sensors(loop_lag_p99_ms=13.0))
    found = flags(facts(Cell("decode", prompt_tokens=1000, output_tokens=41), [late], Around("")))
    assert [one.id for one in found] == ["too_short_for_clock", "single_burst"] and status(found) == "invalid"
