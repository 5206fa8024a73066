"""TOML as data, by Python's own reader, and as statements with their places."""

from __future__ import annotations

import datetime
import math
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from sparkgate.clients.splice.edit import MAX_DEPTH, CannotEdit, body_start, refuse

Path = tuple[str, ...]

_STRING = r'"""(?s:[^\\]|\\.)*?"""(?:""?)?|' r"'''(?s:.)*?'''(?:''?)?|" r'"(?:[^"\\\n]|\\.)*+"|' r"'[^'\n]*+'"
_PART = re.compile(r'[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.)*+"|' r"'[^'\n]*+'")
_DOT = re.compile(r"[ \t]*\.[ \t]*")
_GAP = re.compile(r"(?:[ \t\r\n]++|#[^\n]*+)*+")
_SPACE = re.compile(r"[ \t]*+")
_WHOLE_STRING = re.compile(_STRING)
_BARE = re.compile(r"[^,\]}#\r\n]*+")
_TOKEN = re.compile(rf"(?:[^\"'#\[\]{{}}]++|{_STRING}|#[^\n]*+)*+")
_PLACE = re.compile(r"\(at line (\d+), column (\d+)\)")
_OWN_WORDS = re.compile(r"\(.*?\)|'[^']*'?|\"[^\"]*\"?")
_BOUNDLESS = re.compile(r"(?<=[=\[,])[ \t]*[+-]?(?:inf|nan)\b")


@dataclass(frozen=True, slots=True)
class Statement:
    """A `[table]`, an `[[array]]` or a pair, from `start` to `end`.

    `path` is whole, `header` its first part that the section gives it, and `value` where that of a pair begins.
    """

    kind: Literal["table", "array", "pair"]
    path: Path
    header: Path
    start: int
    end: int
    value: int = -1


def read(text: str) -> Any:
    """The data of the text, with dates and times as strings; raises CannotEdit."""
    _check_depth(text)
    try:
        return _plain(text, tomllib.loads(text[body_start(text) :]))
    except tomllib.TOMLDecodeError as error:
        place, why = _PLACE.search(str(error)), _OWN_WORDS.sub("…", str(error)).strip(" …")
        end = text.count("\n") + 1, len(text) - text.rfind("\n")
        line, column = (int(place[1]), int(place[2])) if place else end
        raise CannotEdit(line, column, f"not TOML: {why}") from None
    except (ValueError, RecursionError):
        raise CannotEdit(1, 1, "a number that is too long, or names nested too deep") from None


def _plain(text: str, value: Any) -> Any:
    if isinstance(value, dict):
        return dict(zip(value, map(_plain, [text] * len(value), value.values()), strict=True))
    if isinstance(value, list):
        return list(map(_plain, [text] * len(value), value))
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        found = _BOUNDLESS.search(text)
        refuse(text, found.end() if found else 0, "a number without a value")
    return value


def _check_depth(text: str) -> None:
    depth = at = 0
    while (found := _TOKEN.match(text, at)) and found.end() < len(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(text[found.end()], 0)
        at = found.end() + 1
        if depth > MAX_DEPTH:
            refuse(text, found.end(), f"nested over {MAX_DEPTH} levels")


def statements(text: str) -> list[Statement]:
    """Every statement of a text that has been read before."""
    found, header, at = list[Statement](), Path(), _gap(text, body_start(text))
    while at < len(text):
        statement = _section(text, at) if text[at] == "[" else _pair(text, at, header)
        if statement.kind != "pair":
            header = statement.path
        if len(statement.path) > MAX_DEPTH:
            refuse(text, at, f"nested over {MAX_DEPTH} levels")
        found.append(statement)
        at = _gap(text, statement.end)
    return found


def _gap(text: str, at: int) -> int:
    found = _GAP.match(text, at)
    return found.end() if found else at


def _space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _path(text: str, at: int) -> tuple[Path, int]:
    """The dotted name that begins here, and where it ends."""
    path = list[str]()
    while found := _PART.match(text, at):
        path.append(_name(found[0]))
        dot = _DOT.match(text, found.end())
        if not dot:
            return tuple(path), found.end()
        at = dot.end()
    return tuple(path), at


def _name(token: str) -> str:
    return str(tomllib.loads(f"name = {token}")["name"]) if token[0] in "\"'" else token


def _section(text: str, at: int) -> Statement:
    brackets = 2 if text.startswith("[[", at) else 1
    path, end = _path(text, _space(text, at + brackets))
    return Statement("array" if brackets == 2 else "table", path, path, at, _space(text, end) + brackets)


def _pair(text: str, at: int, header: Path) -> Statement:
    path, end = _path(text, at)
    value = _space(text, _space(text, end) + 1)
    return Statement("pair", header + path, header, at, value_end(text, value), value)


def value_end(text: str, at: int) -> int:
    """Behind the value that begins here."""
    if text[at] in "[{":
        return _nested_end(text, at)
    if found := _WHOLE_STRING.match(text, at):
        return found.end()
    bare = _BARE.match(text, at)
    return at + len(bare[0].rstrip()) if bare else at


def _nested_end(text: str, at: int) -> int:
    depth = 0
    while found := _TOKEN.match(text, at):
        at = found.end() + 1
        depth += 1 if text[at - 1] in "[{" else -1
        if depth == 0:
            break
    return at


def inline(text: str, at: int) -> Iterator[Statement]:
    """The pairs of the inline table that begins here; their paths begin in it."""
    at = _gap(text, at + 1)
    while text[at] != "}":
        pair = _pair(text, at, ())
        yield pair
        at = _gap(text, pair.end)
        at = _gap(text, at + 1) if text[at] == "," else at
