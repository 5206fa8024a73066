"""The forms in which a text is judged, each with a map back to the characters it came from."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

import regex

_INVISIBLE = regex.compile(r"[\p{Default_Ignorable_Code_Point}\p{Cf}\p{Cc}\p{Co}\p{Cs}--[\t\n\r]]", regex.VERSION1)
_CLUSTER = regex.compile(r"\X", regex.DOTALL)


@dataclass(frozen=True, slots=True)
class View:
    """One form of a text. Character i came from `starts[i]` up to `ends[i]` of the original; empty means itself."""

    name: str
    text: str
    starts: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Half-open indices in this view → the span of the original they came from."""
        if not self.starts:
            return start, end
        return min(self.starts[start:end]), max(self.ends[start:end])


def is_invisible(character: str) -> bool:
    """Characters that a reader does not see: format, control, private, and those Unicode says are drawn as nothing."""
    return _INVISIBLE.match(character) is not None


def views(text: str) -> Iterator[View]:
    """The text as it is; then, where it differs, with invisible characters out and compatibility forms folded.

    The second form is NFKC of each user-perceived character, so that a full-width letter or a decomposed umlaut is
    the letter it looks like.
    """
    yield View("raw", text)
    if text.isascii() and text.isprintable():
        return
    plain = _normal(text)
    if plain.text != text:
        yield plain


def _normal(text: str) -> View:
    parts: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for cluster in _CLUSTER.finditer(text):
        folded = _INVISIBLE.sub("", unicodedata.normalize("NFKC", _INVISIBLE.sub("", cluster[0])))
        parts.append(folded)
        starts += [cluster.start()] * len(folded)
        ends += [cluster.end()] * len(folded)
    return View("normal", "".join(parts), tuple(starts), tuple(ends))
