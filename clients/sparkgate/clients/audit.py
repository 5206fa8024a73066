"""`sparkgate audit`: read what left."""

from __future__ import annotations

from typing import Any

import click
from rich.table import Table
from rich.text import Text

from sparkgate.clients.output import console, fail, print_json
from sparkgate.settings import state_dir

LISTED = ("id", "at", "session", "host", "tool", "destination", "verdict", "sent", "fields", "findings", "outcome")
COLUMNS = (("id", 0), ("at", 0), ("host", 0), ("verdict", 0), ("what left", 3), ("rules", 2), ("outcome", 0))
"""Name of a column and its share of the width that is left; 0 means as wide as its text."""
NEVER_LEFT = ("connect", "name_lookup", "refused", "refused_by_guard", "exhausted", "bad_url")
"""Outcomes after which the destination has seen nothing."""
COLOURS = {"allow": "green", "redact": "yellow", "block": "red"}


@click.group(short_help="Read the log of what left.")
def audit() -> None:
    """The log: every text that was to leave, what left of it, and how it ended. It never holds what was withheld."""


def read(limit: int = 20, row_id: int | None = None) -> list[dict[str, Any]]:
    """Rows of the log, newest first; exits 1 when the log cannot be read."""
    from sparkgate.policy.audit import LogUnavailable, read_rows

    try:
        return read_rows(state_dir() / "audit.db", limit=limit, row_id=row_id)
    except LogUnavailable as error:
        fail(str(error))


@audit.command("list")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1), help="Rows to show.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_rows(limit: int, as_json: bool) -> None:
    """The newest rows first.

    \b
    Example:
      sparkgate audit list --limit 5
    """
    rows = read(limit)
    if as_json:
        print_json([{key: row[key] for key in LISTED} for row in rows])
        return
    console().print(table(rows) if rows else "nothing has been asked to leave yet")


def table(rows: list[dict[str, Any]]) -> Table:
    """Rows of the log as a table that fits the terminal."""
    shown = Table(box=None)
    for name, wraps in COLUMNS:
        shown.add_column(name, no_wrap=not wraps, overflow="fold" if wraps else "ellipsis", ratio=wraps or None)
    for row in rows:
        shown.add_row(
            str(row["id"]),
            row["at"][5:16].replace("T", " "),
            row["host"][:14],
            Text(row["verdict"], style=COLOURS[row["verdict"]]),
            Text(row["sent"] or _nothing(row), style="" if row["sent"] else "dim"),
            ", ".join(dict.fromkeys(finding["rule"] for finding in row["findings"])),
            row["outcome"] or "unknown",
        )
    return shown


def _nothing(row: dict[str, Any]) -> str:
    if row["destination"] == "engine":
        fields = row["fields"]
        return f"{fields.get('action', '')} {fields.get('engine', '')} {fields.get('code', '')}".strip()
    return "nothing" if row["verdict"] == "block" else "no text of the caller"


@audit.command()
@click.argument("row_id", metavar="ID", type=int)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(row_id: int, as_json: bool) -> None:
    """One row with everything it holds."""
    rows = read(1, row_id)
    if not rows:
        fail(f"there is no row {row_id}; `sparkgate audit list` shows those there are")
    if as_json:
        print_json(rows[0])
        return
    for line in in_words(rows[0]):
        console().print(Text(line))


def in_words(row: dict[str, Any]) -> list[str]:
    """One row as sentences: who asked, what was withheld, what left, where to, what came back."""
    program = f"{row['host']} {row['host_version']}".strip()
    asker = f"{program} (process {row['pid']}, user {row['uid']}, session {row['session']})"
    lines = [f"{row['at']}  {asker} called {row['tool']}."]
    where = f"To {row['destination']} at {row['origin']}"
    if row["verdict"] == "block":
        lines.append("Nothing left: it was blocked.")
    elif row["outcome"] in NEVER_LEFT:
        lines.append(f"{where} was to leave, and did not: {row['sent'] or _nothing(row)}")
    else:
        lines.append(f"{where} left: {row['sent'] or _nothing(row)}")
    if row["fields"]:
        lines.append("With it: " + ", ".join(f"{name} {value}" for name, value in row["fields"].items()) + ".")
    for finding in row["findings"]:
        kind = f" ({finding['class']})" if "class" in finding else ""
        lines.append(f"Rule {finding['rule']}{kind} matched.")
    lines.append(_end(row))
    lines.append(f"The decision took {row['decision_us'] / 1000:.2f} ms under policy {row['policy']}.")
    return lines


def _end(row: dict[str, Any]) -> str:
    if row["outcome"] is None:
        return "How it ended is unknown: it may have left."
    status = f" with status {row['status']} and {row['bytes']} bytes" if row["status"] else ""
    took = f" after {row['elapsed_us'] / 1000:.0f} ms" if row["elapsed_us"] else ""
    return f"Outcome: {row['outcome']}{status}{took}."
