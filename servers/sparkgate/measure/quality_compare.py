"""Two quality runs by the tasks that both were asked: better, worse, the same, or not decided and what would decide.

The unit is the task and not the trial: trials of one task mostly repeat each other, and counted as if they were
independent they would make a difference of chance sure.

* The test: of each task the share of its judged trials that passed in B, less that in A. When nothing has changed,
  either sign of each difference is as likely, so that all choices of signs are counted out: the sign-flip test of
  Fisher (1935) and Pitman (1937). With one trial a task it is McNemar's exact test.
* The interval: of Bonett and Price (2012), for shares in place of single answers: two tasks are added, one that speaks
  for each side, so that runs which agree everywhere are not called equal with certainty.
* same: the whole interval lies within ±10 points; 40 tasks cannot show less. better or worse: p ≤ 0.05, and the
  interval excludes 0. inconclusive: everything else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, mean, median
from typing import Literal

from sparkgate.measure.plan import LIMITS
from sparkgate.measure.quality import TRIALS, items
from sparkgate.measure.statistics import Interval

Kind = Literal["better", "worse", "same", "inconclusive"]
Marks = Mapping[str, str]
"""Id of a task → a letter a trial, as `quality_run.MARKS` has them."""

MARGIN = 0.1
SIGNIFICANT = 0.05
UNITS = 2520
"""Shares of up to ten trials are whole numbers of this part."""
MAX_TASKS = 2000
SHOWN_FAMILIES = 3
_Z = NormalDist().inv_cdf(0.975)
_SURE = _Z + NormalDist().inv_cdf(0.8)
"""Standard errors between a difference and a border, for an interval that clears it four times in five."""

_TOLD = (
    "{b:.1f} % of trials pass in B and {a:.1f} % in A: {points:+.1f} points, 95 % interval {low:+.1f} to {high:+.1f} "
    "({tasks} tasks, {won} better and {lost} worse in B, p {p:.2g})"
)
_NONE = "no task was judged in both runs"
_WITHIN = "; within ±{margin:.0f} points, the least that so few tasks show"
_MORE_TRIALS = "; {trials} more trials a task would probably decide"
_TASKS = "; more trials will hardly decide: about {wanted} such tasks would, and there are {tasks}"
_ONE = "; one trial of each task does not tell chance from change: {trials} more would"
_NEVER = "; it lies too near to the margin of {margin:.0f} points to be decided"


@dataclass(frozen=True, slots=True)
class Judged:
    """What quality run B is, seen from A; differences in points, of 100 for all.

    Attributes:
        p: of the exact sign-flip test, two-sided.
        tasks: with a judged trial in both; `won` and `lost` are those in which B passes more and fewer.
        needed_trials, needed_tasks: more trials of each task, or tasks in all, that would probably decide; None when
            decided, or when none would.
        families: those that changed most, in words.
        left_out: trials and tasks that are in no number, in words; "" for none.
    """

    kind: Kind
    points: float | None
    ci_points: Interval | None
    p: float | None
    tasks: int
    won: int
    lost: int
    needed_trials: int | None
    needed_tasks: int | None
    families: tuple[str, ...]
    left_out: str
    why: str


def compare_quality(a: Marks, b: Marks) -> Judged:
    """Whether B passes more of the tasks than A; truncated trials and errors count for neither."""
    shares = {id_: (_share(a[id_]), _share(b[id_])) for id_ in a if id_ in b}
    both = {id_: (x, y) for id_, (x, y) in shares.items() if x is not None and y is not None}
    left_out = _left_out(a, b, len({*a, *b}) - len(both))
    if not both:
        return Judged("inconclusive", None, None, None, 0, 0, 0, None, None, (), left_out, _NONE)
    steps = [y - x for x, y in both.values()]
    ci, p = interval(steps), sign_flip_p(steps)
    kind = _kind(ci, p)
    words, trials, wanted = _needed(a, b, both) if kind == "inconclusive" else (_WITHIN * (kind == "same"), None, None)
    won, lost = sum(step > 0 for step in steps), sum(step < 0 for step in steps)
    told = _TOLD.format(
        b=100 * mean(y for _, y in both.values()),
        a=100 * mean(x for x, _ in both.values()),
        points=100 * mean(steps),
        **{"low": 100 * ci[0], "high": 100 * ci[1], "tasks": len(both), "won": won, "lost": lost, "p": p},
    )
    why = told + words.format(trials=trials, wanted=wanted, tasks=len(both), margin=100 * MARGIN)
    points, ends = 100 * mean(steps), (100 * ci[0], 100 * ci[1])
    return Judged(kind, points, ends, p, len(both), won, lost, trials, wanted, _families(both), left_out, why)


def sign_flip_p(steps: Sequence[float]) -> float:
    """Two-sided p of the differences, over all choices of their signs."""
    weights = [round(step * UNITS) for step in steps if round(step * UNITS)]
    unit = math.gcd(*weights) or 1
    sizes = [abs(weight) // unit for weight in weights]
    ways = [1] + [0] * sum(sizes)
    for size in sizes:
        for total in range(len(ways) - 1, size - 1, -1):
            ways[total] += ways[total - size]
    seen = sum(weight // unit for weight in weights if weight > 0)
    tail = min(sum(ways[: seen + 1]), sum(ways[seen:]))
    return min(1.0, 2 * tail / sum(ways))


def interval(steps: Sequence[float]) -> Interval:
    """95 % interval of the mean difference of two shares from the difference of each task, −1 to 1."""
    centre, error = _adjusted(sum(steps), sum(step**2 for step in steps), len(steps))
    return max(-1.0, centre - _Z * error), min(1.0, centre + _Z * error)


def _adjusted(total: float, squares: float, tasks: float) -> tuple[float, float]:
    """Mean and standard error with one task more for each side."""
    whole = tasks + 2
    centre = total / whole
    return centre, math.sqrt(((squares + 2) / whole - centre**2) / whole)


def _share(marks: str) -> float | None:
    """Of the judged trials, those that passed; None without any."""
    judged = marks.count("p") + marks.count("w")
    return marks.count("p") / judged if judged else None


def _kind(ci: Interval, p: float) -> Kind:
    low, high = ci
    if low >= -MARGIN and high <= MARGIN:
        return "same"
    if p <= SIGNIFICANT and (low > 0 or high < 0):
        return "better" if low > 0 else "worse"
    return "inconclusive"


def _needed(a: Marks, b: Marks, both: Mapping[str, tuple[float, float]]) -> tuple[str, int | None, int | None]:
    """(what to say, more trials of each task, tasks in all), of which one would probably decide."""
    steps, tasks = [y - x for x, y in both.values()], len(both)
    size, squares = abs(mean(steps)), sum(step**2 for step in steps)
    room = max(MARGIN - size, size)
    trials = round(median(len(marks[id_]) for marks in (a, b) for id_ in both))
    if trials < 2:
        return _ONE, TRIALS - trials, None
    within = _chance(a, both) + _chance(b, both)
    for more in range(1, LIMITS["repeats"][1] - trials + 1):
        fewer = tasks * within * more / (trials + more)
        if _SURE * _adjusted(sum(steps), max(0.0, squares - fewer), tasks)[1] <= room:
            return _MORE_TRIALS, more, None
    known = ((more, _adjusted(more * mean(steps), more * squares / tasks, more)[1]) for more in range(tasks, MAX_TASKS))
    found = next((wanted for wanted, error in known if _SURE * error <= room), None)
    return _TASKS if found else _NEVER, None, found


def _chance(marks: Marks, both: Mapping[str, tuple[float, float]]) -> float:
    """How much the share of a task varies between runs by chance, as a variance, on average over the tasks."""
    counts = [(marks[id_].count("p"), marks[id_].count("p") + marks[id_].count("w")) for id_ in both]
    return sum(passed * (n - passed) / (n * n * (n - 1)) for passed, n in counts if n > 1) / len(counts)


def _families(both: Mapping[str, tuple[float, float]]) -> tuple[str, ...]:
    """Those whose tasks moved by most in sum, each with its share before and after."""
    family_of = {one.id: one.family for one in items()}
    grouped: dict[str, list[tuple[float, float]]] = {}
    for id_, shares in both.items():
        grouped.setdefault(family_of.get(id_, id_.rpartition("-")[0]), []).append(shares)
    moved = {name: abs(sum(y - x for x, y in pairs)) for name, pairs in grouped.items()}
    most = sorted((name for name in grouped if moved[name] > 1e-9), key=lambda name: -moved[name])
    return tuple(
        f"{name}: {mean(x for x, _ in grouped[name]):.0%}, then {mean(y for _, y in grouped[name]):.0%} "
        f"of {len(grouped[name])} tasks"
        for name in most[:SHOWN_FAMILIES]
    )


def _left_out(a: Marks, b: Marks, tasks: int) -> str:
    """What is in no number, in words."""
    sides = [(side, "".join(marks.values())) for side, marks in (("A", a), ("B", b))]
    told = [
        f"{side} {text.count('t')} truncated and {text.count('e')} failed trials"
        for side, text in sides
        if "t" in text or "e" in text
    ]
    told += [f"{tasks} task{'s' * (tasks > 1)} not judged in both"] if tasks else []
    return ", ".join(told)
