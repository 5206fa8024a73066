"""What every format shares: the error, an edit, places in a text, and strings as all five formats read them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn

MAX_BYTES = 20_000_000
"""Of a whole file in UTF-8."""
MAX_DEPTH = 200
"""Levels of tables and lists."""
BOM = "\ufeff"

_LINE_END = re.compile(r"\r?\n")
_INDENT = re.compile(r"[ \t]*")
_UNPRINTED = re.compile("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufdd0-\ufdef\ufeff\ufffe\uffff]")


class CannotEdit(Exception):
    """A file that is left as it is.

    Attributes:
        line: from 1.
        column: in characters, from 1; a byte order mark is none.
        why: a sentence that holds no value of the file.
    """

    def __init__(self, line: int, column: int, why: str) -> None:
        super().__init__(f"{line}:{column}: {why}")
        self.line, self.column, self.why = line, column, why


@dataclass(frozen=True, slots=True)
class Edit:
    """A whole new text, and how many parents of the value had to be made for it."""

    text: str
    made: int = 0


@dataclass(frozen=True, slots=True)
class Span:
    """Where a member stands, from its name to the end of its value: indices into the text, and its line from 1."""

    start: int
    end: int
    line: int


Splice = tuple[int, int, str]
"""Start and end of what goes, and what comes in its place."""


def refuse(text: str, index: int, why: str) -> NoReturn:
    """Raise CannotEdit for the place at this index of the text."""
    start = text.rfind("\n", 0, index) + 1
    raise CannotEdit(line_at(text, index), index - start + 1 - text.startswith(BOM, start, index), why)


def line_at(text: str, index: int) -> int:
    return text.count("\n", 0, index) + 1


def span(text: str, start: int, end: int) -> Span:
    return Span(start, end, line_at(text, start))


def spliced(text: str, splices: Iterable[Splice]) -> str:
    """The text with all these done; they do not overlap, and all indices are into the given text."""
    parts, at = [], 0
    for start, end, new in sorted(splices):
        parts += [text[at:start], new]
        at = end
    return "".join([*parts, text[at:]])


def body_start(text: str) -> int:
    """Behind the byte order mark."""
    return int(text.startswith(BOM))


def newline(text: str) -> str:
    """How lines of this text end; as its first does."""
    found = _LINE_END.search(text)
    return found[0] if found else "\n"


def line_start(text: str, index: int) -> int:
    return max(text.rfind("\n", 0, index) + 1, body_start(text))


def line_end(text: str, index: int) -> int:
    """Behind the line break that ends the line of this index, or the end of the text."""
    found = text.find("\n", index)
    return len(text) if found < 0 else found + 1


def line_break(text: str, at: int) -> str:
    """The line break that ends here, "" when none does."""
    return "\r\n" if text.endswith("\r\n", 0, at) else "\n" if text.endswith("\n", 0, at) else ""


def indent_at(text: str, index: int) -> str:
    """Spaces and tabs that the line of this index begins with."""
    found = _INDENT.match(text, line_start(text, index))
    return found[0] if found else ""


def ends_whole(text: str) -> bool:
    """Whether a new line may begin at the end of the text."""
    return len(text) == body_start(text) or text.endswith("\n")


def quoted(value: str) -> str:
    """A string in double quotes, one that JSON, YAML and TOML read alike."""
    return _UNPRINTED.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))


def check_text(text: str) -> None:
    """Refuse what no host writes: more than `MAX_BYTES`, NUL, and halves of surrogate pairs."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        refuse(text, error.start, "half of a surrogate pair is no text")
    if size > MAX_BYTES:
        raise CannotEdit(1, 1, f"the file is larger than {MAX_BYTES // 10**6} MB")
    if (found := text.find("\0")) >= 0:
        refuse(text, found, "a NUL is no text")
