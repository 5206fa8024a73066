"""The log: what was asked to leave, what left, and how it ended. It never holds what was withheld.

Append-only tables in one SQLite file (WAL). An `outbound` row is committed before the first byte leaves; its
`outcome` row follows. An outbound row without an outcome means: may have left, end unknown. Every row has a link in
`chain`, made in the same transaction, and the last link is kept outside the file as well.

What is about to leave is on the disk before it does (`synchronous = FULL`): no loss of power makes it unknown. A block
and an outcome are in the file at once, where a crash of this process or of any other does not reach them, and on the
disk with the next row that leaves: what a loss of power can take is how something ended, or that nothing left.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

from sparkgate.policy.trail.chain import COVERED, FORM, MARK, OUTBOUND, OUTCOME, Chain, Head, Kind, covered
from sparkgate.policy.trail.file import BUSY_TIMEOUT_S, committed, open_log, way_out
from sparkgate.policy.trail.head import HeadFile, SystemLog
from sparkgate.policy.trail.verify import tombstone

Result = TypeVar("Result")
Mark = Callable[[str, Mapping[str, Any]], None]
"""(what, detail) → a mark in the chain."""


BEGUN = 1
"""Number of the link that a new log begins with; it is there a moment before the head that is kept of it."""


class LogUnavailable(Exception):
    """The log cannot be read or written. Nothing may leave while that is so."""


NOT_TRIED = ("busy", "cached", "refused")
"""Outcomes after which nobody has seen anything of a text, not even who looks names up."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: the MCP session with its host program, and the peer process of the socket as the kernel names it.

    `call_ids` are the names under which the host keeps this call, its turn and its thread; `confined` is the id of the
    confinement the process is in, "" for none.
    """

    session: str = "-"
    host: str = ""
    host_version: str = ""
    pid: int = 0
    uid: int = 0
    cwd: str = ""
    call_ids: Mapping[str, str] = field(default_factory=dict)
    gid: int = 0
    confined: str = ""


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


def fingerprint(key: bytes, value: str) -> str:
    """HMAC-SHA256 of a withheld value, hex: equal values can be found again, none can be read back."""
    return hmac.new(key, value.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


class AuditLog:
    """One writer's handle on the log; safe to use from several threads, and beside other processes.

    Args:
        path: the SQLite file; made with its folder when absent (0600 in 0700).
        key: secret of the digests, kept outside the database.
    """

    def __init__(self, path: Path, key: bytes, *, head: Path | None = None, tell_syslog: bool = False) -> None:
        self.path = path
        self._key = key
        self._chain = Chain(key)
        self._head = HeadFile(head or path.with_suffix(".head"), self._chain)
        self._system = SystemLog(self._chain) if tell_syslog else None
        self._lock = threading.Lock()
        self._last = Head()
        self._is_full = True
        self.is_anchored = True
        try:
            self._db = open_log(path)
            weakref.finalize(self, self._db.conn.close)
            self._db.conn.execute("PRAGMA busy_timeout = 0")  # `committed` waits
            self._inode = path.stat().st_ino
            with self._transaction(full=True) as connection:
                self._start(connection)
        except (OSError, sqlite3.Error) as error:
            raise LogUnavailable(f"cannot open the log {path}: {error}{way_out(error)}") from error

    def _start(self, connection: sqlite3.Connection) -> None:
        """Begin the chain, or note what was done to it. Rows that have no link get none: anybody may have put them."""
        found = _head(connection).seq
        if not found:
            self._mark(connection, "begun", {"log": secrets.token_hex(16)})
        kept = self._head.read()
        if kept:
            self._note_break(connection, kept.head, found)
        elif found > BEGUN:
            self._mark(connection, "headless", {"found": found})

    def _note_break(self, connection: sqlite3.Connection, kept: Head, found: int) -> None:
        """Write down, once, that the log does not hold the link that was its last; `found` is its last one now."""
        row = connection.execute("SELECT mac FROM chain WHERE seq = ?", (kept.seq,)).fetchone()
        if not kept.seq or (row and row[0] == kept.mac) or kept.seq <= tombstone(connection).seq:
            return
        told = {"kept": kept.seq, "mac": kept.mac.hex(), "found": found}
        self._mark(connection, "other" if row else "behind", told)
        self._head.rewind(_head(connection))

    def fingerprint(self, value: str) -> str:
        """The digest of a withheld value, as it stands in rows."""
        return fingerprint(self._key, value)

    @property
    def wal_bytes(self) -> int:
        """How much waits to be taken into the file: little, unless somebody keeps on reading an old state of it."""
        try:
            return self.path.with_name(f"{self.path.name}-wal").stat().st_size
        except OSError:
            return 0

    def intend(self, intent: Intent) -> int:
        """Commit the row durably and return its id; a blocked intent gets its outcome in the same transaction.

        Raises:
            LogUnavailable: the row is not on disk, so nothing may be sent.
        """
        with self._transaction(full=intent.verdict != "block") as connection:
            columns = _columns(intent)
            row = connection.execute(_insert("outbound", columns), columns)
            if row.lastrowid is None:
                raise LogUnavailable("the log gave no row id")
            self._link(connection, OUTBOUND, {"id": row.lastrowid, **columns})
            if intent.verdict == "block":
                self._write_outcome(connection, row.lastrowid, Outcome("withheld"))
            return row.lastrowid

    def since(self, at_us: int) -> list[dict[str, Any]]:
        """What left since then, the oldest first: `at_us`, `session`, `uid`, `destination` and `sent`.

        Raises:
            LogUnavailable: the log cannot be read.
        """
        names = ("at_us", "session", "uid", "destination", "sent")
        columns = ", ".join(f"outbound.{name}" for name in names)
        stayed = ", ".join(f"'{outcome}'" for outcome in NOT_TRIED)
        query = (
            f"SELECT {columns} FROM outbound LEFT JOIN outcome ON outcome.outbound_id = outbound.id WHERE "
            f"outbound.at_us >= ? AND verdict != 'block' AND ifnull(outcome, '') NOT IN ({stayed}) ORDER BY outbound.id"
        )
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
        with self._transaction(full=False) as connection:
            self._write_outcome(connection, outbound_id, outcome)

    def mark(self, what: str, detail: Mapping[str, Any]) -> None:
        """Write down something about the log itself. Raises LogUnavailable."""
        with self._transaction(full=True) as connection:
            self._mark(connection, what, detail)

    def change(self, work: Callable[[sqlite3.Connection, Mark], Result]) -> Result:
        """Do something to the log itself in one transaction; `work` gets what writes a mark.

        Raises:
            LogUnavailable: nothing of it was done.
        """
        with self._transaction(full=True) as connection:
            return work(connection, partial(self._mark, connection))

    def proves(self, connection: sqlite3.Connection, seq: int) -> bool:
        """Whether a link of an outcome is the one that was written, with its outcome in place."""
        link = connection.execute("SELECT kind, ref, form, mac FROM chain WHERE seq = ?", (seq,)).fetchone()
        before = connection.execute("SELECT mac FROM chain WHERE seq = ?", (seq - 1,)).fetchone()
        if link[0] != OUTCOME or link[2] not in COVERED or before is None:
            return False
        names = ", ".join(COVERED[link[2]][OUTCOME])
        values = connection.execute(f"SELECT {names} FROM outcome WHERE outbound_id = ?", (link[1],)).fetchone()
        return values is not None and self._chain.mac(before[0], seq, OUTCOME, link[2], values) == bytes(link[3])

    def shrink(self, pages: int) -> None:
        """Give free pages back to the file system, so many at most, and begin the WAL anew; not while others write.

        Raises:
            LogUnavailable: the file cannot be written.
        """
        with self._lock:
            try:
                # `execute` would take one step, which is one page.
                self._db.conn.executescript(f"PRAGMA incremental_vacuum({pages})")
                self._db.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            except sqlite3.Error as error:
                if error.sqlite_errorname == "SQLITE_BUSY":
                    return
                raise LogUnavailable(
                    f"cannot write the log {self.path}: {type(error).__name__}{way_out(error)}"
                ) from error

    def anchor(self) -> None:
        """Tell the system's log which link is the last, now. Raises LogUnavailable."""
        with self._lock:
            if self._system:
                self._system.tell(_head(self._db.conn), now=True)

    def _mark(self, connection: sqlite3.Connection, what: str, detail: Mapping[str, Any]) -> None:
        columns = {"at_us": time.time_ns() // 1000, "what": what, "detail": json.dumps(dict(detail))}
        row = connection.execute(_insert("mark", columns), columns)
        self._link(connection, MARK, {"id": row.lastrowid, **columns})

    def _write_outcome(self, connection: sqlite3.Connection, outbound_id: int, outcome: Outcome) -> None:
        columns = {
            "outbound_id": outbound_id,
            "at_us": time.time_ns() // 1000,
            "outcome": outcome.outcome,
            "status": outcome.status,
            "bytes": outcome.size_bytes,
            "elapsed_us": outcome.elapsed_us,
        }
        connection.execute(_insert("outcome", columns), columns)
        self._link(connection, OUTCOME, columns)

    def _link(self, connection: sqlite3.Connection, kind: Kind, columns: Mapping[str, Any]) -> None:
        """Tie a record to the one before it; the write lock is held since before the head was read."""
        before = _head(connection)
        seq, values = before.seq + 1, covered(kind, columns)
        mac = self._chain.mac(before.mac, seq, kind, FORM, values)
        connection.execute("INSERT INTO chain VALUES (?, ?, ?, ?, ?)", (seq, kind, values[0], FORM, mac))

    def _keep_head(self, head: Head) -> None:
        """A head that cannot be kept is told, and stops nothing: the row it belongs to is on the disk."""
        self.is_anchored = self._head.write(head)
        if self._system:
            self._system.tell(head)

    def _check_in_place(self) -> None:
        """SQLite would go on writing into a file that has been deleted."""
        try:
            in_place = self.path.stat().st_ino == self._inode
        except OSError:
            in_place = False
        if not in_place:
            raise LogUnavailable(f"the log {self.path} was removed or replaced; `sparkgate gate stop` starts a new one")

    @contextmanager
    def _transaction(self, *, full: bool) -> Iterator[sqlite3.Connection]:
        """With `full` it is on the disk when this ends, else in the file."""
        connection = self._db.conn
        if not self._lock.acquire(timeout=BUSY_TIMEOUT_S):
            raise LogUnavailable(f"cannot write the log {self.path}: it is busy")
        try:
            self._check_in_place()
            if full is not self._is_full:
                connection.execute(f"PRAGMA synchronous = {'FULL' if full else 'NORMAL'}")
                self._is_full = full
            with committed(connection, monotonic() + BUSY_TIMEOUT_S):
                if self._last.seq:
                    self._note_break(connection, self._last, _head(connection).seq)
                yield connection
                head = _head(connection)
            self._last = head
            self._keep_head(head)
        except (OSError, sqlite3.Error) as error:
            raise LogUnavailable(f"cannot write the log {self.path}: {type(error).__name__}{way_out(error)}") from error
        finally:
            self._lock.release()


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
        "call_ids": json.dumps(dict(caller.call_ids)),
        "gid": caller.gid,
        "confined": caller.confined,
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


def _head(connection: sqlite3.Connection) -> Head:
    row = connection.execute("SELECT seq, mac FROM chain ORDER BY seq DESC LIMIT 1").fetchone()
    return Head(*row) if row else Head()


def _insert(table: str, columns: Mapping[str, Any]) -> str:
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join(f':{name}' for name in columns)})"
