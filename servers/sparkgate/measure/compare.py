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
from dataclasses import dataclass
from statistics import NormalDist, stdev
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
_MORE = "; {needed} more repeats a side would probably decide"
_NEVER = "; repeats will hardly decide: measure longer bursts on a quieter machine"
_PROTOCOLS = (
    "the protocols differ ({a} and {b}): other prompts, lengths or settings were measured; measure both anew alike"
)
_ONLY = "only run {side} holds this cell: measure it in both"
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
    return {
        key: Refusal(why) if (why := _refused(a.get(key), b.get(key))) else _cells(a[key], b[key], higher_is_better)
        for key in (*a, *(key for key in b if key not in a))
    }


def _cells(a: Cell, b: Cell, higher_is_better: bool) -> Verdict:
    return compare(a.values, b.values, higher_is_better=higher_is_better)


def _refused(a: Cell | None, b: Cell | None) -> str:
    """Why two cells must not be compared; "" when they may."""
    if a is None or b is None:
        return _ONLY.format(side="B" if a is None else "A")
    if a.protocol != b.protocol:
        return _PROTOCOLS.format(a=a.protocol, b=b.protocol)
    for side, cell in (("A", a), ("B", b)):
        if not cell.valid:
            return _INVALID.format(side=side)
        if not all(_usable(value) for value in cell.values):
            return _UNUSABLE.format(side=side)
    return ""


def _usable(value: float) -> bool:
    return math.isfinite(value) and value > 0


def _check(values: Sequence[float], side: Side) -> None:
    for value in values:
        if not _usable(value):
            raise ValueError(f"{value!r} in side {side} is no rate or time above 0")


def _few(a: Sequence[float], b: Sequence[float], shift_percent: float | None, wanted: int) -> Verdict:
    needed = max(1, wanted - min(len(a), len(b)))
    why = _FEW.format(a=len(a), b=len(b)) + _MORE.format(needed=needed)
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
