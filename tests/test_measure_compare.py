"""Verdicts on two runs: planted differences are found, chance is none, and cells that are not alike are refused."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from sparkgate.measure.compare import (
    MARGIN_PERCENT,
    PAIRS,
    REPEATS,
    Cell,
    Refusal,
    Verdict,
    abba_order,
    compare,
    compare_pairs,
    compare_runs,
)

RUNS = 100


def bursts(draw: random.Random, centre: float, spread: float, n: int = REPEATS) -> list[float]:
    return [centre * (1 + draw.gauss(0, spread)) for _ in range(n)]


def verdicts(difference: float, spread: float, *, repeats: int = REPEATS) -> Counter[str]:
    """What 100 seeded pairs of runs are called, B being faster by `difference`."""
    kinds: Counter[str] = Counter()
    for seed in range(RUNS):
        draw = random.Random(seed)
        a = bursts(draw, 100, spread, repeats)
        b = bursts(draw, 100 * (1 + difference), spread, repeats)
        kinds[compare(a, b, higher_is_better=True).kind] += 1
    return kinds


@pytest.mark.parametrize("spread", (0.005, 0.01, 0.02, 0.03, 0.05, 0.1))
def test_chance_is_called_a_difference_in_at_most_five_of_a_hundred(spread: float) -> None:
    found = verdicts(0.0, spread)
    assert found["faster"] + found["slower"] <= 5


def test_equal_engines_with_little_spread_are_called_the_same() -> None:
    assert verdicts(0.0, 0.01)["same"] >= 80


@pytest.mark.parametrize(("difference", "expected"), ((0.05, "faster"), (-0.05, "slower")))
def test_five_percent_at_one_percent_spread_is_found_in_at_least_95_of_a_hundred(
    difference: float, expected: str
) -> None:
    assert verdicts(difference, 0.01)[expected] >= 95


def test_a_difference_below_the_margin_is_no_difference_however_sure() -> None:
    assert verdicts(0.02, 0.002, repeats=20) == {"same": RUNS}


def test_what_spreads_by_nearly_as_much_as_it_differs_can_still_be_decided() -> None:
    few, many = verdicts(0.06, 0.04), verdicts(0.06, 0.04, repeats=60)
    assert few["inconclusive"] >= 50 and few["slower"] == 0
    assert many["faster"] >= 90


@pytest.mark.parametrize(("difference", "spread"), ((0.0, 0.02), (0.10, 0.05)))
def test_the_repeats_that_are_asked_for_mostly_decide(difference: float, spread: float) -> None:
    decided: list[bool] = []
    for seed in range(RUNS):
        draw = random.Random(seed)
        a, b = bursts(draw, 100, spread), bursts(draw, 100 * (1 + difference), spread)
        if more := compare(a, b, higher_is_better=True).needed_repeats:
            a += bursts(draw, 100, spread, more)
            b += bursts(draw, 100 * (1 + difference), spread, more)
            decided.append(compare(a, b, higher_is_better=True).kind != "inconclusive")
    assert len(decided) > 20 and sum(decided) / len(decided) >= 0.7


def test_a_verdict_tells_the_shift_its_interval_and_why() -> None:
    found = compare([100, 101, 99, 100.5, 99.5], [110, 111, 109, 110.5, 109.5], higher_is_better=True)
    assert found.kind == "faster" and found.needed_repeats is None
    assert found.shift_percent == pytest.approx(10, abs=0.2) and found.ci_percent
    assert MARGIN_PERCENT < found.ci_percent[0] < found.ci_percent[1] < 13
    assert "B lies +10.0 % from A, 95 % interval" in found.why and "beyond ±3 %" in found.why


def test_a_rate_that_grows_is_faster_and_a_time_that_grows_is_slower() -> None:
    a, b = [200.0] * 5, [230.0] * 5
    assert [compare(a, b, higher_is_better=higher).kind for higher in (True, False)] == ["faster", "slower"]
    assert compare(a, b, higher_is_better=False).shift_percent == pytest.approx(15)


def test_b_against_a_is_the_mirror_of_a_against_b_in_any_unit() -> None:
    mirror = {"faster": "slower", "slower": "faster", "same": "same", "inconclusive": "inconclusive"}
    for seed in range(RUNS):
        draw = random.Random(seed)
        a, b = bursts(draw, 100, 0.02), bursts(draw, draw.uniform(94, 106), 0.02)
        there, back = compare(a, b, higher_is_better=True), compare(b, a, higher_is_better=True)
        assert back.kind == mirror[there.kind] and back.needed_repeats == there.needed_repeats
        unit = compare([x / 7 for x in a], [x / 7 for x in b], higher_is_better=True)
        assert unit.kind == there.kind and unit.shift_percent == pytest.approx(there.shift_percent)


@pytest.mark.parametrize(("n", "needed"), ((0, 5), (1, 4), (2, 3), (3, 2)))
def test_too_few_repeats_ask_for_five_a_side(n: int, needed: int) -> None:
    found = compare([100.0] * n, [200.0] * n, higher_is_better=True)
    assert (found.kind, found.ci_percent, found.needed_repeats) == ("inconclusive", None, needed)
    assert found.shift_percent == (pytest.approx(100) if n else None)
    assert f"{n} and {n} values" in found.why


def test_a_shift_that_stands_on_the_border_asks_for_no_repeats() -> None:
    a = [97.0, 98.5, 100.0, 101.5, 103.0]
    found = compare(a, [1.031 * value for value in a], higher_is_better=True)
    assert (found.kind, found.needed_repeats) == ("inconclusive", None)
    assert "repeats will hardly decide" in found.why


@pytest.mark.parametrize("bad", (0.0, -1.0, math.nan, math.inf))
def test_a_value_that_is_no_rate_is_an_error(bad: float) -> None:
    for call in (compare, compare_pairs):
        with pytest.raises(ValueError, match="in side b is no rate"):
            call([1.0, 1.0], [1.0, bad], higher_is_better=True)


def drifting(seed: int, order: Sequence[str], difference: float) -> dict[str, list[float]]:
    """Bursts of a machine that warms up and loses 1 % with each."""
    draw = random.Random(seed)
    values: dict[str, list[float]] = {"a": [], "b": []}
    for position, side in enumerate(order):
        rate = 100 * (1 + difference * (side == "b")) * 0.99**position
        values[side].append(rate * (1 + draw.gauss(0, 0.005)))
    return values


def in_turns(difference: float) -> Counter[str]:
    """What 100 seeded drifting runs of 8 pairs are called."""
    runs = [drifting(seed, abba_order(8), difference) for seed in range(RUNS)]
    return Counter(compare_pairs(run["a"], run["b"], higher_is_better=True).kind for run in runs)


def test_bursts_in_turns_are_not_fooled_by_a_drift_that_fools_two_runs() -> None:
    apart = [drifting(seed, "a" * 8 + "b" * 8, 0.0) for seed in range(RUNS)]
    fooled = Counter(compare(run["a"], run["b"], higher_is_better=True).kind for run in apart)
    assert fooled["slower"] >= 90 and in_turns(0.0)["same"] >= 95


def test_a_difference_is_found_in_turns_despite_a_drift() -> None:
    assert in_turns(0.05)["faster"] >= 95


def test_the_order_of_turns_gives_each_side_as_many_early_places() -> None:
    assert "".join(abba_order(4)) == "abbaabba" and abba_order(0) == ()
    order = abba_order(6)
    places = {side: sum(i for i, own in enumerate(order) if own == side) for side in ("a", "b")}
    assert places["a"] == places["b"]


def test_pairs_ask_for_six_and_must_be_pairs() -> None:
    few = compare_pairs([100.0] * 4, [90.0] * 4, higher_is_better=True)
    assert (few.kind, few.needed_repeats) == ("inconclusive", PAIRS - 4)
    assert compare_pairs([100.0] * PAIRS, [90.0] * PAIRS, higher_is_better=True).kind == "slower"
    assert compare_pairs([], [], higher_is_better=True).shift_percent is None
    with pytest.raises(ValueError, match="not pairs"):
        compare_pairs([1.0], [], higher_is_better=True)


GOOD = Cell("sha256:1", (100.0, 101.0, 99.0, 100.5, 99.5), True)
REFUSED = {
    "another protocol": (GOOD, replace(GOOD, protocol="sha256:2"), "protocols differ (sha256:1 and sha256:2)"),
    "only in A": (GOOD, None, "only run A holds this cell"),
    "only in B": (None, GOOD, "only run B holds this cell"),
    "A invalid": (replace(GOOD, valid=False), GOOD, "invalid in run A"),
    "B invalid": (GOOD, replace(GOOD, valid=False), "invalid in run B"),
    "no rate": (GOOD, replace(GOOD, values=(0.0, 1.0)), "values in run B that are no rate"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_cells_that_cannot_be_compared_are_refused_with_the_reason(name: str) -> None:
    a, b, words = REFUSED[name]
    found = compare_runs({name: a} if a else {}, {name: b} if b else {}, higher_is_better=True)[name]
    assert isinstance(found, Refusal) and words in found.why


def test_a_refused_cell_does_not_hide_the_verdict_on_another() -> None:
    a = {("decode", 1): GOOD, ("decode", 4): GOOD, ("decode", 8): GOOD}
    b = {("decode", 16): GOOD, ("decode", 4): replace(GOOD, valid=False), ("decode", 1): GOOD}
    found = compare_runs(a, b, higher_is_better=True)
    assert list(found) == [("decode", 1), ("decode", 4), ("decode", 8), ("decode", 16)]
    same = found["decode", 1]
    assert isinstance(same, Verdict) and same.kind == "same" and same.ci_percent
    assert sum(isinstance(cell, Refusal) for cell in found.values()) == 3
