"""Statistics of small samples: robust, seeded, and None where too few values would make a number up.

Values are plain floats in any unit; what comes back has the same unit, unless a name says otherwise.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import NormalDist, mean, median, stdev
from types import MappingProxyType
from typing import Literal

Interval = tuple[float, float]
"""Low and high end, both inside."""

PERCENTILE_NEEDS: Mapping[int, int] = MappingProxyType({50: 1, 95: 20, 99: 100})
"""Percentile → the fewest values it is told of: at least one value lies beyond it."""
INTERVAL_NEEDS = 5
RESAMPLES = 2_000
CONFIDENCE = 0.95
EXACT_A_SIDE = 30
"""Up to here the rank distributions are counted out: a bootstrap of so few covers less than it says and costs more."""

_TOO_FEW = "{n} of the {needed} values it needs"


@dataclass(frozen=True, slots=True)
class Summary:
    """One metric over its samples; `nulls` tells for each name that is None why.

    Attributes:
        mad: median distance from the median, not scaled to a standard deviation.
        ci95: bootstrap interval of the median.
    """

    n: int
    median: float | None = None
    mad: float | None = None
    low: float | None = None
    high: float | None = None
    p95: float | None = None
    p99: float | None = None
    ci95: Interval | None = None
    nulls: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RankTest:
    """`u` counts the pairs in which the first side is larger, ties as one half; `p` is two-sided."""

    u: float
    p: float
    method: Literal["exact", "normal"]


@dataclass(frozen=True, slots=True)
class Shift:
    """How far the second side lies above the first.

    `ci` is None where so few values cannot give it; `confidence` is the share it is sure to cover, at least what was
    asked for when the method is exact.
    """

    value: float
    ci: Interval | None
    confidence: float | None
    method: Literal["exact", "normal", "none"]


def summarise(values: Sequence[float], *, seed: int) -> Summary:
    """All that is told of one metric."""
    n = len(values)
    needs = {"median": 1, "mad": 1, "low": 1, "high": 1, "ci95": INTERVAL_NEEDS}
    needs |= {f"p{percent}": needed for percent, needed in PERCENTILE_NEEDS.items() if percent != 50}
    nulls = {name: _TOO_FEW.format(n=n, needed=needed) for name, needed in needs.items() if n < needed}
    if not values:
        return Summary(0, nulls=nulls)
    return Summary(
        n=n,
        median=median(values),
        mad=mad(values),
        low=min(values),
        high=max(values),
        p95=gated_percentile(values, 95),
        p99=gated_percentile(values, 99),
        ci95=bootstrap_median_ci(values, seed=seed),
        nulls=nulls,
    )


def mad(values: Sequence[float]) -> float | None:
    """Median distance from the median, in the unit of the values; None without values."""
    if not values:
        return None
    centre = median(values)
    return median(abs(value - centre) for value in values)


def percentile(values: Sequence[float], percent: float) -> float:
    """Percentile with linear interpolation between neighbours, whatever their number.

    Raises:
        ValueError: no values, or a percent outside 0 to 100.
    """
    if not values or not 0 <= percent <= 100:
        raise ValueError(f"percentile {percent:g} of {len(values)} values")
    ordered = sorted(values)
    position = (len(ordered) - 1) * (percent / 100)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def gated_percentile(values: Sequence[float], percent: int) -> float | None:
    """A percentile of `PERCENTILE_NEEDS`; None with fewer values than it needs.

    Raises:
        KeyError: a percentile without a rule for how many values it needs.
    """
    return percentile(values, percent) if len(values) >= PERCENTILE_NEEDS[percent] else None


def bootstrap_median_ci(values: Sequence[float], *, seed: int, confidence: float = CONFIDENCE) -> Interval | None:
    """Percentile bootstrap of the median; None with fewer than five values."""
    if len(values) < INTERVAL_NEEDS:
        return None
    draw = random.Random(seed)
    medians = [median(draw.choices(values, k=len(values))) for _ in range(RESAMPLES)]
    tail = 50 * (1 - confidence)
    return percentile(medians, tail), percentile(medians, 100 - tail)


def cv(values: Sequence[float]) -> float | None:
    """Sample standard deviation over the mean, as a fraction; None with fewer than two values or a mean of 0."""
    centre = mean(values) if len(values) > 1 else 0.0
    return stdev(values) / abs(centre) if centre else None


def pooled_cv(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Spread within the two sides, as a fraction, weighted by their degrees of freedom; None when neither has one."""
    known = [(len(side) - 1, own) for side in (a, b) if (own := cv(side)) is not None]
    freedom = sum(weight for weight, _ in known)
    return math.sqrt(sum(weight * own**2 for weight, own in known) / freedom) if freedom else None


def mann_whitney(a: Sequence[float], b: Sequence[float]) -> RankTest:
    """Two-sided Mann–Whitney test.

    Equal values share the mean of their ranks. Up to `EXACT_A_SIDE` values a side p is exact, also with ties: every
    way of dealing these very ranks to the two sides is counted. Above, the normal approximation is taken, with the
    corrections for ties and continuity.

    Raises:
        ValueError: a side is empty.
    """
    if not a or not b:
        raise ValueError("a side without values")
    ranks = _doubled_ranks([*a, *b])
    smallest = len(a) * (len(a) + 1)
    doubled_u = sum(ranks[: len(a)]) - smallest
    if max(len(a), len(b)) <= EXACT_A_SIDE:
        return RankTest(doubled_u / 2, _exact_p(ranks, len(a), doubled_u + smallest), "exact")
    return RankTest(doubled_u / 2, _normal_p(ranks, len(a), doubled_u / 2), "normal")


