"""`sparkgate audit stats`: how much left, through what, and what was stopped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click
from rich.table import Table
from rich.text import Text

from sparkgate.clients.audit_rows import COLOURS, filtered, reading, wanted
from sparkgate.clients.output import console, print_json

if TYPE_CHECKING:
    from sparkgate.policy.trail.stats import Stats

BAR_CHARS = 40
MAX_DAYS, MAX_LINES = 31, 12


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with every day.")
@filtered
def stats(as_json: bool, **options: str | None) -> None:
    """Counts by day, tool, host, destination and rule, the share that was blocked, and the slowest decisions.

    \b
    Examples:
      sparkgate audit stats
      sparkgate audit stats --since 7d --host hermes
    """
    from sparkgate.policy.trail.stats import stats as counted

    with reading() as connection:
        found = counted(connection, wanted(options))
    if as_json:
        print_json(found.public())
        return
    out = console()
    rows = sum(found.total.values())
    if not rows:
        out.print("no row is like that")
        return
    told = ", ".join(f"{found.total[verdict]:,} {word}" for verdict, word in WORDS.items())
    out.print(f"{rows:,} rows: {told} ({100 * found.blocked_share:.1f} % blocked)")
    days = dict(list(found.days.items())[-MAX_DAYS:])
    out.print(_bars("day", days))
    for name, counts in (("tool", found.tools), ("host", found.hosts), ("destination", found.destinations)):
        out.print(_bars(name, _most(counts)))
    for made in (_rules(found), _slowest(found)):
        if made.row_count:
            out.print(made)


WORDS: Mapping[str, str] = {"allow": "left as they were", "redact": "left redacted", "block": "blocked"}


def _most(counts: Mapping[str, Counter[str]]) -> dict[str, Counter[str]]:
    return dict(sorted(counts.items(), key=lambda one: -sum(one[1].values()))[:MAX_LINES])


def _bars(name: str, counts: Mapping[str, Counter[str]]) -> Table:
    """One bar a name, in the colours of the verdicts; the longest is `BAR_CHARS` wide."""
    shown = Table(box=None)
    for title, right in ((name, False), ("rows", True), ("", False)):
        shown.add_column(title, justify="right" if right else "left", no_wrap=True)
    most = max(sum(one.values()) for one in counts.values())
    for key, verdicts in counts.items():
        shown.add_row(key or "-", f"{sum(verdicts.values()):,}", bar(verdicts, most, BAR_CHARS))
    return shown


def bar(verdicts: Mapping[str, int], most: int, width: int) -> Text:
    """A bar of so many characters for `most` rows; what there is shows, however little it is."""
    line = Text()
    for verdict, colour in COLOURS.items():
        rows = verdicts.get(verdict, 0)
        line.append("█" * max(round(width * rows / most), 1 if rows else 0), style=colour)
    return line


def _rules(found: Stats) -> Table:
    return _table(("rule", "rows"), [(rule, f"{rows:,}") for rule, rows in list(found.rules.items())[:MAX_LINES]])


def _slowest(found: Stats) -> Table:
    rows = [(str(one["id"]), str(one["tool"]), str(one["verdict"]), f"{one['decision_ms']}") for one in found.slowest]
    return _table(("slowest", "tool", "verdict", "ms"), rows)


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    shown = Table(box=None)
    for title in titles:
        shown.add_column(title, justify="right" if title in ("rows", "ms") else "left", no_wrap=True)
    for row in rows:
        shown.add_row(*row)
    return shown
