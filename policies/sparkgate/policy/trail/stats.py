"""Counts over the log: by day, tool, host, destination and rule, and the decisions that took longest."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from sparkgate.policy.trail.read import ANY, Filter, source

DAY_US = 86_400_000_000
SLOWEST = 5
VERDICTS = ("allow", "redact", "block")
Counts = dict[str, Counter[str]]
"""Name → verdict → rows."""


@dataclass(slots=True)
class Stats:
    """Attributes:
    days: by day in UTC (`2026-11-30`), every day from the first to the last.
    rules: rule id → rows with a finding of it.
    slowest: id, tool, verdict and milliseconds of the decisions that took longest.
    """

    total: Counter[str] = field(default_factory=Counter)
    days: Counts = field(default_factory=dict)
    tools: Counts = field(default_factory=dict)
    hosts: Counts = field(default_factory=dict)
    destinations: Counts = field(default_factory=dict)
    rules: dict[str, int] = field(default_factory=dict)
    slowest: list[dict[str, object]] = field(default_factory=list)

    @property
    def blocked_share(self) -> float:
        """Of all rows, from 0 to 1."""
        return self.total["block"] / total if (total := sum(self.total.values())) else 0.0

    def public(self) -> dict[str, object]:
        """As a JSON object."""
        groups: Mapping[str, Counts] = {
            "days": self.days,
            "tools": self.tools,
            "hosts": self.hosts,
            "destinations": self.destinations,
        }
        told = {name: {key: dict(counts) for key, counts in group.items()} for name, group in groups.items()}
        share = round(self.blocked_share, 4)
        return {
            "rows": sum(self.total.values()),
            "verdicts": dict(self.total),
            "blocked_share": share,
            **told,
            "rules": self.rules,
            "slowest": self.slowest,
        }


def stats(connection: sqlite3.Connection, wanted: Filter = ANY) -> Stats:
    """Counts over the rows that a filter means."""
    of = source(wanted)
    among = f"FROM {of.tables} {of.clause}"
    found = Stats()
    # Counting here is faster than sorting there, which is what GROUP BY does.
    query = f"SELECT at_us / {DAY_US}, tool, host, destination, verdict {among}"
    for (day, tool, host, destination, verdict), rows in Counter(
        map(tuple, connection.execute(query, of.values))
    ).items():
        found.total[verdict] += rows
        groups = ((found.days, _day(day)), (found.tools, tool), (found.hosts, host), (found.destinations, destination))
        for group, name in groups:
            group.setdefault(name, Counter())[verdict] += rows
    found.days = _every_day(found.days)
    found.rules = _rules(connection, among if of.clause else "", of.values)
    slow = f"SELECT outbound.id, tool, verdict, decision_us {among} ORDER BY decision_us DESC LIMIT {SLOWEST}"
    found.slowest = [
        {"id": row, "tool": tool, "verdict": verdict, "decision_ms": us / 1000}
        for row, tool, verdict, us in connection.execute(slow, of.values)
    ]
    return found


def _rules(connection: sqlite3.Connection, among: str, values: Mapping[str, object]) -> dict[str, int]:
    clause = f"WHERE outbound_id IN (SELECT outbound.id {among})" if among else ""
    query = f"SELECT rule, count(DISTINCT outbound_id) FROM finding {clause} GROUP BY rule ORDER BY 2 DESC, 1"
    return dict(tuple(row) for row in connection.execute(query, values))


def _every_day(days: Counts) -> Counts:
    if not days:
        return {}
    numbers = [_number(day) for day in days]
    return {(day := _day(number)): days.get(day, Counter()) for number in range(min(numbers), max(numbers) + 1)}


def _day(number: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(number * 86_400))


def _number(day: str) -> int:
    year, month, mday = map(int, day.split("-"))
    from calendar import timegm

    return timegm((year, month, mday, 0, 0, 0, 0, 0, 0)) // 86_400
