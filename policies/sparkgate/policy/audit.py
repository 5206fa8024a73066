"""The log: what was asked to leave, what left, and how it ended. It never holds what was withheld.

Two append-only tables in one SQLite file (WAL). An `outbound` row is committed before the first byte leaves; its
`outcome` row follows. An outbound row without an outcome means: may have left, end unknown.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from sparkgate.policy.audit_schema import APPLICATION_ID, PARTS, migration

BUSY_TIMEOUT_S = 5.0
"""Longest wait for another thread, and then for another process, that writes."""


class LogUnavailable(Exception):
    """The log cannot be read or written. Nothing may leave while that is so."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: the MCP session with its host program, and the peer process of the socket."""

    session: str = "-"
    host: str = ""
    host_version: str = ""
    pid: int = 0
    uid: int = 0
    cwd: str = ""


@dataclass(frozen=True, slots=True)
class Intent:
    """One row of `outbound` before it is written; `withheld` holds keyed digests of all matched places."""

    caller: Caller
    tool: str
    destination: str
    origin: str
    verdict: str
    sent: str
    fields: Mapping[str, str]
    findings: Sequence[Mapping[str, object]]
    withheld: Sequence[str]
    policy: str
    decision_us: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a send ended: `answered`, `withheld`, `refused` or the kind of failure."""

    outcome: str
    status: int | None = None
    size_bytes: int | None = None
    elapsed_us: int | None = None


class AuditLog:
    """One writer's handle on the log; safe to use from several threads, and beside other processes.

    Args:
        path: the SQLite file; made with its folder when absent (0600 in 0700).
        key: secret of the digests, kept outside the database.
    """

    def __init__(self, path: Path, key: bytes) -> None:
        self.path = path
        self._key = key
        self._lock = threading.Lock()
        try:
            self._db = _open(path)
            weakref.finalize(self, self._db.conn.close)
            self._inode = path.stat().st_ino
        except (OSError, sqlite3.Error) as error:
            raise LogUnavailable(f"cannot open the log {path}: {error}") from error

    def fingerprint(self, value: str) -> str:
        """HMAC-SHA256 of a withheld value, hex: equal values can be found again, none can be read back."""
        return hmac.new(self._key, value.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()

    def intend(self, intent: Intent) -> int:
        """Commit the row durably and return its id; a blocked intent gets its outcome in the same transaction.

        Raises:
            LogUnavailable: the row is not on disk, so nothing may be sent.
        """
        with self._transaction() as connection:
            row = connection.execute(_insert("outbound", _columns(intent)), _columns(intent))
            if row.lastrowid is None:
                raise LogUnavailable("the log gave no row id")
            if intent.verdict == "block":
                _write_outcome(connection, row.lastrowid, Outcome("withheld"))
            return row.lastrowid

    def since(self, at_us: int) -> list[dict[str, Any]]:
        """What left since then, the oldest first: `at_us`, `session`, `uid`, `destination` and `sent`.

        Raises:
            LogUnavailable: the log cannot be read.
        """
        names = ("at_us", "session", "uid", "destination", "sent")
        query = f"SELECT {', '.join(names)} FROM outbound WHERE at_us >= ? AND verdict != 'block' ORDER BY id"
        try:
            with self._lock:
                return [dict(zip(names, row, strict=True)) for row in self._db.conn.execute(query, (at_us,))]
        except sqlite3.Error as error:
            raise LogUnavailable(f"cannot read the log {self.path}: {type(error).__name__}") from error

    def close(self, outbound_id: int, outcome: Outcome) -> None:
        """Record how the send of `outbound_id` ended.

        Raises:
            LogUnavailable: the outcome could not be written; the row keeps meaning "end unknown".
        """
        with self._transaction() as connection:
            _write_outcome(connection, outbound_id, outcome)

    def _check_in_place(self) -> None:
        """SQLite would go on writing into a file that has been deleted."""
        try:
            in_place = self.path.stat().st_ino == self._inode
        except OSError:
            in_place = False
        if not in_place:
            raise LogUnavailable(f"the log {self.path} was removed or replaced; `sparkgate gate stop` starts a new one")

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        connection = self._db.conn
        if not self._lock.acquire(timeout=BUSY_TIMEOUT_S):
            raise LogUnavailable(f"cannot write the log {self.path}: it is busy")
        try:
            self._check_in_place()
            with _committed(connection):
                yield connection
        except sqlite3.Error as error:
            raise LogUnavailable(f"cannot write the log {self.path}: {type(error).__name__}") from error
        finally:
            self._lock.release()


@contextmanager
def _committed(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _open(path: Path) -> Database:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _exclusive(path.with_suffix(".lock")):
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            return _prepared(connection)
        except BaseException:
            connection.close()
            raise


def _prepared(connection: sqlite3.Connection) -> Database:
    """The log behind a new connection, with all its migrations."""
    _check_ours(connection)
    for pragma in (
        f"busy_timeout = {BUSY_TIMEOUT_S * 1000:.0f}",
        "journal_mode = WAL",
        "synchronous = FULL",
        "foreign_keys = ON",
        "journal_size_limit = 4194304",
        f"application_id = {APPLICATION_ID}",
    ):
        connection.execute(f"PRAGMA {pragma}")
    db = Database(connection)
    migration.apply(db)
    missing = PARTS - {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    if missing:
        raise sqlite3.DatabaseError(f"parts are missing: {sorted(missing)}")
    return db


def _check_ours(connection: sqlite3.Connection) -> None:
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if tables and connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise sqlite3.DatabaseError("the file belongs to another program")


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _columns(intent: Intent) -> dict[str, Any]:
    """Values by column; a name that is not Unicode (a path may be any bytes) is escaped."""
    caller = intent.caller
    columns = {
        "at_us": time.time_ns() // 1000,
        "session": caller.session,
        "host": caller.host,
        "host_version": caller.host_version,
        "pid": caller.pid,
        "uid": caller.uid,
        "cwd": caller.cwd,
        "tool": intent.tool,
        "destination": intent.destination,
        "origin": intent.origin,
        "verdict": intent.verdict,
        "sent": intent.sent,
        "fields": json.dumps(dict(intent.fields)),
        "findings": json.dumps(list(intent.findings)),
        "withheld": json.dumps(list(intent.withheld)),
        "policy": intent.policy,
        "decision_us": intent.decision_us,
    }
    return {
        name: value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
        for name, value in columns.items()
    }


def _write_outcome(connection: sqlite3.Connection, outbound_id: int, outcome: Outcome) -> None:
    columns = {
        "outbound_id": outbound_id,
        "at_us": time.time_ns() // 1000,
        "outcome": outcome.outcome,
        "status": outcome.status,
        "bytes": outcome.size_bytes,
        "elapsed_us": outcome.elapsed_us,
    }
    connection.execute(_insert("outcome", columns), columns)


def _insert(table: str, columns: Mapping[str, Any]) -> str:
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join(f':{name}' for name in columns)})"


READ = """
SELECT outbound.*, outcome.outcome, outcome.status, outcome.bytes, outcome.elapsed_us
FROM outbound LEFT JOIN outcome ON outcome.outbound_id = outbound.id
"""


def read_rows(path: Path, *, limit: int = 20, row_id: int | None = None) -> list[dict[str, Any]]:
    """Rows of the log, newest first, opened read-only; [] when there is no log yet.

    Raises:
        LogUnavailable: the file is not a log that can be read.
    """
    if not path.exists():
        return []
    where, values = ("WHERE outbound.id = ?", [row_id]) if row_id is not None else ("", [])
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        connection.row_factory = sqlite3.Row
        try:
            rows = connection.execute(f"{READ} {where} ORDER BY outbound.id DESC LIMIT ?", [*values, limit]).fetchall()
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise LogUnavailable(f"cannot read the log {path}: {error}") from error
    return [_readable(dict(row)) for row in rows]


def _readable(row: dict[str, Any]) -> dict[str, Any]:
    row["at"] = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(row["at_us"] // 1_000_000)) + "Z"
    for name in ("fields", "findings", "withheld"):
        row[name] = json.loads(row[name])
    return row
