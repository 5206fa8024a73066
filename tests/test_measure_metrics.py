"""Raw records become numbers, or reasons why there are none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from sse_cases import (
    DONE,
    FOUR,
    LAST,
    LLAMACPP,
    OLLAMA,
    OLLAMA_LAST,
    OLLAMA_OLDER,
    ROLE,
    SENT,
    SPLIT,
    chunk,
    json_lines,
    ollama_says,
    only_usage,
    says,
    sse,
    thinks,
    usage,
)

from sparkgate.measure.chunk import Dialect
from sparkgate.measure.fold import SampleBuilder
from sparkgate.measure.metrics import BURST, REQUEST, Metrics, burst_metrics, median_metrics, request_metrics
from sparkgate.measure.sample import Counts, EngineClock, Kind, Notes, Sample, TokenEvent

MS = 10**6
TOOL = chunk({"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": "{}"}}]})


def timed(*reads: tuple[float, bytes], dialect: Dialect = "openai") -> Sample:
    """(ms since the request, bytes) → the sample."""
    builder = SampleBuilder(0, dialect=dialect)
    for at_ms, piece in reads:
        builder.feed(piece, int(at_ms * MS))
    return builder.end(int(reads[-1][0] * MS))


def streamed(
    tokens: Sequence[int | None],
    *,
    first_ms: int = 100,
    gap_ms: int = 10,
    t0_ms: int = 0,
    kind: Kind = "content",
    completion: int | None = -1,
    **more: Any,
) -> Sample:
    """A chunk every `gap_ms`, each of so many tokens; it ends with the last one. -1 counts the tokens of the chunks."""
    times = [(t0_ms + first_ms + gap_ms * place) * MS for place in range(len(tokens))]
    total = sum(number or 1 for number in tokens) if completion == -1 else completion
    sample = Sample(
        t0_ns=t0_ms * MS,
        eof_ns=times[-1] if times else (t0_ms + first_ms) * MS,
        events=tuple(TokenEvent(at_ns, kind, own, 4) for at_ns, own in zip(times, tokens, strict=True)),
        counts=Counts(prompt=50, completion=total, cached=0, source="usage"),
    )
    return replace(sample, **more)


def value(sample: Sample, name: str) -> float | None:
    return request_metrics(sample).values[name]


def why(sample: Sample, name: str) -> str:
    return request_metrics(sample).why_null[name]


def assert_whole(metrics: Metrics, names: Sequence[str]) -> None:
    """Each metric is a finite number or has a reason, never both."""
    assert list(metrics.values) == list(names)
    assert {name for name, one in metrics.values.items() if one is None} == set(metrics.why_null)
    assert all(metrics.why_null.values())
    assert all(math.isfinite(one) for one in metrics.values.values() if one is not None)


STREAMS: dict[str, tuple[bytes, Dialect]] = {
    **{f"split: {name}": (case.stream, "openai") for name, case in SPLIT.items()},
    **{f"sent: {name}": (case.stream, "openai") for name, case in SENT.items()},
    **{f"ollama: {name}": (case.stream, "ollama") for name, case in OLLAMA.items()},
}


@pytest.mark.parametrize("name", STREAMS)
def test_each_metric_of_each_case_is_a_number_or_has_a_reason(name: str) -> None:
    stream, dialect = STREAMS[name]
    sample = timed((9, stream), dialect=dialect)
    assert_whole(request_metrics(sample), list(REQUEST))
    assert_whole(burst_metrics([sample]), list(BURST))


def test_names_of_metrics_carry_their_unit() -> None:
    units = ("_ms", "_s", "_tok_s", "_tokens", "_rate", "_per_chunk")
    bare = {"stalls", "requests", "fairness"}
    assert all(name.endswith(units) or name in bare for name in (*REQUEST, *BURST))


@pytest.mark.parametrize("early_ms", [0, 1, 300])
def test_a_role_chunk_does_not_set_the_first_token(early_ms: int) -> None:
    sample = timed((early_ms, sse(ROLE)), (1_000, sse(FOUR[0])), (1_010, sse(*FOUR[1:], *LAST, DONE)))
    assert (value(sample, "ttft_any_ms"), value(sample, "ttft_content_ms")) == (1_000, 1_000)
    assert value(sample, "pp_tok_s") == 9


def test_progress_of_the_prompt_does_not_set_the_first_token() -> None:
    progress = chunk({"role": "assistant", "content": None}, prompt_progress={"processed": 4})
    sample = timed((13, sse(progress)), (6_561, sse(FOUR[0])), (6_600, sse(*FOUR[1:], *LAST, DONE)))
    assert value(sample, "ttft_any_ms") == 6_561


def test_reasoning_content_and_tools_have_a_clock_each() -> None:
    sample = timed((100, sse(ROLE, thinks("a"))), (250, sse(says("b"))), (400, sse(TOOL)), (410, sse(*LAST, DONE)))
    clocks = ("ttft_any_ms", "ttft_reasoning_ms", "ttft_content_ms", "ttft_tool_ms")
    assert [value(sample, name) for name in clocks] == [100, 100, 250, 400]
    sample = timed((100, sse(TOOL)), (110, sse(chunk({}, "tool_calls"), DONE)))
    assert [value(sample, name) for name in clocks] == [100, None, None, 100]
    assert why(sample, "ttft_content_ms") == "no content came"


def test_a_token_without_text_is_the_first_token_and_not_the_first_content() -> None:
    first, second = says("", usage=usage(1)), says("a", usage=usage(2))
    sample = timed((100, sse(first)), (120, sse(second, chunk({}, "stop"), DONE)))
    assert (value(sample, "ttft_any_ms"), value(sample, "ttft_content_ms")) == (100, 120)


def test_chunks_of_several_tokens_count_what_came_after_the_first() -> None:
    tokens = [1, 3, 2, 3] * 4
    sample, n = streamed(tokens), sum(tokens)
    assert value(sample, "decode_tok_s") == (n - 1) / 0.150
    assert value(sample, "tokens_per_chunk") == n / 16
    assert value(streamed([4, *tokens[1:]]), "decode_tok_s") == (n - 1) / 0.150


def test_chunks_of_several_tokens_are_read_from_the_stream() -> None:
    totals = [1, 4, 6, 9, 10, 13, 15, 18, 19, 22]
    reads = [(100 + 10 * place, sse(says("a", usage=usage(total)))) for place, total in enumerate(totals)]
    sample = timed(*reads, (190, sse(chunk({}, "stop"), DONE)))
    assert value(sample, "decode_tok_s") == (22 - 1) / 0.090
    assert request_metrics(sample).flags == ("cached_unknown", "queue_unknown")


def test_the_first_chunk_counts_as_one_token_where_it_does_not_tell_and_that_is_flagged() -> None:
    sample = streamed([None] * 33)
    assert value(sample, "decode_tok_s") == 32 / 0.320
    assert value(sample, "tpot_ms") == 10
    assert "first_chunk_assumed" in request_metrics(sample).flags


@pytest.mark.parametrize("first_ms", [100, 80], ids=["as late as its tokens", "at once"])
def test_chunks_of_several_tokens_that_do_not_tell_are_measured_from_the_second(first_ms: int) -> None:
    even = streamed([None] * 66, gap_ms=30, completion=198)
    sample = replace(even, events=(replace(even.events[0], at_ns=first_ms * MS), *even.events[1:]))
    assert value(sample, "decode_tok_s") == pytest.approx(100, rel=1e-12)
    assert burst_metrics([sample]).values["agg_decode_tok_s"] == pytest.approx(100, rel=1e-12)
    assert "first_chunk_assumed" in request_metrics(sample).flags


def test_tokens_that_nobody_counts_are_estimated_from_chunks_and_flagged() -> None:
    sample = streamed([None] * 21, completion=None)
    metrics = request_metrics(sample)
    assert metrics.values["decode_tok_s"] == 100 and "tokens_estimated" in metrics.flags
    assert metrics.values["output_tokens"] is None and metrics.values["tokens_per_chunk"] is None


TOO_LITTLE: dict[str, Sample] = {
    "no token": streamed([], completion=0),
    "no token, and no count": streamed([], completion=None),
    "one token": streamed([1]),
    "two tokens": streamed([1, 1]),
    "one chunk": streamed([40]),
    "few chunks": streamed([1] + [5] * 6),
    "no time": streamed([1] * 30, gap_ms=0),
    "a count of 0": streamed([None] * 30, completion=0),
    "no end": streamed([1] * 30, eof_ns=None),
    "an end at the start": streamed([1] * 30, first_ms=0, gap_ms=0),
}


@pytest.mark.parametrize("name", TOO_LITTLE)
def test_too_little_to_measure_is_no_number_and_never_infinite(name: str) -> None:
    metrics = request_metrics(TOO_LITTLE[name])
    assert_whole(metrics, list(REQUEST))
    assert_whole(burst_metrics([TOO_LITTLE[name]]), list(BURST))
    if name != "no end":
        assert metrics.values["decode_tok_s"] is metrics.values["tpot_ms"] is None


def test_the_reason_tells_what_was_missing() -> None:
    assert why(streamed([1, 1]), "decode_tok_s") == "1 of the 16 tokens after the first chunk it needs"
    assert why(TOO_LITTLE["few chunks"], "decode_tok_s") == "7 of the 8 chunks it needs"
    assert why(TOO_LITTLE["no time"], "decode_tok_s") == "no time passed between the first and the last token"
    assert why(TOO_LITTLE["no token"], "ttft_any_ms") == "no token came"
    assert why(TOO_LITTLE["no end"], "wall_tok_s") == "the end of the answer was not seen"


def test_wall_and_end_to_end_are_kept_apart() -> None:
    sample = streamed([1] * 101, eof_ns=1_250 * MS, intended_ns=-500 * MS)
    assert [value(sample, name) for name in ("e2e_ms", "wall_ms", "wall_tok_s")] == [1_100, 1_250, 101 / 1.250]
    assert (value(sample, "queue_s"), value(replace(sample, intended_ns=None), "queue_s")) == (0.5, None)


@pytest.mark.parametrize(("outcome", "says_what"), [("failed", "the request failed: boom"), ("cancelled", "cancelled")])
def test_a_request_that_was_not_answered_has_no_numbers(outcome: Any, says_what: str) -> None:
    metrics = request_metrics(streamed([1] * 40, outcome=outcome, error="boom"))
    assert set(metrics.values.values()) == {None}
    assert all(says_what in reason for reason in metrics.why_null.values())


def test_an_answer_in_one_piece_has_a_wall_and_no_other_time() -> None:
    sample = streamed([None] * 40, notes=Notes(not_streaming=True))
    metrics = request_metrics(sample)
    for name in ("ttft_any_ms", "ttft_content_ms", "decode_tok_s", "pp_tok_s", "chunk_gap_max_ms", "tokens_per_chunk"):
        assert "one piece" in metrics.why_null[name]
    assert metrics.values["wall_tok_s"] == 40 / 0.490
    assert burst_metrics([sample]).values["agg_decode_tok_s"] is None


@pytest.mark.parametrize("name", LLAMACPP)
def test_rates_of_llamacpp_are_made_from_its_counts_and_times(name: str) -> None:
    told, rate = LLAMACPP[name]
    sample = timed((100, sse(*FOUR, chunk({}, "stop", timings=told), DONE)))
    assert value(sample, "engine_decode_tok_s") == pytest.approx(rate, rel=1e-12)
    assert value(sample, "engine_pp_tok_s") == 1e3 * told["prompt_n"] / told["prompt_ms"]


@pytest.mark.parametrize(("last", "rate"), [(OLLAMA_LAST, 1e3 * 2 / 173.639), (OLLAMA_OLDER, 1e3 * 16 / 4032.296)])
def test_rates_of_ollama_are_of_intervals_too(last: dict[str, Any], rate: float) -> None:
    sample = timed((100, json_lines(ollama_says({"content": "a"}), last)), dialect="ollama")
    assert value(sample, "engine_decode_tok_s") == rate
    assert value(sample, "engine_load_ms") == last["load_duration"] / 1e6
    assert ("cached_unknown" in request_metrics(sample).flags) is (last is OLLAMA_OLDER)


@pytest.mark.parametrize(
    ("engine", "reason"),
    [
        (EngineClock(), "does not tell"),
        (EngineClock(predicted_n=1, predicted_ms=0.0), "1 of the 2 tokens"),
        (EngineClock(predicted_n=0, predicted_ms=5.0), "0 of the 2 tokens"),
        (EngineClock(predicted_n=5, predicted_ms=0.0), "no time passed"),
    ],
)
def test_the_engines_rate_is_guarded_too(engine: EngineClock, reason: str) -> None:
    assert reason in why(streamed([1] * 30, engine=engine), "engine_decode_tok_s")


def test_cached_tokens_are_not_counted_as_read() -> None:
    def prefill(cached: int | None) -> Sample:
        return streamed(
            [1] * 30, first_ms=500, counts=Counts(prompt=1_000, completion=30, cached=cached, source="usage")
        )

    assert [value(prefill(cached), "pp_tok_s") for cached in (0, 900, None)] == [2_000, 200, 2_000]
    assert "cached_unknown" in request_metrics(prefill(None)).flags
    assert why(prefill(1_000), "pp_tok_s") == "the whole prompt came from the cache"


def test_overhead_is_what_the_engine_does_not_account_for() -> None:
    engine = EngineClock(prompt_ms=80.0, queue_ms=5.0, load_ms=3.0)
    assert value(streamed([1] * 30, engine=engine), "overhead_ms") == 12
    assert value(streamed([1] * 30, engine=EngineClock(prompt_ms=93.0)), "overhead_ms") == 7
    assert "queue_unknown" in request_metrics(streamed([1] * 30, engine=EngineClock(prompt_ms=93.0))).flags
    assert value(streamed([1] * 30), "overhead_ms") is None


def test_drafted_tokens_give_an_acceptance() -> None:
    assert value(streamed([1], engine=EngineClock(draft_n=100, draft_accepted_n=62)), "accept_rate") == 0.62
    assert value(streamed([1], engine=EngineClock(draft_n=0, draft_accepted_n=0)), "accept_rate") is None


def test_a_stall_shows_in_the_gaps_and_leaves_the_rate_as_it_is() -> None:
    smooth = streamed([1] * 201)
    late = [replace(event, at_ns=event.at_ns + 1_000 * MS * (place > 100)) for place, event in enumerate(smooth.events)]
    stalled = replace(smooth, events=tuple(late), eof_ns=late[-1].at_ns)
    assert [value(smooth, name) for name in ("chunk_gap_max_ms", "stalls", "decode_tok_s")] == [10, 0, 100]
    assert [value(stalled, name) for name in ("chunk_gap_max_ms", "stalls", "decode_tok_s")] == [1_010, 1, 200 / 3]
    assert [value(stalled, name) for name in ("chunk_gap_p50_ms", "chunk_gap_p95_ms")] == [10, 10]


def test_slow_engines_stall_later() -> None:
    sample = streamed([1] * 20, gap_ms=300)
    assert value(sample, "stalls") == 0


def test_a_percentile_of_gaps_needs_enough_of_them() -> None:
    assert why(streamed([1] * 20), "chunk_gap_p95_ms") == "19 of the 20 gaps between chunks it needs"
    assert value(streamed([1] * 21), "chunk_gap_p95_ms") == 10


def test_a_further_kind_in_a_chunk_is_no_chunk_and_no_gap() -> None:
    sample = streamed([2] * 20)
    both = TokenEvent(sample.events[3].at_ns, "tool", 0, 5)
    twice = replace(sample, events=(*sample.events[:4], both, *sample.events[4:]))
    same = ("tokens_per_chunk", "decode_tok_s", "chunk_gap_p50_ms", "chunk_gap_max_ms")
    assert [value(twice, name) for name in same] == [value(sample, name) for name in same]


def test_reasoning_that_is_not_shown_is_not_the_first_token_and_not_counted_after_it() -> None:
    counts = Counts(prompt=50, completion=540, cached=0, reasoning=500, source="usage")
    sample = streamed([None] * 40, first_ms=20_000, counts=counts)
    assert value(sample, "decode_tok_s") == 39 / 0.390
    assert (value(sample, "ttft_any_ms"), value(sample, "ttft_content_ms")) == (None, 20_000)
    assert "before the first that it showed" in why(sample, "pp_tok_s")
    assert "hidden_reasoning" in request_metrics(sample).flags


def test_reasoning_that_is_shown_is_not_hidden() -> None:
    counts = Counts(prompt=50, completion=40, cached=0, reasoning=40, source="usage")
    sample = streamed([None] * 40, kind="reasoning", counts=counts)
    assert value(sample, "decode_tok_s") == 100 and value(sample, "ttft_any_ms") == 100


def test_tokens_without_text_at_the_end_leave_no_rate() -> None:
    sample = streamed([None] * 50, completion=128, notes=Notes(finish_ns=1_400 * MS), eof_ns=1_400 * MS)
    metrics = request_metrics(sample)
    assert "hidden_tail" in metrics.flags and "without text" in metrics.why_null["decode_tok_s"]
    assert burst_metrics([sample]).values["agg_decode_tok_s"] is None
    assert metrics.values["wall_tok_s"] == 128 / 1.4


def test_a_sum_has_three_meanings() -> None:
    fast, late = streamed([1] * 101), streamed([1] * 101, t0_ms=5, first_ms=595)
    found = burst_metrics([fast, late]).values
    assert found["agg_decode_tok_s"] == 200 / 1.5
    assert found["agg_wall_tok_s"] == 202 / 1.6
    assert found["agg_steady_tok_s"] == pytest.approx(200, rel=1e-12)
    assert (found["requests"], found["start_skew_ms"]) == (2, 5)


def test_one_stream_alone_has_its_own_rate_as_steady_and_decode_sum() -> None:
    found = burst_metrics([streamed([3] * 101)]).values
    assert found["agg_decode_tok_s"] == found["mean_stream_tok_s"] == 300
    assert found["agg_steady_tok_s"] == pytest.approx(300, rel=1e-12)


def test_chunks_that_do_not_tell_their_tokens_share_them_in_the_steady_time() -> None:
    slow, other = streamed([None] * 101, completion=301), streamed([None] * 101, completion=301)
    assert burst_metrics([slow, other]).values["agg_steady_tok_s"] == pytest.approx(2 * 100 * 301 / 101, rel=1e-12)


def test_streams_that_never_ran_at_once_have_no_steady_sum() -> None:
    first, second = streamed([1] * 51), streamed([1] * 51, t0_ms=400)
    metrics = burst_metrics([first, second])
    assert metrics.why_null["agg_steady_tok_s"] == "all streams ran at once for less than 500 ms"


def test_an_unfair_burst_shows_in_the_slowest_stream() -> None:
    streams = [streamed([1] * 41, gap_ms=gap_ms) for gap_ms in (10, 10, 40)]
    found = burst_metrics(streams).values
    names = ("mean_stream_tok_s", "median_stream_tok_s", "min_stream_tok_s", "fairness")
    assert [found[name] for name in names] == [75, 100, 25, 0.25]


def test_requests_that_failed_are_left_out_of_a_burst_and_flagged() -> None:
    good, bad = streamed([1] * 41), streamed([1] * 41, outcome="failed", error="boom")
    metrics = burst_metrics([good, bad])
    assert metrics.values == burst_metrics([good]).values
    assert metrics.flags[-1] == "failed_requests" and "failed_requests" not in burst_metrics([good]).flags
    assert set(burst_metrics([bad]).values.values()) == set(burst_metrics([]).values.values()) == {None}


def test_a_short_stream_leaves_a_burst_without_a_rate_of_streams() -> None:
    metrics = burst_metrics([streamed([1] * 41), streamed([1] * 3)])
    assert "2 of the 16 tokens" in metrics.why_null["fairness"]


def test_the_median_of_several_is_over_those_that_know() -> None:
    several = [request_metrics(streamed([1] * 41, gap_ms=gap_ms)) for gap_ms in (10, 20, 40)]
    found = median_metrics([*several, request_metrics(streamed([1], outcome="failed", error="boom"))])
    assert_whole(found, list(REQUEST))
    assert found.values["decode_tok_s"] == 50
    assert found.why_null["ttft_tool_ms"] == "no tool came"
    assert median_metrics([]) == Metrics({}, {}, ())


def test_usage_of_the_whole_answer_is_trusted_over_the_number_of_chunks() -> None:
    reads = [(100 + 10 * place, sse(says("abc"))) for place in range(20)]
    sample = timed(*reads, (290, sse(chunk({}, "length"), only_usage(60), DONE)))
    assert value(sample, "tokens_per_chunk") == 3
    assert value(sample, "decode_tok_s") == pytest.approx(57 / 0.190)


@pytest.mark.parametrize(("held", "n"), [(20, 400), (3, 64), (1, 200)])
def test_a_first_chunk_that_was_held_back_counts_for_what_its_text_says(held: int, n: int) -> None:
    even = streamed([None] * (n - held + 1), completion=n)
    sample = replace(even, events=(replace(even.events[0], chars=4 * held), *even.events[1:]))
    assert value(sample, "decode_tok_s") == pytest.approx(100, rel=1e-12)
    assert ("first_chunk_estimated" in request_metrics(sample).flags) == (held > 1)


def test_a_first_word_of_some_length_does_not_make_a_held_back_chunk() -> None:
    even = streamed([None] * 100, completion=100)
    sample = replace(even, events=(replace(even.events[0], chars=14), *even.events[1:]))
    assert value(sample, "decode_tok_s") == 100
