"""Sending the log to a collector, every row at least once: what is to be sent, and up to where it was taken.

A row is sent when it has its end, or when it is so old that none is to be expected; an end that comes later than that
is not sent. The cursor stands in the log itself and moves only when the collector has taken a batch, so a crash sends
that batch again and loses nothing. What is behind the cursor may be pruned.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

from sparkgate.policy.audit import LogUnavailable
from sparkgate.policy.trail.file import BUSY_TIMEOUT_S, open_log
from sparkgate.policy.trail.read import ANY, Filter, oldest_first, reading

Row = Mapping[str, Any]
END_EXPECTED_US = 60_000_000
"""A row without an end waits so long for one, and those behind it with it."""
LONGEST_PAUSE_S = 60.0
LONGEST_ASKED_PAUSE_S = 3600.0
"""A collector may ask for so long a pause at most."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a batch.

    Attributes:
        taken: the collector has it and answers for it from here on.
        detail: what it said, or why it could not be asked.
        retry_after_s: the pause it asked for.
        too_large: a smaller batch may be taken.
        rejected: records it has refused for good within a batch it took.
    """

    taken: bool
    detail: str = ""
    retry_after_s: float = 0.0
    too_large: bool = False
    rejected: int = 0


Send = Callable[[Sequence[Row]], Answer]


@dataclass(frozen=True, slots=True)
class Shipment:
    """A batch that was offered: how many rows, the id of the last, and the answer."""

    rows: int
    last: int
    answer: Answer


def prepare(path: Path) -> None:
    """Give a log that an older version has written what shipping needs. Raises LogUnavailable."""
    try:
        open_log(path).conn.close()
    except (OSError, sqlite3.Error) as error:
        raise LogUnavailable(f"cannot open the log {path}: {error}") from error


def ship(path: Path, name: str, send: Send, *, batch: int, wanted: Filter = ANY) -> Iterator[Shipment]:
    """Offer what is behind the cursor, in order, until nothing is left or a batch is not taken.

    Args:
        name: of the cursor; two collectors have two.
        batch: rows at most; a collector that finds them too many gets fewer.

    Raises:
        LogUnavailable: the log cannot be read, or the cursor not be written. What was taken is then sent again.
    """
    with reading(path) as connection:
        waiting = takewhile(_is_complete, oldest_first(connection, wanted, after=_behind(connection, name)))
        batches = iter(lambda: list(islice(waiting, batch)), [])
        for shipment in (shipment for some in batches for shipment in _offer(some, send)):
            if shipment.answer.taken:
                advance(path, name, shipment.last)
            yield shipment
            if not shipment.answer.taken:
                return


def _behind(connection: sqlite3.Connection, name: str) -> int:
    """The cursor, which nobody but this program moves on."""
    found = cursor(connection, name)
    if found > (connection.execute("SELECT max(id) FROM outbound").fetchone()[0] or 0):
        raise LogUnavailable("the cursor is ahead of the log: somebody has moved it; give another one with --cursor")
    return found


def _offer(rows: Sequence[Row], send: Send) -> Iterator[Shipment]:
    """A batch whole, or in parts as small as they have to be. An answer that is not taken is the last one."""
    at, size = 0, len(rows)
    while part := rows[at : at + size]:
        answer = send(part)
        if answer.too_large and size > 1:
            size = (size + 1) // 2
            continue
        yield Shipment(len(part), part[-1]["id"], answer)
        at += size


def _is_complete(row: Row) -> bool:
    """Whether nothing more is to be expected of it. A row from the future, after the clock was set back, is old too."""
    return row["outcome"] is not None or abs(time.time_ns() // 1000 - row["at_us"]) >= END_EXPECTED_US


def cursor(connection: sqlite3.Connection, name: str) -> int:
    """The id of the last row that was taken; 0 before the first."""
    row = connection.execute("SELECT outbound_id FROM cursor WHERE name = ?", (name,)).fetchone()
    return int(row[0]) if row else 0


def advance(path: Path, name: str, outbound_id: int) -> None:
    """Move the cursor, never back: another process may be ahead. Raises LogUnavailable."""
    try:
        with closing(_writable(path)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(
                "INSERT INTO cursor VALUES (?, ?) ON CONFLICT (name) DO UPDATE "
                "SET outbound_id = max(outbound_id, excluded.outbound_id)",
                (name, outbound_id),
            )
            connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise LogUnavailable(f"cannot write the log {path}: {error}") from error


def _writable(path: Path) -> sqlite3.Connection:
    """A loss of power may take the last moves of the cursor; the rows are then sent again."""
    uri = f"{path.absolute().as_uri()}?mode=rw"
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


def unsent(path: Path, name: str) -> range:
    """The ids of rows that were pruned before they were taken. Raises LogUnavailable."""
    with reading(path) as connection:
        behind = cursor(connection, name)
        first = connection.execute("SELECT min(id) FROM outbound").fetchone()[0] or 0
    return range(behind + 1, first) if behind else range(0)


def pause_s(failures: int, answer: Answer) -> float:
    """How long to wait after so many failures in a row: twice as long each time, as long as was asked at least."""
    own = min(LONGEST_PAUSE_S, 2.0 ** min(failures, 16) / 2) * random.uniform(0.5, 1.0)
    return max(own, min(answer.retry_after_s, LONGEST_ASKED_PAUSE_S))
