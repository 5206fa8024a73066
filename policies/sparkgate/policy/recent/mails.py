"""Two halves of an address of a person, said one after the other: `name@` and where it is, in either order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain, product

from sparkgate.policy.checking.wording import words
from sparkgate.policy.recent.pieces import Piece
from sparkgate.policy.recent.plain import plain

MAX_HALVES = 3
"""Looked at of one text."""
TOP_LEVELS = words(
    """ai app at au be biz br ca ch cn cloud co com cz de dev dk edu es eu fi fr gov gr hu ie in info int io it jp kr
    lu me mil mx net nl no nz online org pl pro pt ro ru se sg shop sk tech tr ua uk us xyz za"""
)
"""What a host may end with for its name to be half of an address; names of files and of code end with others."""

_HALF = re.compile(
    r"(?<![\w.@/:-])(?:[A-Za-z0-9][\w.+-]{0,63}@(?![\w\[])|@?[A-Za-z0-9][\w-]{0,62}(?:\.[\w-]{1,63}){1,6})(?![\w@/:-])"
)


def halves(sent: str) -> tuple[Piece, ...]:
    """The words of a text that may be a half, the last `MAX_HALVES`; spans are those of the text."""
    if "." not in sent and "@" not in sent:
        return ()
    view = plain(sent)
    found = (Piece(half[0], *view.span(*half.span()), "random") for half in _HALF.finditer(view.text))
    return tuple(piece for piece in found if any(map(str.isalpha, piece.text)))[-MAX_HALVES:]


def addresses(before: Sequence[Sequence[Piece]], newest: Sequence[Piece]) -> Iterator[tuple[str, Piece]]:
    """What halves of earlier texts make with one of the newest: the address, and that half."""
    for mine, other in product(newest, chain.from_iterable(before)):
        for first, second in ((mine, other), (other, mine)):
            if _fit(first.text, second.text):
                yield first.text + second.text, mine


def _fit(name: str, host: str) -> bool:
    joined = name.endswith("@") != host.startswith("@")
    return joined and not name.startswith("@") and host.rpartition(".")[2].lower() in TOP_LEVELS
