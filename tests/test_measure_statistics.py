"""Statistics against values that numpy 2.4 and scipy 1.17 gave, and knees against curves whose knee is known."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence

import pytest

from sparkgate.measure.knee import CAP_SETTINGS, Point, read_sweep
from sparkgate.measure.statistics import (
    EXACT_A_SIDE,
    INTERVAL_NEEDS,
    PERCENTILE_NEEDS,
    bootstrap_median_ci,
    cv,
    gated_percentile,
    hodges_lehmann,
    mad,
    mann_whitney,
    paired_shift,
    percentile,
    pooled_cv,
    summarise,
)

PERCENTS = (1, 25, 50, 95, 99)
NUMPY_SUMS = (
    (2672.511995593296, 25077.488472402667, 48916.328694022784, 93863.19920338188, 97466.40841984295),
    (2893.6463643175002, 26251.4813068517, 50086.08687556006, 93991.71002084446, 97550.43926335762),
    (3081.1249540472504, 26369.715069598777, 50580.53596105126, 93375.07954039398, 97229.08392472022),
    (3311.957873856607, 25801.49083070831, 49962.50286442137, 92352.66027050994, 95869.06185867799),
    (3272.4075421055545, 26259.053454989524, 49501.202696631095, 91710.32762098202, 95572.00555487044),
    (3304.73540711523, 25707.989649237163, 49404.03651653384, 93202.4365260212, 96846.37334952409),
    (3311.5234427232335, 26156.78963414603, 50107.81257250185, 92777.17379433851, 96515.1996614166),
    (2721.8367104917047, 25733.44247161201, 49676.953616819934, 92893.27341451406, 96713.65246627327),
    (5258.8864958336635, 26992.32088423952, 50351.81308119428, 91514.37273955955, 95255.46191071352),
    (2543.1074682999574, 26941.366215025024, 50878.939641843455, 93475.4192125658, 97297.20993568505),
)
"""Row: each percentile of `PERCENTS`, summed over the next hundred of `numpy_sets`."""

Sides = tuple[list[float], list[float]]
FIVES: Sides = ([104.6, 96.3, 90.3, 108.7, 95.5], [100.4, 97.1, 94.6, 121.6, 111.9])
TENS: Sides = (
    [97.9, 99.0, 97.8, 102.3, 107.8, 98.0, 94.7, 102.0, 108.0, 94.5],
    [97.4, 108.5, 90.5, 115.1, 99.1, 112.3, 90.4, 116.0, 100.7, 99.3],
)
UNEQUAL: Sides = ([95.0, 99.8, 97.6, 90.5, 99.2, 100.6, 94.2, 93.7], [96.7, 103.6, 110.4, 109.7, 111.4, 105.0])

NO_TIES = {
    "three": (([105.9, 96.5, 108.9], [111.1, 107.6, 112.6]), 1.0, 0.2, 5.2, None),
    "four": (([109.8, 96.3, 106.6, 91.3], [94.0, 98.8, 111.5, 102.0]), 7.0, 0.8857142857142857, 2.1, (-15.8, 20.2)),
    "five": (FIVES, 8.0, 0.42063492063492064, 4.3, (-10.0, 25.3)),
    "more": (
        ([101.3, 93.2, 93.3, 90.0], [90.1, 107.3, 121.8, 107.5, 94.2, 97.4, 110.0]),
        5.0,
        0.10909090909090909,
        8.05,
        (-3.2, 20.5),
    ),
    "less": (UNEQUAL, 4.0, 0.007992007992007992, 10.55, (3.8, 16.0)),
    "ten": (TENS, 40.0, 0.48125094719521977, 1.6, (-7.1, 12.8)),
}
"""Sides, U and p of scipy's exact test, the shift, and the shifts that this test does not reject at 5 %."""

TIES = (
    ([1.0, 2.0, 2.0, 3.0, 5.0], [2.0, 4.0, 5.0, 6.0, 6.0], 4.5, 0.11904761904761904),
    ([7.0, 7.0, 7.0], [7.0, 7.0, 9.0, 9.0], 3.0, 0.5714285714285714),
    ([10.0, 10.0, 11.0, 12.0, 12.0, 13.0], [9.0, 10.0, 12.0, 14.0, 14.0, 15.0], 13.0, 0.46320346320346323),
)
"""U and p of scipy's permutation test over every way of dealing the values."""

PAIRED = (
    ([1.2, 4.0, 2.5, 4.6, 2.6, 4.8], 3.3, (1.2, 4.8)),
    ([1.3, 4.0, -0.7, 5.6, 2.8, 1.8, -1.6, 3.6], 2.175, (-0.15, 4.2)),
    ([-0.9, 0.7, 2.4, 4.6, 2.7, -0.2, 5.7, 1.6, 5.0, 5.9, 2.0], 2.6, (0.9, 4.3)),
)
"""Differences, their shift, and the shifts that scipy's exact signed-rank test does not reject at 5 %."""


