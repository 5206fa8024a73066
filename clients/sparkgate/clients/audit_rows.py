"""What the commands of `sparkgate audit` share: which rows are meant, and how one is shown."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.table import Table
from rich.text import Text

from sparkgate.clients.output import fail
from sparkgate.policy.trail.chain import UNKNOWN_GID
from sparkgate.policy.trail.columns import NEVER_LEFT
from sparkgate.settings import state_dir

if TYPE_CHECKING:
    from sparkgate.policy.trail.read import Filter

LISTED = ("id", "at", "session", "host", "tool", "destination", "verdict", "sent", "fields", "findings", "outcome")
COLUMNS = (("id", 0), ("at", 0), ("host", 0), ("verdict", 0), ("what left", 3), ("rules", 2), ("outcome", 0))
"""Name of a column and its share of the width that is left; 0 means as wide as its text."""
COLOURS = {"allow": "green", "redact": "yellow", "block": "red"}
Command = TypeVar("Command", bound=Callable[..., None])

FILTERS: tuple[Callable[[Command], Command], ...] = (
    click.option("--since", metavar="WHEN", help="From then on: 2h, 7d, yesterday, 2026-11-30, 2026-11-30T10:15."),
    click.option("--until", metavar="WHEN", help="Before then."),
    click.option("--session", metavar="ID", help="Of one session."),
    click.option("--host", metavar="NAME", help="Of one program, such as hermes."),
    click.option("--tool", metavar="NAME", help="Through one tool, such as web_search."),
    click.option("--destination", metavar="CLASS", help="To one class of destination, such as searxng or engine."),
    click.option("--verdict", type=click.Choice(["allow", "redact", "block"]), help="With one verdict."),
    click.option("--rule", metavar="ID", help="With a finding of one rule."),
    click.option("--class", "cls", metavar="CLASS", help="With a finding of one class, such as secret or pii."),
    click.option("--outcome", metavar="WORD", help="With one end, such as answered, timeout or unknown."),
)


def filtered(command: Command) -> Command:
    """The options that say which rows are meant; the command gets them as keyword arguments, for `wanted`."""
    return reduce(lambda made, option: option(made), reversed(FILTERS), command)


def wanted(options: Mapping[str, str | None], *, text: str = "", withheld: str = "") -> Filter:
    """The filter that the options of `FILTERS` ask for; exits 2 on a moment that cannot be read."""
    from sparkgate.policy.trail.read import Filter
    from sparkgate.policy.trail.when import NotAMoment, moment_us

    now = datetime.now().astimezone()
    given = {name: value for name, value in options.items() if value}
    try:
        moments = {f"{name}_us": moment_us(given.pop(name), now) for name in ("since", "until") if name in given}
    except NotAMoment as error:
        raise click.UsageError(str(error)) from error
    return Filter(**moments, **given, text=text, withheld=withheld)  # type: ignore[arg-type]


def log_path() -> Path:
    return state_dir() / "audit.db"


def head_path() -> Path:
    """Where the last link is kept; exits 1 when the settings cannot be used."""
    from sparkgate.settings import SettingsError, load

    try:
        named = load().audit.head_file
    except SettingsError as error:
        fail(str(error))
    return Path(named).expanduser() if named else log_path().with_suffix(".head")


def log_key() -> bytes:
    """The secret of the log; exits 1 when it cannot be read."""
    try:
        return (state_dir() / "keys" / "audit.key").read_bytes()
    except OSError as error:
        fail(f"the key of the log cannot be read: {error.strerror}; without it nothing can be proven or found")


@contextmanager
def reading() -> Iterator[sqlite3.Connection]:
    """The log, read-only; exits 1 when there is none yet or it cannot be read."""
    from sparkgate.policy.audit import LogUnavailable
    from sparkgate.policy.trail import read

    if not log_path().exists():
        fail("there is no log yet: nothing has been asked to leave")
    try:
        with read.reading(log_path()) as connection:
            yield connection
    except LogUnavailable as error:
        fail(str(error))


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
            Text(row["sent"] or nothing(row), style="" if row["sent"] else "dim"),
            ", ".join(dict.fromkeys(finding["rule"] for finding in row["findings"])),
            row["outcome"] or "unknown",
        )
    return shown


def nothing(row: dict[str, Any]) -> str:
    """What stands in the place of a text that there was not."""
    if row["destination"] == "engine":
        fields = row["fields"]
        return f"{fields.get('action', '')} {fields.get('engine', '')} {fields.get('code', '')}".strip()
    return "nothing" if row["verdict"] == "block" else "no text of the caller"


def in_words(row: dict[str, Any]) -> list[str]:
    """One row as sentences: who asked, what was withheld, what left, where to, what came back."""
    program = f"{row['host']} {row['host_version']}".strip()
    group = "" if row["gid"] == UNKNOWN_GID else f", group {row['gid']}"
    cage = f", confined as {row['confined']}" if row["confined"] else ""
    asker = f"{program} (process {row['pid']}, user {row['uid']}{group}, session {row['session']}{cage})"
    lines = [f"{row['at']}  {asker} called {row['tool']}."]
    if row["call_ids"]:
        lines.append(
            "The host calls it " + ", ".join(f"{name} {value}" for name, value in row["call_ids"].items()) + "."
        )
    where = f"To {row['destination']} at {row['origin']}"
    if row["verdict"] == "block":
        lines.append("Nothing left: it was blocked.")
    elif row["outcome"] in NEVER_LEFT:
        lines.append(f"{where} was to leave, and did not: {row['sent'] or nothing(row)}")
    else:
        lines.append(f"{where} left: {row['sent'] or nothing(row)}")
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
