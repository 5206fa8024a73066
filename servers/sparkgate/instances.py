"""The interchangeable instances of SearXNG: in which order they are asked, how often, and which rest for a while."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic

FIRST_REST_S, LONGEST_REST_S = 30.0, 600.0
"""After a fault; doubled with each further one."""
LIMITED_S, LONGEST_LIMITED_S = 60.0, 3600.0
"""After a 429: without a word of how long, and the most that is believed of one."""
BURST_MINUTES = 0.25
"""Searches of so many minutes may come at once: 8 of 30 a minute."""


@dataclass(slots=True)
class Instance:
    """What is remembered of one instance.

    Attributes:
        tokens: searches that may be sent now; counted when last looked at.
        why: the code of what made it rest.
        limited: it rests because it asked for that, not because of a fault.
    """

    tokens: float
    counted_s: float
    rests_until_s: float = 0.0
    why: str = ""
    limited: bool = False
    faults: int = 0


@dataclass(frozen=True, slots=True)
class Wait:
    """Why an instance is not asked now, and for how many seconds."""

    url: str
    why: str
    seconds: int


class Instances:
    """State of the instances by base URL; one that stays in the configuration keeps its own.

    Args:
        now_s: seconds of a clock that does not go back.
    """

    def __init__(self, now_s: Callable[[], float] = monotonic) -> None:
        self.now_s = now_s
        self._per_minute = 0
        self._known: dict[str, Instance] = {}

    def keep(self, urls: Sequence[str], per_minute: int) -> None:
        """Know exactly these, in this order. `per_minute`: searches that one is sent, 0 for any number."""
        if per_minute != self._per_minute:
            self._per_minute = per_minute
            for one in self._known.values():
                one.tokens = self._burst
        self._known = {url: self._known.get(url) or self._fresh() for url in urls}

    def ready(self) -> list[str]:
        """Those that do not rest, the first choice first."""
        return [url for url, one in self._known.items() if not self._rests(one)]

    def take(self, url: str) -> bool:
        """Use one token; False when there is none."""
        one = self._counted(url)
        if self._per_minute and one.tokens < 1:
            return False
        one.tokens -= 1 if self._per_minute else 0
        return True

    def give_back(self, url: str) -> None:
        """A token that was not needed, as nothing was sent."""
        one = self._of(url)
        one.tokens = min(self._burst, one.tokens + 1)

    def rest(self, url: str, why: str, seconds: float | None = None) -> None:
        """Do not ask it for so long as it wants itself; after a fault, longer each time.

        A rest that it wants is not shortened: not by a fault of a question that was on its way beside, and not by a
        second wish.
        """
        one, now_s = self._of(url), self.now_s()
        wanted_until_s = one.rests_until_s if one.limited else 0.0
        if seconds is None:
            one.faults += 1
            if now_s < wanted_until_s:
                return
            seconds, one.limited = min(FIRST_REST_S * 2 ** min(one.faults - 1, 10), LONGEST_REST_S), False
        else:
            one.limited = True
        one.why = why
        one.rests_until_s = max(now_s + min(max(seconds, 1.0), LONGEST_LIMITED_S), wanted_until_s)

    def well(self, url: str) -> None:
        """It answered as it should: a fault is over. A rest that it asked for itself goes on."""
        one = self._of(url)
        one.faults = 0
        if not one.limited:
            one.rests_until_s = 0.0

    def tokens(self, url: str) -> int | None:
        """Searches that may be sent to it now; None for any number."""
        return int(self._counted(url).tokens) if self._per_minute else None

    def wait(self, url: str) -> Wait | None:
        """Why it is not asked now; None when it may be."""
        one, now_s = self._counted(url), self.now_s()
        if self._rests(one):
            return Wait(url, one.why, math.ceil(one.rests_until_s - now_s))
        if self._per_minute and one.tokens < 1:
            return Wait(url, "per_minute", math.ceil((1 - one.tokens) * 60 / self._per_minute))
        return None

    def _rests(self, one: Instance) -> bool:
        """After a fault the only one goes on being asked, as there is none to ask instead, and it may be mended."""
        return self.now_s() < one.rests_until_s and (one.limited or len(self._known) > 1)

    def _of(self, url: str) -> Instance:
        """One that the configuration has lost meanwhile is forgotten with the call that still asks it."""
        return self._known.get(url) or self._fresh()

    def _fresh(self) -> Instance:
        return Instance(self._burst, self.now_s())

    @property
    def _burst(self) -> float:
        return math.ceil(self._per_minute * BURST_MINUTES)

    def _counted(self, url: str) -> Instance:
        """With the tokens that have come since."""
        one, now_s = self._of(url), self.now_s()
        one.tokens = min(self._burst, one.tokens + (now_s - one.counted_s) * self._per_minute / 60)
        one.counted_s = now_s
        return one
