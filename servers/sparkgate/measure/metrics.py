"""What the raw records mean: one value a metric, or why there is none. Names carry their unit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import TypeVar

from sparkgate.measure.sample import Kind, Sample
from sparkgate.measure.statistics import PERCENTILE_NEEDS, percentile
from sparkgate.measure.timeline import Stream, stall_ms, stream_of

T = TypeVar("T")
Found = float | str
"""A value, or why there is none."""

DECODE_TOKENS = 16
DECODE_CHUNKS = 8
STEADY_MS = 500.0

_FAILED = "the request failed: {error}"
_CANCELLED = "the request was cancelled"
_NOT_STREAMING = "the answer came in one piece, so that only its end has a time"
_NO_TOKEN = "no token came"
_NONE_OF_KIND = "no {kind} came"
_HIDDEN_FIRST = "the engine generated tokens of reasoning before the first that it showed"
_HIDDEN_LAST = "the engine counted tokens without text after the last that it showed"
_FEW = "{n} of the {needed} {what} it needs"
_NO_TIME = "no time passed between the first and the last token"
_ALL_CACHED = "the whole prompt came from the cache"
_UNTOLD = "the engine does not tell {what}"
_UNSEEN_END = "the end of the answer was not seen"
_UNPLANNED = "the plan set no time for it"
_NEVER_ALL = "all streams ran at once for less than {needed:g} ms"


@dataclass(frozen=True, slots=True)
class Metrics:
    """Values by name; `why_null` has a reason for each that is None.

    `flags` tell what was assumed or seen: `tokens_estimated` (one token a chunk), `first_chunk_assumed` (one token in
    the first), `first_chunk_estimated` (more, by its text), `cached_unknown` and `queue_unknown` (taken as none),
    `counts_disagree` (the better source was taken), `hidden_reasoning`, `hidden_tail`, and for a burst
    `failed_requests`.
    """

    values: Mapping[str, float | None]
    why_null: Mapping[str, str]
    flags: tuple[str, ...] = ()


def request_metrics(sample: Sample) -> Metrics:
    """The metrics of one request: all of `REQUEST`. None of them has a value when it failed or was cancelled."""
    stream = stream_of(sample)
    why = {"ok": "", "failed": _FAILED.format(error=sample.error), "cancelled": _CANCELLED}[sample.outcome]
    return _metrics(REQUEST, stream, why, sorted(stream.flags))


def burst_metrics(samples: Sequence[Sample]) -> Metrics:
    """The metrics of requests that ran together: all of `BURST`. Those that were not answered are left out."""
    streams = [stream_of(sample) for sample in samples if sample.outcome == "ok"]
    flags = sorted({flag for stream in streams for flag in stream.flags})
    flags += ["failed_requests"] if any(sample.outcome == "failed" for sample in samples) else []
    return _metrics(BURST, streams, "" if streams else "no request was answered", flags)


def median_metrics(several: Sequence[Metrics]) -> Metrics:
    """The median of each metric over those that have it; where none has, the first reason."""
    names = list(dict.fromkeys(name for one in several for name in one.values))
    known = {name: [value for one in several if (value := one.values.get(name)) is not None] for name in names}
    why = {name: reason for one in reversed(several) for name, reason in one.why_null.items() if not known[name]}
    flags = dict.fromkeys(flag for one in several for flag in one.flags)
    return Metrics({name: median(own) if own else None for name, own in known.items()}, why, tuple(flags))


def _metrics(table: Mapping[str, Callable[[T], Found]], told: T, why: str, flags: Sequence[str]) -> Metrics:
    found = {name: why or metric(told) for name, metric in table.items()}
    values = {name: None if isinstance(one, str) else float(one) for name, one in found.items()}
    return Metrics(values, {name: one for name, one in found.items() if isinstance(one, str)}, tuple(flags))


def _told(what: str, value: float | None) -> Found:
    return _UNTOLD.format(what=what) if value is None else value


def _ratio(part: float, whole: float, why: str) -> Found:
    return part / whole if whole > 0 else why


def _untimed(stream: Stream) -> str:
    """Why the times of its tokens mean nothing; "" when they do."""
    if stream.sample.notes.not_streaming:
        return _NOT_STREAMING
    return "" if stream.chunks else _NO_TOKEN


def _ttft_any_ms(stream: Stream) -> Found:
    why = _untimed(stream) or (_HIDDEN_FIRST if "hidden_reasoning" in stream.flags else "")
    return why or stream.since_start_ms(stream.first_ns)


def _ttft(kind: Kind) -> Callable[[Stream], Found]:
    def ttft_ms(stream: Stream) -> Found:
        times = [event.at_ns for event in stream.sample.events if event.kind == kind and event.chars]
        why = _untimed(stream) or ("" if times else _NONE_OF_KIND.format(kind=kind))
        return why or stream.since_start_ms(times[0])

    return ttft_ms


def _queue_s(stream: Stream) -> Found:
    intended_ns = stream.sample.intended_ns
    return _UNPLANNED if intended_ns is None else (stream.sample.t0_ns - intended_ns) / 1e9


def _wall_ms(stream: Stream) -> Found:
    eof_ns = stream.sample.eof_ns
    return _UNSEEN_END if eof_ns is None else stream.since_start_ms(eof_ns)


def _wall_tok_s(stream: Stream) -> Found:
    wall_ms = _wall_ms(stream)
    return wall_ms if isinstance(wall_ms, str) else _ratio(1e3 * stream.n, wall_ms if stream.n else 0, _NO_TOKEN)


def _decode_tok_s(stream: Stream) -> Found:
    n, chunks = stream.generated, len(stream.chunks)
    if why := _uncountable(stream):
        return why
    if n < DECODE_TOKENS:
        return _FEW.format(n=max(round(n), 0), needed=DECODE_TOKENS, what="tokens after the first chunk")
    if chunks < DECODE_CHUNKS:
        return _FEW.format(n=chunks, needed=DECODE_CHUNKS, what="chunks")
    return _ratio(1e9 * n, stream.last_ns - stream.begins_ns, _NO_TIME)


def _uncountable(stream: Stream) -> str:
    """Why its tokens and their times do not belong together; "" when they do."""
    return _untimed(stream) or (_HIDDEN_LAST if "hidden_tail" in stream.flags else "")


def _tpot_ms(stream: Stream) -> Found:
    rate = _decode_tok_s(stream)
    return rate if isinstance(rate, str) else 1e3 / rate


def _pp_tok_s(stream: Stream) -> Found:
    counts, ttft_ms = stream.sample.counts, _ttft_any_ms(stream)
    if isinstance(ttft_ms, str):
        return ttft_ms
    if counts.prompt is None:
        return _UNTOLD.format(what="the tokens of the prompt")
    computed = counts.prompt - (counts.cached or 0)
    return _ratio(1e3 * computed, ttft_ms, _NO_TIME) if computed > 0 else _ALL_CACHED


def _gap(percent: int) -> Callable[[Stream], Found]:
    def chunk_gap_ms(stream: Stream) -> Found:
        needed, n = PERCENTILE_NEEDS.get(percent, 1), len(stream.gaps_ms)
        few = _FEW.format(n=n, needed=needed, what="gaps between chunks") if n < needed else ""
        return _untimed(stream) or few or percentile(stream.gaps_ms, percent)

    return chunk_gap_ms


def _stalls(stream: Stream) -> Found:
    limit_ms = stall_ms(stream.gaps_ms)
    few = "" if stream.gaps_ms else _FEW.format(n=0, needed=1, what="gaps between chunks")
    return _untimed(stream) or few or sum(gap_ms > limit_ms for gap_ms in stream.gaps_ms)


def _tokens_per_chunk(stream: Stream) -> Found:
    untold = _UNTOLD.format(what="its tokens") if "tokens_estimated" in stream.flags else ""
    return _untimed(stream) or untold or stream.n / len(stream.chunks)


def _engine_decode_tok_s(stream: Stream) -> Found:
    """From count and time: the rates that engines print divide by n with one build and by n - 1 with another."""
    n, ms = stream.sample.engine.predicted_n, stream.sample.engine.predicted_ms
    if n is None or ms is None:
        return _UNTOLD.format(what="its own count and time of generation")
    return _ratio(1e3 * (n - 1), ms, _NO_TIME) if n > 1 else _FEW.format(n=n, needed=2, what="tokens")


def _engine_pp_tok_s(stream: Stream) -> Found:
    n, ms = stream.sample.engine.prompt_n, stream.sample.engine.prompt_ms
    if n is None or ms is None:
        return _UNTOLD.format(what="its own count and time of the prompt")
    return _ratio(1e3 * n, ms, _NO_TIME) if n else _ALL_CACHED


def _accept_rate(stream: Stream) -> Found:
    drafted, accepted = stream.sample.engine.draft_n, stream.sample.engine.draft_accepted_n
    untold = _UNTOLD.format(what="drafted tokens")
    return untold if drafted is None or accepted is None else _ratio(accepted, drafted, "no token was drafted")


def _overhead_ms(stream: Stream) -> Found:
    engine, ttft_ms = stream.sample.engine, _ttft_any_ms(stream)
    if isinstance(ttft_ms, str):
        return ttft_ms
    if engine.prompt_ms is None:
        return _UNTOLD.format(what="its own time of the prompt")
    return ttft_ms - engine.prompt_ms - (engine.queue_ms or 0.0) - (engine.load_ms or 0.0)


REQUEST: Mapping[str, Callable[[Stream], Found]] = {
    "ttft_any_ms": _ttft_any_ms,
    "ttft_content_ms": _ttft("content"),
    "ttft_reasoning_ms": _ttft("reasoning"),
    "ttft_tool_ms": _ttft("tool"),
    "queue_s": _queue_s,
    "e2e_ms": lambda stream: stream.since_start_ms(stream.last_ns) if stream.chunks else _NO_TOKEN,
    "wall_ms": _wall_ms,
    "prompt_tokens": lambda stream: _told("the tokens of the prompt", stream.sample.counts.prompt),
    "cached_tokens": lambda stream: _told("cached tokens", stream.sample.counts.cached),
    "output_tokens": lambda stream: _told("its tokens", stream.sample.counts.completion),
    "reasoning_tokens": lambda stream: _told("tokens of reasoning", stream.sample.counts.reasoning),
    "decode_tok_s": _decode_tok_s,
    "tpot_ms": _tpot_ms,
    "wall_tok_s": _wall_tok_s,
    "pp_tok_s": _pp_tok_s,
    "chunk_gap_p50_ms": _gap(50),
    "chunk_gap_p95_ms": _gap(95),
    "chunk_gap_max_ms": _gap(100),
    "stalls": _stalls,
    "tokens_per_chunk": _tokens_per_chunk,
    "engine_decode_tok_s": _engine_decode_tok_s,
    "engine_pp_tok_s": _engine_pp_tok_s,
    "engine_prompt_ms": lambda stream: _told("its own time of the prompt", stream.sample.engine.prompt_ms),
    "engine_queue_ms": lambda stream: _told("the time in its queue", stream.sample.engine.queue_ms),
    "engine_load_ms": lambda stream: _told("the time of its load", stream.sample.engine.load_ms),
    "accept_rate": _accept_rate,
    "overhead_ms": _overhead_ms,
}
"""The metrics of one request. `pp_tok_s` is a lower bound: its time holds the way there and back."""


def _agg_decode_tok_s(streams: Sequence[Stream]) -> Found:
    if why := next(filter(None, map(_uncountable, streams)), ""):
        return why
    n = sum(stream.generated for stream in streams)
    if n < DECODE_TOKENS:
        return _FEW.format(n=max(round(n), 0), needed=DECODE_TOKENS, what="tokens after the first chunks")
    span_ns = max(stream.last_ns for stream in streams) - min(stream.begins_ns for stream in streams)
    return _ratio(1e9 * n, span_ns, _NO_TIME)


def _agg_wall_tok_s(streams: Sequence[Stream]) -> Found:
    ends = [stream.sample.eof_ns for stream in streams if stream.sample.eof_ns is not None]
    n = sum(stream.n for stream in streams)
    if len(ends) < len(streams) or not n:
        return _UNSEEN_END if n else _NO_TOKEN
    return _ratio(1e9 * n, max(ends) - min(stream.sample.t0_ns for stream in streams), _NO_TIME)


def _agg_steady_tok_s(streams: Sequence[Stream]) -> Found:
    """Over the time in which each stream has begun and none has ended."""
    if why := next(filter(None, map(_uncountable, streams)), ""):
        return why
    since_ns, until_ns = max(stream.begins_ns for stream in streams), min(stream.last_ns for stream in streams)
    if until_ns - since_ns < STEADY_MS * 1e6:
        return _NEVER_ALL.format(needed=STEADY_MS)
    return 1e9 * sum(_tokens_within(stream, since_ns, until_ns) for stream in streams) / (until_ns - since_ns)


def _tokens_within(stream: Stream, since_ns: int, until_ns: int) -> float:
    """Tokens after the first time, up to the second. Where chunks do not tell theirs, each later one has its share."""
    measured = stream.chunks[stream.begins + 1 :]
    within = [chunk for chunk in measured if since_ns < chunk.at_ns <= until_ns]
    share = stream.generated / max(len(measured), 1)
    return sum(share if chunk.tokens is None else chunk.tokens for chunk in within)


def _of_rates(fold: Callable[[Sequence[float]], float]) -> Callable[[Sequence[Stream]], Found]:
    """A value over the rates of all streams; none when one of them has no rate."""

    def folded(streams: Sequence[Stream]) -> Found:
        rates = [_decode_tok_s(stream) for stream in streams]
        why = next((rate for rate in rates if isinstance(rate, str)), "")
        return why or fold([rate for rate in rates if not isinstance(rate, str)])

    return folded


def _ttft_slowest_ms(streams: Sequence[Stream]) -> Found:
    firsts = [_ttft_any_ms(stream) for stream in streams]
    why = next((one for one in firsts if isinstance(one, str)), "")
    return why or max(one for one in firsts if not isinstance(one, str))


def _start_skew_ms(streams: Sequence[Stream]) -> Found:
    starts = [stream.sample.t0_ns for stream in streams]
    return (max(starts) - min(starts)) / 1e6


BURST: Mapping[str, Callable[[Sequence[Stream]], Found]] = {
    "requests": len,
    "agg_decode_tok_s": _agg_decode_tok_s,
    "agg_wall_tok_s": _agg_wall_tok_s,
    "agg_steady_tok_s": _agg_steady_tok_s,
    "mean_stream_tok_s": _of_rates(mean),
    "median_stream_tok_s": _of_rates(median),
    "min_stream_tok_s": _of_rates(min),
    "fairness": _of_rates(lambda rates: min(rates) / median(rates)),
    "ttft_slowest_ms": _ttft_slowest_ms,
    "start_skew_ms": _start_skew_ms,
}
"""The metrics of a burst. Of the three sums, `decode` is from the first token of all to the last, `wall` from the first
request to the last end, and `steady` over the time in which all ran at once."""
