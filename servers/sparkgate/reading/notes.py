"""What was left out or lost of a page on the way: codes with numbers in the process, words only outside of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

MOST = 1_000_000_000

NOTES: Mapping[str, str] = {
    "lossy": "some characters could not be decoded and read U+FFFD",
    "longer": "the page is longer than what is read of it",
    "json_broken": "declared as JSON and not valid as such, so it is shown as it came",
    "xml_broken": "declared as XML and not well-formed, so it is shown as it came",
    "xml_entities": "it declares entities of its own, which are not put in; it is shown as it came",
    "feed": "only {count} of {of} entries of the feed are shown",
    "hidden": "{count} hidden parts of the page, which nobody sees, left out",
    "around": "menus and footers are in the text, since there is hardly anything else",
    "scripted": "looks like the page is built by JavaScript in a browser, so that most of it may be missing",
    "login": "a login form is on the page",
    "pdf_layout": "tables, columns and formulas of the PDF have lost their layout",
    "pdf_pages": "only {count} of {of} pages of the PDF were read",
    "pdf_failed": "{count} pages of the PDF could not be read",
}
"""Code → what it means."""
ONE: Mapping[str, str] = {
    "hidden": "1 hidden part of the page, which nobody sees, left out",
    "pdf_failed": "1 page of the PDF could not be read",
}
"""The same where it is one."""


@dataclass(frozen=True, slots=True)
class Note:
    """A key of `NOTES` and the numbers in it."""

    code: str
    count: int = 0
    of: int = 0


def words(notes: Iterable[Note]) -> list[str]:
    return [_sentence(one).format(count=one.count, of=one.of) for one in notes]


def _sentence(note: Note) -> str:
    return ONE[note.code] if note.count == 1 and note.code in ONE else NOTES[note.code]


def note_from(told: Any) -> Note:
    """A note as a process told it.

    Raises:
        ValueError: it is none of ours.
    """
    code, count, of = told
    if code not in NOTES or not (is_number(count) and is_number(of)):
        raise ValueError("note")
    return Note(code, count, of)


def is_number(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value <= MOST
