"""What rows are found by: whether it still is what the rows hold, and making it anew."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator

from sparkgate.policy.audit_schema import FILL

COLUMNS = {"finding": "rule, class, outbound_id", "withheld": "digest, outbound_id"}
"""Table → its columns. Sums of hashes stand for the sets: nobody chooses rows by the hash of this process."""


def differing(connection: sqlite3.Connection) -> list[str]:
    """Names of the tables that hold something else than the rows, as both stand at one moment.

    Of the words of a row, only whether it has any entry is looked at.
    """
    connection.execute("BEGIN")
    try:
        wanted = dict.fromkeys(COLUMNS, 0)
        for table, entry in _entries(connection):
            wanted[table] += hash(entry)
        found = [
            table
            for table, columns in COLUMNS.items()
            if sum(map(hash, map(tuple, connection.execute(f"SELECT {columns} FROM {table}")))) != wanted[table]
        ]
        counts = [
            connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("outbound", "outbound_text_docsize")
        ]
        return found + (["outbound_text"] if counts[0] != counts[1] else [])
    finally:
        connection.execute("COMMIT")


def _entries(connection: sqlite3.Connection) -> Iterator[tuple[str, tuple[object, ...]]]:
    query = "SELECT id, findings, withheld FROM outbound WHERE findings <> '[]' OR withheld <> '[]'"
    for row, findings, withheld in connection.execute(query):
        for rule, cls in {(one.get("rule"), one.get("class", "")) for one in json.loads(findings)}:
            yield "finding", (rule, cls, row)
        for digest in set(json.loads(withheld)):
            yield "withheld", (digest, row)


def reindex(connection: sqlite3.Connection) -> None:
    """Make all of it anew from the rows, in the transaction that is open."""
    for table in COLUMNS:
        connection.execute(f"DELETE FROM {table}")
    for statement in FILL[1:]:
        connection.execute(statement.format(row="outbound", source="FROM outbound", join=","))
    connection.execute("INSERT INTO outbound_text (outbound_text) VALUES ('rebuild')")
