"""Finds values in a text without holding them.

Two stages. First the text is cut every `STRIDE` bytes and the hashes of the pieces are looked up in a set: Python's
own hash of bytes, whose key is made anew in every process, over bytes that a secret table has exchanged before. A
value adds its pieces at the first four offsets, so that one of them meets a cut wherever the value stands; nearly
every text ends here, at C speed. Only around a piece that is known are keyed digests compared: of whole values, and
of all parts of `PART` bytes of the long ones.

The pieces overlap, so whoever holds the memory of the process can work on them; he can read the user's files as well.
Nothing of this is ever written.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from random import SystemRandom
from struct import Struct
from time import monotonic

from sparkgate.policy.finding import Overrun
from sparkgate.policy.forms.turns import both_turned, may_be_turned
from sparkgate.policy.forms.view import View
from sparkgate.policy.known.choice import Value

STRIDE = 4
PART = 15
"""Bytes of a part that counts: 60 % of the shortest value that has parts, and less than 16."""
LONG = 24
SHORTEST_TURNED = 8
EDGE = 256
"""Of a longer value, parts are taken from this many bytes at either end."""
PIECES = ((11, 8), (7, 4), (6, 3))
"""(shortest value, bytes of its pieces): the last piece, at offset 3, still lies inside the value."""
CUTS: dict[int, tuple[tuple[Struct, int], ...]] = {
    8: ((Struct("8s"), 0), (Struct("8s"), 4)),
    4: ((Struct("4s"), 0),),
    3: ((Struct("3sx"), 0),),
}
"""Pieces at every fourth byte: (layout, first byte). Each layout's own size is the step of its cuts."""
EVERYDAY = re.compile(
    rb"[a-z][a-z0-9+.-]{1,15}://(?:www\.)?|(?:localhost|127\.0\.0\.1)(?::\d+)?/?|-{5,}|={5,}|[Bb]earer |[Bb]asic "
    rb"|(?:[a-z0-9-]{1,63}\.){1,4}(?:com|org|net|io|ai|dev)\b"
)
"""What may stand in any text: a part needs more than this."""

Span = tuple[int, int]


@dataclass(slots=True, repr=False)
class Digests:
    """What is kept of the values of one source: hashes of pieces by size, lengths by first piece, sorted digests."""

    pieces: dict[int, array[int]] = field(default_factory=dict)
    heads: dict[int, tuple[int, ...]] = field(default_factory=dict)
    exact: array[int] = field(default_factory=lambda: array("Q"))
    count: int = 0

    def holds(self, digest: int) -> bool:
        """Whether a digest is one of these."""
        place = bisect_left(self.exact, digest)
        return place < len(self.exact) and self.exact[place] == digest


def _hash(piece: bytes) -> int:
    return hash((piece,))  # as iter_unpack gives them


class Keyed:
    """Makes digests that mean nothing without the key (any length) and outside of this process."""

    def __init__(self, key: bytes) -> None:
        self._key = blake2b(b"known values", key=key[:64]).digest()
        self._table = bytes(SystemRandom().sample(range(256), 256))

    def veiled(self, raw: bytes) -> bytes:
        """The bytes that pieces and digests are made of, each in its place."""
        return raw.translate(self._table)

    def digest(self, veiled: bytes) -> int:
        """64 bits of a keyed digest."""
        return int.from_bytes(blake2b(veiled, digest_size=8, key=self._key).digest(), "big")

    def digests(self, values: Iterable[Value]) -> Digests:
        """All that is kept of these values; values of less than six bytes are passed over.

        One for which no text would be turned is known backwards and in ROT13 as well, as a whole.
        """
        pieces: dict[int, set[int]] = {}
        exact: set[int] = set()
        heads: dict[int, set[int]] = {}
        values = tuple(values)
        unique = {value.text.encode("utf-8", "surrogatepass"): value.common for value in values}
        unique = {raw: common for raw, common in unique.items() if piece_size(len(raw))}
        whole = {raw: len(raw) for value in values for raw in _turned(value.text)}
        for raw, common in (whole | unique).items():
            size = piece_size(len(raw))
            self._add(raw, common, size, pieces.setdefault(size, set()), exact)
            heads.setdefault(_hash(self.veiled(raw[:size])), set()).add(len(raw))
        return Digests(
            {size: array("q", hashes) for size, hashes in pieces.items()},
            {head: tuple(sorted(lengths)) for head, lengths in heads.items()},
            array("Q", sorted(exact)),
            len(unique),
        )

    def _add(self, raw: bytes, common: int, size: int, pieces: set[int], exact: set[int]) -> None:
        veiled = self.veiled(raw)
        exact.add(self.digest(veiled))
        pieces.update(_hash(veiled[offset : offset + size]) for offset in range(STRIDE))
        plain = EVERYDAY.sub(lambda found: bytes(len(found[0])), raw)
        for start, end in _long_parts(len(raw), common):
            telling = (offset for offset in range(start, end - PART + 1) if _telling(plain[offset : offset + PART]))
            exact.update(self.digest(veiled[offset : offset + PART]) for offset in telling)
            cut = (offset for offset in range(start, end - size + 1) if (offset - start) % (2 * STRIDE) < STRIDE)
            pieces.update(_hash(veiled[offset : offset + size]) for offset in cut)


