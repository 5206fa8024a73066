"""JSON, JSONC and JSON5 as data: tokens by regular expression, and a parser for what Python's own does not read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Literal, NoReturn

from sparkgate.clients.splice.edit import MAX_DEPTH, body_start, refuse

Dialect = Literal["json", "jsonc", "json5"]

_SPACE = r"[ \t\n\r]"
_SPACE5 = r"[ \t\n\r\v\f\u00a0\ufeff\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
_COMMENT = r"//[^\n\r]*+|/\*(?s:.*?)\*/"
_STRING = r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"'
_STRING5 = r""""(?:[^"\\\n\r]|\\(?:\r\n|(?s:.)))*+"|'(?:[^'\\\n\r]|\\(?:\r\n|(?s:.)))*+'"""
_NUMBER = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?"
_NUMBER5 = r"[+-]?(?:0[xX][0-9a-fA-F]++|(?:(?:0|[1-9][0-9]*+)(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?)"
_NAME = r"(?:[^\W\d]|[$]|\\u[0-9a-fA-F]{4})(?:[\w$\u200c\u200d]|\\u[0-9a-fA-F]{4})*+"

GAP = {
    "json": re.compile(f"{_SPACE}*+"),
    "jsonc": re.compile(f"(?:{_SPACE}++|{_COMMENT})*+"),
    "json5": re.compile(f"(?:{_SPACE5}++|{_COMMENT})*+"),
}
COMMENT = re.compile(_COMMENT)
SPACE = re.compile(f"{_SPACE5}*+")
NAME = re.compile(_NAME)
_STRINGS = {"json": re.compile(_STRING), "jsonc": re.compile(_STRING), "json5": re.compile(_STRING5)}
_NUMBERS = {"json": re.compile(_NUMBER), "jsonc": re.compile(_NUMBER), "json5": re.compile(_NUMBER5)}
_AFTER = re.compile(r"[\w$.+-]")
_WORDS = {"true": True, "false": False, "null": None}
_BOUNDLESS = re.compile(r"[+-]?(?:NaN|Infinity)")

_PLAIN = re.compile(r"""[^"'/{}\[\]]*+(?:"(?:[^"\\]|\\(?s:.))*+"[^"'/{}\[\]]*+)*+""")
_OTHER = re.compile(rf"{_COMMENT}|'(?:[^'\\]|\\(?s:.))*+'|(?s:.)")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(\r\n|(?s:.)))")
_MEANS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}
_MEANS |= dict.fromkeys(("\n", "\r", "\r\n", "\u2028", "\u2029"), "")
_GOOD = re.compile(r"(?:[^\\]|\\[^ux0-9]|\\0(?![0-9])|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2})*+", re.DOTALL)


def read(text: str, dialect: Dialect) -> Any:
    """The data of the whole text, `{}` when it holds no value; raises CannotEdit."""
    start = after_gap(text, body_start(text), dialect)
    if start == len(text):
        return {}
    _check_depth(text)
    try:
        return json.loads(text[start:], parse_constant=_boundless)
    except (ValueError, RecursionError):
        return _Parser(text, dialect).whole(start)


def _boundless(_: str) -> NoReturn:
    raise ValueError


def after_gap(text: str, at: int, dialect: Dialect) -> int:
    """Behind white space and comments."""
    found = GAP[dialect].match(text, at)
    return found.end() if found else at


def brackets(text: str, at: int) -> Iterator[int]:
    """Every bracket and brace from here on that is outside strings and comments."""
    while (found := _PLAIN.match(text, at)) and (at := found.end()) < len(text):
        if text[at] in "{}[]":
            yield at
            at += 1
        elif other := _OTHER.match(text, at):
            at = other.end()


def value_end(text: str, at: int) -> int:
    """Behind the table or list that begins here; the text has been read before."""
    depth = 0
    for index in brackets(text, at):
        depth += 1 if text[index] in "{[" else -1
        if depth == 0:
            return index + 1
    return len(text)


def _check_depth(text: str) -> None:
    depth = 0
    for index in brackets(text, 0):
        depth += 1 if text[index] in "{[" else -1
        if depth > MAX_DEPTH:
            refuse(text, index, f"nested over {MAX_DEPTH} levels")


