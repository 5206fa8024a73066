"""Text as terms see it: lower case, no accents, separators as spaces; and where each letter stood."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sparkgate.policy.forms.outline import OUTLINES

_LETTERS = (range(0x80, 0x250), range(0x370, 0x530), range(0x1E00, 0x1F00))
_MARKS = (range(0x300, 0x370), range(0x200B, 0x200E), (0xAD, 0x2060, 0xFEFF))
_SPACES = (range(0x2010, 0x2060), range(0x3000, 0x3004), range(0x3008, 0x3020), range(0xFF00, 0xFF10))
_BARE = {"ø": "o", "æ": "ae", "œ": "oe", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i", "ħ": "h"}
_DIGRAPHS = {"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "å": "aa"}
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\ufaff\U00020000-\U0003ffff]")
_CAMEL = re.compile("[A-Z](?:(?<=[a-z].)|(?=[A-Z][a-z]))")
_PIECE = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LATIN = re.compile("[a-z]+")


def _plain(character: str) -> str:
    folded = "".join(_BARE.get(one, one) for one in character.casefold())
    bare = "".join(one for one in unicodedata.normalize("NFKD", folded) if not unicodedata.combining(one))
    return bare if bare.isalnum() else " "


def _table() -> dict[int, str]:
    table = {code: chr(code).lower() if chr(code).isalnum() else " " for code in range(0x80)}
    table |= {code: _plain(chr(code)) for codes in _LETTERS for code in codes}
    table |= {code: " " for codes in _SPACES for code in codes}
    return table | {code: "" for codes in _MARKS for code in codes}


@dataclass(frozen=True, slots=True)
class Folding:
    """What each character becomes, and the pattern of those that do not become exactly one."""

    table: Mapping[int, str]
    uneven: re.Pattern[str]

    @classmethod
    def of(cls, table: Mapping[int, str]) -> Folding:
        return cls(table, re.compile(f"[{''.join(chr(code) for code, to in table.items() if len(to) != 1)}]"))


_PLAIN = _table()
_PAIRED = {ord(form): pair for letter, pair in _DIGRAPHS.items() for form in (letter, letter.upper())}
BASE = Folding.of(_PLAIN)
DIGRAPH = Folding.of(_PLAIN | _PAIRED)
"""The same, but ü is ue, as it is in German where the letter is missing."""
_DIGRAPH = re.compile(f"[{''.join(map(chr, _PAIRED))}]")
_BASE_BYTES = bytes(ord(_PLAIN.get(code, " ")) for code in range(128)) + b" " * 128
_LETTERS_BYTES = bytes(32 if chr(code).isdigit() else code for code in _BASE_BYTES)


def fold(text: str, folding: Folding = BASE) -> str:
    """`text` in lower case without accents; what is no letter or digit is a space."""
    if text.isascii():
        return text.encode().translate(_BASE_BYTES).decode()
    return text.translate(folding.table)


def has_digraphs(text: str) -> bool:
    """Whether `DIGRAPH` folds it otherwise than `BASE` does."""
    return not text.isascii() and _DIGRAPH.search(text) is not None


def readings(text: str, folded: str) -> list[str]:
    """The words of a text; then its pieces, where digits, letter case or another script set some apart.

    Blanks stand between them, and in front and behind.
    """
    if not text.isascii():
        words = f" {' '.join(folded.split())} "
        pieces = [_PIECE.findall(text)] if _CAMEL.search(text) else []
        return [words, *(f" {' '.join(found)} ".lower() for found in (*pieces, _LATIN.findall(folded)))]
    words, raw = f" {folded} ", text.encode()
    kinds = raw.translate(OUTLINES["kinds"].table).decode()
    if "aA" in kinds or "AAa" in kinds:
        return [words, f" {' '.join(_PIECE.findall(text))} ".lower()]
    return [words, f" {raw.translate(_LETTERS_BYTES).decode()} "] if "0" in kinds else [words]


def unspaced(character: str) -> bool:
    """Whether words of its script stand without spaces between them."""
    return _UNSPACED.match(character) is not None


@dataclass(frozen=True, slots=True)
class Words:
    """A folded text cut into words.

    `at[i]` is the index in `source` of folded character i, and one more for the end. `spans` are the words as half
    open folded indices, `joined` is all of them without what stood between, `offsets[n]` is where word n begins there.
    """

    source: str
    folded: str
    at: Sequence[int]
    spans: list[tuple[int, int]]
    offsets: list[int]
    joined: str

    @classmethod
    def of(cls, source: str, folding: Folding) -> Words:
        folded = fold(source, folding)
        spans = [match.span() for match in re.finditer(r"\S+", folded)]
        offsets, size = [], 0
        for start, end in spans:
            offsets.append(size)
            size += end - start
        return cls(source, folded, _origins(source, folding, folded), spans, offsets, "".join(folded.split()))

    def place(self, offset: int) -> int:
        """Index in `joined` → index in `folded`."""
        word = bisect_right(self.offsets, offset) - 1
        return self.spans[word][0] + offset - self.offsets[word]

    def gaps(self, first: int, last: int) -> list[int]:
        """Indices in `joined`, after `first` and up to `last`, where a word begins."""
        return self.offsets[bisect_right(self.offsets, first) : bisect_right(self.offsets, last)]

    def gap(self, offset: int) -> str:
        """What stands in the source before the word that begins at `offset` of `joined`."""
        word = bisect_right(self.offsets, offset) - 1
        return self.between(self.spans[word - 1][1], self.spans[word][0])

    def between(self, end: int, start: int) -> str:
        """The source between folded indices `end` (of a word) and `start` (of the next)."""
        return self.source[self.at[end - 1] + 1 : self.at[start]]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Folded half-open indices → source indices; marks that follow the last letter belong to it."""
        return self.at[start], self.at[end]

    def word(self, offset: int) -> str:
        """The whole word that holds a character of `joined`."""
        start, end = self.spans[bisect_right(self.offsets, offset) - 1]
        return self.folded[start:end]

    def edge(self, index: int) -> bool:
        """Whether a word, or a piece of a compound, can begin or end before folded character `index`."""
        if index <= 0 or index >= len(self.folded):
            return True
        left, right = _kind(self.folded[index - 1]), _kind(self.folded[index])
        if left != right or left in ("", "unspaced"):
            return self.at[index - 1] != self.at[index]
        return _case_edge(self.source, self.at[index - 1], self.at[index])

    def pieces(self) -> Iterator[tuple[int, int]]:
        """Words cut at every edge, as half-open folded indices."""
        known: dict[str, list[int]] = {}
        for start, end in self.spans:
            text = self.source[self.at[start] : self.at[end - 1] + 1]
            sizes = known.get(text)
            if sizes is None:
                # What stands beside a word is no part of one, so a word is cut in the same way wherever it stands.
                sizes = known[text] = [index - start for index in range(start + 1, end) if self.edge(index)]
            cuts = [start + size for size in sizes]
            yield from zip([start, *cuts], [*cuts, end], strict=True)


def _origins(source: str, folding: Folding, folded: str) -> Sequence[int]:
    if source.isascii() or not folding.uneven.search(source):
        return range(len(folded) + 1)
    sizes = (len(folding.table.get(ord(character), "x")) for character in source)
    return [index for index, size in enumerate(sizes) for _ in range(size)] + [len(source)]


def _kind(character: str) -> str:
    """What may not stand beside another kind inside one word; "" for what is no part of a word."""
    if "a" <= character <= "z":
        return "latin"
    if character.isdigit():
        return "digit"
    if unspaced(character):
        return "unspaced"
    if character.isalpha() or unicodedata.category(character)[0] == "M":
        return "latin" if character < "\u0250" else "letter"
    return ""


def _case_edge(text: str, left: int, right: int) -> bool:
    """Whether letter case shows a joint: aB, ABc (before B) and ABc (after B)."""
    a, b = text[left], text[right]
    if a.islower() or not a.isupper():
        return a.islower() and b.isupper()
    if b.isupper():
        return text[right + 1 : right + 2].islower()
    return b.islower() and text[left - 1 : left].isupper() if left else False
