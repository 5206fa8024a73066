"""The signs of source code as data: `signs.toml`, compiled once."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "signs.toml"
LINE_CHARS = 400
"""A line is looked at no further than this for its sign, so a pattern's work is bounded."""

_FIRST = re.compile(r"\w+|[#@$}<.?|(\[{]")


@dataclass(frozen=True, slots=True)
class Sign:
    """What one shape says; `weight` is how much.

    A line is tried only when its first word is among `words` (any, if empty) and it holds the literal `needs`.
    """

    id: str
    weight: int
    pattern: re.Pattern[str]
    words: tuple[str, ...] = ()
    needs: str = ""


@dataclass(frozen=True, slots=True)
class Signs:
    """All tables of `signs.toml`.

    `by_word` holds for a first word the line signs to try, in file order; "" is for every other first word. `parts`
    are pairs of literal and weight; `common` are words that name nobody's code, `frequent`
    those that say little, `columns` parts of the names that textbooks give to columns.
    """

    by_word: Mapping[str, tuple[Sign, ...]]
    parts: tuple[tuple[str, int], ...]
    inline: tuple[Sign, ...]
    marks: tuple[Sign, ...]
    public_mark: re.Pattern[str]
    textbook: frozenset[str]
    public_keys: frozenset[str]
    common: frozenset[str]
    frequent: frozenset[str]
    columns: frozenset[str]
    public_packages: tuple[str, ...]
    public_projects: frozenset[str]
    prose: re.Pattern[str]

    def of_line(self, body: str) -> tuple[Sign, re.Match[str]] | None:
        """The sign of a line without its indentation, and how it fits."""
        first = _FIRST.match(body)
        body = body[:LINE_CHARS]
        for sign in self.by_word.get(first[0].lower() if first else "", self.by_word[""]):
            if sign.needs in body and (match := sign.pattern.match(body)):
                return sign, match
        return None

    def weight_of(self, sign: Sign, match: re.Match[str]) -> tuple[int, bool]:
        """Weight of a fitting sign, and whether it defines a name of one's own.

        A name every textbook defines counts against: `def fib(n)` says nothing of anybody.
        """
        name = match.groupdict().get("name")
        if name is None:
            return sign.weight, False
        if name.lower() in self.textbook:
            return -2, False
        return sign.weight, sign.weight >= 3


@cache
def signs() -> Signs:
    """The shipped signs."""
    return _signs(tomllib.loads(FILE.read_text(encoding="utf-8")))


def _signs(data: Mapping[str, Any]) -> Signs:
    words = data["words"]
    lines = [_sign(table) for table in data["sign"]]
    keywords = "|".join(words["keywords"].split())
    return Signs(
        by_word=_by_word(lines),
        parts=tuple((table["literal"], table["weight"]) for table in data["part"]),
        inline=tuple(_sign(table) for table in data["inline"]),
        marks=tuple(_sign(table) for table in data["mark"]),
        public_mark=re.compile(data["public_mark"]["pattern"]),
        textbook=frozenset(words["textbook"].split()),
        public_keys=frozenset(words["public_keys"].split()),
        common=_plain(words, "keywords", "common"),
        frequent=_plain(words, "textbook", "public_keys", "frequent"),
        columns=frozenset(words["columns"].split()),
        public_packages=tuple(f"{package}." for package in words["public_packages"].split()),
        public_projects=frozenset(words["public_projects"].split()),
        prose=re.compile(rf"(?i)(?<![\w.])(?:(?!(?:{keywords})\b)[a-z]+(?:'[a-z]+)?,? +){{3}}[a-z]"),
    )


def _plain(words: Mapping[str, str], *keys: str) -> frozenset[str]:
    return frozenset(word.rstrip("_") for key in keys for word in words[key].split())


def _sign(table: Mapping[str, Any]) -> Sign:
    pattern = re.compile(table["pattern"])
    return Sign(table["id"], table["weight"], pattern, tuple(table.get("words", ())), table.get("needs", ""))


def _by_word(lines: list[Sign]) -> dict[str, tuple[Sign, ...]]:
    every = {word for sign in lines for word in sign.words} | {""}
    return {word: tuple(sign for sign in lines if not sign.words or word in sign.words) for word in every}
