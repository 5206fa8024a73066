"""How one value is shown in Datasette's tables. Rows hold text that an attacker chose: all of it is escaped."""

from __future__ import annotations

import json
import re
import time
from typing import Any

from datasette.utils import tilde_encode  # type: ignore[import-untyped]
from markupsafe import Markup, escape

from sparkgate.clients.audit_web.queries import DATABASE

MAX_CHARS = 2000
VERDICTS = ("allow", "redact", "block")
MOMENTS = ("at_us", "first_us", "last_us")
DURATIONS = ("decision_us", "elapsed_us")
ROWS = ("row", "newest_row", "outbound_id")
"""Columns that hold the id of a row of `outbound`."""
UNSEEN = re.compile(
    "([\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f])"
)
"""Characters that have no shape, or that change the order in which others are shown."""


SPANS = ((10e6, 1e3, "ms"), (120e6, 1e6, "s"), (7.2e9, 60e6, "min"), (172.8e9, 3.6e9, "h"))
"""Below so many microseconds → the unit, in microseconds."""


def session_url(session: str) -> str:
    return f"/session/{tilde_encode(session)}"


def row_url(row_id: int) -> str:
    return f"/{DATABASE}/outbound/{row_id}"


def when(at_us: int) -> str:
    """Microseconds since the epoch as UTC, to the second."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at_us // 1_000_000))


def how_long(us: int) -> str:
    """Microseconds in a unit that people read."""
    for below, unit, name in SPANS:
        if us < below:
            return f"{us / unit:,.{2 if us < 10_000 else 0}f} {name}"
    return f"{us / 86.4e9:,.1f} days"


def shown(text: str) -> Markup:
    """A text as it is, with its unseen characters as their numbers, and in an order that none of them changes."""
    parts = UNSEEN.split(text)
    told = (Markup('<span class="unseen">U+{:04X}</span>').format(ord(part)) for part in parts[1::2])
    pairs = zip(map(escape, parts[::2]), [*told, Markup()], strict=True)
    return Markup("<bdi>{}</bdi>").format(Markup().join(piece for pair in pairs for piece in pair))


def render_cell(value: Any, column: str) -> Markup | None:
    """A value as HTML; None leaves it to Datasette, which then shows a number or the size of bytes."""
    if isinstance(value, int):
        return _number(value, column)
    if not isinstance(value, str) or not value:
        return None
    if column == "verdict" and value in VERDICTS:
        return Markup('<span class="verdict {0}">{0}</span>').format(value)
    if column == "session":
        return Markup('<a href="{}">{}</a>').format(session_url(value), shown(value))
    if column == "findings":
        return escape(_rules(value)) or Markup("&nbsp;")
    return shown(value if len(value) <= MAX_CHARS else value[:MAX_CHARS] + "…")


def _number(value: int, column: str) -> Markup | None:
    if column in MOMENTS:
        return Markup("<time>{}</time>").format(when(value))
    if column in DURATIONS:
        return escape(how_long(value))
    if column in ROWS:
        return Markup('<a href="{}">{}</a>').format(row_url(value), value)
    return None


def _rules(findings: str) -> str:
    """Names of rules, each once; the text itself when it is no list of findings."""
    try:
        return ", ".join(dict.fromkeys(str(one["rule"]) for one in json.loads(findings)))
    except (ValueError, TypeError, KeyError):
        return findings
