"""One form of a text, with the way back to the characters it came from."""

from __future__ import annotations

import re
import string
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Generic, TypeVar, overload

import regex

from sparkgate.policy.forms.outline import BLANKS, Outlines, in_a_row

T = TypeVar("T")
Edit = tuple[int, int, str]
"""(start, end, what stands there instead): half open, in text order, disjoint."""

OTHER_DIGIT = regex.compile(r"[\p{Nd}--0-9]", regex.VERSION1)
"""As rules see digits: `re` knows fewer than `regex`."""
WORD_CHARS = 10
"""Of the shortest word that an encoding is looked for in."""
_RUN = re.compile("[A-Za-z0-9+/_-]{16,}")
_TOKEN = in_a_row("tokens", 16)
_LETTERS = str.maketrans({chr(code): " " for code in range(128) if not chr(code).isalpha()})
_LETTER_BYTES = bytes(ord(chr(code).lower()) if chr(code).isalpha() else 32 for code in range(128)) + bytes(128)
_NO_SIGNS = (string.ascii_letters + string.digits + BLANKS).encode()


class once(Generic[T]):
    """What is told of a form when it is asked for first, and kept as long as the form.

    As functools.cached_property, whose lock (before Python 3.12) costs more than most of what is kept here.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make, self._name, self.__doc__ = make, make.__name__, make.__doc__

    @overload
    def __get__(self, view: None, owner: type) -> once[T]: ...
    @overload
    def __get__(self, view: object, owner: type) -> T: ...
    def __get__(self, view: object | None, owner: type) -> T | once[T]:
        if view is None:
            return self
        kept = view.__dict__[self._name] = self._make(view)
        return kept


# No slots: they would leave no room for what is told once, and asked for by several detectors.
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

    def told(self, tell: Callable[[View], bool]) -> bool:
        """What somebody else tells of it, told once as well."""
        kept: dict[object, bool] = self.__dict__.setdefault("_told", {})
        if tell not in kept:
            kept[tell] = tell(self)
        return kept[tell]

    @once
    def raw(self) -> bytes:
        """In UTF-8; half of a surrogate pair as three bytes."""
        return self.text.encode("utf-8", "surrogatepass")

    @once
    def is_ascii(self) -> bool:
        """Whether a byte of every outline is a character."""
        return self.text.isascii()

    @once
    def has_other_digits(self) -> bool:
        """Whether there are digits of another script than ours."""
        return not self.is_ascii and OTHER_DIGIT.search(self.text) is not None

    @once
    def is_printable(self) -> bool:
        """Without ends of lines, tabs and what nobody sees."""
        return self.text.isprintable()

    @once
    def lower(self) -> str:
        """In small letters."""
        return self.text.lower()

    @once
    def letters(self) -> list[str]:
        """The words in small letters; ASCII digits and signs stand between them."""
        if self.is_ascii:
            return self.raw.translate(_LETTER_BYTES).decode().split()
        return self.lower.translate(_LETTERS).split()

    @once
    def outlines(self) -> Outlines:
        """What kind of character stands where, by the name of the outline."""
        return Outlines(self.raw)

    @once
    def signs(self) -> bytes:
        """The bytes in it that are neither ASCII letters, digits nor blanks, one behind the other."""
        return self.raw.translate(None, _NO_SIGNS)

    @once
    def odd_words(self) -> str:
        """The words that are long enough for an encoding and hold a sign, with blanks between them."""
        return " ".join([word for word in self.text.split() if len(word) >= WORD_CHARS and not word.isalnum()])

    @once
    def long_runs(self) -> list[tuple[int, int]]:
        """Where what may be hexadecimal, base32 or base64 stands, half open."""
        if not self.is_ascii:
            return [match.span() for match in _RUN.finditer(self.text)]
        outline, found = self.outlines["tokens"], []
        at = outline.find(_TOKEN)
        while at >= 0:
            end = outline.find(" ", at)
            end = len(outline) if end < 0 else end
            found.append((at - 1, end - 1))
            at = outline.find(_TOKEN, end)
        return found

    @once
    def runs(self) -> str:
        """The same, with blanks between."""
        return " ".join([self.text[start:end] for start, end in self.long_runs])

    @once
    def is_listed(self) -> bool:
        """Whether eight numbers of two or three digits stand in a row, or bytes that are marked as such."""
        outline = self.outlines["hex"]
        if "0x" in self.text and "0x00" in outline:
            if "0x00 0x00" in outline or "0x000x00" in outline:
                return True
            outline = outline.replace("0x00", "00")
        if "00 00 00" not in outline and "00 000 00" not in outline:
            return False
        return " ".join(["00"] * 8) in outline.replace("000", "00")

    @once
    def places(self) -> Sequence[int]:
        """Where each of its characters comes from in the text as it was given; what was put in, from one end of what
        it stands for."""
        if self.of is None:
            return range(len(self.text))
        before, found = (*self.of.places, len(self.of.text)), list[int]()
        for begin, stop, (start, end, same) in zip(
            self.begins, (*self.begins[1:], len(self.text)), self.pieces, strict=True
        ):
            found += before[start:end] if same else [before[start]] * (stop - begin)
        return found

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

    @once
    def places(self) -> Sequence[int]:
        return [] if self.of is None else self.of.places[::-1]

    def span_before(self, start: int, end: int) -> tuple[int, int]:
        return len(self.text) - end, len(self.text) - start


def rewrite(view: View, name: str, edits: Iterable[Edit]) -> View | None:
    """The form with these edits made; None when there are none."""
    edits = [*edits]
    if not edits:
        return None
    text, last = view.text, 0
    cut: list[tuple[str, tuple[int, int, bool]]] = []
    for start, end, instead in edits:
        cut += (text[last:start], (last, start, True)), (instead, (start, end, False))
        last = end
    cut.append((text[last:], (last, len(text), True)))
    parts = [part for part, _ in cut if part]
    begins = tuple(accumulate(map(len, parts), initial=0))[:-1]
    return View(name, "".join(parts), view, begins, tuple([piece for part, piece in cut if part]))
