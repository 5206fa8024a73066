"""One setting: a typed field with its meaning, unit and bounds."""

from __future__ import annotations

from dataclasses import field
from typing import Any


def setting(
    default: Any,
    meaning: str,
    *,
    unit: str = "",
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """One row of the table: a dataclass field that carries its meaning, unit, and bounds or choices."""
    about = {"meaning": meaning, "unit": unit, "low": low, "high": high, "choices": choices}
    return field(default=default, metadata=about)