def numpy_sets() -> Iterator[list[float]]:
    draw = random.Random(11)
    for _ in range(1000):
        yield [draw.random() * 1000 for _ in range(draw.randint(1, 200))]


def normal(seed: int, n: int, centre: float = 100.0, spread: float = 1.0) -> list[float]:
    draw = random.Random(seed)
    return [draw.gauss(centre, spread) for _ in range(n)]


def test_percentiles_of_a_thousand_sets_are_those_of_numpy() -> None:
    found = [[percentile(values, percent) for percent in PERCENTS] for values in numpy_sets()]
    for row, expected in enumerate(NUMPY_SUMS):
        hundred = found[row * 100 : row * 100 + 100]
        sums = [math.fsum(values[column] for values in hundred) for column in range(len(PERCENTS))]
        assert sums == pytest.approx(expected, rel=1e-12)


def test_a_percentile_rises_with_its_percent_and_stays_inside_the_values() -> None:
    for values in numpy_sets():
        steps = [percentile(values, percent) for percent in range(0, 101, 5)]
        assert steps == sorted(steps) and (steps[0], steps[-1]) == (min(values), max(values))


@pytest.mark.parametrize(("percent", "needed"), [row for row in PERCENTILE_NEEDS.items() if row[0] != 50])
def test_a_percentile_is_told_from_the_number_of_values_it_needs(percent: int, needed: int) -> None:
    values = normal(1, needed)
    assert gated_percentile(values, percent) == percentile(values, percent)
    assert gated_percentile(values[1:], percent) is None
    assert summarise(values[1:], seed=1).nulls[f"p{percent}"] == f"{needed - 1} of the {needed} values it needs"


def test_a_percentile_that_has_no_rule_or_no_values_is_refused() -> None:
    with pytest.raises(KeyError):
        gated_percentile([1.0], 90)
    for values, percent in ([], 50), ([1.0], 101):
        with pytest.raises(ValueError, match="percentile"):
            percentile(values, percent)


def test_what_a_summary_does_not_tell_is_none_and_says_why() -> None:
    for n in (0, 1, 4, 5, 19, 20, 99, 100):
        found = summarise(normal(2, n), seed=1)
        told = {name: getattr(found, name) for name in ("median", "mad", "low", "high", "p95", "p99", "ci95")}
        assert {name for name, value in told.items() if value is None} == set(found.nulls)
        assert found.n == n


def test_the_spread_of_few_values_is_that_of_scipy() -> None:
    a, b = [98.1, 97.6, 99.4, 98.8, 97.9], [103.0, 102.1, 104.4, 103.6, 102.2]
    assert mad(a) == pytest.approx(0.5)
    assert cv(a) == pytest.approx(0.00742241246378367)
    assert pooled_cv(a, b) == pytest.approx(0.008467726514582738)


def test_the_spread_of_too_few_values_is_not_told() -> None:
    assert (mad([]), cv([]), cv([1.0]), cv([-1.0, 1.0]), pooled_cv([1.0], [2.0])) == (None, None, None, None, None)
    assert pooled_cv([1.0], [1.0, 3.0]) == cv([1.0, 3.0])


def test_the_bootstrap_needs_five_values_and_follows_its_seed() -> None:
    values = normal(3, INTERVAL_NEEDS)
    low, high = bootstrap_median_ci(values, seed=1) or (math.nan, math.nan)
    assert min(values) <= low <= high <= max(values)
    assert bootstrap_median_ci(values, seed=1) == (low, high)
    assert bootstrap_median_ci(values[1:], seed=1) is None
    assert bootstrap_median_ci([2.0] * 5, seed=1) == (2.0, 2.0)


def test_the_bootstrap_covers_the_median_nearly_as_often_as_it_says() -> None:
    found = [bootstrap_median_ci(normal(seed, 15), seed=seed) or (math.nan, math.nan) for seed in range(100)]
    assert sum(low <= 100 <= high for low, high in found) >= 90


@pytest.mark.parametrize("name", NO_TIES)
def test_the_rank_test_is_that_of_scipy(name: str) -> None:
    (a, b), u, p, *_ = NO_TIES[name]
    found = mann_whitney(a, b)
    assert (found.u, found.method) == (u, "exact") and found.p == pytest.approx(p, rel=1e-12)
    assert mann_whitney(b, a).u == len(a) * len(b) - u and mann_whitney(b, a).p == pytest.approx(p)


