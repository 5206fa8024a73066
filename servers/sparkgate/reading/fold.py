"""Text without case, accents and what nobody sees, in which words are looked for."""

from __future__ import annotations

import unicodedata
from array import array
from itertools import accumulate

from sparkgate.reading.visible import INVISIBLE


class _Fold(dict[str, str]):
    """Each character in its simplest form, which may be none or several characters."""

    def __missing__(self, character: str) -> str:
        parts = "" if INVISIBLE.match(character) else unicodedata.normalize("NFKD", character).casefold()
        self[character] = simple = "".join(c for c in parts if not unicodedata.combining(c))
        return simple


def folded(text: str) -> tuple[str, array[int] | None]:
    """The text without case and accents, and where each character of `text` ends in it; None: where it was."""
    if text.isascii():
        return text.lower(), None
    fold = _Fold()
    simple = [fold[character] for character in text]
    whole = "".join(simple)
    if len(whole) == len(text) and all(len(one) == 1 for one in fold.values()):
        return whole, None
    return whole, array("I", accumulate(map(len, simple)))
