"""The file of the runs as it lies on disk: its tables, and how it is opened."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

BUSY_TIMEOUT_S = 5.0
migration = Migrations("bench")


def connected(path: Path) -> sqlite3.Connection:
    """A connection that any thread may use. Raises sqlite3.Error."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=BUSY_TIMEOUT_S)
    connection.row_factory = sqlite3.Row
    return connection


def opened(path: Path) -> sqlite3.Connection:
    """The same for writing; makes the file and its tables where they are missing. Raises OSError, sqlite3.Error."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    connection = connected(path)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        # Survives every end of a process. A wait for the disk at each burst would disturb what is measured.
        connection.execute("PRAGMA synchronous = NORMAL")
        migration.apply(Database(connection))
    except BaseException:
        connection.close()
        raise
    return connection


@migration()
def create_tables(db: Database) -> None:
    for statement in TABLES:
        db.execute(statement)


TABLES = (
    """CREATE TABLE run (
        id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, engine TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('running', 'done', 'failed', 'cancelled', 'interrupted')),
        owner_pid INTEGER NOT NULL, owner_birth TEXT NOT NULL, cancel INTEGER NOT NULL DEFAULT 0,
        caller TEXT NOT NULL, asked TEXT NOT NULL, provenance TEXT NOT NULL,
        plan TEXT NOT NULL, plan_hash TEXT NOT NULL, seed TEXT NOT NULL,
        probe TEXT NOT NULL DEFAULT '{}', progress TEXT NOT NULL DEFAULT '{}',
        created_s REAL NOT NULL, ended_s REAL, validity TEXT NOT NULL DEFAULT '', code TEXT NOT NULL DEFAULT '',
        message TEXT NOT NULL DEFAULT '', notes TEXT NOT NULL DEFAULT '[]', origin TEXT NOT NULL DEFAULT '') STRICT""",
    """CREATE TABLE cell (
        run_id INTEGER NOT NULL REFERENCES run (id), hash TEXT NOT NULL, key TEXT NOT NULL,
        status TEXT NOT NULL DEFAULT '', flags TEXT NOT NULL DEFAULT '[]', stats TEXT NOT NULL DEFAULT '{}',
        why_null TEXT NOT NULL DEFAULT '{}', facts TEXT NOT NULL DEFAULT '{}', PRIMARY KEY (run_id, hash)) STRICT""",
    """CREATE TABLE burst (
        id INTEGER PRIMARY KEY, run_id INTEGER NOT NULL REFERENCES run (id), cell_hash TEXT NOT NULL,
        repeat INTEGER NOT NULL, samples BLOB NOT NULL, sensors TEXT NOT NULL, before TEXT NOT NULL,
        after TEXT NOT NULL) STRICT""",
    "CREATE INDEX bursts_of_a_run ON burst (run_id)",
)
