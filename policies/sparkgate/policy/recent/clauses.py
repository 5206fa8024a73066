"""Pieces within one text that says so: its clauses are looked at as if each had left by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from sparkgate.policy.finding import Finding
from sparkgate.policy.forms.view import View
from sparkgate.policy.recent.assemble import told
from sparkgate.policy.recent.joint import Find, first_finding
from sparkgate.policy.recent.pieces import TELLING, Cut, Piece, cut

MAX_CLAUSES = 12
"""So many clauses with pieces are put together, those before the last one."""
MAX_CHARS = 300
"""A longer piece is a text of its own."""
FORMS, MOST_ENDS = 32, 8
"""Ways to put them together that are judged in all, and clauses that may be the last of them: who tell come first."""
TOLD = TELLING | {"prefix", "suffix", "start", "end"}
_UNSPACED = [word for word in TOLD if word[0] >= "\u2e80"]
"""Words of scripts without spaces between words."""
_NAMES = re.compile(r"""(?<!\w)[A-Za-z_]\w{0,30}["']?\s{0,2}(?::?=|:)\s{0,2}["'`][A-Za-z0-9_+/=-]{6,}["'`]""")
"""A text with a name for each piece says that there are several, too."""
_END = re.compile(r"[;\n，；、。]|(?<=[\w\"'`]),(?=\s)")
_NEXT = re.compile(r"\s(?<=\S\s)\s*(\w+)")
"""A blank behind a word, and the next word: one that tells of a piece begins a clause."""
_PIECE = re.compile(r"[A-Za-z0-9_+/=-]{6,}")
"""Fewer characters of a key than these are looked for in other forms."""


class Clauses:
    """Finds what was cut up within one text.

    Args:
        find: what looks at the pieces put together.
    """

    def __init__(self, find: Find) -> None:
        self._look = find

    def find(self, view: View, deadline: float) -> list[Finding]:
        """The pieces of what the clauses of a text hold together. Raises Overrun."""
        cuts = list(_cuts(view.text)) if _is_told(view) else []
        ends = sorted(range(1, len(cuts)), key=lambda last: not any(one.telling for one in cuts[last - 1 : last + 1]))
        ends = ends[:MOST_ENDS]
        most = FORMS // max(1, len(ends))
        for last in ends:
            before = cuts[max(0, last - MAX_CLAUSES) : last]
            found = first_finding(before, cuts[last], self._look, deadline, most)
            if found and (found[0].cls == "secret" or told(found[2])):
                return [Finding(found[0], part.piece.start, part.piece.end) for part in found[2]]
        return []


def _is_told(view: View) -> bool:
    text = view.text
    return not TOLD.isdisjoint(view.letters) or _tells_unspaced(text) or _names_pieces(text)


def _tells_unspaced(text: str) -> bool:
    return not text.isascii() and any(map(text.__contains__, _UNSPACED))


def _names_pieces(text: str) -> bool:
    return sum(map(text.count, "\"'`")) > 3 and len(_NAMES.findall(text)) > 1


def _cuts(text: str) -> Iterator[Cut]:
    """What each clause gives, but for pieces that are whole: mail addresses, numbers in web addresses, long ones."""
    clauses = [(at, clause) for at, clause in _clauses(text) if _PIECE.search(clause)]
    for at, clause in clauses if len(clauses) > 1 else ():
        kept = cut(clause)
        if kept is not None and (pieces := [piece for piece in kept.pieces if _may_be_cut(piece, clause)]):
            moved = {piece: replace(piece, start=at + piece.start, end=at + piece.end) for piece in pieces}
            yield replace(kept, pieces=tuple(moved.values()), clear=moved.get(kept.clear) if kept.clear else None)


def _clauses(text: str) -> Iterator[tuple[int, str]]:
    """Where each begins, and itself."""
    told = (match.start() for match in _NEXT.finditer(text) if match[1].lower() in TOLD)
    begun = 0
    for end in sorted({*(match.start() for match in _END.finditer(text)), *told, len(text)}):
        if end > begun:
            yield begun, text[begun:end]
        begun = end + 1


def _may_be_cut(piece: Piece, clause: str) -> bool:
    in_address = piece.kind == "digits" and "://" in clause
    return "@" not in piece.text and not in_address and len(piece.text) <= MAX_CHARS
