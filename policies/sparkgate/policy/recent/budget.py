"""How much may leave: queries, bytes and what is no language, in an hour and in a day, by session and destination."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from sparkgate.policy.recent.pieces import bits

CODE = "budget"
"""Reason of a refusal, as tools answer it and as the log holds it."""
MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400
MAX_ACCOUNTS = 1024
Unit = Literal["queries", "bytes", "bits"]
Account = tuple[str, str]
"""Lane and class of destination."""


@dataclass(frozen=True, slots=True)
class Limit:
    """At most so many in a time that ends now. `bits` are an estimate, see `pieces.bits`."""

    unit: Unit
    period_s: int
    most: int


LIMITS = (
    Limit("queries", HOUR_S, 600),
    Limit("queries", DAY_S, 5_000),
    Limit("bytes", HOUR_S, 262_144),
    Limit("bytes", DAY_S, 2_097_152),
    Limit("bits", HOUR_S, 65_536),
    Limit("bits", DAY_S, 262_144),
)
PERIODS = {HOUR_S: "hour", DAY_S: "day"}
WHAT = {"queries": "queries", "bytes": "bytes of text", "bits": "bits of random-looking text"}


@dataclass(frozen=True, slots=True)
class Spent:
    """What one text, or all of one minute, takes."""

    queries: int = 0
    bytes: int = 0
    bits: int = 0

    @classmethod
    def on(cls, text: str) -> Spent:
        return cls(1, len(text.encode("utf-8", "surrogatepass")), round(bits(text)))

    def of(self, unit: Unit) -> int:
        return {"queries": self.queries, "bytes": self.bytes, "bits": self.bits}[unit]

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.queries + other.queries, self.bytes + other.bytes, self.bits + other.bits)


@dataclass(frozen=True, slots=True)
class Exhausted:
    """What is used up: `most` counts what the lane has in all. `frees_s` is None when so much never fits."""

    limit: Limit
    lane: str
    destination: str
    most: int
    used: int
    frees_s: int | None

    @property
    def told(self) -> str:
        """A sentence for the caller: what is used up, and when it frees."""
        amount = f"{self.used:,} of {self.most:,} {WHAT[self.limit.unit]}"
        period = PERIODS.get(self.limit.period_s, f"{self.limit.period_s} s")
        when = "so much never fits: send less at a time"
        if self.frees_s is not None:
            when = f"this one fits again in {max(1, -(-self.frees_s // MINUTE_S))} min"
        return f"the budget is used up: {amount} to {self.destination or 'anywhere'} in the last {period}; {when}"


def _since_start() -> float:
    """Seconds that run on while the machine sleeps, where it has such a clock."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Clock:
    """Seconds since the epoch as they were at the start, running on steadily: setting the clock frees nothing.

    Args:
        wall: what the machine holds for the time.
        steady: seconds that nobody sets.
    """

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = _since_start) -> None:
        self._steady = steady
        self._offset_s = wall() - steady()

    def now_s(self) -> float:
        return self._offset_s + self._steady()

    def past(self, at_s: float) -> float:
        """When something of the log was; what seems to be of the future is of now."""
        return min(at_s, self.now_s())


class Budget:
    """What left of late, minute by minute. Safe to use from several threads.

    Args:
        limits: all of them hold at once.
        sessions: a person may send as much as so many sessions.
    """

    def __init__(self, limits: Sequence[Limit] = LIMITS, *, sessions: int = 4) -> None:
        self.limits = tuple(limits)
        self.sessions = sessions
        self._longest_s = max((limit.period_s for limit in limits), default=0)
        self._spent: OrderedDict[Account, deque[tuple[int, Spent]]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, lanes: Sequence[str], destination: str, text: str, now_s: float) -> Exhausted | None:
        """None when `text` may leave, and then it is spent; else the limit that holds it the longest.

        Args:
            lanes: the session first, then whoever has several.
            destination: class of destination.
            now_s: of a `Clock`.
        """
        wanted = Spent.on(text)
        with self._lock:
            found = [
                one for place, lane in enumerate(lanes) for one in self._over(place, lane, destination, wanted, now_s)
            ]
            if found:
                return max(found, key=lambda one: float("inf") if one.frees_s is None else one.frees_s)
            self._spend(lanes, destination, wanted, now_s)
        return None

    def give_back(self, lanes: Sequence[str], destination: str, text: str, now_s: float) -> None:
        """A text that was taken and did not leave."""
        spent = Spent.on(text)
        with self._lock:
            self._spend(lanes, destination, Spent(-spent.queries, -spent.bytes, -spent.bits), now_s)

    def remember(self, lanes: Sequence[str], destination: str, text: str, at_s: float) -> None:
        """What left before, the oldest first: what the log tells after a restart."""
        with self._lock:
            self._spend(lanes, destination, Spent.on(text), at_s)

    def _over(self, place: int, lane: str, destination: str, wanted: Spent, now_s: float) -> Iterator[Exhausted]:
        minutes = self._recent((lane, destination), now_s)
        for limit in self.limits:
            most = limit.most * (self.sessions if place else 1)
            counted = [
                (minute, spent.of(limit.unit)) for minute, spent in minutes if _ends_s(minute) > now_s - limit.period_s
            ]
            used, more = sum(amount for _, amount in counted), wanted.of(limit.unit)
            if more and used + more > most:
                yield Exhausted(
                    limit, lane, destination, most, used, _frees_s(counted, used + more - most, limit, now_s)
                )

    def _recent(self, account: Account, now_s: float) -> deque[tuple[int, Spent]]:
        minutes = self._spent.get(account, deque())
        while minutes and _ends_s(minutes[0][0]) <= now_s - self._longest_s:
            minutes.popleft()
        return minutes

    def _spend(self, lanes: Sequence[str], destination: str, spent: Spent, at_s: float) -> None:
        for lane in lanes:
            minutes = self._spent.setdefault((lane, destination), deque())
            self._spent.move_to_end((lane, destination))
            minute, before = minutes.pop() if minutes else (0, Spent())
            # Time that seems to go back is the time it was.
            now = max(minute, int(at_s // MINUTE_S))
            if minute and minute != now:
                minutes.append((minute, before))
                before = Spent()
            minutes.append((now, before + spent))
        while len(self._spent) > MAX_ACCOUNTS:
            self._spent.popitem(last=False)


def _ends_s(minute: int) -> int:
    return (minute + 1) * MINUTE_S


def _frees_s(counted: Sequence[tuple[int, int]], over: int, limit: Limit, now_s: float) -> int | None:
    """When so much has grown old that it fits, in seconds from now; None when it never does."""
    for minute, amount in counted:
        over -= amount
        if over <= 0:
            return round(_ends_s(minute) + limit.period_s - now_s)
    return None
