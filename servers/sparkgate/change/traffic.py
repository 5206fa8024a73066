"""What an engine is asked just now, as far as its metrics tell."""

from __future__ import annotations

from collections.abc import Mapping

from sparkgate.fleet import Fleet


def traffic(fleet: Fleet, name: str) -> tuple[float, float]:
    """(requests running and waiting, tokens generated so far); 0 where it does not tell."""
    load: Mapping[str, float] = fleet.status(name).load or {}
    return load.get("running", 0.0) + load.get("waiting", 0.0), load.get("generated_tokens", 0.0)


def is_busy(found: Mapping[str, tuple[float, float]]) -> bool:
    """Whether any of these engines has a request running or waiting."""
    return any(requests > 0 for requests, _ in found.values())
