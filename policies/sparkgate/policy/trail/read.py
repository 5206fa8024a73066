"""Reading the log: rows by what they hold, newest first, over a connection that can change nothing."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from sparkgate.policy.audit import LogUnavailable
from sparkgate.policy.trail.file import BUSY_TIMEOUT_S

PAGE_ROWS = 1000
"""Read at once: a longer read would keep the writer's WAL from being used again."""

ROWS = """
SELECT outbound.*, outcome.outcome, outcome.status, outcome.bytes, outcome.elapsed_us
FROM outbound LEFT JOIN outcome ON outcome.outbound_id = outbound.id
"""


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
    "outcome": "ifnull(outcome.outcome, 'unknown') = :outcome",
    "text": "outbound.id IN (SELECT rowid FROM outbound_text WHERE outbound_text MATCH :text)",
    "withheld": "outbound.id IN (SELECT outbound_id FROM withheld WHERE digest = :withheld)",
}
ANY = Filter()


def where(wanted: Filter) -> tuple[str, dict[str, Any]]:
    """The WHERE clause of a filter and its parameters."""
    values = {one.name: getattr(wanted, one.name) for one in fields(wanted)}
    values = {name: value for name, value in values.items() if value not in (None, "")}
    if "text" in values:
        values["text"] = _phrases(values["text"])
    clauses = [CONDITIONS[name] for name in values]
    return (f"WHERE {' AND '.join(clauses)}" if clauses else ""), values


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
    clause, values = where(wanted)
    if after:
        clause = f"{clause} AND outbound.id > :after" if clause else "WHERE outbound.id > :after"
    query = f"{ROWS} {clause} ORDER BY outbound.id DESC LIMIT :limit"
    return list(map(readable, connection.execute(query, {**values, "after": after, "limit": limit})))


def oldest_first(connection: sqlite3.Connection, wanted: Filter = ANY, *, after: int = 0) -> Iterator[dict[str, Any]]:
    """All of them, a page at a time, so that memory is constant and the writer is never held up."""
    clause, values = where(wanted)
    clause = f"{clause} AND outbound.id > :after" if clause else "WHERE outbound.id > :after"
    query = f"{ROWS} {clause} ORDER BY outbound.id LIMIT {PAGE_ROWS}"
    while rows := connection.execute(query, {**values, "after": after}).fetchall():
        yield from map(readable, rows)
        after = rows[-1]["id"]


def count(connection: sqlite3.Connection, wanted: Filter = ANY) -> int:
    clause, values = where(wanted)
    join = "LEFT JOIN outcome ON outcome.outbound_id = outbound.id" if wanted.outcome else ""
    found: int = connection.execute(f"SELECT count(*) FROM outbound {join} {clause}", values).fetchone()[0]
    return found


def row_of(connection: sqlite3.Connection, row_id: int) -> dict[str, Any] | None:
    row = connection.execute(f"{ROWS} WHERE outbound.id = ?", (row_id,)).fetchone()
    return readable(row) if row else None


def readable(row: Mapping[str, Any] | sqlite3.Row) -> dict[str, Any]:
    """A row with its lists as lists, and `at` in UTC beside `at_us`."""
    told = dict(row)
    told["at"] = moment(told["at_us"])
    for name in ("fields", "findings", "withheld"):
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


def names(connection: sqlite3.Connection, column: str, known: Sequence[str] = ()) -> list[str]:
    """The values a column has, for a message that says which there are."""
    if column not in ("session", "host", "tool", "destination", "verdict"):
        return list(known)
    return [row[0] for row in connection.execute(f"SELECT DISTINCT {column} FROM outbound ORDER BY 1 LIMIT 50")]
