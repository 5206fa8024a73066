"""Forms of a text on one sheet: what is not on it is in none of them, and on most sheets there is nothing.

To look at a dozen short texts costs little more than to look at one when they are one text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from sparkgate.policy.acceptance import Accept, restriction
from sparkgate.policy.forms.view import View

SHEET_CHARS = 2000
"""Longer forms are looked at by themselves."""


class Sheet(NamedTuple):
    """Some forms.

    Attributes:
        text: all of them, in lines of their own; a form that is by itself is its own sheet.
        forms: each form, and what may count in it; None where everything does, and then in all of them.
    """

    text: View
    forms: Sequence[tuple[View, Accept | None]]


def together(forms: Iterable[View]) -> Iterator[Sheet]:
    """Forms in their order, several short ones in ASCII on one sheet, as long as the same kind of them follows."""
    lines: list[tuple[View, Accept | None]] = []
    left = SHEET_CHARS
    for view in forms:
        accept = restriction(view)
        left -= len(view.text) + 1
        if lines and (left < 0 or not view.is_ascii or (accept is None) != (lines[0][1] is None)):
            yield _sheet(lines)
            lines, left = [], SHEET_CHARS - len(view.text) - 1
        lines.append((view, accept))
        if not view.is_ascii:
            left = 0
    if lines:
        yield _sheet(lines)


def _sheet(lines: Sequence[tuple[View, Accept | None]]) -> Sheet:
    if len(lines) == 1:
        return Sheet(lines[0][0], lines)
    return Sheet(View("sheet", "\n".join([view.text for view, _ in lines])), lines)
