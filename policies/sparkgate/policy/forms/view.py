"""One form of a text, with the way back to the characters it came from."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

Edit = tuple[int, int, str]
"""(start, end, what stands there instead): half open, in text order, disjoint."""

WORD_CHARS = 10
"""Of the shortest word that an encoding is looked for in."""
_RUN = re.compile("[A-Za-z0-9+/_-]{16,}")
_DIGITS_AND_GAPS = bytes(
    ord("0" if chr(code) in "0123456789abcdefABCDEF" else " " if chr(code) in " :,;.\n-" else "x")
    for code in range(256)
)


# No slots: they would leave no room for what is told once, and asked for by several encodings.
@dataclass(frozen=True)
class View:
    """One form of a text.

    Attributes:
        name: how it was made.
        of: the form it was made from; None for a text as it was given.
        begins: for each piece, where it starts here, ascending.
        pieces: for each piece (start, end, whether it stands unchanged) in the form it was made from.
    """

    name: str
    text: str
    of: View | None = None
    begins: tuple[int, ...] = ()
    pieces: tuple[tuple[int, int, bool], ...] = ()

    @cached_property
    def long_words(self) -> str:
        """The words that are long enough for an encoding, with blanks between them."""
        return " ".join([word for word in self.text.split() if len(word) >= WORD_CHARS])

    @cached_property
    def runs(self) -> str:
        """What in them may be hexadecimal, base32 or base64, with blanks between."""
        return " ".join(_RUN.findall(self.long_words))

    @cached_property
    def outline(self) -> bytes:
        """Hexadecimal digits as 0, one blank for what stands between them, and x for the rest: quickly told apart."""
        return self.text.encode("utf-8", "surrogatepass").translate(_DIGITS_AND_GAPS).replace(b"  ", b" ")

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Half-open indices in this form → the span of the text as it was given."""
        if self.of is None:
            return start, end
        return self.of.span(*self.span_before(start, end))

    def span_before(self, start: int, end: int) -> tuple[int, int]:
        """The same in the form that this one was made from. What was replaced counts as a whole."""
        if self.of is None or start >= end:
            return start, end
        first, last = bisect_right(self.begins, start) - 1, bisect_right(self.begins, end - 1) - 1
        begin, _, same = self.pieces[first]
        _, stop, unchanged = self.pieces[last]
        begin += start - self.begins[first] if same else 0
        stop = self.pieces[last][0] + end - self.begins[last] if unchanged else stop
        return begin, stop


@dataclass(frozen=True)
class Mirror(View):
    """A form whose characters stand in the opposite order."""

    def span_before(self, start: int, end: int) -> tuple[int, int]:
        return len(self.text) - end, len(self.text) - start


def rewrite(view: View, name: str, edits: Iterable[Edit]) -> View | None:
    """The form with these edits made; None when there are none."""
    text, last, at = view.text, 0, 0
    parts: list[str] = []
    begins: list[int] = []
    pieces: list[tuple[int, int, bool]] = []

    def add(part: str, start: int, end: int, *, same: bool) -> None:
        nonlocal at
        if part:
            parts.append(part)
            begins.append(at)
            pieces.append((start, end, same))
            at += len(part)

    for start, end, instead in edits:
        add(text[last:start], last, start, same=True)
        add(instead, start, end, same=False)
        last = end
    if not last and not parts:
        return None
    add(text[last:], last, len(text), same=True)
    return View(name, "".join(parts), view, tuple(begins), tuple(pieces))
