"""Moments as people say them: `2h`, `yesterday`, `2026-11-30`, `2026-11-30T10:15`."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
"""Letter → seconds."""
DAYS = {"today": 0, "yesterday": 1}
"""Word → how many days ago its midnight was."""
FORMS = "such as 45m, 2h, 7d, today, yesterday, 2026-11-30 or 2026-11-30T10:15"

_AGO = re.compile(rf"(\d{{1,6}})\s?([{''.join(UNITS)}])(?: ago)?")


class NotAMoment(ValueError):
    """The text names no moment; the message says what does."""


def moment_us(text: str, now: datetime) -> int:
    """Microseconds since the epoch.

    Args:
        text: a time without a zone is one of `now`'s.
        now: with its zone.

    Raises:
        NotAMoment: it cannot be read.
    """
    said = text.strip().lower()
    if ago := _AGO.fullmatch(said):
        return _us(now - timedelta(seconds=int(ago[1]) * UNITS[ago[2]]))
    if said in DAYS:
        return _us((now - timedelta(days=DAYS[said])).replace(hour=0, minute=0, second=0, microsecond=0))
    try:
        told = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise NotAMoment(f"{text!r} is no moment; write one {FORMS}") from error
    return _us(told if told.tzinfo else told.replace(tzinfo=now.tzinfo))


def seconds_of(text: str) -> int:
    """A length of time such as `90d` in seconds. Raises NotAMoment."""
    told = _AGO.fullmatch(text.strip().lower())
    if told is None:
        raise NotAMoment(f"{text!r} is no length of time; write one such as 12h, 90d or 8w")
    return int(told[1]) * UNITS[told[2]]


def _us(at: datetime) -> int:
    return round(at.timestamp() * 1_000_000)