def _doubled_ranks(values: Sequence[float]) -> list[int]:
    """Twice the mid-rank of each value, which is a whole number."""
    ordered = sorted(values)
    first = {value: index for index, value in reversed(list(enumerate(ordered, start=1)))}
    last = {value: index for index, value in enumerate(ordered, start=1)}
    return [first[value] + last[value] for value in values]


def _exact_p(ranks: Sequence[int], n: int, seen: int) -> float:
    ways: list[Counter[int]] = [Counter({0: 1}), *(Counter() for _ in range(n))]
    for rank in ranks:
        for chosen in range(n, 0, -1):
            for total, count in ways[chosen - 1].items():
                ways[chosen][total + rank] += count
    below = sum(count for total, count in ways[n].items() if total <= seen)
    above = sum(count for total, count in ways[n].items() if total >= seen)
    return min(1.0, 2 * min(below, above) / math.comb(len(ranks), n))


def _normal_p(ranks: Sequence[int], n: int, u: float) -> float:
    total = len(ranks)
    m = total - n
    ties = sum(count**3 - count for count in Counter(ranks).values())
    spread = math.sqrt(n * m / 12 * (total + 1 - ties / (total * (total - 1))))
    if not spread:
        return 1.0
    z = max(0.0, abs(u - n * m / 2) - 0.5) / spread
    return math.erfc(z / math.sqrt(2))


def hodges_lehmann(a: Sequence[float], b: Sequence[float], *, confidence: float = CONFIDENCE) -> Shift:
    """Median of all differences b − a, with the interval of all shifts that the Mann–Whitney test does not reject.

    Raises:
        ValueError: a side is empty.
    """
    if not a or not b:
        raise ValueError("a side without values")
    n, m = len(a), len(b)
    differences = sorted(y - x for x in a for y in b)
    if max(n, m) <= EXACT_A_SIDE:
        return _exact_shift(differences, _rank_sums(n, m), confidence)
    return _normal_shift(differences, math.sqrt(n * m * (n + m + 1) / 12), confidence)


def paired_shift(a: Sequence[float], b: Sequence[float], *, confidence: float = CONFIDENCE) -> Shift:
    """Median of the mean differences of any two pairs, with the interval of the Wilcoxon signed-rank test.

    Raises:
        ValueError: the sides differ in length or are empty.
    """
    if len(a) != len(b) or not a:
        raise ValueError(f"{len(a)} and {len(b)} values are not pairs")
    n = len(a)
    steps = [y - x for x, y in zip(a, b, strict=True)]
    means = sorted((steps[i] + steps[j]) / 2 for i in range(n) for j in range(i, n))
    if n <= EXACT_A_SIDE:
        return _exact_shift(means, _signed_ranks(n), confidence)
    return _normal_shift(means, math.sqrt(n * (n + 1) * (2 * n + 1) / 24), confidence)


def _exact_shift(ordered: Sequence[float], counts: Sequence[int], confidence: float) -> Shift:
    """Drop as many values at each end as the tail of the test's distribution allows."""
    total, tail, dropped = sum(counts), 0, 0
    while 2 * (tail + counts[dropped]) <= (1 - confidence) * total:
        tail += counts[dropped]
        dropped += 1
    if not dropped:
        return Shift(median(ordered), None, None, "none")
    return Shift(median(ordered), (ordered[dropped - 1], ordered[-dropped]), 1 - 2 * tail / total, "exact")


def _normal_shift(ordered: Sequence[float], spread: float, confidence: float) -> Shift:
    """The same from the normal approximation of that distribution, which runs from 0 to the number of values."""
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    dropped = math.floor(len(ordered) / 2 - z * spread + 0.5)
    if dropped < 1:
        return Shift(median(ordered), None, None, "none")
    return Shift(median(ordered), (ordered[dropped - 1], ordered[-dropped]), confidence, "normal")


@lru_cache(maxsize=64)
def _rank_sums(n: int, m: int) -> tuple[int, ...]:
    """In how many of the C(n+m, n) orders U is 0, 1, … n·m (the coefficients of the Gaussian binomial)."""
    counts = [1] + [0] * (n * m)
    for i in range(1, n + 1):
        for u in range(n * m, m + i - 1, -1):
            counts[u] -= counts[u - m - i]
        for u in range(i, n * m + 1):
            counts[u] += counts[u - i]
    return tuple(counts)


@lru_cache(maxsize=64)
def _signed_ranks(n: int) -> tuple[int, ...]:
    """In how many of the 2ⁿ choices of signs the positive ranks sum to 0, 1, … n(n+1)/2."""
    counts = [1] + [0] * (n * (n + 1) // 2)
    for rank in range(1, n + 1):
        for total in range(len(counts) - 1, rank - 1, -1):
            counts[total] += counts[total - rank]
    return tuple(counts)