@pytest.mark.parametrize(("a", "b", "u", "p"), TIES)
def test_the_rank_test_counts_ties_out(a: list[float], b: list[float], u: float, p: float) -> None:
    found = mann_whitney(a, b)
    assert (found.u, found.method) == (u, "exact") and found.p == pytest.approx(p, rel=1e-12)


def test_the_rank_test_of_many_values_is_the_normal_one_of_scipy() -> None:
    draw = random.Random(3)
    a = [float(round(draw.random() * 50)) for _ in range(40)]
    b = [float(round(draw.random() * 50 + 8)) for _ in range(35)]
    found = mann_whitney(a, b)
    assert (found.u, found.method) == (399.5, "normal") and found.p == pytest.approx(0.0014362866449789285, rel=1e-9)
    assert mann_whitney([1.0] * 40, [1.0] * 40).p == 1.0


def test_three_a_side_can_never_be_significant() -> None:
    assert mann_whitney([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]).p == pytest.approx(0.1)
    assert hodges_lehmann([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]).ci is None


@pytest.mark.parametrize("name", NO_TIES)
def test_the_interval_of_a_shift_holds_what_the_rank_test_does_not_reject(name: str) -> None:
    (a, b), _, _, shift, ci = NO_TIES[name]
    found = hodges_lehmann(a, b)
    assert found.value == pytest.approx(shift) and found.method == ("exact" if ci else "none")
    assert found.ci == (pytest.approx(ci) if ci else None)


def test_the_interval_of_five_a_side_covers_a_little_more_than_95_percent() -> None:
    assert hodges_lehmann(*FIVES).confidence == pytest.approx(1 - 8 / 252)


@pytest.mark.parametrize(("steps", "shift", "ci"), PAIRED)
def test_the_interval_of_pairs_holds_what_the_signed_rank_test_does_not_reject(
    steps: list[float], shift: float, ci: tuple[float, float]
) -> None:
    found = paired_shift([0.0] * len(steps), steps)
    assert found.value == pytest.approx(shift) and found.ci == pytest.approx(ci)


def test_a_shift_moves_with_the_values_and_turns_with_the_sides() -> None:
    for both in (TENS, UNEQUAL):
        a, b = both
        there, back = hodges_lehmann(a, b), hodges_lehmann(b, a)
        moved = hodges_lehmann(a, [value + 7 for value in b])
        assert there.ci and back.ci and moved.ci
        assert back.value == pytest.approx(-there.value) and back.ci == pytest.approx((-there.ci[1], -there.ci[0]))
        assert moved.value == pytest.approx(there.value + 7) and moved.ci == pytest.approx([x + 7 for x in there.ci])


def test_many_values_take_the_normal_approximation_without_a_jump() -> None:
    for shift_of in (hodges_lehmann, paired_shift):
        a, b = normal(5, EXACT_A_SIDE + 1), normal(6, EXACT_A_SIDE + 1, 101.0)
        many, few = shift_of(a, b), shift_of(a[1:], b[1:])
        assert (many.method, few.method) == ("normal", "exact") and many.ci and few.ci
        assert many.ci == pytest.approx(few.ci, abs=0.2)


def test_a_side_without_values_is_refused() -> None:
    for call in (mann_whitney, hodges_lehmann, paired_shift):
        with pytest.raises(ValueError, match="values"):
            call([], [])
    with pytest.raises(ValueError, match="2 and 1 values are not pairs"):
        paired_shift([1.0, 2.0], [1.0])


LEVELS = (1, 2, 4, 8, 12, 16, 24, 32)
CURVES: dict[str, tuple[Callable[[float], float], int, int | None, int, str]] = {
    "linear": (lambda c: 50 * c, 32, None, 32, "knee_not_reached"),
    "saturating": (lambda c: 1000 * c / (c + 10), 8, None, 32, "knee"),
    "capped": (lambda c: 50 * min(c, 8), 8, 8, 8, "knee"),
    "peak then fall": (lambda c: 50 * c / (1 + 0.02 * (c - 1) + 0.01 * c * (c - 1)), 4, 8, 12, "falls_after_peak"),
    "flat": (lambda c: 69 + 0.1 * c, 1, None, 32, "serialised"),
}
"""Throughput by streams, the knee by either definition, the peak, and what is found."""


def curve(agg: Callable[[float], float], levels: Sequence[int] = LEVELS) -> list[Point]:
    return [Point(c, agg(c)) for c in levels]


