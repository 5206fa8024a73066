"""Rows over time as a picture: counts by verdict in steps of one length, drawn as inline SVG."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

SECOND_US = 1_000_000
HOUR_S, DAY_S = 3600, 86_400
STEPS_S = (1, 10, 60, 600, HOUR_S, DAY_S, 7 * DAY_S, 28 * DAY_S)
MAX_BARS, MIN_BARS = 240, 30
VERDICTS = ("allow", "redact", "block")
SLOT, GAP, HEIGHT = 10, 2, 100
LEAST_HEIGHT = 1.5
"""What there is shows, however little it is."""
Count = tuple[int, str, int]
"""Number of the step since the epoch, verdict, rows."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One step: when it begins (microseconds since the epoch, UTC) and its rows by verdict."""

    start_us: int
    label: str
    rows: Counter[str]

    @property
    def told(self) -> str:
        return f"{self.label}: " + ", ".join(f"{self.rows[verdict]:,} {verdict}" for verdict in VERDICTS)


def step_s(first_us: int, last_us: int, least_s: int = 1) -> int:
    """The shortest step of `STEPS_S`, at least `least_s`, that needs no more than `MAX_BARS` bars."""
    span_s = (last_us - first_us) / SECOND_US
    fitting = (step for step in STEPS_S if step >= least_s and span_s / step < MAX_BARS - 1)
    return next(fitting, STEPS_S[-1])


def bars(counts: Iterable[Count], step: int) -> list[Bar]:
    """A bar for every step from the first with rows to the last, and before them to `MIN_BARS`; [] without rows."""
    found: dict[int, Counter[str]] = {}
    for number, verdict, rows in counts:
        found.setdefault(number, Counter())[verdict] += rows
    if not found:
        return []
    last = max(found)
    first = min(min(found), last - MIN_BARS + 1)
    return [
        Bar(number * step * SECOND_US, _label(number * step, step), found.get(number, Counter()))
        for number in range(max(first, last - 2 * MAX_BARS), last + 1)
    ]


def picture(shown: Sequence[Bar], name: str) -> str:
    """Stacked bars as one SVG element with a title and a description; its colours are classes of the style sheet.

    Args:
        name: of the element, for its ids; letters only.
    """
    most = max((one.rows.total() for one in shown), default=0) or 1
    total = sum((one.rows for one in shown), Counter[str]())
    told = ", ".join(f"{total[verdict]:,} {verdict}" for verdict in VERDICTS)
    told = f"{told}, from {shown[0].label} to {shown[-1].label} UTC." if shown else "No rows."
    drawn = "".join(_drawn(place, one, most) for place, one in enumerate(shown))
    return (
        f'<svg class="timeline" viewBox="0 0 {max(len(shown), 1) * SLOT} {HEIGHT}" preserveAspectRatio="none" '
        f'role="img" aria-labelledby="{name}-title {name}-desc">'
        f'<title id="{name}-title">Rows over time by verdict</title><desc id="{name}-desc">{escape(told)}</desc>'
        f"{drawn}</svg>"
    )


def _drawn(place: int, one: Bar, most: int) -> str:
    """One stack; the whole slot can be pointed at, so that a short bar tells its numbers as well."""
    x, top, parts = place * SLOT, float(HEIGHT), []
    for verdict in VERDICTS:
        if not one.rows[verdict]:
            continue
        height = max((HEIGHT - 3 * LEAST_HEIGHT) * one.rows[verdict] / most, LEAST_HEIGHT)
        top -= height
        size = f'x="{x + GAP / 2:g}" y="{top:.2f}" width="{SLOT - GAP}" height="{height:.2f}"'
        parts.append(f'<rect class="{verdict}" {size}/>')
    slot = f'<rect class="slot" x="{x}" y="0" width="{SLOT}" height="{HEIGHT}"/>'
    return f"<g><title>{escape(one.told)}</title>{slot}{''.join(parts)}</g>"


def _label(moment_s: int, step: int) -> str:
    form = "%Y-%m-%d" if step >= DAY_S else "%Y-%m-%d %H:%M" if step >= 60 else "%Y-%m-%d %H:%M:%S"
    return time.strftime(form, time.gmtime(moment_s))
