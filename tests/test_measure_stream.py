"""Bytes of a stream, cut anywhere, become the same record."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from sse_cases import (
    COUNTING,
    DONE,
    ERRORS,
    FOUR,
    LAST,
    LLAMACPP,
    OLLAMA,
    OLLAMA_LAST,
    OLLAMA_OLDER,
    PLAIN,
    ROLE,
    SENT,
    SPLIT,
    TWO,
    Case,
    chunk,
    json_lines,
    ollama_says,
    only_usage,
    says,
    sse,
    text_of,
    thinks,
    usage,
)

from sparkgate.measure.chunk import Dialect, transcript
from sparkgate.measure.fold import SampleBuilder
from sparkgate.measure.sample import Counts, EngineClock, Notes, Sample, TokenEvent, from_json, to_json
from sparkgate.measure.stream import StreamParser

NOW_NS = 7_000
CASES = {f"split: {name}": case for name, case in SPLIT.items()} | {f"sent: {name}": one for name, one in SENT.items()}
LETTERS = {"content": "c", "reasoning": "r", "tool": "t"}


def read(*pieces: bytes, dialect: Dialect = "openai") -> Sample:
    """All pieces at one time, so that only where they are cut can make a difference."""
    builder = SampleBuilder(5_000, dialect=dialect)
    for piece in pieces:
        builder.feed(piece, NOW_NS)
    return builder.end(9_000)


def timed(*reads: tuple[int, bytes]) -> Sample:
    """(ms since the request, bytes) → the sample."""
    builder = SampleBuilder(0)
    for at_ms, piece in reads:
        builder.feed(piece, at_ms * 10**6)
    return builder.end(reads[-1][0] * 10**6)


def times_ms(sample: Sample) -> list[float]:
    return [event.at_ns / 1e6 for event in sample.events]


def cut(stream: bytes, places: Iterable[int]) -> list[bytes]:
    return [stream[start:end] for start, end in pairwise([0, *sorted(places), len(stream)])]


def byte_by_byte(stream: bytes) -> list[bytes]:
    return cut(stream, range(1, len(stream)))


def kinds(sample: Sample) -> str:
    return "".join(LETTERS[event.kind] for event in sample.events)


def fields(part: Counts | Notes, names: Iterable[str]) -> dict[str, object]:
    return {name: getattr(part, name) for name in names}


def assert_reads(sample: Sample, case: Case) -> None:
    assert (kinds(sample), sum(event.chars for event in sample.events)) == (case.kinds, case.chars)
    assert fields(sample.counts, case.counts) == case.counts
    assert fields(sample.notes, case.notes) == case.notes
    assert (sample.outcome, sample.finish) == ("failed" if case.error else "ok", case.finish)
    assert case.error in sample.error if case.error else sample.error == ""


def test_the_cases_are_all_there() -> None:
    assert (len(SPLIT), len(SENT)) == (13, 20)


@pytest.mark.parametrize("name", CASES)
def test_each_case_is_read_right(name: str) -> None:
    assert_reads(read(CASES[name].stream), CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_each_case_reads_the_same_byte_by_byte(name: str) -> None:
    assert read(*byte_by_byte(CASES[name].stream)) == read(CASES[name].stream)


@pytest.mark.parametrize("name", CASES)
def test_each_case_reads_the_same_cut_at_random(name: str) -> None:
    stream = CASES[name].stream
    whole, draw = read(stream), random.Random(name)
    for _ in range(20):
        places = draw.sample(range(1, len(stream)), k=draw.randint(1, 40))
        assert read(*cut(stream, places)) == whole


@pytest.mark.parametrize("name", OLLAMA)
def test_json_lines_of_ollama_read_the_same_however_they_are_cut(name: str) -> None:
    stream, draw = OLLAMA[name].stream, random.Random(name)
    whole = read(stream, dialect="ollama")
    assert_reads(whole, OLLAMA[name])
    assert read(*byte_by_byte(stream), dialect="ollama") == whole
    for _ in range(20):
        assert read(*cut(stream, draw.sample(range(1, len(stream)), k=7)), dialect="ollama") == whole


@pytest.mark.parametrize("name", [*CASES, *OLLAMA])
def test_what_is_stored_comes_back(name: str) -> None:
    sample = read(CASES[name].stream) if name in CASES else read(OLLAMA[name].stream, dialect="ollama")
    assert from_json(to_json(sample)) == sample


def test_everything_of_a_sample_comes_back() -> None:
    sample = Sample(
        t0_ns=10**15,
        intended_ns=10**15 - 3,
        headers_ns=10**15 + 1,
        eof_ns=10**15 + 9,
        events=(TokenEvent(10**15 + 5, "reasoning", None, 3), TokenEvent(10**15 + 5, "tool", 0, 0)),
        finish="length",
        model="modèle",
        counts=Counts(1, 2, 0, 4, "usage"),
        engine=EngineClock(1, 2.5, 3, 0.1, 0, 6, 7, 8.0, 9.0),
        outcome="cancelled",
        error="given up",
        notes=Notes(1, 2, 3, 4, 5, 6, 7, True, True, 8, True, "other", {"a": 1}, {"b": "c", "d": False}),
    )
    assert from_json(to_json(sample)) == sample
    assert from_json(to_json(Sample(t0_ns=0))) == Sample(t0_ns=0)


def test_a_stored_token_takes_few_bytes() -> None:
    events = tuple(TokenEvent(10**15 + 10_000_123 * place, "content", 1, 4) for place in range(1_000))
    assert len(to_json(Sample(t0_ns=10**15, events=events))) < 16 * 1_000


EMPTY = '{"v":1,"t0_ns":1,"events":{"at":[],"kind":"","tokens":[],"chars":[]}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"v":2}',
        '{"v":1}',
        '{"v":1,"t0_ns":1,"events":{"at":[1],"kind":"","tokens":[],"chars":[]}}',
        '{"v":1,"t0_ns":1,"events":{"at":[1],"kind":"x","tokens":[1],"chars":[1]}}',
        EMPTY + ',"outcome":"fine"}',
        EMPTY + ',"notes":{"wrong":1}}',
        EMPTY + ',"wrong":1}',
    ],
)
def test_a_damaged_record_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        from_json(text)


def test_a_chunk_that_only_names_the_role_is_no_token() -> None:
    sample = timed((1, sse(ROLE)), (300, sse(*FOUR, *LAST, DONE)))
    assert (sample.notes.role_ns, sample.first_ns) == (10**6, 300 * 10**6)


@pytest.mark.parametrize("empty", [{"role": "assistant", "content": None}, {"role": "assistant"}, {"role": ""}])
def test_a_role_is_no_token_in_whatever_form(empty: dict[str, Any]) -> None:
    assert kinds(read(sse(chunk(empty), *FOUR, *LAST, DONE))) == "cccc"


def test_a_role_that_comes_with_text_is_a_token() -> None:
    assert kinds(read(sse(chunk({"role": "assistant", "content": "a"}), *LAST, DONE))) == "c"


def test_progress_of_the_prompt_is_no_token() -> None:
    progress = [
        chunk({"role": "assistant", "content": None}, prompt_progress={"total": 90, "cache": 0, "processed": done})
        for done in (30, 60, 90)
    ]
    sample = timed((13, sse(progress[0])), (40, sse(*progress[1:])), (6561, sse(ROLE, *FOUR, *LAST, DONE)))
    assert (sample.notes.progress_chunks, sample.notes.progress_ns) == (3, 13 * 10**6)
    assert sample.notes.role_ns == sample.first_ns == 6561 * 10**6


def test_an_event_has_the_time_at_which_its_data_was_read() -> None:
    sample = timed((10, sse(says("a"))[:-1]), (20, b"\n" + sse(says("b"))[:9]), (30, sse(says("b"))[9:] + DONE))
    assert times_ms(sample) == [10, 30]


@pytest.mark.parametrize("end", [b"\r", b"\r\n", b"\n"])
def test_no_line_end_makes_an_event_late(end: bytes) -> None:
    reads = [(10 * place, sse(one, end=end)) for place, one in enumerate(FOUR, 1)]
    assert times_ms(timed(*reads, (50, DONE))) == [10, 20, 30, 40]


def test_the_end_of_the_connection_is_not_the_time_of_the_last_event() -> None:
    builder = SampleBuilder(0)
    builder.feed(sse(*TWO)[:-2], 10)
    assert [event.at_ns for event in builder.end(500).events] == [10, 10]


@pytest.mark.parametrize("name", COUNTING)
def test_tokens_are_counted_by_the_best_source_there_is(name: str) -> None:
    case = COUNTING[name]
    sample = read(sse(*case.chunks, DONE))
    assert fields(sample.counts, case.counts) == case.counts
    assert [event.tokens for event in sample.events] == case.tokens
    assert sample.notes.counts_disagree is case.disagree


def test_details_of_usage_are_read_and_reasoning_is_not_added() -> None:
    details = {"prompt_tokens_details": {"cached_tokens": 5}, "completion_tokens_details": {"reasoning_tokens": 3}}
    assert read(sse(*FOUR, LAST[0], only_usage(4, **details), DONE)).counts == Counts(9, 4, 5, 3, "usage")
    assert read(sse(*FOUR, LAST[0], only_usage(4, reasoning_tokens=2), DONE)).counts.reasoning == 2


@pytest.mark.parametrize("choices", [[], None, [None], "", {}])
def test_a_chunk_without_a_choice_is_only_about_the_answer(choices: object) -> None:
    sample = read(sse(*FOUR, chunk({}, "stop"), {"choices": choices, "usage": usage(4)}, {"id": "x"}, DONE))
    assert (kinds(sample), sample.counts.completion, sample.outcome) == ("cccc", 4, "ok")


@pytest.mark.parametrize("delta", [None, [], "", 3, {"content": None}, {"content": 5}, {"tool_calls": [None, {}]}])
def test_a_delta_of_the_wrong_kind_is_an_empty_chunk(delta: object) -> None:
    sample = read(sse(*FOUR, chunk(delta), *LAST, DONE))
    assert (kinds(sample), sample.notes.empties, sample.outcome) == ("cccc", 1, "ok")


@pytest.mark.parametrize(
    ("delta", "chars"),
    [
        ({"reasoning_content": "abc", "reasoning": "abc"}, 3),
        ({"reasoning_content": "abc", "reasoning": None}, 3),
        ({"reasoning_content": "", "reasoning": "abc"}, 3),
        ({"reasoning_content": "abc", "reasoning": "de"}, 5),
    ],
)
def test_reasoning_under_two_names_counts_once(delta: dict[str, Any], chars: int) -> None:
    event = read(sse(chunk(delta), *LAST, DONE)).events[0]
    assert (event.kind, event.chars) == ("reasoning", chars)


def test_a_chunk_of_two_kinds_is_one_chunk_of_tokens() -> None:
    both = chunk({"reasoning_content": "a", "content": "b"}, usage=usage(2))
    events = read(sse(both, LAST[0], DONE)).events
    assert [(event.kind, event.tokens) for event in events] == [("reasoning", 2), ("content", 0)]


def test_a_finished_chunk_may_have_text() -> None:
    sample = read(sse(FOUR[0], says("b", "length"), DONE))
    assert (kinds(sample), sample.finish) == ("cc", "length")


def test_completions_have_their_text_beside_the_choice() -> None:
    told: list[dict[str, Any]] = [{"choices": [{"index": 0, "text": text, "finish_reason": None}]} for text in "ab"]
    told.append({"choices": [{"index": 0, "text": "", "finish_reason": "length"}]})
    assert kinds(read(sse(*told, DONE))) == "cc"


def piece(index: int, **function: str) -> dict[str, Any]:
    return chunk({"tool_calls": [{"index": index, "function": function}]})


def test_pieces_of_tool_calls_belong_together_by_their_index() -> None:
    pieces = [
        piece(1, name="late", arguments=""),
        piece(0, name="first", arguments='{"a"'),
        piece(0, name="first", arguments=":1}"),
        piece(1, arguments="{}"),
    ]
    told = transcript(StreamParser().feed(sse(thinks("h"), says("x"), *pieces, says("y"), DONE), 1))
    assert (told.reasoning, told.content, told.tools) == ("h", "xy", (("first", '{"a":1}'), ("late", "{}")))
    assert kinds(read(sse(*pieces, *LAST, DONE))) == "tttt"


def test_a_function_call_of_the_old_form_is_a_tool() -> None:
    assert kinds(read(sse(chunk({"function_call": {"name": "f", "arguments": "{}"}}), *LAST, DONE))) == "t"


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_in_the_stream_fails_the_request(name: str) -> None:
    stream, says_what = ERRORS[name]
    sample = read(sse(*FOUR[:2], stream, *FOUR[2:], *LAST, DONE))
    assert (sample.outcome, sample.error) == ("failed", says_what)


def test_what_comes_after_done_is_not_looked_at() -> None:
    assert read(sse(*PLAIN, {"error": "late"}, DONE)).outcome == "failed"
    assert read(sse(*PLAIN, DONE, {"error": "too late"}, says("x"), b": x\n\n")) == read(sse(*PLAIN, DONE, b": x\n\n"))


@pytest.mark.parametrize(
    ("stream", "says_what"),
    [
        (b"", "no token"),
        (DONE, "no token"),
        (sse(ROLE, *LAST, DONE), "no token"),
        (b"<html>502</html>\n", "no token"),
        (sse(ROLE, *FOUR[:2]), "ended before"),
        (sse(*FOUR, chunk({}, "abort"), DONE), "abort"),
        (sse(*FOUR, chunk({}, "error"), DONE), "error"),
    ],
)
def test_an_answer_that_is_none_has_failed(stream: bytes, says_what: str) -> None:
    sample = read(stream)
    assert sample.outcome == "failed" and says_what in sample.error


def test_the_caller_may_know_why_it_failed() -> None:
    builder = SampleBuilder(0)
    builder.feed(sse(*FOUR[:2]), 1)
    sample = builder.end(error="the connection\nwas reset\x00", reconnects=1)
    assert (sample.outcome, sample.error) == ("failed", "the connection was reset")
    assert (sample.notes.reconnects, sample.eof_ns, len(sample.events)) == (1, None, 2)


def test_a_cancelled_request_keeps_what_had_come() -> None:
    builder = SampleBuilder(0, intended_ns=-4)
    builder.headers_ns = 1
    builder.feed(sse(*FOUR[:3]), 2)
    assert (builder.tokens_seen, builder.done) == (3, False)
    sample = builder.end(3, cancelled=True)
    assert (sample.outcome, sample.error, kinds(sample)) == ("cancelled", "", "ccc")
    assert (sample.intended_ns, sample.headers_ns) == (-4, 1)


NOT_OBJECTS = {
    "an open brace": b"{",
    "a word": b"ping",
    "a list": b"[1]",
    "a number": b"3",
    "no UTF-8": b"\xff\xfe",
    "an endless number": b'{"a":' + b"9" * 5_000 + b"}",
    "deep nesting": b"[" * 100_000,
}


@pytest.mark.parametrize("name", NOT_OBJECTS)
def test_what_is_no_json_object_is_counted_and_passed_over(name: str) -> None:
    sample = read(sse(*FOUR[:2], b"data: " + NOT_OBJECTS[name] + b"\n\n", *FOUR[2:], *LAST, DONE))
    assert (kinds(sample), sample.notes.malformed, sample.outcome) == ("cccc", 1, "ok")


PARTS = [
    b"data:",
    b"data: {",
    b"}",
    b"\n",
    b"\r",
    b"\n\n",
    b": x",
    b'"choices"',
    b"[DONE]",
    b"\xf0\x9f",
    b"event: error",
]


@pytest.mark.parametrize("dialect", ["openai", "ollama"])
def test_any_bytes_can_be_read(dialect: Dialect) -> None:
    draw = random.Random(4)
    for _ in range(300):
        stream = b"".join(draw.choices(PARTS, k=draw.randint(1, 40)))
        assert read(stream, dialect=dialect) == read(*byte_by_byte(stream), dialect=dialect)


@pytest.mark.parametrize("value", [-1, 2.0, "4", True, [4], float("nan"), 10**30])
def test_a_number_that_is_none_is_not_known(value: object) -> None:
    last = {"choices": [], "usage": {"completion_tokens": value, "prompt_tokens": value}}
    sample = read(sse(*FOUR, LAST[0], last, DONE))
    assert (sample.counts.completion, sample.counts.prompt, sample.counts.source) == (None, None, "none")


@pytest.mark.parametrize("value", [-1, "4", True, None, float("inf"), float("nan")])
def test_a_time_that_is_none_is_not_known(value: object) -> None:
    sample = read(sse(*FOUR, chunk({}, "stop", timings={"predicted_n": 4, "predicted_ms": value}), DONE))
    assert sample.engine == EngineClock(predicted_n=4)


def test_text_of_the_engine_is_kept_short_and_on_one_line() -> None:
    told = says("a", "stop", system_fingerprint="b1\n\u202ex", n_seen=10**30) | {"model": "m\x1b[31m\n" + "x" * 900}
    sample = read(sse(told, DONE))
    assert len(sample.model) <= 200 and sample.model.startswith("m[31m x")
    assert sample.notes.first == {"system_fingerprint": "b1 x", "n_seen": "1" + "0" * 30}


def test_a_second_model_in_the_stream_is_noted() -> None:
    sample = read(sse(FOUR[0], says("b") | {"model": "fallback"}, *LAST, DONE))
    assert (sample.model, sample.notes.other_model) == ("m", "fallback")


def test_fields_outside_the_protocol_are_kept_of_the_first_and_the_last_chunk() -> None:
    first, last = (
        says("a", system_fingerprint="f1", deep={"x": 1}),
        only_usage(1) | {"system_fingerprint": "f2", "t": 1.5},
    )
    notes = read(sse(first, says("b", other="no"), LAST[0], last, DONE)).notes
    assert (notes.first, notes.last) == ({"system_fingerprint": "f1"}, {"system_fingerprint": "f2", "t": 1.5})


@pytest.mark.parametrize("name", LLAMACPP)
def test_timings_of_llamacpp_are_its_own_clock(name: str) -> None:
    told, _ = LLAMACPP[name]
    sample = read(sse(*FOUR, chunk({}, "stop", timings=told), DONE))
    assert (sample.engine.predicted_ms, sample.engine.prompt_n) == (told["predicted_ms"], told["prompt_n"])
    assert (sample.counts.completion, sample.counts.source) == (told["predicted_n"], "engine")
    assert (sample.counts.prompt, sample.counts.cached) == (told["prompt_n"] + told["cache_n"], told["cache_n"])


def test_the_last_timings_count_when_each_chunk_has_them() -> None:
    told = [says("a", timings={"predicted_n": n, "predicted_ms": 10.0 * n, "draft_n": 3 * n}) for n in (1, 2, 3)]
    sample = read(sse(*told, chunk({}, "stop", timings={"predicted_n": 3, "draft_n": 9, "draft_n_accepted": 7}), DONE))
    assert sample.engine == EngineClock(predicted_n=3, draft_n=9, draft_accepted_n=7)


def test_ollama_tells_its_clock_in_ns_and_counts_cached_tokens_within_the_prompt() -> None:
    warm = OLLAMA_LAST | {"prompt_eval_cached_count": 20}
    engine = read(json_lines(ollama_says({"content": "a"}), warm), dialect="ollama").engine
    assert (engine.prompt_n, engine.cache_n, engine.prompt_ms) == (9, 20, 10175.903)
    assert (engine.predicted_n, engine.predicted_ms, engine.load_ms) == (3, 173.639, 19906.3583)


@pytest.mark.parametrize(("told", "prompt"), [(10, 10), (0, None), (None, None)])
def test_an_older_ollama_does_not_tell_what_was_cached(told: int | None, prompt: int | None) -> None:
    last = OLLAMA_OLDER | {"prompt_eval_count": told}
    sample = read(json_lines(ollama_says({"content": "a"}), last), dialect="ollama")
    assert (sample.engine.prompt_n, sample.counts.prompt, sample.counts.cached) == (prompt, prompt, None)


@pytest.mark.parametrize("indent", [None, 2])
def test_a_json_document_in_place_of_a_stream_is_not_streaming(indent: int | None) -> None:
    told = {"model": "m", "choices": [{"message": {"content": "abc"}, "finish_reason": "stop"}], "usage": usage(3)}
    sample = read(*byte_by_byte(json.dumps(told, indent=indent).encode()))
    assert (sample.outcome, sample.notes.not_streaming, sample.counts.completion) == ("ok", True, 3)


def test_an_error_document_in_place_of_a_stream_fails_the_request() -> None:
    assert read(b"\n" + text_of({"error": {"message": "no stream here"}})).error == "no stream here"


def test_a_burst_at_the_end_is_not_streaming() -> None:
    tokens = [says("a") for _ in range(40)]
    sample = timed((1, sse(ROLE)), (1000, sse(*tokens[:20])), (1001, sse(*tokens[20:], LAST[0], only_usage(40), DONE)))
    assert sample.notes.not_streaming and sample.outcome == "ok"


def test_all_tokens_in_one_chunk_are_not_streaming() -> None:
    assert timed((1000, sse(says("a" * 900, "stop"), only_usage(200), DONE))).notes.not_streaming


@pytest.mark.parametrize(("prompt_ms", "tokens"), [(20_000, 8), (1_000, 1), (1_000, 50)])
def test_a_long_prompt_and_a_short_answer_are_streaming(prompt_ms: int, tokens: int) -> None:
    reads = [(prompt_ms + place, sse(says("a"))) for place in range(tokens)]
    assert not timed(*reads, (prompt_ms + tokens, sse(*LAST, DONE))).notes.not_streaming


def test_several_tokens_a_read_from_the_start_are_streaming() -> None:
    reads = [(10 * place, sse(*FOUR, *FOUR)) for place in range(1, 30)]
    assert not timed(*reads, (300, sse(*LAST, DONE))).notes.not_streaming


# -- thinking in the visible text

TAGGED = {
    "in one chunk each": ["<think>", "why ", "so", "</think>", "\n\nbecause"],
    "tags cut over chunks": ["<th", "ink>why so</thi", "nk>because"],
    "all in one": ["<think>why so</think>because"],
    "opened by the template": ["why ", "so", "</think>", "because"],
    "after a blank line": ["\n<think>\n", "why", "</think>", " because"],
}


@pytest.mark.parametrize("name", TAGGED)
def test_thinking_between_tags_is_reasoning_however_it_is_cut(name: str) -> None:
    builder = SampleBuilder(0)
    for place, text in enumerate(TAGGED[name]):
        builder.feed(sse(says(text)), (place + 1) * 10**6)
    builder.feed(sse(chunk({}, "stop"), DONE), 10**9)
    kinds = [event.kind for event in builder.end(10**9).events]
    assert kinds[0] == "reasoning" and kinds[-1] == "content"


def test_a_tag_that_is_only_spoken_of_is_no_thinking() -> None:
    builder = SampleBuilder(0)
    for place, text in enumerate(["the tag ", "<think>", " opens it"]):
        builder.feed(sse(says(text)), (place + 1) * 10**6)
    builder.feed(sse(chunk({}, "stop"), DONE), 10**9)
    assert {event.kind for event in builder.end(10**9).events} == {"content"}
