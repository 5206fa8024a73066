"""What a sweep over concurrency shows: how throughput scales, where it stops, and what stops it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

ENOUGH = 0.5
"""Of the throughput that linear scaling would add: below this a further stream costs more than it brings."""
FALL = 0.05
"""A smaller loss after the peak is noise."""
FULL = 0.97
"""From this share of a level's throughput on, a smaller level is as good."""
BEND = 0.02
"""Of the highest throughput: a curve that rises less above its chord has no bend."""
WAIT = 0.8
"""Of the time that an answer takes: who queues waits until the quickest answer has ended."""
SERIAL_GAIN = 1.15
SERIAL_FROM = 3
"""Streams from which an engine that batches at all must gain more than `SERIAL_GAIN`."""

CAP_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "vllm": "--max-num-seqs",
        "sglang": "--max-running-requests",
        "llamacpp": "--parallel",
        "ollama": "OLLAMA_NUM_PARALLEL",
        "trtllm": "--max_batch_size",
    }
)
"""Engine → the setting that caps how many requests it runs at a time."""

_WORDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "serialised": (
            "{level} streams together are {gain:.2f} times as fast as one: they are served one after another",
            "raise {cap}; look for a router before it with a cap of its own, and for answers that end early",
        ),
        "queue_cap": (
            "with {level} streams requests wait, and throughput is {percent:.0f} % of that with {before}",
            "raise {cap} to {level} or more and sweep again; when the KV cache is full, shorten the context instead",
        ),
        "falls_after_peak": (
            "throughput is highest with {before} streams and {percent:.0f} % lower with {level}",
            "keep to {before} streams; look at preemptions, a full KV cache and the heat of the machine",
        ),
        "knee": (
            "beyond {before} streams a further one brings less than half of its share{also}",
            "serve up to {before} streams at a time; more of them lengthen every answer",
        ),
        "knee_not_reached": (
            "throughput still grows at {level} streams, the most that were measured",
            "sweep on to {double} streams",
        ),
    }
)
"""Finding → what it says and what to do."""


@dataclass(frozen=True, slots=True)
class Point:
    """One level of a sweep.

    Attributes:
        agg_tok_s: of all streams together.
        stream_tok_s: decode rate of one stream.
        ttft_ms: first token of the slowest stream of a burst; a median hides the few that wait.
        waiting: requests in the engine's queue while the streams ran, the median of its samples, as each burst waits
            for a moment; None where it does not tell.
    """

    concurrency: int
    agg_tok_s: float
    stream_tok_s: float | None = None
    ttft_ms: float | None = None
    waiting: float | None = None


@dataclass(frozen=True, slots=True)
class Scale:
    """A level against one stream: `gain` in times, `efficiency` of linear scaling; None where one was not measured."""

    concurrency: int
    gain: float | None
    efficiency: float | None


@dataclass(frozen=True, slots=True)
class Finding:
    """`id` is stable; `value` is the concurrency that it speaks of."""

    id: str
    value: int
    text: str
    advice: str


@dataclass(frozen=True, slots=True)
class Sweep:
    """What the levels of a sweep say together.

    Attributes:
        knee_marginal: last level that still brings half of what linear scaling would; None with fewer than two levels.
        knee_chord: level highest above the line from the first to the last, over log concurrency; None when no level
            is, as with a curve that has not bent yet.
        peak: level with the highest throughput.
        fall_percent: loss of the worst level after the peak; 0 when none is lower.
        finding: what stops it, or where its knee is; None with a single level.
    """

    scaling: tuple[Scale, ...]
    knee_marginal: int | None
    knee_chord: int | None
    peak: int
    fall_percent: float
    finding: Finding | None

    @property
    def knees_agree(self) -> bool:
        """Whether nothing speaks for a second level; where something does, both are to be shown."""
        return self.knee_chord in (None, self.knee_marginal)


def read_sweep(points: Sequence[Point], *, output_tokens: int | None = None, engine: str = "") -> Sweep:
    """Scaling, knees and advice from the levels in any order.

    Args:
        output_tokens: of each request; without it a queue shows only where the engine tells of it.
        engine: our name of it, so that advice can name its setting.

    Raises:
        ValueError: no level, a level twice, or a throughput that is not above 0.
    """
    levels = sorted(points, key=lambda point: point.concurrency)
    counts = [level.concurrency for level in levels]
    if not levels or len(set(counts)) < len(counts) or counts[0] < 1:
        raise ValueError(f"a sweep needs levels of 1 or more streams, each once: {counts}")
    if not all(math.isfinite(level.agg_tok_s) and level.agg_tok_s > 0 for level in levels):
        raise ValueError("a level without throughput is no part of a sweep: leave out what is invalid")
    peak, worst = _peak_and_worst(levels)
    return Sweep(
        scaling=tuple(_scale(levels[0], level) for level in levels),
        knee_marginal=_knee_marginal(levels),
        knee_chord=_knee_chord(levels),
        peak=peak.concurrency,
        fall_percent=100 * (1 - worst.agg_tok_s / peak.agg_tok_s),
        finding=_found(levels, output_tokens, engine),
    )


