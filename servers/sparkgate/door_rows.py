"""Rows of the log about the model doors: what they refused, so many a minute, and each request that left the box."""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic
from typing import Any

from sparkgate import log
from sparkgate.policy.audit import Caller, Outcome
from sparkgate.refusal_rows import About, note
from sparkgate.services import Services

TOOL, DESTINATION = "model_door", "engine"
ROWS_PER_MINUTE = 30
LEFT = "left_the_box"
"""Rule and outcome of a row about a request that was answered from elsewhere: its text is not in it, and is out."""
MORE = "model_door_refused"
"""Rule of a row that stands for more refusals of the minute than have rows of their own."""


class Rows:
    """Writes them for one confined agent; every method blocks, so none is for the loop.

    Args:
        a_minute: rows of their own that refusals get in a minute; the others are counted in one more.
    """

    def __init__(self, services: Services, caller: Caller, a_minute: int = ROWS_PER_MINUTE) -> None:
        self._services, self._caller, self._a_minute = services, caller, a_minute
        self._since_s, self._written, self._more = monotonic(), 0, 0

    def refused(self, origin: str, door: str, rule: str, method: str, path: str, count: int) -> None:
        """A request was refused, so many times alike."""
        self.settle()
        if self._written >= self._a_minute:
            self._more += count
            return
        self._written += 1
        times = {"count": str(count)} if count > 1 else {}
        self._write(rule, origin, "block", {"door": door, "method": method, "path": path, **times})

    def settle(self, *, now: bool = False) -> None:
        """Write how many refusals have no rows of their own, once their minute is over."""
        if now or monotonic() - self._since_s >= 60:
            self._since_s, self._written, more, self._more = monotonic(), 0, self._more, 0
            if more:
                self._write(MORE, "", "block", {"count": str(more)})

    def left(self, origin: str, told: Mapping[str, Any]) -> None:
        """A request left the box. There is no bound for these rows: each is about a text that is out."""
        fields = {name: str(told.get(name, "")) for name in ("door", "model", "came_from")}
        outcome = Outcome(LEFT, status=int(told["status"]), size_bytes=int(told["size_bytes"]))
        self._write(LEFT, origin, "allow", fields, outcome)
        log.error(LEFT, door=fields["door"])

    def _write(
        self, rule: str, origin: str, verdict: str, fields: Mapping[str, str], outcome: Outcome | None = None
    ) -> None:
        """What was refused stays so where the log cannot be had."""
        about = About(TOOL, DESTINATION, origin)
        if not note(
            self._services, self._caller, about, rule, cls=TOOL, verdict=verdict, fields=fields, outcome=outcome
        ):
            log.error("door_row_lost", rule=rule)
