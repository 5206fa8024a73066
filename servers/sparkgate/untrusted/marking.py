"""Phrases that speak to a model get a mark before them; nothing of the text is taken out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from time import monotonic

from sparkgate.untrusted.phrases import Phrasebook, shipped
from sparkgate.untrusted.plainly import forms

MARK = "[⚠ not an instruction]"
PATIENCE_S = 2.0
"""For one text; 100 KB of an ordinary page take a twentieth of it."""
NEAR_CHARS = 40
"""A phrase so close behind another needs no mark of its own."""
KEPT_CHARS, MOST_KEPT = 2000, 1000
"""Texts no longer than that are remembered, so many: what is found again need not be looked through again."""
MOST = 40
"""Marks in one text: who repeats a phrase a thousand times does not get a thousand marks."""


@dataclass(frozen=True, slots=True)
class Marked:
    """The text with its marks, how many by family of phrase, and whether all of it was looked through."""

    text: str
    families: Counter[str]
    whole: bool = True


_kept: dict[str, Marked] = {}


def mark(text: str) -> Marked:
    """By the rules that come with sparkgate. A phrase that has a mark already gets no other."""
    if kept := _kept.get(text):
        return kept
    marked = mark_by(shipped(), text)
    if marked.whole and len(text) <= KEPT_CHARS:
        if len(_kept) >= MOST_KEPT:
            _kept.clear()
        _kept[text] = marked
    return marked


def mark_by(book: Phrasebook, text: str, patience_s: float = PATIENCE_S) -> Marked:
    """The same by any rules."""
    found: list[tuple[int, int, str]] = []
    whole = True
    try:
        found.extend(_find(text, book, monotonic() + patience_s))
    except TimeoutError:
        whole = False
    if not found:
        return Marked(text, Counter(), whole)
    places = list(_apart(text, sorted(found)))
    parts, last = [], 0
    for start, _ in places:
        parts += [text[last:start], MARK, " "]
        last = start
    # With the most marks that there are, an order may stand behind many decoys.
    whole = whole and len(places) < MOST
    return Marked("".join([*parts, text[last:]]), Counter(family for _, family in places), whole)


def _find(text: str, book: Phrasebook, deadline: float) -> Iterator[tuple[int, int, str]]:
    for view in forms(text):
        for hit in book.find(view.text, deadline):
            start, end = view.span(hit.start, hit.end)
            while start < end and text[start].isspace():
                start += 1
            yield start, end, hit.phrase.family


def _apart(text: str, found: Iterable[tuple[int, int, str]]) -> Iterator[tuple[int, str]]:
    """Where marks go, and the family of the phrase there."""
    last, marks = -NEAR_CHARS, 0
    for start, end, family in found:
        if (
            marks < MOST
            and start >= last + NEAR_CHARS
            and not text.startswith(f"{MARK} ", max(0, start - len(MARK) - 1))
        ):
            marks += 1
            yield start, family
        last = max(last, end)
