"""The tables of the log and the list of its migrations."""

from __future__ import annotations

from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

migration = Migrations("audit")

APPLICATION_ID = 0x5350_4B47
"""Marks the file as ours in its header (`PRAGMA application_id`): "SPKG"."""
PARTS = frozenset(
    {
        "outbound",
        "outcome",
        *(f"{t}_no_{what}" for t in ("outbound", "outcome") for what in ("update", "delete", "replace")),
    }
)
"""Tables and triggers without which a file is not this log."""

OUTBOUND = """
CREATE TABLE outbound (
    id INTEGER PRIMARY KEY AUTOINCREMENT CHECK (id > 0),
    at_us INTEGER NOT NULL,
    session TEXT NOT NULL,
    host TEXT NOT NULL,
    host_version TEXT NOT NULL,
    pid INTEGER NOT NULL,
    uid INTEGER NOT NULL,
    cwd TEXT NOT NULL,
    tool TEXT NOT NULL,
    destination TEXT NOT NULL,
    origin TEXT NOT NULL,
    verdict TEXT NOT NULL CHECK (verdict IN ('allow', 'redact', 'block')),
    sent TEXT NOT NULL CHECK (verdict <> 'block' OR sent = ''),
    findings TEXT NOT NULL,
    withheld TEXT NOT NULL,
    policy TEXT NOT NULL,
    decision_us INTEGER NOT NULL
) STRICT
"""

OUTCOME = """
CREATE TABLE outcome (
    outbound_id INTEGER PRIMARY KEY REFERENCES outbound (id),
    at_us INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    status INTEGER,
    bytes INTEGER,
    elapsed_us INTEGER
) STRICT
"""

# REPLACE deletes without firing a DELETE trigger, so an insert over an existing id is refused as well (an id that
# SQLite has still to choose reads as -1 here).
APPEND_ONLY = """
CREATE TRIGGER {table}_no_update BEFORE UPDATE ON {table}
    BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TRIGGER {table}_no_delete BEFORE DELETE ON {table}
    BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TRIGGER {table}_no_replace BEFORE INSERT ON {table}
    WHEN NEW.{key} > 0 AND EXISTS (SELECT 1 FROM {table} WHERE {key} = NEW.{key})
    BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
"""


@migration()
def create_tables(db: Database) -> None:
    for table, key, create in (("outbound", "id", OUTBOUND), ("outcome", "outbound_id", OUTCOME)):
        db.execute(create)
        for statement in APPEND_ONLY.format(table=table, key=key).split(";\nCREATE"):
            db.execute(statement if statement.lstrip().startswith("CREATE") else "CREATE" + statement)


@migration()
def index_sessions(db: Database) -> None:
    db.execute("CREATE INDEX outbound_by_session ON outbound (session, id)")


@migration()
def add_fields(db: Database) -> None:
    """What goes out beside the text."""
    db.execute("ALTER TABLE outbound ADD COLUMN fields TEXT NOT NULL DEFAULT '{}'")
