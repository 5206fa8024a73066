"""`sparkgate audit find`: rows by what left in them, or by a value that was withheld from them."""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

import click

from sparkgate.clients.audit_rows import LISTED, filtered, log_key, reading, table, wanted
from sparkgate.clients.output import console, print_json

AS: Mapping[str, Callable[[str], str]] = {
    "as it is": lambda value: value,
    "percent-encoded": lambda value: quote(value, safe=""),
    "in base64": lambda value: base64.b64encode(value.encode()).decode(),
    "in hex": lambda value: value.encode().hex(),
    "reversed": lambda value: value[::-1],
}
"""How a value may have stood in the text it was withheld from."""


@click.command()
@click.argument("text", required=False)
@click.option("--value-stdin", is_flag=True, help="Read a value from standard input and list when it was withheld.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1), help="Rows to show.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@filtered
def find(text: str | None, value_stdin: bool, limit: int, as_json: bool, **options: str | None) -> None:
    """Rows in which TEXT left, all its words; or, with --value-stdin, those that a value was withheld from.

    The log holds no withheld value, only a digest under a key of this machine: the value you give is digested in the
    same way, and goes nowhere. A value is never taken from the command line, which other users can read.

    \b
    Examples:
      sparkgate audit find "gated model"
      sparkgate audit find --value-stdin < leaked-token.txt
    """
    if bool(text) is value_stdin:
        raise click.UsageError("give a TEXT, or --value-stdin with the value on standard input")
    rows = _withheld(limit, options) if value_stdin else _sent(text or "", limit, options)
    if as_json:
        print_json([{key: row[key] for key in (*LISTED, *(("how",) if value_stdin else ()))} for row in rows])
        return
    console().print(table(rows) if rows else _none(value_stdin))


def _none(value: bool) -> str:
    return "that value was never withheld" if value else "nothing with these words has left"


def _sent(text: str, limit: int, options: Mapping[str, str | None]) -> list[dict[str, Any]]:
    from sparkgate.policy.trail.read import newest

    if not text.strip():
        raise click.UsageError("TEXT has no word")
    with reading() as connection:
        return newest(connection, wanted(options, text=text), limit=limit)


def _withheld(limit: int, options: Mapping[str, str | None]) -> list[dict[str, Any]]:
    from sparkgate.policy.audit import fingerprint
    from sparkgate.policy.trail.read import newest

    value = sys.stdin.read().removesuffix("\n").removesuffix("\r")
    if not value:
        raise click.UsageError("standard input holds no value")
    key = log_key()
    found: dict[int, dict[str, Any]] = {}
    with reading() as connection:
        for how, form in AS.items():
            for row in newest(connection, wanted(options, withheld=fingerprint(key, form(value))), limit=limit):
                found.setdefault(row["id"], {**row, "how": how})
    return sorted(found.values(), key=lambda row: -int(row["id"]))[:limit]
