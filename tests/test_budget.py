"""So much may leave in an hour and in a day, by session, by person and by class of destination."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from sparkgate.policy.recent.budget import DAY_S, HOUR_S, LIMITS, Budget, Clock, Exhausted, Limit, Spent, Unit
from sparkgate.policy.recent.pieces import bits
from sparkgate.policy.samples import fill

LANES = ("session a", "uid 7")
START_S = 1_800_000_000.0


def budget(unit: Unit = "queries", most: int = 3, period_s: int = HOUR_S, sessions: int = 4) -> Budget:
    return Budget([Limit(unit, period_s, most)], sessions=sessions)


def taken(
    spent: Budget,
    times: int,
    text: str = "a query",
    *,
    lanes: tuple[str, ...] = LANES,
    at_s: float = 0.0,
    to: str = "web",
) -> list[Exhausted | None]:
    return [spent.take(lanes, to, text, START_S + at_s) for _ in range(times)]


def test_what_is_within_the_budget_leaves_and_the_next_does_not() -> None:
    answers = taken(budget(), 4)
    assert answers[:3] == [None] * 3
    last = answers[3]
    assert last is not None
    assert (last.limit.unit, last.lane, last.destination, last.used, last.most) == ("queries", "session a", "web", 3, 3)


def test_the_refusal_tells_what_is_used_up_and_when_it_frees() -> None:
    last = taken(budget(), 4)[-1]
    assert last is not None and last.frees_s == HOUR_S + 60
    assert last.told == ("the budget is used up: 3 of 3 queries to web in the last hour; this one fits again in 61 min")


@pytest.mark.parametrize(("unit", "text"), [("bytes", "ä" * 40), ("bits", fill("see {mixed:30}"))])
def test_bytes_and_random_looking_text_are_counted_too(unit: Unit, text: str) -> None:
    each = Spent.on(text).of(unit)
    assert each > 0
    answers = taken(budget(unit, most=2 * each), 3, text)
    assert [one is None for one in answers] == [True, True, False]


def test_what_alone_is_too_much_is_told_so() -> None:
    only = taken(budget("bytes", most=10), 1, "x" * 11)[0]
    assert only is not None and only.frees_s is None
    assert only.told.endswith("so much never fits: send less at a time")


def test_a_refused_text_spends_nothing() -> None:
    spent = budget("bytes", most=10)
    assert taken(spent, 5, "x" * 11) != [None] * 5
    assert taken(spent, 1, "x" * 10) == [None]


def test_a_text_that_has_none_of_a_unit_passes_when_that_is_used_up() -> None:
    text = fill("{mixed:30}")
    spent = budget("bits", most=Spent.on(text).bits)
    assert [one is None for one in taken(spent, 2, text)] == [True, False]
    assert taken(spent, 3, "how tall is the eiffel tower") == [None] * 3


@pytest.mark.parametrize(("period_s", "name"), [(HOUR_S, "hour"), (DAY_S, "day")])
def test_it_frees_when_its_time_has_passed_and_not_before(period_s: int, name: str) -> None:
    spent = budget(most=1, period_s=period_s)
    assert taken(spent, 1) == [None]
    early = taken(spent, 1, at_s=period_s)[0]
    assert early is not None and f"in the last {name}" in early.told and early.frees_s == 60
    assert taken(spent, 1, at_s=period_s + 60) == [None]


def test_it_frees_minute_by_minute() -> None:
    spent = budget(most=2)
    assert taken(spent, 1) == [None]
    assert taken(spent, 1, at_s=600) == [None]
    assert taken(spent, 1, at_s=HOUR_S + 60) == [None]
    later = taken(spent, 1, at_s=HOUR_S + 60)[0]
    assert later is not None and later.frees_s == 600


def test_of_several_limits_the_one_that_holds_longest_is_told() -> None:
    spent = Budget([Limit("queries", HOUR_S, 1), Limit("queries", DAY_S, 1)])
    last = taken(spent, 2)[-1]
    assert last is not None and last.limit.period_s == DAY_S


def test_destinations_have_budgets_of_their_own() -> None:
    spent = budget(most=1)
    assert taken(spent, 1, to="web") == [None]
    assert taken(spent, 1, to="searxng") == [None]
    assert taken(spent, 1, to="web") != [None]


def test_a_person_with_many_sessions_has_a_budget_too() -> None:
    spent = budget(most=2, sessions=2)
    for session in "ab":
        assert taken(spent, 2, lanes=(f"session {session}", "uid 7")) == [None, None]
    refused = taken(spent, 1, lanes=("session c", "uid 7"))[0]
    assert refused is not None and (refused.lane, refused.most) == ("uid 7", 4)
    assert taken(spent, 1, lanes=("session c", "uid 8")) == [None]


def test_after_a_restart_what_the_log_tells_is_spent() -> None:
    spent = budget(most=2)
    for at_s in (10.0, 20.0):
        spent.remember(LANES, "web", "a query", START_S + at_s)
    assert taken(spent, 1, at_s=30) != [None]
    assert taken(spent, 1, at_s=HOUR_S + 90) == [None]


def test_rows_whose_time_goes_back_free_nothing_early() -> None:
    spent = budget(most=2)
    spent.remember(LANES, "web", "a query", START_S)
    spent.remember(LANES, "web", "a query", START_S - DAY_S)
    assert taken(spent, 1, at_s=60) != [None]
    assert taken(spent, 1, at_s=HOUR_S + 60) == [None]


def test_of_threads_that_ask_at_once_no_more_than_the_budget_get_it() -> None:
    spent, answers = budget(most=5), list[Exhausted | None]()
    threads = [threading.Thread(target=lambda: answers.extend(taken(spent, 1))) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers.count(None) == 5


def test_a_thousand_sessions_do_not_grow_what_is_kept_without_end() -> None:
    spent = budget(most=10**6, sessions=1)
    for number in range(3000):
        taken(spent, 1, lanes=(f"session {number}", "uid 7"))
    refused = Budget([Limit("queries", HOUR_S, 10)], sessions=1)
    for number in range(2000):
        taken(refused, 1, lanes=(f"session {number}", "uid 7"))
    assert taken(refused, 1, lanes=("session new", "uid 7")) != [None]


def test_honest_use_stays_far_below_the_defaults() -> None:
    """An agent that asks every ten seconds for an hour, each time with a commit or a version."""
    spent = Budget()
    for number in range(360):
        text = f"vllm {number}: what changed between 0.11.0 and commit {number:08x} on CUDA 13.0 for Qwen3-Coder-480B"
        assert taken(spent, 1, text, at_s=number * 10.0) == [None]


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: f"{limit.unit}-{limit.period_s}")
def test_every_default_is_named_and_a_day_allows_more_than_an_hour(limit: Limit) -> None:
    hour = next(one for one in LIMITS if one.unit == limit.unit and one.period_s == HOUR_S)
    assert limit.period_s in (HOUR_S, DAY_S) and hour.most <= limit.most <= 24 * hour.most


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("how does paged attention work", 0, 0),
        ("torch 2.9.0 on CUDA 13.0 with Qwen3-Coder-480B at 127.0.0.1:8000", 0, 0),
        (fill("git show {hex:40}"), 160, 160),
        (fill("see {mixed:30}"), 150, 190),
        (fill("https://x.test/?d={mixed:200}&e={mixed:200}"), 2000, 2500),
        ("", 0, 0),
    ],
)
def test_random_looking_text_is_estimated_in_bits(text: str, low: int, high: int) -> None:
    assert low <= bits(text) <= high


def at(times: list[float]) -> Callable[[], float]:
    """A clock that shows the first of `times`."""
    return lambda: times[0]


def test_setting_the_wall_clock_changes_nothing_while_the_gate_runs() -> None:
    wall, steady = [START_S], [500.0]
    clock = Clock(at(wall), at(steady))
    wall[0], steady[0] = START_S + DAY_S, 510.0
    assert clock.now_s() == START_S + 10
    wall[0] = 0.0
    assert clock.now_s() == START_S + 10


def test_what_the_log_tells_of_the_future_is_of_now() -> None:
    clock = Clock(at([START_S]), at([0.0]))
    assert clock.past(START_S + DAY_S) == START_S
    assert clock.past(START_S - 5) == START_S - 5


def test_the_clock_of_the_machine_runs_on() -> None:
    clock = Clock()
    assert clock.now_s() <= clock.now_s()
