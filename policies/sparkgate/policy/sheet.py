"""Guessed forms of a text on one sheet: what is not on it is in none of them, and on most sheets there is nothing.

To look at a dozen short texts costs little more than to look at one when they are one text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sparkgate.policy.acceptance import ACCEPT, Accept
from sparkgate.policy.finding import Detector
from sparkgate.policy.forms.view import View
from sparkgate.policy.rules import Rule, Rulebook

Guess = tuple[View, Accept]
"""A form, and what counts there."""
SHEET_CHARS = 2000
"""Longer forms are looked at by themselves."""
GUESSED = Accept(
    frozenset().union(*(accept.classes for accept in ACCEPT.values())),
    frozenset().union(*(accept.rules for accept in ACCEPT.values())),
)
"""What may count in one of them."""


@dataclass(frozen=True, slots=True)
class Suspects:
    """Who may find something in a form on a sheet."""

    rules: Sequence[Rule]
    detectors: Sequence[Detector]


def sheets(forms: Iterable[Guess]) -> Iterator[list[Guess]]:
    """Forms in their order, several short ones in ASCII together."""
    sheet: list[Guess] = []
    left = SHEET_CHARS
    for form in forms:
        left -= len(form[0].text) + 1
        if sheet and (left < 0 or not form[0].is_ascii):
            yield sheet
            sheet, left = [], SHEET_CHARS - len(form[0].text)
        sheet.append(form)
        if not form[0].is_ascii:
            left = 0
    if sheet:
        yield sheet


def suspects(sheet: Sequence[Guess], book: Rulebook, detectors: Iterable[Detector], deadline: float) -> Suspects | None:
    """Rules that may be on a sheet, and detectors that find something there; None for a form that is by itself.

    Raises:
        Overrun: `deadline` (time.monotonic seconds) passed.
    """
    if len(sheet) == 1:
        return None
    together = View("sheet", "\n".join([view.text for view, _ in sheet]))
    found = [detector for detector in detectors if detector.find(together, deadline)]
    return Suspects(book.candidates(together, GUESSED), found)
