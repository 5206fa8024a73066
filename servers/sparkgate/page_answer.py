"""The answer of read_page: a part of the page that a small model can read, and how to get the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparkgate.brief import size_bytes
from sparkgate.page_fetch import Page
from sparkgate.page_problems import problem
from sparkgate.reading.part import NoSection, find, hash_of, part, section
from sparkgate.reading.reader import Read
from sparkgate.refusals import refusal
from sparkgate.results import plain
from sparkgate.searxng import Problem
from sparkgate.toolset import PAGE_TEXT, Arguments
from sparkgate.untrusted import Incoming

BYTES_A_TOKEN = 4.2
"""Of Markdown in English, as the vocabularies of 2024 to 2026 cut it; an estimate."""
HEADINGS_CHARS = 700
PASSAGE_CHARS, PASSAGES = 300, 12
KNOWN_SECTIONS = 12
HEAD_BYTES = 900
"""Kept free for what stands around the text."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Which part of the page. `max_chars` is 0 for as much as a part is kept to."""

    start: int = 1
    max_chars: int = 0
    section: str = ""
    find: str = ""

    @classmethod
    def of(cls, arguments: Arguments) -> Asked:
        return cls(*(arguments[name] for name in ("start", "max_chars", "section", "find")))


def answer(page: Page, read: Read, asked: Asked, budget_bytes: int) -> dict[str, Any]:
    """What the page says, between two lines with a boundary; our own words stand before them."""
    incoming = Incoming()
    chosen = _chosen(read, asked, budget_bytes)
    if isinstance(chosen, Problem):
        return refusal(chosen)
    if isinstance(chosen, NoSection):
        return refusal(problem("unknown_section")) | incoming.fenced({"sections": incoming.tree(_near(read, chosen))})
    told, text = {"ok": True, "url": page.url, "kind": read.kind, **chosen.told, "hash": hash_of(read)}, chosen.text
    if read.title and asked.start == 1 and not asked.section:
        text = f"# {incoming.line(read.title)}\n\n{text}"
    whole = incoming.wrapped(text)
    if notes := [*read.notes, *incoming.notes()]:
        told["notes"] = notes
    told["about_tokens"] = round((size_bytes(told) + len(whole.encode())) / BYTES_A_TOKEN)
    return told | {PAGE_TEXT: whole}


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is shown of a page, and what is told of it."""

    told: dict[str, Any]
    text: str


def _chosen(read: Read, asked: Asked, budget_bytes: int) -> Chosen | Problem | NoSection:
    if asked.find:
        return _passages(read, asked, budget_bytes)
    start, end = asked.start - 1, len(read.markdown)
    if asked.section:
        found = section(read, asked.section)
        if isinstance(found, NoSection):
            return found if read.headings else problem("no_headings")
        start, end = max(start, found.start) if start < found.end else found.start, found.end
    if start >= end:
        return problem("past_the_end", chars=len(read.markdown))
    return _part(read, asked, start, end, budget_bytes)


def _part(read: Read, asked: Asked, start: int, end: int, budget_bytes: int) -> Chosen:
    """From `start` on, at most to `end`; with the headings before it at the beginning of a page."""
    text = read.markdown
    names = _sections(read) if start == 0 and not asked.section else ""
    room = asked.max_chars or within(text, start, budget_bytes - HEAD_BYTES - len(names.encode()))
    shown = part(read, start, min(room, end - start))
    told: dict[str, Any] = {"shown": f"characters {shown.start + 1} to {shown.end} of {len(text)}"}
    if asked.section and shown.end >= end:
        told["shown"] += ", to the end of the section"
    if shown.end < len(text):
        told["next"] = {"start": shown.end + 1}
    return Chosen(told, (names if "next" in told else "") + shown.text)


def _passages(read: Read, asked: Asked, budget_bytes: int) -> Chosen | Problem:
    """The places where the words stand, as many as fit."""
    found = find(read, asked.find, PASSAGE_CHARS, PASSAGES)
    if not found.passages:
        return problem("not_on_page", chars=len(read.markdown))
    room = (asked.max_chars or budget_bytes) - HEAD_BYTES
    fitting: list[str] = []
    for passage in found.passages:
        under = f", under {passage.under!r}" if passage.under else ""
        text = f"[from character {passage.start + 1}{under}]\n{passage.text}"
        room -= len(text.encode())
        if room < 0 and fitting:
            break
        fitting.append(text)
    told: dict[str, Any] = {"shown": f"{len(fitting)} passages of {found.hits} places; read on with start"}
    if found.missing:
        told["not_on_page"] = list(found.missing)
    return Chosen(told, "\n\n".join(fitting))


def _sections(read: Read) -> str:
    """The headings in one line, so that a model can ask for the one it needs."""
    names = [plain(one.text, 80) for one in read.headings]
    shown: list[str] = []
    for name in filter(None, names):
        if sum(map(len, shown)) + len(name) > HEADINGS_CHARS:
            break
        shown.append(name)
    more = f" · and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return f"Sections: {' · '.join(shown)}{more}\n\n" if len(shown) > 1 else ""


def _near(read: Read, missed: NoSection) -> list[str]:
    """Names of sections that may have been meant, else the first ones."""
    return [plain(name, 80) for name in missed.nearest or [one.text for one in read.headings[:KNOWN_SECTIONS]]]


def within(text: str, start: int, size_bytes: int) -> int:
    """How many characters from `start` on have at most so many bytes in UTF-8; one at least."""
    piece = text[start : start + size_bytes].encode("utf-8", "replace")[:size_bytes]
    return max(1, len(piece.decode("utf-8", "ignore")))