def string_end(text: str, at: int, dialect: Dialect) -> int:
    """Behind the string that begins here, 0 when none does."""
    found = _STRINGS[dialect].match(text, at)
    return found.end() if found else 0


def unquoted(token: str) -> str:
    """What a string or a bare name of any of the dialects stands for."""
    inner = token[1:-1] if token[0] in "\"'" else token
    if "\\" not in inner:
        return inner
    plain = _ESCAPE.sub(_meaning, inner)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _meaning(found: re.Match[str]) -> str:
    code = found[1] or found[2]
    return chr(int(code, 16)) if code else _MEANS.get(found[3], found[3])


class _Parser:
    """Reads one text of a dialect; every method begins at `at` and moves it."""

    def __init__(self, text: str, dialect: Dialect) -> None:
        self.text, self.dialect, self.at, self.depth = text, dialect, 0, 0

    def whole(self, start: int) -> Any:
        self.at = start
        value = self.value()
        if self.mark():
            self.refuse("something follows the value of the file")
        return value

    def refuse(self, why: str) -> NoReturn:
        if self.text.startswith(("//", "/*"), self.at):
            why = "comments are not part of JSON" if self.dialect == "json" else "a comment that does not end"
        refuse(self.text, self.at, why)

    def mark(self) -> str:
        """The next character that counts, "" at the end."""
        self.at = after_gap(self.text, self.at, self.dialect)
        return self.text[self.at : self.at + 1]

    def value(self) -> Any:
        mark = self.mark()
        if mark in ('"', "'"):
            return self.string()
        if mark not in ("{", "["):
            return self.bare()
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.refuse(f"nested over {MAX_DEPTH} levels")
        self.at += 1
        value = self.table() if mark == "{" else self.list()
        self.depth -= 1
        return value

    def table(self) -> dict[str, Any]:
        members: dict[str, Any] = {}
        while self.mark() != "}":
            name = self.name()
            if self.mark() != ":":
                self.refuse("`:` is missing")
            self.at += 1
            members[name] = self.value()
            self.part_end("}")
        self.at += 1
        return members

    def list(self) -> list[Any]:
        items: list[Any] = []
        while self.mark() != "]":
            items.append(self.value())
            self.part_end("]")
        self.at += 1
        return items

    def part_end(self, closing: str) -> None:
        """Behind the comma, or in front of what closes."""
        mark = self.mark()
        if mark not in (",", closing) or not mark:
            self.refuse(f"`,` or `{closing}` is missing")
        if mark == closing:
            return
        comma, self.at = self.at, self.at + 1
        if self.mark() == closing and self.dialect == "json":
            self.at = comma
            self.refuse("a comma behind the last member is not part of JSON")

    def name(self) -> str:
        if self.mark() in ('"', "'"):
            return self.string()
        found = NAME.match(self.text, self.at) if self.dialect == "json5" else None
        if not found:
            self.refuse("a name in quotes is missing")
        self.at = found.end()
        return unquoted(found[0])

    def string(self) -> str:
        end = string_end(self.text, self.at, self.dialect)
        if not end:
            self.refuse("a string that does not end, or that holds what may not stand in it")
        token, start, self.at = self.text[self.at : end], self.at, end
        good = _GOOD.match(token)
        if good and good.end() < len(token):
            self.at = start + good.end()
            self.refuse("an escape that means nothing")
        return unquoted(token)

    def bare(self) -> Any:
        """A number or a word."""
        if _BOUNDLESS.match(self.text, self.at):
            self.refuse("a number without a value")
        found = _NUMBERS[self.dialect].match(self.text, self.at) or re.compile("[a-z]+").match(self.text, self.at)
        if not found or _AFTER.match(self.text, found.end()) or (found[0].isalpha() and found[0] not in _WORDS):
            self.refuse("a value is missing, or is written in a way that this format has not")
        value = _WORDS[found[0]] if found[0].isalpha() else self.number(found[0])
        self.at = found.end()
        return value

    def number(self, token: str) -> int | float:
        try:
            return _number(token)
        except ValueError:
            self.refuse("a number that is too long")


def _number(token: str) -> int | float:
    if "x" in token.lower():
        return int(token, 16)
    return float(token) if set(token) & set(".eE") else int(token)