@pytest.mark.parametrize("name", CURVES)
def test_the_knee_of_every_curve_is_found(name: str) -> None:
    agg, marginal, chord, peak, finding = CURVES[name]
    found = read_sweep(curve(agg))
    assert (found.knee_marginal, found.knee_chord, found.peak) == (marginal, chord, peak)
    assert found.finding and found.finding.id == finding and found.knees_agree is (chord in (None, marginal))
    noisy = read_sweep([Point(c, agg(c) * (1 + 0.01 * (-1) ** i)) for i, c in enumerate(LEVELS)])
    assert noisy.finding and noisy.finding.id == finding


def test_scaling_is_told_against_one_stream_and_not_without_it() -> None:
    found = read_sweep(curve(lambda c: 100 * c**0.5, (16, 4, 1)))
    assert [(s.concurrency, s.gain, s.efficiency) for s in found.scaling] == [(1, 1, 1), (4, 2, 0.5), (16, 4, 0.25)]
    assert read_sweep(curve(lambda c: c, (2, 4))).scaling[1].gain is None


def test_a_recovery_after_a_dip_is_no_gain() -> None:
    sweep = dict(zip((1, 2, 4, 8, 12, 16), (100, 190, 350, 600, 400, 610), strict=True))
    assert read_sweep([Point(c, agg) for c, agg in sweep.items()]).knee_marginal == 8


def test_two_knees_that_differ_are_both_told() -> None:
    found = read_sweep(curve(lambda c: 1000 * c / (c + 3), (1, 2, 4, 8, 16, 64)))
    assert found.finding and (found.knee_marginal, found.knee_chord, found.finding.value) == (2, 8, 2)
    assert "bends most at 8" in found.finding.text


def batching(c: int, *, slots: int, output_tokens: int = 200, half: float = 11.0, told: bool = True) -> Point:
    """An engine that serves `slots` streams at a time, in waves; the rate of a wave saturates with its streams."""
    waves = [min(slots, c - begun) for begun in range(0, c, slots)]
    times_s = [output_tokens * (n + half) / (60 * (1 + half)) for n in waves]
    ttft_ms = 30 * waves[-1] + 1e3 * sum(times_s[:-1])
    waiting = float(max(0, c - slots)) if told else None
    return Point(c, c * output_tokens / sum(times_s), output_tokens / times_s[0], ttft_ms, waiting)


@pytest.mark.parametrize("told", (True, False))
@pytest.mark.parametrize(("slots", "found"), ((1, "serialised"), (4, "queue_cap"), (8, "queue_cap"), (16, "queue_cap")))
def test_a_cap_is_found_where_it_was_planted(slots: int, found: str, told: bool) -> None:
    sweep = read_sweep([batching(c, slots=slots, told=told) for c in LEVELS], output_tokens=200, engine="vllm")
    assert sweep.finding and sweep.finding.id == found
    assert found == "serialised" or sweep.finding.value == slots
    assert sweep.finding.advice.startswith("raise --max-num-seqs")


def test_an_engine_without_a_cap_is_not_told_to_raise_it() -> None:
    sweep = read_sweep([batching(c, slots=64) for c in LEVELS], output_tokens=200)
    assert sweep.finding and (sweep.finding.id, sweep.finding.value) == ("knee", 8)


def test_a_cap_far_beyond_the_knee_is_not_what_stops_it() -> None:
    sweep = read_sweep([batching(c, slots=24, half=0.5) for c in (1, 2, 4, 8, 16, 24, 32)], output_tokens=200)
    assert sweep.finding and sweep.finding.id != "queue_cap"


def test_a_prefill_that_grows_with_the_streams_is_no_queue() -> None:
    points = [Point(c, 100 * c / (c + 4), 20.0, 900.0 * c) for c in LEVELS]
    found = read_sweep(points, output_tokens=64).finding
    assert found and found.id == "knee"


@pytest.mark.parametrize(("engine", "setting"), CAP_SETTINGS.items())
def test_the_advice_names_the_setting_of_the_engine(engine: str, setting: str) -> None:
    points = [batching(c, slots=8) for c in LEVELS]
    named, unnamed = read_sweep(points, engine=engine).finding, read_sweep(points).finding
    assert named and unnamed
    assert setting in unnamed.advice and {s for s in CAP_SETTINGS.values() if s in named.advice} == {setting}


@pytest.mark.parametrize("levels", ((), (1, 1), (0, 2)))
def test_levels_that_make_no_sweep_are_refused(levels: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="each once"):
        read_sweep([Point(c, 1.0) for c in levels])


def test_a_level_without_throughput_is_refused_and_a_single_level_has_no_knee() -> None:
    with pytest.raises(ValueError, match="without throughput"):
        read_sweep([Point(1, 0.0), Point(2, 5.0)])
    alone = read_sweep([Point(4, 100.0)])
    assert (alone.knee_marginal, alone.knee_chord, alone.peak, alone.finding) == (None, None, 4, None)