def _scale(first: Point, level: Point) -> Scale:
    if first.concurrency != 1:
        return Scale(level.concurrency, None, None)
    gain = level.agg_tok_s / first.agg_tok_s
    return Scale(level.concurrency, gain, gain / level.concurrency)


def _marginal(before: Point, level: Point) -> float:
    """What the further streams bring, as a share of what they would if each brought as much as those before."""
    return (level.agg_tok_s / before.agg_tok_s - 1) / (level.concurrency / before.concurrency - 1)


def _knee_marginal(levels: Sequence[Point]) -> int | None:
    """Each level is held against the best before it: a level that recovers from a dip is no gain."""
    best = knee = levels[0]
    for level in levels[1:]:
        if _marginal(best, level) >= ENOUGH:
            knee = level
        best = max(best, level, key=lambda point: point.agg_tok_s)
    return knee.concurrency if len(levels) > 1 else None


def _knee_chord(levels: Sequence[Point]) -> int | None:
    """The height above a straight line is greatest where the distance to it is, so height is enough."""
    if len(levels) < 3:
        return None
    first, last = levels[0], levels[-1]
    width = math.log(last.concurrency / first.concurrency)

    def height(level: Point) -> float:
        share = math.log(level.concurrency / first.concurrency) / width
        return level.agg_tok_s - first.agg_tok_s - share * (last.agg_tok_s - first.agg_tok_s)

    highest = max(levels, key=height)
    bend = BEND * max(level.agg_tok_s for level in levels)
    return highest.concurrency if height(highest) > bend else None


def _found(levels: Sequence[Point], output_tokens: int | None, engine: str) -> Finding | None:
    """The likeliest cause of a stop, and the knee where there is none."""
    cap = CAP_SETTINGS.get(engine) or f"the cap on requests at a time ({', '.join(CAP_SETTINGS.values())})"
    return (
        _serialised(levels, cap)
        or _queue_cap(levels, output_tokens, cap)
        or _falls_after_peak(levels)
        or _knee_found(levels)
    )


def _finding(name: str, value: int, **values: object) -> Finding:
    text, advice = _WORDS[name]
    return Finding(name, value, text.format(**values), advice.format(**values))


def _serialised(levels: Sequence[Point], cap: str) -> Finding | None:
    together = [level for level in levels if level.concurrency >= SERIAL_FROM]
    if levels[0].concurrency != 1 or not together:
        return None
    best = max(together, key=lambda level: level.agg_tok_s)
    gain = best.agg_tok_s / levels[0].agg_tok_s
    if gain >= SERIAL_GAIN:
        return None
    return _finding("serialised", best.concurrency, level=best.concurrency, gain=gain, cap=cap)


def _queue_cap(levels: Sequence[Point], output_tokens: int | None, cap: str) -> Finding | None:
    """A queue with no gain, right after levels that still gained: what was saturated before is not stopped by a cap."""
    for index, (before, level) in enumerate(pairwise(levels)):
        if _marginal(before, level) >= ENOUGH or not _queues(before, level, output_tokens):
            continue
        if any(smaller.agg_tok_s >= FULL * before.agg_tok_s for smaller in levels[:index]):
            return None
        percent = 100 * level.agg_tok_s / before.agg_tok_s
        words = {"level": level.concurrency, "before": before.concurrency, "percent": percent, "cap": cap}
        return _finding("queue_cap", before.concurrency, **words)
    return None


def _queues(before: Point, level: Point, output_tokens: int | None) -> bool:
    """The engine says so, or the first token comes later by nearly the time that an answer takes.

    Of the second the engine may know nothing, when a router before it holds the requests. A prefill that more prompts
    make longer in proportion is no queue.
    """
    if level.waiting:
        return True
    if not output_tokens or not before.stream_tok_s or before.ttft_ms is None or level.ttft_ms is None:
        return False
    prefill_ms = before.ttft_ms * level.concurrency / before.concurrency
    return level.ttft_ms - prefill_ms >= WAIT * 1e3 * output_tokens / before.stream_tok_s


def _peak_and_worst(levels: Sequence[Point]) -> tuple[Point, Point]:
    """The best level, and the worst from there on."""
    peak = max(levels, key=lambda level: level.agg_tok_s)
    after = [level for level in levels if level.concurrency >= peak.concurrency]
    return peak, min(after, key=lambda level: level.agg_tok_s)


def _falls_after_peak(levels: Sequence[Point]) -> Finding | None:
    peak, worst = _peak_and_worst(levels)
    loss = 1 - worst.agg_tok_s / peak.agg_tok_s
    if loss < FALL:
        return None
    words = {"level": worst.concurrency, "before": peak.concurrency, "percent": 100 * loss}
    return _finding("falls_after_peak", peak.concurrency, **words)


def _knee_found(levels: Sequence[Point]) -> Finding | None:
    knee, chord, last = _knee_marginal(levels), _knee_chord(levels), levels[-1].concurrency
    if knee is None:
        return None
    if knee == last:
        return _finding("knee_not_reached", last, level=last, double=2 * last)
    also = f"; its curve bends most at {chord}" if chord not in (None, knee) else ""
    return _finding("knee", knee, before=knee, also=also)
