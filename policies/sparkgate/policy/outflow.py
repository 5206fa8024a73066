"""What left lately, over all texts of a caller: how much it was, and whether the next text completes something."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from sparkgate.policy.audit import Caller
from sparkgate.policy.decision import Decision
from sparkgate.policy.finding import Where
from sparkgate.policy.judge import Policy
from sparkgate.policy.recent.budget import CODE, DAY_S, LIMITS, PERIODS, Budget, Clock, Limit
from sparkgate.policy.recent.window import Window, lanes_of

SETTINGS: Mapping[tuple[str, int], str] = {
    (unit, period_s): f"{unit}_per_{name}"
    for unit in ("queries", "bytes", "bits")
    for period_s, name in PERIODS.items()
}
"""Unit and period of a limit → the setting that says how much."""


class OutflowSettings(Protocol):
    """What is read of the settings, beside those of `SETTINGS`."""

    @property
    def window_queries(self) -> int: ...
    @property
    def window_chars(self) -> int: ...
    @property
    def window_minutes(self) -> float: ...


class Outflow:
    """Budgets and the window of one gate. What it knows is rebuilt from the log, and nothing else is written down.

    Args:
        limits: how much may leave.
        clock: never goes back.
    """

    def __init__(self, limits: Sequence[Limit] = LIMITS, clock: Clock | None = None) -> None:
        self.clock = clock or Clock()
        self.window = Window()
        self.budget = Budget(limits)

    def admit(
        self, caller: Caller, where: Where, text: str, decision: Decision, policy: Policy
    ) -> tuple[Decision, tuple[str, ...]]:
        """The decision with what left before taken into account, and in words what is used up.

        From here on what it releases counts as having left.
        """
        if decision.verdict == "block":
            return decision, ()
        lanes, now_s = lanes_of(caller), self.clock.now_s()
        exhausted = self.budget.take(lanes, where.destination, decision.released, now_s)
        if exhausted:
            return Decision("block", "", elapsed_us=decision.elapsed_us, reason=CODE), (exhausted.told,)
        find = policy.find_at(where)
        joined = self.window.admit(lanes, decision.released, now_s, find, given=text, deadline_s=policy.deadline_s)
        return joined or decision, ()

    def give_back(self, caller: Caller, where: Where, released: str) -> None:
        """What was admitted did not leave after all: it was answered from memory."""
        self.budget.give_back(lanes_of(caller), where.destination, released, self.clock.now_s())

    def limit(self, settings: OutflowSettings) -> None:
        """Take other limits; what was counted stays."""
        self.window.queries, self.window.chars = settings.window_queries, settings.window_chars
        self.window.seconds = settings.window_minutes * 60
        self.budget.limits = tuple(
            Limit(limit.unit, limit.period_s, getattr(settings, SETTINGS[limit.unit, limit.period_s]))
            for limit in LIMITS
        )

    @property
    def since_us(self) -> int:
        """From when on the log is to be recalled, in microseconds since the epoch."""
        return int((self.clock.now_s() - DAY_S) * 1e6)

    def recall(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """What left before this process, the oldest first: `at_us`, `session`, `uid`, `destination` and `sent`."""
        for row in rows:
            lanes = lanes_of(Caller(session=row["session"], uid=row["uid"]))
            at_s = self.clock.past(row["at_us"] / 1e6)
            self.budget.remember(lanes, row["destination"], row["sent"], at_s)
            self.window.remember(lanes, row["sent"], at_s)
