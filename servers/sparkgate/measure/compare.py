"""Two stored runs side by side: same, faster, slower, or not decided yet and what would decide it.

The rules, in logarithms of the values, so that A against B is the mirror of B against A:

* same: the whole interval of the shift lies within the margin of 3 %.
* faster or slower: the interval excludes 0 and the shift is larger than the margin and than twice the spread of the
  bursts; or the whole interval lies beyond the margin. Without the second way an engine whose bursts spread by 3 %
  could never be told apart from one that is 5 % slower, however often it is measured.
* inconclusive: everything else.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from statistics import NormalDist, median, stdev
from typing import Literal, TypeVar

from sparkgate.measure.statistics import Interval, Shift, hodges_lehmann, paired_shift, pooled_cv

Kind = Literal["same", "faster", "slower", "inconclusive"]
Side = Literal["a", "b"]
Key = TypeVar("Key", bound=Hashable)

MARGIN_PERCENT = 3.0
"""Smaller differences are of no use to a person, and drift of a warm machine is as large."""
MARGIN = math.log1p(MARGIN_PERCENT / 100)
SPREADS = 2.0
REPEATS = 5
"""Repeats a side that a comparison begins with: three can never reach p < 0.05, four only when the sides do not mix."""
PAIRS = 6
"""Fewest pairs from which a 95 % interval of the signed-rank test exists."""
MAX_REPEATS = 100
"""A side; what needs more is not worth waiting for."""
_SURE = NormalDist().inv_cdf(0.975) + NormalDist().inv_cdf(0.8)
"""Standard errors between a shift and a border, for a 95 % interval that clears it four times in five."""
_EFFICIENCY = 3 / math.pi
"""Of ranks against means, on normal values."""

_SHIFT = "B lies {shift:+.1f} % from A, 95 % interval {low:+.1f} to {high:+.1f} %"
_WITHIN = "{shift}: within ±{margin:g} %"
_CLEAR = (
    "{shift}: it excludes 0, and the shift is more than {threshold:.1f} % (twice the spread, at least {margin:g} %)"
)
_BEYOND = "{shift}: wholly beyond ±{margin:g} %"
_OPEN = "{shift}: that allows both a difference and none; bursts spread by {spread:.1f} %"
_FEW = "{a} and {b} values cannot give a 95 % interval"
_SEEN = "by the medians {shift:+.1f} %, but "
_MORE = "; {needed} more repeats a side would probably decide"
_NEVER = "; repeats will hardly decide: measure longer bursts on a quieter machine"
_PROTOCOLS = (
    "the protocols differ ({a} and {b}): other prompts, lengths or settings were measured; measure both anew alike"
)
_ONLY = "only run {side} holds this cell: measure it in both"
_MISSING = "run {side} does not hold this cell: measure it in all"
_DISAGREE = "{why}; but the pairs of runs disagree ({shifts}): measure another pair"
_INVALID = (
    "the cell is invalid in run {side} and has no number to compare: mend what its flags name and measure it anew"
)
_UNUSABLE = "the cell has values in run {side} that are no rate or time above 0"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What B is, seen from A.

    Attributes:
        shift_percent: B over A in the values' own direction, negative when they are lower; None without values.
        ci_percent: its 95 % interval; None with too few values.
        needed_repeats: further repeats a side that would probably decide; None when decided, or when none would.
    """

    kind: Kind
    shift_percent: float | None
    ci_percent: Interval | None
    needed_repeats: int | None
    why: str


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a stored run: what it was measured by, its value for each burst, and whether it may be believed."""

    protocol: str
    values: Sequence[float]
    valid: bool


@dataclass(frozen=True, slots=True)
class Refusal:
    """Two cells that must not be compared, and why."""

    why: str


def compare(a: Sequence[float], b: Sequence[float], *, higher_is_better: bool) -> Verdict:
    """Whether B is faster than A by one metric, from its values for each burst, in any unit.

    Raises:
        ValueError: a value is not a finite number above 0.
    """
    _check(a, "a")
    _check(b, "b")
    if not a or not b:
        return _few(a, b, None, REPEATS)
    logs = [[math.log(value) for value in side] for side in (a, b)]
    shift = hodges_lehmann(*logs)
    if shift.ci is None:
        return _few(a, b, _percent(shift.value), REPEATS)
    return _judged(shift, shift.ci, pooled_cv(a, b) or 0.0, min(len(a), len(b)), higher_is_better)


def compare_pairs(a: Sequence[float], b: Sequence[float], *, higher_is_better: bool) -> Verdict:
    """The same for bursts that were measured in turns, as `abba_order` gives them: a[i] and b[i] stood side by side.

    What drifts in the hour between two runs cancels in each pair.

    Raises:
        ValueError: the sides differ in length, or a value is not a finite number above 0.
    """
    _check(a, "a")
    _check(b, "b")
    if len(a) == len(b) == 0:
        return _few(a, b, None, PAIRS)
    logs = [[math.log(value) for value in side] for side in (a, b)]
    shift = paired_shift(*logs)
    if shift.ci is None:
        return _few(a, b, _percent(shift.value), PAIRS)
    steps = [y - x for x, y in zip(*logs, strict=True)]
    return _judged(shift, shift.ci, stdev(steps) / math.sqrt(2), len(a), higher_is_better)


def abba_order(pairs: int) -> tuple[Side, ...]:
    """Which side each burst measures, so that a steady drift helps either side as often: a b b a a b b a …"""
    both: tuple[tuple[Side, Side], ...] = (("a", "b"), ("b", "a"))
    return tuple(side for pair in range(pairs) for side in both[pair % 2])


def compare_runs(
    a: Mapping[Key, Cell], b: Mapping[Key, Cell], *, higher_is_better: bool
) -> dict[Key, Verdict | Refusal]:
    """Every cell of two runs by one metric, in the order of A and then what only B holds."""
    return compare_sides([a], [b], higher_is_better=higher_is_better)


def compare_sides(
    a: Sequence[Mapping[Key, Cell]], b: Sequence[Mapping[Key, Cell]], *, higher_is_better: bool
) -> dict[Key, Verdict | Refusal]:
    """The same of two settings that were measured in one or more runs each; the bursts of a side are pooled.

    As many runs on both sides, more than one, are taken as measured in turns: the first of A stands against the first
    of B, burst by burst.
    """
    sides = {
        key: ([run.get(key) for run in a], [run.get(key) for run in b])
        for key in dict.fromkeys(key for run in (*a, *b) for key in run)
    }
    return {
        key: Refusal(why) if (why := refusal(one, other)) else _pooled(_held(one), _held(other), higher_is_better)
        for key, (one, other) in sides.items()
    }


def _held(cells: Sequence[Cell | None]) -> list[Sequence[float]]:
    return [cell.values for cell in cells if cell]


def _pooled(a: Sequence[Sequence[float]], b: Sequence[Sequence[float]], higher_is_better: bool) -> Verdict:
    if len(a) != len(b) or len(a) == 1:
        return compare(list(chain(*a)), list(chain(*b)), higher_is_better=higher_is_better)
    turns = [list(zip(one, other, strict=False)) for one, other in zip(a, b, strict=True)]
    pairs = list(chain(*turns))
    verdict = compare_pairs([x for x, _ in pairs], [y for _, y in pairs], higher_is_better=higher_is_better)
    shifts = [median(math.log(y / x) for x, y in turn) for turn in turns if turn]
    if verdict.kind not in ("faster", "slower") or min(shifts) * max(shifts) > 0:
        return verdict
    told = ", ".join(f"{_percent(shift):+.1f} %" for shift in shifts)
    return replace(verdict, kind="inconclusive", why=_DISAGREE.format(why=verdict.why, shifts=told))


def refusal(a: Sequence[Cell | None], b: Sequence[Cell | None]) -> str:
    """Why one cell of the runs of two sides must not be compared; "" when it may."""
    names = [name for side, cells in (("A", a), ("B", b)) for name in side_names(side, len(cells))]
    cells = dict(zip(names, (*a, *b), strict=True))
    held = {name: cell for name, cell in cells.items() if cell}
    if len(held) < len(cells):
        missing = next(name for name in cells if name not in held)
        return _ONLY.format(side=next(iter(held))) if len(cells) == 2 else _MISSING.format(side=missing)
    protocols = list(dict.fromkeys(cell.protocol for cell in held.values()))
    if len(protocols) > 1:
        return _PROTOCOLS.format(a=protocols[0], b=protocols[1])
    for name, cell in held.items():
        if not cell.valid:
            return _INVALID.format(side=name)
        if not all(_usable(value) for value in cell.values):
            return _UNUSABLE.format(side=name)
    return ""


def side_names(side: str, runs: int) -> list[str]:
    """What the runs of a side are called: "A", or "A1", "A2" …"""
    return [side] if runs == 1 else [f"{side}{number}" for number in range(1, runs + 1)]


def _usable(value: float) -> bool:
    return math.isfinite(value) and value > 0


def _check(values: Sequence[float], side: Side) -> None:
    for value in values:
        if not _usable(value):
            raise ValueError(f"{value!r} in side {side} is no rate or time above 0")


def _few(a: Sequence[float], b: Sequence[float], shift_percent: float | None, wanted: int) -> Verdict:
    needed = max(1, wanted - min(len(a), len(b)))
    seen = "" if shift_percent is None else _SEEN.format(shift=shift_percent)
    why = seen + _FEW.format(a=len(a), b=len(b)) + _MORE.format(needed=needed)
    return Verdict("inconclusive", shift_percent, None, needed, why)


def _judged(shift: Shift, ci: Interval, spread: float, repeats: int, higher_is_better: bool) -> Verdict:
    """The rules at the top of this file; `spread` is a fraction, everything else is in logarithms."""
    size, threshold = abs(shift.value), max(MARGIN, math.log1p(SPREADS * spread))
    near, far = ci if shift.value > 0 else (-ci[1], -ci[0])
    better: Kind = "faster" if (shift.value > 0) is higher_is_better else "slower"
    needed = None
    kind, words = better, _CLEAR
    if near >= -MARGIN and far <= MARGIN:
        kind, words = "same", _WITHIN
    elif near > MARGIN:
        words = _BEYOND
    elif near <= 0 or size <= threshold:
        needed = _needed(size, threshold, spread, repeats)
        kind, words = "inconclusive", _OPEN + (_MORE if needed else _NEVER)
    percent, low, high = (_percent(value) for value in (shift.value, *ci))
    told = _SHIFT.format(shift=percent, low=low, high=high)
    why = words.format(
        shift=told, margin=MARGIN_PERCENT, threshold=_percent(threshold), spread=spread * 100, needed=needed
    )
    return Verdict(kind, percent, (low, high), needed, why)


def _needed(size: float, threshold: float, spread: float, repeats: int) -> int | None:
    """Further repeats a side until the interval probably clears the nearest border it can clear.

    The borders: within the margin, beyond it, or beyond 0 where the shift is large enough for that.
    """
    room = max(abs(size - MARGIN), size if size > threshold else 0.0)
    if not room:
        return None
    wanted = math.ceil(2 * (_SURE * spread / room) ** 2 / _EFFICIENCY)
    return max(1, wanted - repeats) if wanted <= MAX_REPEATS else None


def _percent(logarithm: float) -> float:
    return math.expm1(logarithm) * 100
