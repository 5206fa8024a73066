"""Rows of the log for what was refused before it had a text: a connection, a door, a way out of a confinement."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from sparkgate.policy.audit import Caller, Intent, LogUnavailable, Outcome
from sparkgate.services import NotReady, Services

AGAIN_S = 1.0
"""How often the same becomes a row: who is refused in a loop must not push others out of the log."""


@dataclass(frozen=True, slots=True)
class About:
    """What a row is about: the tool, the class of destination, and where that is."""

    tool: str
    destination: str
    origin: str


class LimitedRows:
    """Rows of refusals: of each kind at most one in `AGAIN_S`, with how often it was. Belongs to one event loop.

    Args:
        services: the log.
        about: of each row.
        now_s: a clock that only goes forward.
    """

    def __init__(self, services: Services, about: About, now_s: Callable[[], float] = time.monotonic) -> None:
        self._services, self._about, self._now_s = services, about, now_s
        self._counts: Counter[tuple[str, str]] = Counter()
        self._callers: dict[tuple[str, str], Caller] = {}
        self._written_s = -AGAIN_S
        self._due: asyncio.Task[None] | None = None

    async def add(self, caller: Caller, rule: str, tried: str = "") -> None:
        """Count a refusal by `rule`, of what was `tried`, in a constant of ours. The row has the latest caller."""
        self._counts[rule, tried] += 1
        self._callers[rule, tried] = caller
        left_s = AGAIN_S - (self._now_s() - self._written_s)
        if left_s <= 0:
            await self.flush()
        elif self._due is None or self._due.done():
            self._due = asyncio.create_task(self._flush_after(left_s))

    async def _flush_after(self, wait_s: float) -> None:
        await asyncio.sleep(wait_s)
        await self.flush()

    async def flush(self) -> None:
        """Write what is counted and not written yet. Who is cut off in it leaves it to a thread, which goes on."""
        counts, callers = self._counts, self._callers
        self._counts, self._callers, self._written_s = Counter(), {}, self._now_s()
        await asyncio.to_thread(self._write, counts, callers)

    def _write(self, counts: Mapping[tuple[str, str], int], callers: Mapping[tuple[str, str], Caller]) -> None:
        for (rule, tried), count in counts.items():
            fields = {"count": str(count)} | ({"tried": tried} if tried else {})
            note(self._services, callers[rule, tried], self._about, rule, fields=fields)


def note(
    services: Services,
    caller: Caller,
    about: About,
    rule: str,
    *,
    cls: str = "access",
    verdict: str = "block",
    fields: Mapping[str, str] | None = None,
    outcome: Outcome | None = None,
) -> bool:
    """Write a row of `rule` with no text in it, where the log can be had; whether it could be. Not for the loop."""
    with suppress(NotReady, LogUnavailable):
        egress = services.live().egress
        intent = Intent(
            caller=caller,
            tool=about.tool,
            destination=about.destination,
            origin=about.origin,
            verdict=verdict,
            sent="",
            fields=dict(fields or {}),
            findings=({"rule": rule, "class": cls, "start": 0, "end": 0},),
            withheld=(),
            policy=egress.policy.digest,
            decision_us=0,
        )
        row = egress.log.intend(intent)
        if outcome:
            egress.log.close(row, outcome)
        return True
    return False
