"""Digits and signs that stand for the letters they look like: a text with the letters, where names may be in it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from sparkgate.policy.literals import Literals, any_of
from sparkgate.policy.names.fold import fold
from sparkgate.policy.names.index import EDITABLE_PART, Near
from sparkgate.policy.names.parse import Name

LEETED = 6
"""Letters a name needs before signs may stand for some of them."""
_SHORTEST_PART = 4

STAR = "*"
_LETTERS = {"0": "o", "1": "i", "3": "e", "4": "a", "5": "s", "7": "t", "@": "a", "$": "s", "!": "i", STAR: "x"}
"""A star stands for any letter: as one that is rare it is a letter that is wrong."""
_READINGS = (str.maketrans(_LETTERS), str.maketrans(_LETTERS | {"1": "l"}))
_GATE = str.maketrans(_LETTERS | {"l": "i", "L": "i"})
"""Both readings of 1 at once: l is as i."""
Halves = tuple[tuple[str, ...], ...]
"""For each of some parts, what of it is looked for."""
_SIGN = re.compile(r"[013457@$!*](?:(?<=[^\W\d_].)|(?=[^\W\d_]))")
_LEET = frozenset(_LETTERS)
_SIGNS = re.compile(r"[013457@$!*]+")
_ENDS = {ord(sign): sign for sign in "!*"}
"""What is a sign of its own where no letter follows it."""


_GATE_BYTES = "".join(fold(chr(code).translate(_GATE)) for code in range(128)).encode() + b" " * 128


def _gated(text: str) -> str:
    """Folded, with letters for all signs."""
    if text.isascii():
        return text.encode().translate(_GATE_BYTES).decode()
    return fold(text.translate(_GATE))


def _letters(letters: Mapping[int, str | int], signs: re.Match[str]) -> str:
    """What stands for a letter beside one, or between two."""
    start, end = signs.span()
    sides = signs.string[start - 1 : start].isalpha() + signs.string[end : end + 1].isalpha()
    if not sides:
        return signs[0]
    return signs[0].translate(letters if sides > 1 else {**letters, **_ENDS})


def _halves(spellings: Iterable[str]) -> tuple[str, ...]:
    """Of each spelling of a part, how it begins and ends."""
    return tuple(half for text in spellings for size in [(len(text) - 1) // 2] for half in (text[:size], text[-size:]))


def _beside(name: Name) -> Iterator[tuple[str, Halves]]:
    """Each longer spelling of a part, as the gate sees it, and the halves of the other parts."""
    parts = [[text.translate(_GATE) for text in part] for part in name.parts]
    for at, part in enumerate(parts):
        halves = tuple(map(_halves, (*parts[:at], *parts[at + 1 :])))
        yield from ((text, halves) for text in part if len(text) >= _SHORTEST_PART)


class Leet:
    """The other readings of texts in which a word may be a part of a name."""

    def __init__(self, names: Iterable[Name]) -> None:
        beside: dict[str, list[Halves]] = defaultdict(list)
        for text, halves in (found for name in names for found in _beside(name)):
            beside[text].append(halves)
        self._holds_a_part, self._beside = any_of(beside), Literals(beside)
        self._near = Near(beside, EDITABLE_PART)
        self._has_parts = bool(beside)

    def readings(self, text: str) -> Iterator[str]:
        """Texts of the same length with letters for signs; none for a text without a likely word."""
        if not self._has_parts or not (STAR in text or self._may_be_named(_gated(text))) or not _SIGN.search(text):
            return
        mixed = " ".join([word for word in text.split() if not (word.isalpha() or _LEET.isdisjoint(word))])
        if not self._is_likely(mixed):
            return
        for letters in _READINGS if "1" in mixed else _READINGS[:1]:
            read = _SIGNS.sub(partial(_letters, letters), text)
            both = zip(text.split(), read.split(), strict=True)
            if self._is_likely(" ".join([f"{new} {STAR * (STAR in old)}" for old, new in both if old != new])):
                yield read

    def _may_be_named(self, gated: str) -> bool:
        """Whether a part of a name stands in it, and half of each other part: one letter wrong leaves as much."""
        if not self._holds_a_part(gated):
            return False
        bare = gated.replace(" ", "")
        return any(
            all(any(map(bare.__contains__, halves)) for halves in one)
            for ones in self._beside.values(gated)
            for one in ones
        )

    def _has_a_part(self, text: str) -> bool:
        return self._holds_a_part(_gated(text))

    def _is_likely(self, words: str) -> bool:
        if self._has_a_part(words):
            return True
        return STAR in words and bool(self._near.likely(_gated(words).split()))
