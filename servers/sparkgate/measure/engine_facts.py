"""What an engine tells of its cache and its drafting in a burst: in its answers, or else by its counters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparkgate.measure.checks import MANY_PER_CHUNK
from sparkgate.measure.engine_counters import Counters, difference
from sparkgate.measure.sample import Sample

TIMINGS = ("llamacpp", "llamacpp-router", "docker-model-runner")
"""Engines whose answers name drafted tokens when there were any."""
COUNT_DRAFTS = ("vllm",)
"""Engines whose metrics name drafts as soon as they draft at all."""
STEP_A_CHUNK = ("vllm", "sglang")
"""Engines that send what one step gave in one chunk, drafted tokens with it."""
CACHED = ("cached_prompt_tokens", "prefix_hits")
"""Counters of prompt tokens that came from a cache; the first that is there counts, as it knows all caches."""


@dataclass(frozen=True, slots=True)
class Drafting:
    """How drafting went.

    Attributes:
        accepted_per_step: drafted tokens kept by a step of the model, on average; 0.0 when nothing was drafted.
        accept_rate: share of the drafted tokens that was kept; None when nothing was drafted, or that is not told.
    """

    accepted_per_step: float
    accept_rate: float | None = None

    @property
    def tokens_per_step(self) -> float:
        return 1 + self.accepted_per_step


def cached_tokens(before: Counters, after: Counters, requests: int) -> float | None:
    """Prompt tokens of one request that came from the cache: the growth over a burst, divided by its requests.

    None when it is not counted. A few requests that should not have been cached, and were, raise the mean of a cold
    burst; in a warm one it is the mean that has to be high.
    """
    grown = difference(before, after)
    total = next((grown[name] for name in CACHED if name in grown), None)
    return None if total is None or not requests else total / requests


def drafting(engine: str, answered: Sequence[Sample], before: Counters, after: Counters) -> Drafting | None:
    """How drafting went in a burst; None when it does not tell. Its answers are believed before its counters."""
    return _by_answers(engine, answered) or _by_counters(engine, before, after)


def _by_answers(engine: str, answered: Sequence[Sample]) -> Drafting | None:
    """A step gives the tokens it keeps and one more, so there were as many steps as tokens that were not drafted."""
    clocks = [sample.engine for sample in answered if sample.engine.predicted_n is not None]
    tells = engine in TIMINGS or any(one.draft_n is not None for one in clocks)
    if not clocks or not tells:
        return None
    accepted = sum(one.draft_accepted_n or 0 for one in clocks)
    return _of(
        accepted, sum(one.draft_n or 0 for one in clocks), sum(one.predicted_n or 0 for one in clocks) - accepted
    )


def _by_counters(engine: str, before: Counters, after: Counters) -> Drafting | None:
    if "accept_length" in after:
        return Drafting(max(0.0, after["accept_length"] - 1))
    grown = difference(before, after)
    accepted, drafted = grown.get("accepted_tokens"), grown.get("draft_tokens")
    if accepted is None or drafted is None:
        return Drafting(0.0) if engine in COUNT_DRAFTS and after and "draft_tokens" not in after else None
    steps = grown.get("drafts", grown.get("generated_tokens", 0.0) - accepted)
    return _of(accepted, drafted, steps)


def _of(accepted: float, drafted: float, steps: float) -> Drafting | None:
    if not drafted:
        return Drafting(0.0)
    return Drafting(accepted / steps, accepted / drafted) if steps > 0 else None


def accepted_by_chunks(engine: str, tokens_per_chunk: float | None) -> float | None:
    """Drafted tokens kept by a step, as the chunks of an engine show it that does not tell.

    That a chunk holds one token says nothing of an engine that may send drafted tokens one by one.
    """
    if tokens_per_chunk is None or (engine not in STEP_A_CHUNK and tokens_per_chunk <= MANY_PER_CHUNK):
        return None
    return max(0.0, tokens_per_chunk - 1)