def _turned(text: str) -> Iterator[bytes]:
    """A value of eight characters and more as it would be missed: turned, in a text that is not turned for it."""
    for form in both_turned(View("raw", text)) if len(text) >= SHORTEST_TURNED else ():
        if not may_be_turned(View("raw", form.text)):
            yield form.text.encode("utf-8", "surrogatepass")


def piece_size(length: int) -> int:
    """Bytes of the pieces of a value of this many bytes; 0 when it is too short."""
    return next((size for shortest, size in PIECES if length >= shortest), 0)


def _long_parts(length: int, common: int) -> Iterator[Span]:
    """Where a value is cut into parts (half open)."""
    if length < LONG:
        return
    if length - common <= 2 * EDGE:
        yield common, length
    else:
        yield from ((common, common + EDGE), (length - EDGE, length))


def _telling(part: bytes) -> bool:
    """Half of it, and five different bytes, are not of every day."""
    return part.count(0) <= PART // 2 and len(set(part) - {0}) >= 5


class Index:
    """All sources together, ready to search."""

    def __init__(self, keyed: Keyed, sources: Iterable[Digests]) -> None:
        self._keyed = keyed
        self._sources = tuple(sources)
        pieces: dict[int, set[int]] = {}
        self._heads: dict[int, tuple[int, ...]] = {}
        for source in self._sources:
            for size, hashes in source.pieces.items():
                pieces.setdefault(size, set()).update(hashes)
            for head, lengths in source.heads.items():
                self._heads[head] = tuple(sorted({*self._heads.get(head, ()), *lengths}))
        self._pieces = {size: frozenset(hashes) for size, hashes in pieces.items()}  # a copy is half as large
        self._all = Digests(exact=array("Q", sorted({digest for source in self._sources for digest in source.exact})))

    def find(self, raw: bytes, deadline: float) -> list[tuple[int, Span]]:
        """(number of the source, byte span) of every value and part; overlapping ones of a source are one.

        Raises:
            Overrun: `deadline` (time.monotonic seconds) passed.
        """
        veiled = self._keyed.veiled(raw)
        padded = veiled + bytes(8 + -len(veiled) % 8)
        found: list[tuple[int, Span]] = []
        for size, pieces in self._pieces.items():
            for layout, first in CUTS[size]:
                data = padded[first : len(padded) - first]
                if not pieces.isdisjoint(map(hash, layout.iter_unpack(data))):
                    found += self._near(veiled, size, self._hits(pieces, layout, first, data), deadline)
        return merged(found) if found else found

    @staticmethod
    def _hits(pieces: frozenset[int], layout: Struct, first: int, data: bytes) -> Iterator[int]:
        hashes = map(hash, layout.iter_unpack(data))
        return (first + layout.size * number for number, known in enumerate(map(pieces.__contains__, hashes)) if known)

    def _near(self, veiled: bytes, size: int, hits: Iterable[int], deadline: float) -> Iterator[tuple[int, Span]]:
        tried = -1
        for hit in hits:
            if monotonic() > deadline:
                raise Overrun("known-value")
            for start in range(max(0, hit - STRIDE + 1), hit + 1):
                yield from self._whole(veiled, size, start)
            if size < 8:
                continue
            for start in range(max(tried + 1, hit + 8 - PART), min(hit, len(veiled) - PART) + 1):
                yield from self._same(veiled, start, start + PART)
                tried = start

    def _whole(self, veiled: bytes, size: int, start: int) -> Iterator[tuple[int, Span]]:
        for length in self._heads.get(_hash(veiled[start : start + size]), ()):
            if start + length <= len(veiled):
                yield from self._same(veiled, start, start + length)

    def _same(self, veiled: bytes, start: int, end: int) -> Iterator[tuple[int, Span]]:
        digest = self._keyed.digest(veiled[start:end])
        if self._all.holds(digest):
            yield next(n for n, source in enumerate(self._sources) if source.holds(digest)), (start, end)


def merged(found: Iterable[tuple[int, Span]]) -> list[tuple[int, Span]]:
    """Overlapping spans of one source joined, in text order."""
    joined: list[tuple[int, Span]] = []
    for source, (start, end) in sorted(found):
        last, (begun, ended) = joined[-1] if joined else (-1, (0, 0))
        if last == source and start < ended:
            joined[-1] = source, (begun, max(end, ended))
        else:
            joined.append((source, (start, end)))
    return sorted(joined, key=lambda one: one[1])
