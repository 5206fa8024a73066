"""Waiting until nothing is asked of engines any more, as far as their metrics tell."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from sparkgate.fleet import Fleet

POLL_S = 0.2
Pause = Callable[[float], None]
Tell = Callable[[str], None]


def wait_until_idle(fleet: Fleet, names: Sequence[str], idle_s: float, pause: Pause, tell: Tell) -> None:
    """Return when none of these engines has been asked for anything for `idle_s` seconds; at once with 0."""
    quiet_since = time.monotonic()
    before: dict[str, tuple[float, float]] = {}
    while idle_s and time.monotonic() - quiet_since < idle_s:
        now = {name: traffic(fleet, name) for name in names}
        if now != before or any(requests > 0 for requests, _ in now.values()):
            quiet_since, before = time.monotonic(), now
        tell(f"waiting until nothing has been asked for {idle_s:g} s")
        pause(POLL_S)


def drain(fleet: Fleet, names: Sequence[str], deadline_s: float, pause: Pause, tell: Tell) -> dict[str, float]:
    """Wait for running requests; those that have not ended in time, by engine. One that never ends keeps nobody."""
    deadline = time.monotonic() + deadline_s
    while busy := {name: requests for name in names if (requests := traffic(fleet, name)[0])}:
        if time.monotonic() > deadline:
            break
        tell("waiting for " + ", ".join(f"{count:g} requests of {name}" for name, count in busy.items()))
        pause(POLL_S)
    return busy


def traffic(fleet: Fleet, name: str) -> tuple[float, float]:
    """(requests running and waiting, tokens generated so far); 0 where it does not tell."""
    load: Mapping[str, float] = fleet.status(name).load or {}
    return load.get("running", 0.0) + load.get("waiting", 0.0), load.get("generated_tokens", 0.0)
