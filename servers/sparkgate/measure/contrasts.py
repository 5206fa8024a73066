"""Contrasts within one run: warm against cold, thinking on against off, code against prose.

The cells of a run are measured in turns, once in each repeat, so that the bursts of one repeat are pairs and what
drifts during the run cancels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkgate.measure.compare import MARGIN_PERCENT, Verdict, compare_pairs
from sparkgate.measure.statistics import Interval
from sparkgate.measure.store import StoredCell

FIELDS: Mapping[str, str] = {"prefix": "cache_mode", "thinking": "thinking", "content": "family"}
"""Kind of a run → the part of a cell's key that it contrasts; others stand against the first value in its plan."""
NAMES: Mapping[object, str] = {True: "thinking on", False: "off", "long_form": "long prose"}
METRICS: Mapping[str, str] = {"ttft_any_ms": "first token", "agg_decode_tok_s": "decode"}

_TIMES = "{what}: {metric} {ratio:.3g} times as fast"
_INTERVAL = " (95 % {low:.3g} to {high:.3g}, {pairs} pairs)"
_SAME = "; the same within ±{margin:g} %"
_MORE = ", not proven: {needed} more repeats would probably decide"
_NEVER = ", not proven, and more repeats will hardly decide"
_FEW = ", not proven with {pairs} repeat{s}: {wanted} would do"


@dataclass(frozen=True, slots=True)
class Contrast:
    """One cell against another of its run.

    Attributes:
        where: what both cells share, where the run has several of it.
        ratio: how many times as fast `what` is, of a time the inverse; `ci95` its interval.
        pairs: repeats in which both have a value.
    """

    what: str
    where: str
    metric: str
    verdict: Verdict
    ratio: float
    ci95: Interval | None
    pairs: int

    @property
    def text(self) -> str:
        what = f"{self.where}, {self.what}" if self.where else self.what
        told = _TIMES.format(what=what, metric=METRICS[self.metric], ratio=self.ratio)
        needed = self.verdict.needed_repeats
        if self.ci95 is None:
            return told + _FEW.format(pairs=self.pairs, s="s" * (self.pairs != 1), wanted=self.pairs + (needed or 0))
        told += _INTERVAL.format(low=self.ci95[0], high=self.ci95[1], pairs=self.pairs)
        if self.verdict.kind == "same":
            return told + _SAME.format(margin=MARGIN_PERCENT)
        if self.verdict.kind != "inconclusive":
            return told
        return told + (_MORE.format(needed=needed) if needed else _NEVER)

    def as_json(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "where": self.where,
            "metric": self.metric,
            "verdict": self.verdict.kind,
            "times_as_fast": self.ratio,
            "ci95": self.ci95,
            "pairs": self.pairs,
            "needed_repeats": self.verdict.needed_repeats,
            "text": self.text,
        }


def contrasts(
    field: str,
    metric: str,
    cells: Sequence[StoredCell],
    values: Mapping[str, Mapping[int, float]],
    named: Callable[[StoredCell, Sequence[StoredCell]], str],
) -> list[Contrast]:
    """Each cell against the first of those that differ from it in that part of the key only.

    Args:
        cells: those that may be believed, in the order of the plan.
        values: hash of a cell → repeat → the value of its burst, above 0.
        named: tells a cell from several others.
    """
    groups: dict[str, list[StoredCell]] = {}
    for cell in cells:
        rest = {name: value for name, value in cell.key.items() if name != field}
        groups.setdefault(repr(sorted(rest.items())), []).append(cell)
    firsts = [group[0] for group in groups.values() if len(group) > 1]
    return [
        found
        for group in groups.values()
        for other in group[1:]
        if (found := _contrast(field, metric, (group[0], other), values, named(group[0], firsts) * (len(firsts) > 1)))
    ]


def _contrast(
    field: str,
    metric: str,
    cells: tuple[StoredCell, StoredCell],
    values: Mapping[str, Mapping[int, float]],
    where: str,
) -> Contrast | None:
    """The second cell against the first; None where they have no repeat in common."""
    base, other = (values.get(cell.hash, {}) for cell in cells)
    repeats = sorted(base.keys() & other.keys())
    if not repeats:
        return None
    rate = not metric.endswith("_ms")
    verdict = compare_pairs([base[r] for r in repeats], [other[r] for r in repeats], higher_is_better=rate)
    ratio, ci = _fold(verdict.shift_percent or 0.0, rate), None
    if verdict.ci_percent:
        low, high = sorted(_fold(end, rate) for end in verdict.ci_percent)
        ci = (low, high)
    first, second = (NAMES.get(cell.key[field], str(cell.key[field])) for cell in cells)
    return Contrast(f"{second} against {first}", where, metric, verdict, ratio, ci, len(repeats))


def _fold(percent: float, rate: bool) -> float:
    """Times as fast, from how far a rate or a time lies above another."""
    return 1 + percent / 100 if rate else 1 / (1 + percent / 100)
