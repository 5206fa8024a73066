"""When the tokens of a request came: how many there are, and from which chunk on generation is measured.

A rate of generation counts the tokens after the first chunk, over the time after it: what the first chunk holds was
generated before that time begins. Where chunks hold several tokens and do not tell how many, it counts from the second
one: how long the first was held back to be filled is not known, and the text of both tells about how many they hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from sparkgate.measure.sample import Sample, TokenEvent

STALL_FACTOR = 5
STALL_MS = 250.0


@dataclass(frozen=True, slots=True)
class Stream:
    """A sample with what several metrics need.

    Attributes:
        chunks: its events without the further kinds of a chunk.
        n: tokens in all.
        begins: place of the chunk after which generation is measured; `before` are the tokens up to it.
    """

    sample: Sample
    chunks: Sequence[TokenEvent]
    gaps_ms: Sequence[float]
    n: int
    begins: int
    before: float
    flags: frozenset[str]

    @property
    def first_ns(self) -> int:
        return self.chunks[0].at_ns

    @property
    def begins_ns(self) -> int:
        return self.chunks[self.begins].at_ns

    @property
    def last_ns(self) -> int:
        return self.chunks[-1].at_ns

    @property
    def generated(self) -> float:
        """Tokens of the time that is measured; a whole number where the engine tells what its chunks hold."""
        return self.n - self.before

    def since_start_ms(self, at_ns: int) -> float:
        return (at_ns - self.sample.t0_ns) / 1e6


SEVERAL_TOKENS = 1.5
"""Tokens a chunk from which on its first chunk may hold more than one as well."""
LONG_FIRST = 2.5
"""A first chunk that is so many times as long as the usual one was held back until it was filled."""


def stream_of(sample: Sample) -> Stream:
    """What is derived once of a sample."""
    chunks = [event for event in sample.events if event.tokens != 0]
    gaps_ms = [(after.at_ns - before.at_ns) / 1e6 for before, after in pairwise(chunks)]
    told, unknown = sample.counts.completion, bool(chunks) and chunks[0].tokens is None
    hidden = _hidden_reasoning(sample, chunks)
    flags = {
        "tokens_estimated": told is None,
        "first_chunk_assumed": unknown,
        "cached_unknown": sample.counts.cached is None,
        "queue_unknown": sample.engine.queue_ms is None,
        "counts_disagree": sample.notes.counts_disagree,
        "hidden_reasoning": hidden > 0,
        "hidden_tail": _has_tail(sample, chunks, gaps_ms),
    }
    held = frozenset(flag for flag, holds in flags.items() if holds)
    begins, before = _beginning(chunks, told or 0, hidden)
    held |= {"first_chunk_estimated"} if unknown and before - hidden > 1 else set()
    return Stream(sample, chunks, gaps_ms, len(chunks) if told is None else told, begins, before, held)


def _beginning(chunks: Sequence[TokenEvent], told: int, hidden: int) -> tuple[int, float]:
    """From which chunk on generation is measured, and the tokens up to it; `hidden` ones came before the first."""
    if not chunks or chunks[0].tokens is not None:
        return 0, sum(event.tokens or 0 for event in chunks[:1])
    sizes, visible = [event.chars for event in chunks], told - hidden
    if not sum(sizes) or visible <= len(chunks):
        return 0, 1 + hidden
    if visible < SEVERAL_TOKENS * len(chunks):
        return 0, _held_back(sizes, visible) + hidden
    begins = min(1, len(chunks) - 1)
    return begins, max(1.0, visible * sum(sizes[: begins + 1]) / sum(sizes)) + hidden


def _held_back(sizes: Sequence[int], visible: int) -> float:
    """Tokens of a first chunk where the others hold one each: more than one only if it is much longer than they are."""
    times = sizes[0] / (median(sizes[1:] or sizes) or 1)
    return min(1 + visible - len(sizes), times) if times >= LONG_FIRST else 1


def _hidden_reasoning(sample: Sample, chunks: Sequence[TokenEvent]) -> int:
    """Tokens of reasoning that the engine counted, and of which nothing was seen before the first text."""
    seen = any(event.kind == "reasoning" for event in sample.events) or not all(event.chars for event in chunks[:1])
    return 0 if seen else sample.counts.reasoning or 0


def _has_tail(sample: Sample, chunks: Sequence[TokenEvent], gaps_ms: Sequence[float]) -> bool:
    """Whether the word that it has ended came long after the last token."""
    finish_ns = sample.notes.finish_ns
    return bool(chunks) and finish_ns is not None and (finish_ns - chunks[-1].at_ns) / 1e6 > stall_ms(gaps_ms)


def stall_ms(gaps_ms: Sequence[float]) -> float:
    """A gap that is longer is a stall."""
    return max(STALL_FACTOR * median(gaps_ms), STALL_MS) if gaps_ms else STALL_MS
