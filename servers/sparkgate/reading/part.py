"""What is shown of a page: a part of it, or a section. Pure; offsets are characters."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from sparkgate.reading.fold import folded
from sparkgate.reading.page import MAX_HEADING_CHARS, Read

AT_LEAST = 0.5
"""A part ends at a paragraph or a line when that leaves so large a share of it."""
NEAREST, ALIKE, COMPARED = 5, 0.5, 60
"""Names that come close: how many, how alike at least, and how many are looked at in full."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of the text from `start` to before `end`; `under` is the heading above it, where that is told."""

    text: str
    start: int
    end: int
    under: str = ""


@dataclass(frozen=True, slots=True)
class NoSection:
    """No heading is called so; `nearest` are those that come close, the closest first."""

    nearest: tuple[str, ...]


def part(read: Read, start: int, max_chars: int) -> Piece:
    """A part of at most `max_chars` from `start` on; it ends between paragraphs, lines or words where it can."""
    text = read.markdown
    start = max(0, min(start, len(text)))
    end = _end_of_part(text, start, max(1, max_chars))
    return Piece(text[start:end], start, end)


def _end_of_part(text: str, start: int, max_chars: int) -> int:
    end = start + max_chars
    if end >= len(text):
        return len(text)
    least = start + max(1, int(max_chars * AT_LEAST))
    for boundary in ("\n\n", "\n", " "):
        found = text.rfind(boundary, least, end)
        if found > 0:
            return found + len(boundary)
    return end


def section(read: Read, name: str) -> tuple[int, int] | NoSection:
    """Where the section of a heading lies, until the next of its level or above.

    It is the heading that is called so, else the first that begins so, else the first that has it in it. Case, accents
    and punctuation do not matter.
    """
    wanted = _simple(name)
    called = [_simple(heading.text) for heading in read.headings]
    for fits in (str.__eq__, str.startswith, str.__contains__):
        for number, text in enumerate(called):
            if wanted and fits(text, wanted):
                return _section(read, number)
    near = difflib.get_close_matches(wanted, _likely(wanted, dict.fromkeys(called)), NEAREST, ALIKE)
    return NoSection(tuple(read.headings[called.index(text)].text for text in near))


def _section(read: Read, number: int) -> tuple[int, int]:
    heading = read.headings[number]
    later = (one.start for one in read.headings[number + 1 :] if one.level <= heading.level)
    return heading.start, next(later, len(read.markdown))


def _likely(wanted: str, names: Iterable[str]) -> list[str]:
    """The names with most pairs of letters in common: to compare all of them in full takes seconds."""
    pairs = _pairs(wanted)
    return sorted(names, key=lambda name: -len(pairs & _pairs(name)) / (len(wanted) + len(name) + 1))[:COMPARED]


def _pairs(text: str) -> set[str]:
    return {text[at : at + 2] for at in range(len(text) - 1)}


def _simple(text: str) -> str:
    return " ".join(re.findall(r"[\w.+#*/-]*\w[\w.+#*/-]*", folded(text[:MAX_HEADING_CHARS])[0]))


def hash_of(read: Read) -> str:
    """Twelve letters that change with the text, so that who reads it in parts sees that the page has changed."""
    return hashlib.sha256(read.markdown.encode("utf-8", "surrogatepass")).hexdigest()[:12]
