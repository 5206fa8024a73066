"""The saved queries, and what Datasette is told about the tables of the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DATABASE = "audit"
NOW_US = "CAST(strftime('%s', 'now') AS INTEGER) * 1000000"
DAY = "date(outbound.at_us / 1000000, 'unixepoch')"
ROW = "outbound.id AS row, outbound.at_us, outbound.host, outbound.tool, outbound.destination"

QUERIES: Mapping[str, tuple[str, str, str]] = {
    "blocked": (
        "Blocked in the last 7 days",
        "Nothing of these left. The newest first.",
        f"SELECT {ROW}, outbound.findings, outbound.session FROM outbound\n"
        f"WHERE verdict = 'block' AND at_us >= {NOW_US} - 7 * 86400000000\nORDER BY outbound.id DESC",
    ),
    "by_rule": (
        "By rule",
        "How many rows each rule was found in, and the newest of them.",
        "SELECT rule, class, count(*) AS rows, max(outbound_id) AS newest_row FROM finding\n"
        "GROUP BY rule, class ORDER BY rows DESC, rule",
    ),
    "by_host_and_day": (
        "By host and day",
        "Rows of each program by day (UTC) and verdict.",
        f"SELECT {DAY} AS day, host, count(*) AS rows, sum(verdict = 'allow') AS allow,\n"
        "  sum(verdict = 'redact') AS redact, sum(verdict = 'block') AS block\n"
        "FROM outbound GROUP BY day, host ORDER BY day DESC, rows DESC",
    ),
    "slowest": (
        "Slowest decisions",
        "The hundred decisions of the policy that took longest.",
        f"SELECT {ROW}, outbound.verdict, outbound.decision_us FROM outbound\nORDER BY decision_us DESC LIMIT 100",
    ),
    "left_in_session": (
        "What left in one session",
        "Texts that left, or were to leave, in one session, in order.",
        f"SELECT {ROW}, outbound.verdict, outbound.sent, outcome.outcome\n"
        "FROM outbound LEFT JOIN outcome ON outcome.outbound_id = outbound.id\n"
        "WHERE outbound.session = :session AND outbound.verdict <> 'block'\nORDER BY outbound.id",
    ),
    "unknown_end": (
        "End unknown",
        "Rows without an outcome: they may have left, and how it ended is not known.",
        f"SELECT {ROW}, outbound.verdict, outbound.sent, outbound.session FROM outbound\n"
        "WHERE NOT EXISTS (SELECT 1 FROM outcome WHERE outcome.outbound_id = outbound.id)\nORDER BY outbound.id DESC",
    ),
    "search": (
        "Search the text that left",
        "Rows with all of these words in what left. The newest first.",
        f"SELECT {ROW}, outbound.verdict, outbound.sent, outbound.session FROM outbound\n"
        "WHERE outbound.id IN (SELECT rowid FROM outbound_text WHERE outbound_text MATCH escape_fts(:words))\n"
        "ORDER BY outbound.id DESC",
    ),
    "sessions": (
        "Sessions",
        "Every session with its rows, the newest first.",
        "SELECT found.session, found.rows, begun.host, begun.at_us AS first_us, ended.at_us AS last_us\n"
        "FROM (SELECT session, count(*) AS rows, min(id) AS first, max(id) AS last FROM outbound GROUP BY session)\n"
        "  AS found JOIN outbound AS begun ON begun.id = first JOIN outbound AS ended ON ended.id = last\n"
        "ORDER BY last DESC",
    ),
}
"""Name → title, what it shows, SQL."""

FACETS = ("verdict", "tool", "host", "destination", "session")
LESS_LOOKED_AT = (
    *("host_version", "pid", "uid", "gid", "cwd", "destination", "origin", "withheld", "policy", "fields"),
    *("call_ids", "confined"),
)
"""Columns of `outbound` that the links to it leave out."""
COLUMNS: Mapping[str, str] = {
    "at_us": "When it was to leave (UTC).",
    "verdict": "allow: left as it was; redact: left with parts replaced; block: nothing left.",
    "sent": "What left. Empty when it was blocked.",
    "findings": "Rules of the policy that matched.",
    "decision_us": "How long the policy took.",
    "gid": "Group of the program that asked; -1 in rows from before it was kept.",
    "confined": "The confinement that the program was in; empty for none.",
}
HIDDEN = (
    "outbound_text",
    "finding",
    "withheld",
    "chain",
    "cursor",
    "_sqlite_migrations",
    "sqlite_sequence",
)
"""Tables that rows are found and proved by."""


def metadata() -> dict[str, Any]:
    """What Datasette knows of the log: facets, search, saved queries, columns."""
    outbound = {
        "description": "Every text that was to leave, and what left of it.",
        "facets": list(FACETS),
        "facet_size": 12,
        "sort_desc": "id",
        "fts_table": "outbound_text",
        "fts_pk": "id",
        "columns": dict(COLUMNS),
    }
    queries = {
        name: {"title": title, "description": about, "sql": sql, "hide_sql": True}
        for name, (title, about, sql) in QUERIES.items()
    }
    tables = {"outbound": outbound, **{name: {"hidden": True} for name in HIDDEN}}
    return {"title": "sparkgate audit", "databases": {DATABASE: {"tables": tables, "queries": queries}}}
