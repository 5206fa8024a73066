"""Reading the log: rows by what they hold, newest first, over a connection that can change nothing."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from sparkgate.policy.audit import LogUnavailable
from sparkgate.policy.trail.file import BUSY_TIMEOUT_S

PAGE_ROWS = 1000
"""Read at once: a longer read would keep the writer's WAL from being used again."""

COLUMNS = "outbound.*, outcome.outcome, outcome.status, outcome.bytes, outcome.elapsed_us"
ENDS = "LEFT JOIN outcome ON outcome.outbound_id = outbound.id"
UNKNOWN = "NOT EXISTS (SELECT 1 FROM outcome WHERE outcome.outbound_id = outbound.id)"


@dataclass(frozen=True, slots=True)
class Filter:
    """Which rows; an empty field is no condition. Each holds one condition of `CONDITIONS`.

    Attributes:
        since_us, until_us: microseconds since the epoch, the second excluded.
        text: words of what was sent, all of them, as FTS5 understands them.
        withheld: the keyed digest of a value.
        rule, cls: of one of its findings.
        outcome: how it ended; `unknown` when no end is known.
    """

    since_us: int | None = None
    until_us: int | None = None
    session: str = ""
    host: str = ""
    tool: str = ""
    destination: str = ""
    verdict: str = ""
    rule: str = ""
    cls: str = ""
    outcome: str = ""
    text: str = ""
    withheld: str = ""


CONDITIONS: Mapping[str, str] = {
    "since_us": "outbound.at_us >= :since_us",
    "until_us": "outbound.at_us < :until_us",
    "session": "outbound.session = :session",
    "host": "outbound.host = :host",
    "tool": "outbound.tool = :tool",
    "destination": "outbound.destination = :destination",
    "verdict": "outbound.verdict = :verdict",
    "rule": "outbound.id IN (SELECT outbound_id FROM finding WHERE rule = :rule)",
    "cls": "outbound.id IN (SELECT outbound_id FROM finding WHERE class = :cls)",
    "outcome": "outbound.id IN (SELECT outbound_id FROM outcome WHERE outcome.outcome = :outcome)",
    "text": "outbound_text MATCH :text",
    "withheld": "outbound.id IN (SELECT outbound_id FROM withheld WHERE digest = :withheld)",
}
ANY = Filter()


@dataclass(frozen=True, slots=True)
class Source:
    """Where the rows of a filter come from.

    Attributes:
        tables: what stands behind FROM; rows come in the order of `order`, whichever way, without being sorted.
        clause: the conditions, "" for none; `and_` adds one.
        values: the parameters.
        order: the column that tells the order of rows.
    """

    tables: str
    clause: str
    values: Mapping[str, Any]
    order: str = "outbound.id"

    def and_(self, condition: str) -> str:
        return f"{self.clause} AND {condition}" if self.clause else f"WHERE {condition}"


def source(wanted: Filter) -> Source:
    values = {one.name: getattr(wanted, one.name) for one in fields(wanted)}
    values = {name: value for name, value in values.items() if value not in (None, "")}
    clauses = [
        UNKNOWN if (name, value) == ("outcome", "unknown") else CONDITIONS[name] for name, value in values.items()
    ]
    clause = f"WHERE {' AND '.join(clauses)}" if clauses else ""
    if "text" not in values:
        return Source("outbound", clause, values)
    # The index of words gives its rows in order, so the newest are there without a look at all the others.
    tables = "outbound_text CROSS JOIN outbound ON outbound.id = outbound_text.rowid"
    return Source(tables, clause, values | {"text": _phrases(wanted.text)}, "outbound_text.rowid")


def _phrases(text: str) -> str:
    """Each word as a phrase of its own, so that no sign in it is an operator of FTS5."""
    return " ".join(f'"{word.replace(chr(34), chr(34) * 2)}"' for word in text.split())


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A read-only connection to the log; rows are `sqlite3.Row`.

    Raises:
        LogUnavailable: it is not there, or not a log that can be read.
    """
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=BUSY_TIMEOUT_S)
    except sqlite3.Error as error:
        raise LogUnavailable(f"cannot read the log {path}: {error}") from error
    with closing(connection):
        try:
            connection.execute("PRAGMA query_only = ON")
            connection.row_factory = sqlite3.Row
            yield connection
        except sqlite3.Error as error:
            raise LogUnavailable(f"cannot read the log {path}: {error}") from error


def newest(connection: sqlite3.Connection, wanted: Filter = ANY, *, limit: int, after: int = 0) -> list[dict[str, Any]]:
    """Rows newest first; with `after` only those with a greater id."""
    of = source(wanted)
    clause = of.and_(f"{of.order} > :after") if after else of.clause
    query = f"SELECT {COLUMNS} FROM {of.tables} {ENDS} {clause} ORDER BY {of.order} DESC LIMIT :limit"
    return list(map(readable, connection.execute(query, {**of.values, "after": after, "limit": limit})))


def oldest_first(connection: sqlite3.Connection, wanted: Filter = ANY, *, after: int = 0) -> Iterator[dict[str, Any]]:
    """All of them, a page at a time, so that memory is constant and the writer is never held up."""
    of = source(wanted)
    clause = of.and_(f"{of.order} > :after")
    query = f"SELECT {COLUMNS} FROM {of.tables} {ENDS} {clause} ORDER BY {of.order} LIMIT {PAGE_ROWS}"
    while rows := connection.execute(query, {**of.values, "after": after}).fetchall():
        yield from map(readable, rows)
        after = rows[-1]["id"]


def count(connection: sqlite3.Connection, wanted: Filter = ANY) -> int:
    of = source(wanted)
    found: int = connection.execute(f"SELECT count(*) FROM {of.tables} {of.clause}", of.values).fetchone()[0]
    return found


def row_of(connection: sqlite3.Connection, row_id: int) -> dict[str, Any] | None:
    row = connection.execute(f"SELECT {COLUMNS} FROM outbound {ENDS} WHERE outbound.id = ?", (row_id,)).fetchone()
    return readable(row) if row else None


def readable(row: Mapping[str, Any] | sqlite3.Row) -> dict[str, Any]:
    """A row with its lists as lists, and `at` in UTC beside `at_us`."""
    told = dict(row)
    told["at"] = moment(told["at_us"])
    for name in ("fields", "findings", "withheld", "call_ids"):
        told[name] = json.loads(told[name])
    return told


def moment(at_us: int) -> str:
    """Microseconds since the epoch as UTC, ISO 8601 to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at_us // 1_000_000)) + "Z"


def read_rows(path: Path, wanted: Filter = ANY, *, limit: int = 20, row_id: int | None = None) -> list[dict[str, Any]]:
    """Rows of the log, newest first, opened read-only; [] when there is no log yet.

    Raises:
        LogUnavailable: the file is not a log that can be read.
    """
    if not path.exists():
        return []
    with reading(path) as connection:
        if row_id is not None:
            return [row for row in [row_of(connection, row_id)] if row]
        return newest(connection, wanted, limit=limit)
