"""The forms in which a text is judged, each with a map back to the characters it came from."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

KEPT_CONTROLS = frozenset("\t\n\r")


@dataclass(frozen=True, slots=True)
class View:
    """One form of a text. `origin[i]` is the index in the original of character i; empty means identity."""

    name: str
    text: str
    origin: tuple[int, ...] = ()

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Indices in this view → the half-open span of the original they came from."""
        if not self.origin:
            return start, end
        return self.origin[start], self.origin[end - 1] + 1


def is_invisible(character: str) -> bool:
    """Format, control and private characters that a reader does not see (Unicode categories Cf, Cc, Co, Cs)."""
    return character not in KEPT_CONTROLS and unicodedata.category(character) in ("Cf", "Cc", "Co", "Cs")


def views(text: str) -> Iterator[View]:
    """The text as it is, then the text without invisible characters where it has any."""
    yield View("raw", text)
    if text.isascii() and text.isprintable():
        return
    kept = [index for index, character in enumerate(text) if not is_invisible(character)]
    if len(kept) < len(text):
        yield View("visible", "".join(text[index] for index in kept), tuple(kept))
