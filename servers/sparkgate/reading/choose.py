"""What is shown of a page, chosen where the page is: a small part of what it may be. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sparkgate.reading.best import best
from sparkgate.reading.find import find, words_of
from sparkgate.reading.page import Read
from sparkgate.reading.part import NoSection, Piece, hash_of, part, section
from sparkgate.reading.shown import MAX_NAMES, MAX_SHOWN_CHARS, Asked, Shown

NAMES_CHARS, NAME_CHARS = 700, 80
KNOWN_NAMES = 12
PASSAGE_CHARS, PASSAGES = 300, 12
HEAD_BYTES = 900
"""Kept free for what stands around the text."""


def chosen(read: Read, asked: Asked) -> Shown:
    """What is asked of the page, and what is told of it with any part."""
    sections = len(read.headings)
    shown = Shown(
        read.kind, read.title, hash_of(read), len(read.markdown), sections=sections, links=read.links, notes=read.notes
    )
    if asked.query:
        text = best(read.markdown, asked.query, min(asked.budget_bytes, MAX_SHOWN_CHARS))
        return replace(shown, pieces=(Piece(text, 0, 0),))
    return _passages(read, asked, shown) if asked.find else _part(read, asked, shown)


def _part(read: Read, asked: Asked, shown: Shown) -> Shown:
    """From `start` on, or the section; with the names of sections at the beginning of a page that goes on."""
    start, end = asked.start - 1, len(read.markdown)
    if asked.section:
        found = section(read, asked.section)
        if isinstance(found, NoSection):
            missed = _near(read, found)
            return replace(shown, missed="unknown_section" if read.headings else "no_headings", names=missed)
        start, end = max(start, found[0]) if start < found[1] else found[0], found[1]
    if start >= end:
        return replace(shown, missed="past_the_end")
    names = _names(read) if start == 0 and not asked.section else ()
    size_bytes = asked.budget_bytes - HEAD_BYTES - sum(len(name.encode()) + 4 for name in names)
    room = asked.max_chars or within(read.markdown, start, size_bytes)
    piece = part(read, start, min(room, end - start, MAX_SHOWN_CHARS))
    goes_on = piece.end < len(read.markdown)
    ends = bool(asked.section) and piece.end >= end
    return replace(shown, pieces=(piece,), names=names if goes_on else (), ends=ends)


def _passages(read: Read, asked: Asked, shown: Shown) -> Shown:
    """The places where the words stand, as many as fit."""
    found = find(read, words_of(asked.find), PASSAGE_CHARS, PASSAGES)
    if not found.passages:
        return replace(shown, missed="not_on_page")
    room = asked.max_chars or asked.budget_bytes - HEAD_BYTES
    fitting: list[Piece] = []
    for passage in found.passages:
        room -= len(passage.text) if asked.max_chars else len(passage.text.encode("utf-8", "replace"))
        if room < 0 and fitting:
            break
        fitting.append(replace(passage, under=_short(passage.under)))
    return replace(shown, pieces=tuple(fitting), hits=found.hits, missing=found.missing)


def _names(read: Read) -> tuple[str, ...]:
    """The first headings, so that a model can ask for the one it needs; none when it is one."""
    shown: list[str] = []
    left = NAMES_CHARS
    for name in (_short(one.text) for one in read.headings[:MAX_NAMES]):
        left -= len(name)
        if left < 0:
            break
        shown.append(name)
    return tuple(filter(None, shown)) if len(shown) > 1 else ()


def _near(read: Read, missed: NoSection) -> tuple[str, ...]:
    """Names of sections that may have been meant, else the first ones."""
    names: Sequence[str] = missed.nearest or [one.text for one in read.headings[:KNOWN_NAMES]]
    return tuple(map(_short, names))


def _short(name: str) -> str:
    name = " ".join(name.split())
    return name if len(name) <= NAME_CHARS else name[:NAME_CHARS].rsplit(" ", 1)[0] + "…"


def within(text: str, start: int, size_bytes: int) -> int:
    """How many characters from `start` on have at most so many bytes in UTF-8; one at least."""
    size_bytes = max(1, size_bytes)
    piece = text[start : start + size_bytes].encode("utf-8", "replace")[:size_bytes]
    return max(1, len(piece.decode("utf-8", "ignore")))
