"""A text as lines, without the marks that a prompt, a mail, a diff or a viewer sets before them."""

from __future__ import annotations

import re
from dataclasses import dataclass

BLANK_LINES = 2
"""Blank lines in a row that may stand inside a block."""

_ESCAPED_LINE = re.compile(r"(?:(?!\\r?\\n|\\r)[^\r\n])*(?:\\r\\n|\\n|\\r|\r\n?|\n|$)")
_BREAK = re.compile(r"(?:\\[rn])+$")
_PREFIX = re.compile(r"(?:>>> |\.\.\. |(?:> ?)+|\s{0,6}\d{1,5}\s?[|:│]\s?|[+-](?![+-]|\s?[A-Z][a-z]+ [a-z]))?(\s*)")


@dataclass(slots=True)
class Row:
    """A line: where it stands (str indices), how deep it is indented, and the text behind indentation and prompt."""

    start: int
    end: int
    indent: int
    body: str


def rows(text: str) -> list[Row]:
    """Lines with their offsets; a text without line breaks is also cut at the two characters `\\n`."""
    pieces = text.splitlines(keepends=True)
    if len(pieces) < 2 and text.count("\\n") > 1:
        pieces = [match[0] for match in _ESCAPED_LINE.finditer(text) if match[0]]
    found: list[Row] = []
    start = blank = 0
    for piece in pieces:
        whole = _BREAK.sub("", piece) if piece[-1] == "n" else piece.rstrip()
        blank = 0 if whole else blank + 1
        if blank <= BLANK_LINES + 1:
            found.append(_row(whole, start))
        start += len(piece)
    return found


def _row(whole: str, start: int) -> Row:
    prefix = _PREFIX.match(whole)
    skipped = prefix.end() if prefix else 0
    indent = len(prefix[1].expandtabs(4)) if prefix else 0
    return Row(start, start + len(whole), indent, whole[skipped:])
