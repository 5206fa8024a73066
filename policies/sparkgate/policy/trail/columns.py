"""The columns of an exported row: their order, and what each holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

Holds = Literal["integer", "text", "moment", "names", "words", "findings"]
"""`moment` is UTC to the microsecond, `words` a list of text, `names` text by name."""

COLUMNS: Mapping[str, Holds] = {
    "id": "integer",
    "at": "moment",
    "session": "text",
    "host": "text",
    "host_version": "text",
    "pid": "integer",
    "uid": "integer",
    "cwd": "text",
    "tool": "text",
    "destination": "text",
    "origin": "text",
    "verdict": "text",
    "sent": "text",
    "fields": "names",
    "findings": "findings",
    "withheld": "words",
    "policy": "text",
    "decision_us": "integer",
    "outcome": "text",
    "status": "integer",
    "bytes": "integer",
    "elapsed_us": "integer",
    "call_ids": "names",
    "gid": "integer",
    "confined": "text",
}
"""Those of `sparkgate.policy.trail.read.newest`, where `at` stands for `at_us`."""
FINDING: Mapping[str, Holds] = {"rule": "text", "class": "text", "start": "integer", "end": "integer"}
"""Of one finding. `start` and `end` are str indices into the text that was judged."""
NEVER_LEFT = frozenset(
    {"connect", "name_lookup", "refused", "refused_by_guard", "special_address", "exhausted", "bad_url", "ca_file"}
    | {"cached", "certificate", "busy"}
)
"""Outcomes after which the destination has seen nothing."""
DAY_US = 86_400_000_000


def day_of(at_us: int) -> int:
    """Days from the epoch to the day a row was written on, in UTC."""
    return at_us // DAY_US


def column(rows: list[dict[str, Any]], name: str) -> list[Any]:
    """The values of one column, None where there is none; a moment as microseconds since the epoch."""
    if name == "at":
        return [row["at_us"] for row in rows]
    if COLUMNS[name] == "findings":
        return [
            [{key: one.get(key) for key in FINDING} | {"shadow": bool(one.get("shadow"))} for one in row[name]]
            for row in rows
        ]
    if COLUMNS[name] == "names":
        return [[(key, str(value)) for key, value in row[name].items()] for row in rows]
    return [row[name] for row in rows]
