"""Taking the oldest rows away: a batch at a time, each with a mark in the chain that says what went and why."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sparkgate.policy.audit import AuditLog, LogUnavailable, Mark
from sparkgate.policy.audit_schema import APPENDED, refusal
from sparkgate.policy.trail.chain import MARK, OUTBOUND, OUTCOME
from sparkgate.policy.trail.verify import tombstone

BATCH = 2000
"""Rows taken in one transaction: so long a query that wants to leave may wait."""
PAGES_A_BATCH = 2000
"""Free pages given back to the file system after each."""
Why = Literal["age", "size"]
Proves = Callable[[sqlite3.Connection, int], bool]
"""(connection, number of a link) → whether it is what the log wrote, with its record in place."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is kept; None for all of it.

    Attributes:
        before_us: rows older than this go; microseconds since the epoch.
        max_bytes: of the pages in use.
    """

    before_us: int | None = None
    max_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Pruned:
    """What one batch took."""

    rows: int
    why: Why


def prune(log: AuditLog, limits: Limits) -> Iterator[Pruned]:
    """Take rows away until the limits are kept, the oldest first; never the newest.

    Raises:
        LogUnavailable: the log cannot be written. What was taken until then stays taken, with its marks.
    """
    while taken := log.change(lambda connection, mark: _one_batch(connection, mark, limits, log.proves)):
        yield taken
        log.shrink(PAGES_A_BATCH)


def due(connection: sqlite3.Connection, limits: Limits) -> tuple[int, Why] | None:
    """Up to which outbound id rows are to go now, one batch at most, and why; None when none are."""
    first, last = connection.execute("SELECT min(id), max(id) FROM outbound").fetchone()
    if first is None or first == last:
        return None
    reach = min(first + BATCH - 1, last - 1)
    if limits.before_us is not None:
        # Times may go back, so the first row that is to stay ends it, whatever stands behind.
        kept = connection.execute(
            "SELECT min(id) FROM outbound WHERE id <= ? AND at_us >= ?", (reach + 1, limits.before_us)
        ).fetchone()[0]
        if (through := reach if kept is None else kept - 1) >= first:
            return through, "age"
    if limits.max_bytes is not None and used_bytes(connection) > limits.max_bytes:
        return reach, "size"
    return None


def used_bytes(connection: sqlite3.Connection) -> int:
    """Of all pages that hold something."""
    size, pages, free = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in _SIZES)
    return int(size * (pages - free))


_SIZES = ("page_size", "page_count", "freelist_count")


def _one_batch(connection: sqlite3.Connection, mark: Mark, limits: Limits, proves: Proves) -> Pruned | None:
    found = due(connection, limits)
    if found is None:
        return None
    through, why = found
    seq = _last_link(connection, through)
    gone = f"SELECT seq FROM chain WHERE kind = {OUTCOME} AND ref <= ? AND seq > ?"
    loose = [link for (link,) in connection.execute(gone, (through, seq)) if proves(connection, link)]
    loose += sorted(one for one in tombstone(connection).loose if one > seq and one not in loose)
    mac = connection.execute("SELECT mac FROM chain WHERE seq = ?", (seq,)).fetchone()[0]
    for table in APPENDED:
        connection.execute(f"DROP TRIGGER {table}_no_delete")
    connection.execute("DELETE FROM outcome WHERE outbound_id <= ?", (through,))
    rows = connection.execute("DELETE FROM outbound WHERE id <= ?", (through,)).rowcount
    connection.execute(f"DELETE FROM mark WHERE id IN (SELECT ref FROM chain WHERE kind = {MARK} AND seq <= ?)", (seq,))
    connection.execute("DELETE FROM chain WHERE seq <= ?", (seq,))
    for table in APPENDED:
        connection.execute(refusal(table, "delete"))
    told: Mapping[str, Any] = {"seq": seq, "mac": mac.hex(), "loose": loose, "rows": rows, "why": why}
    mark("pruned", told)
    return Pruned(rows, why)


def _last_link(connection: sqlite3.Connection, through: int) -> int:
    """The link up to which everything goes: the one before the first row that stays."""
    row = connection.execute(f"SELECT min(seq) FROM chain WHERE kind = {OUTBOUND} AND ref > ?", (through,)).fetchone()
    if row[0] is None:
        raise LogUnavailable("the newest rows have no link; `sparkgate audit verify` tells what was done to the log")
    return int(row[0]) - 1
