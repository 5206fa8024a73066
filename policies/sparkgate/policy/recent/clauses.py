"""Pieces within one text that says so: its clauses are looked at as if each had left by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from sparkgate.policy.finding import Finding
from sparkgate.policy.recent.joint import Find, first_finding
from sparkgate.policy.recent.pieces import TELLING, Cut, cut

MAX_CLAUSES = 12
TOLD = (*TELLING, "prefix", "suffix", "start", "end")
_TOLD = frozenset(TOLD)
_LETTERS = str.maketrans({chr(code): " " for code in range(128) if not chr(code).isalpha()})
_NAMES = re.compile(r"""(?<!\w)[A-Za-z_]\w{0,30}\s{0,2}:?=\s{0,2}["'`][A-Za-z0-9_+/=-]{4,}["'`]""")
"""A text with a name for each piece says that there are several, too."""
_CLAUSE = re.compile(
    rf"(?:(?!(?<=\w)[;,]\s|[;\n]|(?<=\S)\s+(?:{'|'.join(sorted(TOLD, key=len, reverse=True))})(?!\w))[\s\S])+",
    re.IGNORECASE,
)
_PIECE = re.compile(r"[A-Za-z0-9_+/=-]{6,}")
"""Fewer characters of a key than these are looked for in other forms."""


class Clauses:
    """Finds what was cut up within one text.

    Args:
        find: what looks at the pieces put together.
    """

    def __init__(self, find: Find) -> None:
        self._look = find

    def find(self, text: str, deadline: float) -> list[Finding]:
        """The pieces of what the clauses of a text hold together. Raises Overrun."""
        told = list(_cuts(text)) if _is_told(text) else []
        for last in range(1, len(told)):
            found = first_finding(told[:last], told[last], self._look, deadline)
            if found:
                rule, _, parts = found
                return [Finding(rule, part.piece.start, part.piece.end) for part in parts]
        return []


def _is_told(text: str) -> bool:
    told = not _TOLD.isdisjoint(text.lower().translate(_LETTERS).split())
    return (told or _names_pieces(text)) and len(_PIECE.findall(text)) > 1


def _names_pieces(text: str) -> bool:
    return "=" in text and sum(map(text.count, "\"'`")) > 3 and len(_NAMES.findall(text)) > 1


def _cuts(text: str) -> Iterator[Cut]:
    """What each clause gives; an address is whole, or no concern of a clause."""
    found = [clause for clause in _CLAUSE.finditer(text) if _PIECE.search(clause[0])]
    for clause in found if len(found) <= MAX_CLAUSES else ():
        kept, at = cut(clause[0]), clause.start()
        if kept is not None and (pieces := [piece for piece in kept.pieces if "@" not in piece.text]):
            moved = {piece: replace(piece, start=at + piece.start, end=at + piece.end) for piece in pieces}
            yield replace(kept, pieces=tuple(moved.values()), clear=moved.get(kept.clear) if kept.clear else None)
