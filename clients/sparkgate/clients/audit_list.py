"""`sparkgate audit list` and `show`: the newest rows, as they come, or one in words."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from sparkgate.clients.audit_rows import COLOURS, LISTED, filtered, in_words, log_path, nothing, reading, table, wanted
from sparkgate.clients.output import console, fail, print_json

if TYPE_CHECKING:
    from sparkgate.policy.trail.read import Filter

LOOK_EVERY_S = 0.5
WAIT_FOR_END_S = 20.0
"""A row that has no outcome by then is shown without one."""


@click.command("list")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1), help="Rows to show.")
@click.option("--follow", is_flag=True, help="Then show each new row as it ends, until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; with --follow one line a row.")
@filtered
def list_rows(limit: int, follow: bool, as_json: bool, **options: str | None) -> None:
    """The newest rows first.

    \b
    Examples:
      sparkgate audit list --limit 5
      sparkgate audit list --since 2h --verdict block
      sparkgate audit list --follow --host hermes
    """
    from sparkgate.policy.trail.read import newest

    which = wanted(options)
    if not (log_path().exists() or follow):
        print_json([]) if as_json else console().print("nothing has been asked to leave yet")
        return
    with reading() as connection:
        rows = newest(connection, which, limit=limit)
        if follow:
            _follow(connection, which, rows, as_json=as_json)
        elif as_json:
            print_json([_listed(row) for row in rows])
        else:
            console().print(table(rows) if rows else "no row is like that")


@click.command()
@click.argument("row_id", metavar="ID", type=int)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(row_id: int, as_json: bool) -> None:
    """One row in words: who asked, what was withheld by which rule, what left, where to, what came back, how long.

    \b
    Example:
      sparkgate audit show 12
    """
    from sparkgate.policy.trail.read import row_of

    with reading() as connection:
        row = row_of(connection, row_id)
    if row is None:
        fail(f"there is no row {row_id}; `sparkgate audit list` shows those there are")
    if as_json:
        print_json(row)
        return
    for line in in_words(row):
        console().print(Text(line))


def _listed(row: dict[str, Any]) -> dict[str, Any]:
    return {key: row[key] for key in LISTED}


def _follow(connection: sqlite3.Connection, which: Filter, rows: list[dict[str, Any]], *, as_json: bool) -> None:
    """The rows that are there, the oldest first, and then each new one."""
    out = console()
    try:
        for row in _ended(connection, which, rows):
            if as_json:
                click.echo(json.dumps(_listed(row), ensure_ascii=False))
                continue
            line = Text(f"{row['id']:>6} {row['at'][11:19]} {row['host'][:14]:14} ")
            line.append(f"{row['verdict']:6} ", style=COLOURS[row["verdict"]])
            line.append(row["sent"] or nothing(row), style="" if row["sent"] else "dim")
            rules = ", ".join(dict.fromkeys(finding["rule"] for finding in row["findings"]))
            line.append(f" [{rules}]" if rules else "")
            line.append(f" {row['outcome'] or 'unknown'}", style="dim")
            out.print(line)
    except KeyboardInterrupt:
        return


def _ended(connection: sqlite3.Connection, which: Filter, rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """In order; a row waits for its outcome, and those behind it with it."""
    from sparkgate.policy.trail.read import oldest_first

    last = rows[-1]["id"] - 1 if rows else 0
    while True:
        for row in oldest_first(connection, which, after=last):
            if row["outcome"] is None and time.time() - row["at_us"] / 1e6 < WAIT_FOR_END_S:
                break
            last = row["id"]
            yield row
        time.sleep(LOOK_EVERY_S)
