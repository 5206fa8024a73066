"""Waiting until a started engine is ready, and giving up as soon as it cannot become so. Alive is not ready."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sparkgate.engine_state import Status
from sparkgate.engines.spec import Engine
from sparkgate.failures.diagnosis import Diagnosis, diagnose, stalled
from sparkgate.fleet import Fleet
from sparkgate.runtimes.spec import Look

STAGE_LINES = 400
POLL_S, POLL_MAX_S = 0.1, 1.0
POLL_SHARE = 0.05
"""The wait between two looks grows with the time the load has taken."""
READY_IN_A_ROW = 2
GONE_POLLS = 5
"""A process that is not there yet after so many looks does not come any more."""
KILLED = 137
STARTING = {"down": "starting", "unknown": "starting"}
_PRESSED = (
    "{name} takes more memory than there is: for {percent:.0f} % of the last 10 s everything waited for memory, and a "
    "machine that shares it with its GPU freezes"
)
_SHORT = "{name} takes more memory than there is: {gib:.1f} GiB are left, and a machine that shares it freezes"
_ASLEEP = "{name} sleeps, and nothing here wakes it: unload it, then load it"


class NotRight(Exception):
    """The engine failed to start, or what started is not what was wanted."""

    def __init__(self, code: str, message: str, diagnosis: Diagnosis | None = None) -> None:
        super().__init__(message)
        self.code, self.diagnosis = code, diagnosis


@dataclass(frozen=True, slots=True)
class Wait:
    """How to wait.

    Attributes:
        pause: waits some seconds; raises when the job is cancelled.
        tell: takes the stage the engine is in, in words.
        patience_s: longest wait in all.
        stall_s: longest time without a new line in its log and without an answer.
        restarts: how often its owner had restarted it before.
        pressure_max_percent: share of the time in which everything may wait for memory.
        spare_gib: memory of the machine that must stay free while it loads.
    """

    pause: Callable[[float], None]
    tell: Callable[[str], None]
    patience_s: float
    stall_s: float
    restarts: int = 0
    pressure_max_percent: float = 50.0
    spare_gib: float = 0.0


def wait_until_ready(name: str, fleet: Fleet, wait: Wait) -> None:
    """Return when the engine says twice in a row that it is ready; fail as soon as it cannot become so.

    Raises:
        NotRight: it ended, restarts in a circle, sleeps, prints nothing any more, takes too long or too much memory;
            with a diagnosis where its log tells more.
    """
    watch = _Watch(name, fleet, wait)
    while not watch.is_ready():
        wait.pause(min(POLL_MAX_S, POLL_S + POLL_SHARE * watch.elapsed_s))


class _Watch:
    """What was seen of one start so far."""

    def __init__(self, name: str, fleet: Fleet, wait: Wait) -> None:
        self._name, self._fleet, self._wait = name, fleet, wait
        self._began = self._last_news = time.monotonic()
        self._in_a_row = self._gone = 0
        self._stage = self._seen = ""
        self._pids: tuple[int, ...] = ()

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._began

    def is_ready(self) -> bool:
        """Look once; whether it has been ready often enough."""
        look, lines = self._fleet.look(self._name), self._fleet.log(self._name, STAGE_LINES)
        if look is not None:
            self._pids = look.pids or self._pids
            self._fail_if_dead(replace(look, pids=self._pids), lines)
        status = self._fleet.status(self._name)
        if status.state == "sleeping":
            raise NotRight("sleeping", _ASLEEP.format(name=self._name))
        up = status.state == "ready" and (look is None or look.state == "running")
        self._in_a_row = self._in_a_row + 1 if up else 0
        if not up:
            self._fail_if_hopeless(look, lines, status)
        self._tell(lines, status)
        return self._in_a_row >= READY_IN_A_ROW

    def _fail_if_dead(self, look: Look, lines: Sequence[str]) -> None:
        self._gone = self._gone + 1 if look.state == "stopped" else 0
        if look.state == "failed" or self._gone >= GONE_POLLS:
            found = self._diagnosed(lines, look)
            raise NotRight("ended", f"{self._name} ended while it was starting: {found.cause}", found)
        if (look.restarts or 0) > self._wait.restarts:
            found = self._diagnosed(lines, look)
            raise NotRight("crash_loop", f"{self._name} ends and is started again by its owner: {found.cause}", found)

    def _diagnosed(self, lines: Sequence[str], look: Look) -> Diagnosis:
        """A kill without a reason has its reason, if any, in the log of the kernel."""
        kernel = self._fleet.kernel_log() if look.exit_code in (None, KILLED) else ()
        return diagnose(lines, look, kernel)

    def _fail_if_hopeless(self, look: Look | None, lines: Sequence[str], status: Status) -> None:
        self._fail_if_short_of_memory()
        news = repr((lines[-1:], len(lines), status.state))
        if news != self._seen:
            self._last_news, self._seen = time.monotonic(), news
        silent_s = time.monotonic() - self._last_news
        if silent_s > self._wait.stall_s:
            found = stalled(silent_s, lines)
            raise NotRight("stalled", f"{self._name}: {found.cause}", found)
        if self.elapsed_s > self._wait.patience_s:
            found = diagnose(lines, look)
            raise NotRight("too_slow", f"{self._name} is not ready after {self._wait.patience_s:.0f} s", found)

    def _fail_if_short_of_memory(self) -> None:
        percent, gib = self._fleet.pressure(), self._fleet.available_gib()
        if percent is not None and percent > self._wait.pressure_max_percent:
            raise NotRight("memory_pressure", _PRESSED.format(name=self._name, percent=percent))
        if gib is not None and gib < self._wait.spare_gib:
            raise NotRight("memory_pressure", _SHORT.format(name=self._name, gib=gib))

    def _tell(self, lines: Sequence[str], status: Status) -> None:
        stage = stage_of(self._fleet.kind(self._name), lines) or STARTING.get(status.state, status.state)
        if stage != self._stage:
            self._stage = stage
            self._wait.tell(f"{self._name}: {stage}")


def stage_of(engine: Engine, lines: Sequence[str]) -> str:
    """What a loading engine is doing, from the last line of its log that tells; "" when none does."""
    for line in reversed(lines):
        for pattern, words in engine.stages:
            if re.search(pattern, line):
                return words
    return ""
