"""The tables of the log and the list of its migrations."""

from __future__ import annotations

from collections.abc import Mapping

from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

migration = Migrations("audit")

APPLICATION_ID = 0x5350_4B47
"""Marks the file as ours in its header (`PRAGMA application_id`): "SPKG"."""
APPENDED: Mapping[str, str] = {"outbound": "id", "outcome": "outbound_id", "chain": "seq", "mark": "id"}
"""Tables of which no row is ever changed → their keys."""
PARTS = frozenset(
    {
        "outbound",
        "outcome",
        "chain",
        "mark",
        *(
            f"{t}_no_{what}"
            for t in ("outbound", "outcome", "chain", "mark")
            for what in ("update", "delete", "replace")
        ),
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

APPEND_ONLY: Mapping[str, str] = {
    "update": "BEFORE UPDATE ON {table}",
    "delete": "BEFORE DELETE ON {table}",
    "replace": "BEFORE INSERT ON {table} WHEN NEW.{key} > 0 AND EXISTS (SELECT 1 FROM {table} WHERE {key} = NEW.{key})",
}
"""What is refused → when its trigger fires.

REPLACE deletes without firing a DELETE trigger, so an insert over an existing id is refused as well; an id that SQLite
has still to choose reads as -1 there.
"""

CHAIN = """
CREATE TABLE chain (
    seq INTEGER PRIMARY KEY CHECK (seq > 0),
    kind INTEGER NOT NULL CHECK (kind IN (1, 2, 3)),
    ref INTEGER NOT NULL,
    form INTEGER NOT NULL,
    mac BLOB NOT NULL CHECK (length(mac) = 16)
) STRICT
"""
MARK = """
CREATE TABLE mark (
    id INTEGER PRIMARY KEY AUTOINCREMENT CHECK (id > 0),
    at_us INTEGER NOT NULL,
    what TEXT NOT NULL,
    detail TEXT NOT NULL
) STRICT
"""
INDEXES = (
    "CREATE VIRTUAL TABLE outbound_text USING fts5(sent, content='outbound', content_rowid='id')",
    "CREATE TABLE finding (rule TEXT NOT NULL, class TEXT NOT NULL, outbound_id INTEGER NOT NULL, "
    "PRIMARY KEY (rule, outbound_id, class)) STRICT, WITHOUT ROWID",
    "CREATE INDEX finding_by_class ON finding (class, outbound_id)",
    "CREATE TABLE withheld (digest TEXT NOT NULL, outbound_id INTEGER NOT NULL, PRIMARY KEY (digest, outbound_id)) "
    "STRICT, WITHOUT ROWID",
    "CREATE INDEX outbound_by_time ON outbound (at_us, verdict, tool, host, destination, decision_us)",
    "CREATE INDEX outcome_by_end ON outcome (outcome, outbound_id)",
    "CREATE INDEX outbound_stopped ON outbound (verdict, id) WHERE verdict <> 'allow'",
)
"""What rows are found by. All of it can be made anew from the rows."""
FILL = (
    "INSERT INTO outbound_text (rowid, sent) SELECT {row}.id, {row}.sent {source}",
    "INSERT OR IGNORE INTO finding SELECT json_extract(one.value, '$.rule'), "
    "ifnull(json_extract(one.value, '$.class'), ''), {row}.id {source}{join} json_each({row}.findings) AS one",
    "INSERT OR IGNORE INTO withheld SELECT one.value, {row}.id {source}{join} json_each({row}.withheld) AS one",
)
EMPTY = (
    "INSERT INTO outbound_text (outbound_text, rowid, sent) VALUES ('delete', OLD.id, OLD.sent)",
    "DELETE FROM finding WHERE outbound_id = OLD.id AND rule IN "
    "(SELECT json_extract(one.value, '$.rule') FROM json_each(OLD.findings) AS one)",
    "DELETE FROM withheld WHERE outbound_id = OLD.id AND digest IN "
    "(SELECT one.value FROM json_each(OLD.withheld) AS one)",
)


def refusal(table: str, what: str) -> str:
    """The statement that makes a trigger of `APPEND_ONLY`."""
    when = APPEND_ONLY[what].format(table=table, key=APPENDED[table])
    return f"CREATE TRIGGER {table}_no_{what} {when} BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END"


def append_only(db: Database, table: str) -> None:
    """Refuse every change to the rows of a table, and a row in the place of another."""
    for what in APPEND_ONLY:
        db.execute(refusal(table, what))


@migration()
def create_tables(db: Database) -> None:
    for table, create in (("outbound", OUTBOUND), ("outcome", OUTCOME)):
        db.execute(create)
        append_only(db, table)


@migration()
def index_sessions(db: Database) -> None:
    db.execute("CREATE INDEX outbound_by_session ON outbound (session, id)")


@migration()
def add_fields(db: Database) -> None:
    """What goes out beside the text."""
    db.execute("ALTER TABLE outbound ADD COLUMN fields TEXT NOT NULL DEFAULT '{}'")


@migration()
def chain_the_rows(db: Database) -> None:
    for table, create in (("chain", CHAIN), ("mark", MARK)):
        db.execute(create)
        append_only(db, table)


@migration()
def find_the_rows(db: Database) -> None:
    for statement in INDEXES:
        db.execute(statement)
    for statement in FILL:
        db.execute(statement.format(row="outbound", source="FROM outbound", join=","))
    added = "; ".join(statement.format(row="NEW", source="", join="FROM") for statement in FILL)
    db.execute(f"CREATE TRIGGER outbound_found AFTER INSERT ON outbound BEGIN {added}; END")
    db.execute(f"CREATE TRIGGER outbound_forgotten AFTER DELETE ON outbound BEGIN {'; '.join(EMPTY)}; END")


@migration()
def remember_what_was_shipped(db: Database) -> None:
    """Up to which row each collector has the log."""
    db.execute("CREATE TABLE cursor (name TEXT PRIMARY KEY, outbound_id INTEGER NOT NULL) STRICT, WITHOUT ROWID")


@migration()
def add_call_ids(db: Database) -> None:
    """What the host calls this call, its turn and its thread."""
    db.execute("ALTER TABLE outbound ADD COLUMN call_ids TEXT NOT NULL DEFAULT '{}'")


@migration()
def add_confinement(db: Database) -> None:
    """The group of who asked, which rows before it do not know (-1), and the confinement."""
    db.execute("ALTER TABLE outbound ADD COLUMN gid INTEGER NOT NULL DEFAULT -1")
    db.execute("ALTER TABLE outbound ADD COLUMN confined TEXT NOT NULL DEFAULT ''")
