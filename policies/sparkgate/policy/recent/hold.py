"""What goes on being refused once a secret in pieces was stopped: its pieces once more, and what may be its end."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from sparkgate.policy.finding import Named
from sparkgate.policy.recent.pieces import Piece, kind_of, looks_cased, looks_named, pieces_of, placed_in
from sparkgate.policy.recent.plain import plain

SHARED_CHARS = 6
"""What a piece and one that was held back have in common when it is the same once more, a little shorter or longer."""
LEAST_CHARS = 3
"""Shorter words are not told from ordinary ones."""
REST_CHARS = 3
"""By so much a piece may be longer than those before it."""
CODE_CHARS = 5
"""Words of digits with letters of one case are names up to this length: of a number format, of a chip."""
HEX = re.compile("[0-9a-f]+|[0-9A-F]+")
ALPHABETS = (HEX, *map(re.compile, ("[a-z0-9]+", "[A-Z0-9]+", "[A-Za-z0-9]+", "[A-Za-z0-9_-]+", "[A-Za-z0-9_+/=.~-]+")))
"""The narrowest that has all characters of a secret tells what the rest of it is made of."""
MIXED = 3
"""From here on they have letters of both cases."""
SURE_CHARS = 12
"""In fewer characters of a key one of the cases may be absent by chance."""

_NAMED = re.compile("0x[0-9a-f]+|[0-9a-f]{32,}", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z0-9_+/=-]{3,}")


@dataclass(frozen=True, slots=True)
class Held:
    """A piece that was held back.

    Attributes:
        rule: what it was a part of.
        pieces: of the text that was stopped.
        alphabet: what the others of the secret are made of; None when nothing follows it.
        lengths: how long its pieces were, in characters.
    """

    at_s: float
    rule: Named
    pieces: tuple[Piece, ...] = field(repr=False)
    alphabet: re.Pattern[str] | None = None
    lengths: frozenset[int] = frozenset()


def held(at_s: float, rule: Named, mine: tuple[Piece, ...], parts: Sequence[Piece]) -> Held:
    """What is held back.

    Args:
        at_s: when.
        rule: what was found.
        mine: the pieces of the last text.
        parts: all pieces it was put together from, in their order.
    """
    if rule.cls != "secret" or all(piece.kind in ("ordinary", "digits") for piece in mine):
        return Held(at_s, rule, mine)
    rest = "".join(piece.text for piece in parts[1:])
    told = ALPHABETS if len(rest) >= SURE_CHARS or HEX.fullmatch(rest) else ALPHABETS[MIXED:]
    alphabet = next((one for one in told if one.fullmatch(rest)), None)
    return Held(at_s, rule, mine, alphabet, frozenset(len(piece.text) for piece in parts))


def refused(holding: Iterable[Held], sent: str) -> tuple[Held, bool] | None:
    """What of a text was held back before, or may go on with what was; None when nothing.

    Returns:
        The pieces with their rule, and whether they are new and to be held as well.
    """
    holding = tuple(holding)
    words = list(_words(sent)) if holding else []
    for one in holding:
        again = tuple(word for word in words if _again(one, word.text))
        mine = again or tuple(word for word in words if _goes_on(one, word))
        if mine:
            return replace(one, pieces=mine), not again
    return None


def _words(sent: str) -> Iterator[Piece]:
    view = plain(sent)
    odd = list(pieces_of(view.text))
    taken = {(piece.start, piece.end) for piece in odd}
    yield from (placed_in(view, piece) for piece in odd)
    for word in _WORD.finditer(view.text):
        if word.span() not in taken:
            yield Piece(word[0], *view.span(*word.span()), "ordinary")


def _again(one: Held, word: str) -> bool:
    return any(_alike(word, form, piece.kind) for piece in one.pieces for form in (piece.text, piece.text[::-1]))


def _alike(word: str, form: str, kind: str) -> bool:
    if len(word) >= SHARED_CHARS and len(form) >= SHARED_CHARS:
        return any(form[at : at + SHARED_CHARS] in word for at in range(len(form) - SHARED_CHARS + 1))
    if len(word) > LEAST_CHARS or not (word.islower() or word.isdigit()):
        return word == form or (kind == "random" and word in form)
    return word == form


def _goes_on(one: Held, word: Piece) -> bool:
    """Whether it may be the next piece of it."""
    text = word.text
    if one.alphabet is None or not LEAST_CHARS <= len(text) <= max(one.lengths) + REST_CHARS:
        return False
    if not one.alphabet.fullmatch(text) or _NAMED.fullmatch(text):
        return False
    # A short word may read as an encoding by chance.
    odd = word.kind == "random" and (kind_of(text) == "random" or len(word.code) >= SHARED_CHARS)
    if one.alphabet is HEX:
        return odd or (len(text) in one.lengths and kind_of(text) == "ordinary" and text.isalnum())
    code = len(text) <= CODE_CHARS and (text.islower() or text.isupper())
    return looks_cased(text) or (odd and not code and not looks_named(text))
