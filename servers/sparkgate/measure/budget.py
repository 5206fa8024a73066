"""How long bursts take by the rates of a probe, and what of a plan would fit into its time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparkgate.measure.plan import Cell, Plan

STEP_OVERHEAD_S = 0.5
WARM_PREFILL_SHARE = 0.1
BATCH_EXPONENT = 0.56
"""Aggregate rate grows about as concurrency to this power (published: 3.3 times at 8, 4.7 times at 16)."""
SHORTEST_ANSWER = 32
"""Tokens of which a rate can still be told."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What a probe of one stream has shown, in tokens per second; None when it could not be measured."""

    prefill_tok_s: float | None
    decode_tok_s: float | None

    @property
    def known(self) -> bool:
        return bool(self.prefill_tok_s and self.decode_tok_s)


def burst_s(cell: Cell, rates: Rates) -> float | None:
    """About how long one burst of a cell takes; None when a rate is not known."""
    if not rates.prefill_tok_s or not rates.decode_tok_s:
        return None
    share = WARM_PREFILL_SHARE if cell.cache_mode == "warm" else 1.0
    prefill_s = share * cell.concurrency * cell.whole_prompt_tokens / rates.prefill_tok_s
    decode_s = cell.output_tokens * math.pow(cell.concurrency, 1 - BATCH_EXPONENT) / rates.decode_tok_s
    return prefill_s + decode_s + STEP_OVERHEAD_S


def bursts_s(cells: Sequence[Cell], rates: Rates) -> float | None:
    """The same for one burst of each cell."""
    several = [burst_s(cell, rates) for cell in cells]
    known = [one for one in several if one is not None]
    return sum(known) if len(known) == len(several) else None


def what_fits(planned: Plan, needed_s: Callable[[Plan], float | None]) -> str:
    """What to ask for so that it ends within `max_seconds`: the least cut in each of repeats, streams and lengths."""
    found = [
        next((words for words, fewer in cuts if (needed_s(fewer) or 0.0) <= planned.max_seconds), None)
        for cuts in (_fewer_repeats(planned), _fewer_streams(planned), _shorter_answers(planned), _shorter(planned))
    ]
    told = [words for words in found if words]
    return f"ask for {', or '.join(told)}" if told else "ask for fewer or shorter cells"


def _fewer_repeats(planned: Plan) -> Iterator[tuple[str, Plan]]:
    for count in range(planned.repeats - 1, 0, -1):
        yield f"repeats = {count}", replace(planned, repeats=count)


def _fewer_streams(planned: Plan) -> Iterator[tuple[str, Plan]]:
    """Fewer levels; a single one is halved."""
    levels = sorted({cell.concurrency for cell in planned.cells})
    halves = [levels[-1] >> power for power in range(1, levels[-1].bit_length())]
    for most in levels[-2::-1] if len(levels) > 1 else halves:
        cut = [replace(cell, concurrency=min(cell.concurrency, most)) for cell in planned.cells]
        kept = [str(level) for level in levels if level <= most] or [str(most)]
        yield f"concurrency = {','.join(kept)}", replace(planned, cells=tuple(dict.fromkeys(cut)))


def _shorter_answers(planned: Plan) -> Iterator[tuple[str, Plan]]:
    tokens = max(cell.output_tokens for cell in planned.cells) // 2
    while tokens >= SHORTEST_ANSWER:
        yield f"output_tokens = {tokens}", with_answers(planned, tokens)
        tokens //= 2


def with_answers(planned: Plan, tokens: int) -> Plan:
    """The plan with answers of so many tokens at most."""
    cut = (replace(cell, output_tokens=min(cell.output_tokens, tokens)) for cell in planned.cells)
    return replace(planned, cells=tuple(cut))


def _shorter(planned: Plan) -> Iterator[tuple[str, Plan]]:
    """Without the longest prompts."""
    lengths = sorted({cell.prompt_tokens for cell in planned.cells})
    for count in range(len(lengths) - 1, 0, -1):
        kept = tuple(cell for cell in planned.cells if cell.prompt_tokens in lengths[:count])
        yield f"prompt_tokens = {','.join(map(str, lengths[:count]))}", replace(planned, cells=kept)
