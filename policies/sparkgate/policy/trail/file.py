"""The file of the log: made, looked at, brought up to date; and what can be done when it cannot be used."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

from sqlite_utils import Database

from sparkgate.policy.audit_schema import APPLICATION_ID, PARTS, migration

LOCK_AGAIN_S = 0.002
OPEN_TIMEOUT_S = 10.0
"""Longest wait to open it while others write."""
BUSY_TIMEOUT_S = 5.0
"""Longest wait for another thread, and then for another process, that writes."""
DAMAGED = (
    "it is damaged: `sparkgate gate stop`, move it away and keep it, and the next query begins a new one; "
    "`sparkgate audit verify` goes on telling of the break until `sparkgate audit accept`"
)
LOOK_AGAIN_S = (0.0005, 0.003)
"""Shortest and longest pause of a writer that another one keeps waiting."""
WAY_OUT: Mapping[str, str] = {
    "SQLITE_BUSY": "another program holds it; nothing leaves until it lets go",
    "SQLITE_FULL": "the disk is full; free some space, nothing leaves until there is some",
    "SQLITE_READONLY": "this user may not write it",
    "SQLITE_CANTOPEN": "this user may not write its folder",
    "SQLITE_IOERR": "the disk does not take it; it may be full, the system's log says more",
    "SQLITE_NOTADB": DAMAGED,
    "SQLITE_CORRUPT": DAMAGED,
}
"""How the name of an error of SQLite begins → what a person can do."""


def way_out(error: Exception) -> str:
    """What can be done, to follow a message; "" where there is nothing to say."""
    name = getattr(error, "sqlite_errorname", None) or ""
    return next((f"; {told}" for start, told in WAY_OUT.items() if name.startswith(start)), "")


def open_log(path: Path) -> Database:
    """The log at `path`, made with its folder when absent (0600 in 0700), with all its migrations.

    Raises:
        OSError, sqlite3.Error: it is not a log that can be used.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _exclusive(path.with_suffix(".lock")):
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        connection = sqlite3.connect(path, timeout=OPEN_TIMEOUT_S, isolation_level=None, check_same_thread=False)
        try:
            return _prepared(connection)
        except BaseException:
            connection.close()
            raise


def _prepared(connection: sqlite3.Connection) -> Database:
    """The log behind a new connection, with all its migrations."""
    _check_ours(connection)
    for pragma in (
        "auto_vacuum = INCREMENTAL",  # before the first page is written
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


def locked(descriptor: int, timeout_s: float) -> bool:
    """Take the lock of an open file; False when another program has it for longer than that."""
    deadline = monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if monotonic() > deadline:
                return False
        sleep(LOCK_AGAIN_S)


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        if not locked(descriptor, OPEN_TIMEOUT_S):
            raise OSError(errno.EAGAIN, "another program holds its lock", str(path))
        yield
    finally:
        os.close(descriptor)


@contextmanager
def committed(connection: sqlite3.Connection, deadline: float) -> Iterator[None]:
    """A transaction that writes: committed at the end, rolled back on the way out by an error.

    Args:
        deadline: seconds of time.monotonic; until then it waits for others who write.
    """
    _begin(connection, deadline)
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _begin(connection: sqlite3.Connection, deadline: float) -> None:
    """Begin to write, when nobody else does.

    SQLite itself waits longer and longer, and of many writers the newest wins; looking again soon is fair to all.
    """
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname != "SQLITE_BUSY" or monotonic() > deadline:
                raise
        sleep(random.uniform(*LOOK_AGAIN_S))
