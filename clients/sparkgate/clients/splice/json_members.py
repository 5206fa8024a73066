"""The members of the tables that a path leads through, with their places; for a text that has been read before."""

from __future__ import annotations

from dataclasses import dataclass

from sparkgate.clients.splice.edit import body_start, refuse
from sparkgate.clients.splice.json_read import (
    COMMENT,
    NAME,
    SPACE,
    Dialect,
    after_gap,
    string_end,
    unquoted,
    value_end,
)

SCALAR_ENDS = ",:]} \t\n\r/"


@dataclass(frozen=True, slots=True)
class Member:
    """`start` of the name, `colon`, `value` to `end`, and the `comma` behind it, -1 when there is none."""

    name: str
    start: int
    colon: int
    value: int
    end: int
    comma: int

    @property
    def whole_end(self) -> int:
        """Behind the comma, or the value when none follows."""
        return self.end if self.comma < 0 else self.comma + 1


@dataclass(frozen=True, slots=True)
class Table:
    """From its brace at `start` to behind the other at `end`."""

    start: int
    end: int
    members: tuple[Member, ...]

    def find(self, name: str) -> int:
        """Index of the member with this name, -1 when there is none."""
        return next((index for index, member in enumerate(self.members) if member.name == name), -1)

    def ink_end(self, text: str, index: int) -> tuple[int, bool]:
        """Where white space in front of member `index` (or of the closing brace) begins, and whether a line comment
        ends there."""
        return last_ink(text, self.members[index - 1].whole_end if index else self.start + 1)


def last_ink(text: str, at: int) -> tuple[int, bool]:
    """The end of the last comment that follows here, `at` itself when none does."""
    end, line = at, False
    while (space := SPACE.match(text, at)) and (found := COMMENT.match(text, space.end())):
        at = end = found.end()
        line = found[0].startswith("//")
    return end, line


def _token_end(text: str, at: int, dialect: Dialect) -> int:
    """Behind the value, string or bare name that begins here."""
    if text[at] in "{[":
        return value_end(text, at)
    if text[at] in "\"'":
        return string_end(text, at, dialect)
    while at < len(text) and text[at] not in SCALAR_ENDS and not text[at].isspace():
        at += 1
    return at


def _member(text: str, at: int, dialect: Dialect) -> Member:
    name = NAME.match(text, at)
    name_end = name.end() if name else string_end(text, at, dialect)
    colon = after_gap(text, name_end, dialect)
    value = after_gap(text, colon + 1, dialect)
    end = _token_end(text, value, dialect)
    comma = after_gap(text, end, dialect)
    return Member(unquoted(text[at:name_end]), at, colon, value, end, comma if text[comma] == "," else -1)


def table(text: str, start: int, dialect: Dialect) -> Table:
    """The table whose brace is here; refuses one that names a member twice, and one that includes another file."""
    members, at = [], after_gap(text, start + 1, dialect)
    while text[at] != "}":
        members.append(_member(text, at, dialect))
        at = after_gap(text, members[-1].whole_end, dialect)
    _check(text, members, dialect)
    return Table(start, at + 1, tuple(members))


def _check(text: str, members: list[Member], dialect: Dialect) -> None:
    seen: set[str] = set()
    for member in members:
        if member.name in seen:
            refuse(text, member.start, "this name stands twice in its table, so what it means is not certain")
        if member.name == "$include" and dialect == "json5":
            refuse(text, member.start, "`$include` brings another file in here, which may hold the same names")
        seen.add(member.name)


def tables(text: str, key: tuple[str, ...], dialect: Dialect) -> list[Table]:
    """The tables along a path as far as they are there, the root first; empty when the text holds no value.

    Raises:
        CannotEdit: something on the path, its last name left out, is no table.
    """
    at, found = after_gap(text, body_start(text), dialect), list[Table]()
    if at == len(text):
        return found
    for name in key:
        if text[at] != "{":
            refuse(text, at, f"`{'.'.join(key[: len(found)])}` is not a table" if found else "the file is not a table")
        found.append(table(text, at, dialect))
        index = found[-1].find(name)
        if index < 0:
            break
        at = found[-1].members[index].value
    return found
