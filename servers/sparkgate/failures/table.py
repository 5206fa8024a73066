"""The table of failures (failures.toml), read and checked once."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

Kind = Literal["cause", "stage", "hint", "symptom"]
TABLE = Path(__file__).with_name("failures.toml")
KEYS = ("id", "pattern", "cause", "advice", "without", "kind", "until", "refines", "retry", "samples", "near")


@dataclass(frozen=True, slots=True)
class Row:
    """One row: what a log line means, and what to do. The file itself tells what its fields are for."""

    id: str
    pattern: re.Pattern[str]
    cause: str
    advice: str
    without: str = ""
    kind: Kind = "cause"
    until: re.Pattern[str] | None = None
    refines: tuple[str, ...] = ()
    retry: bool = False
    samples: tuple[str, ...] = ()
    near: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ending:
    """What is said when no line gives a cause."""

    id: str
    cause: str
    advice: str
    exit_codes: tuple[int, ...] = ()
    outside: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """`starts` and `ready` match the lines at which what stood before becomes history."""

    rows: tuple[Row, ...]
    endings: Mapping[str, Ending]
    starts: re.Pattern[str]
    ready: re.Pattern[str]

    def row(self, id_: str) -> Row:
        return next(row for row in self.rows if row.id == id_)

    def ending_of(self, exit_code: int) -> Ending | None:
        """By exit code; below 0 it is a signal as Python tells it."""
        code = 128 - exit_code if exit_code < 0 else exit_code
        return next((one for one in self.endings.values() if code in one.exit_codes), None)


@cache
def load_failures() -> Table:
    """The table that comes with sparkgate.

    Raises:
        ValueError: a row has an unknown key or kind, or refines a row that is not there.
    """
    return parse(tomllib.loads(TABLE.read_text(encoding="utf-8")))


def parse(data: Mapping[str, Any]) -> Table:
    """A table from the contents of its file. Raises ValueError as `load_failures` does."""
    rows = tuple(_failure(row) for row in data["failure"])
    endings = {row["id"]: Ending(**row | {"exit_codes": tuple(row.get("exit_codes", ()))}) for row in data["ending"]}
    ids = [row.id for row in rows] + list(endings)
    if twice := {one for one in ids if ids.count(one) > 1}:
        raise ValueError(f"two rows are called {sorted(twice)[0]!r}")
    for row in rows:
        if missing := set(row.refines) - set(ids):
            raise ValueError(f"{row.id}: refines {sorted(missing)[0]!r}, which is not in the table")
    return Table(rows, endings, re.compile(data["starts"]), re.compile(data["ready"]))


def _failure(row: Mapping[str, Any]) -> Row:
    if unknown := set(row) - set(KEYS):
        raise ValueError(f"{row.get('id')}: unknown key {sorted(unknown)[0]!r}")
    if row.get("kind", "cause") not in get_args(Kind) or row.get("retry", "once") != "once":
        raise ValueError(f"{row['id']}: kind is one of {', '.join(get_args(Kind))}, retry is 'once' or left out")
    more: dict[str, Any] = {key: tuple(row[key]) for key in ("refines", "samples", "near") if key in row}
    more |= {key: re.compile(row[key]) for key in ("pattern", "until") if key in row}
    return Row(**dict(row) | more | {"retry": "retry" in row})
