"""The ways in which pieces of several texts are put together, a bounded number of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise

from sparkgate.policy.forms.unwrap import unwrapped
from sparkgate.policy.forms.view import Mirror, View
from sparkgate.policy.recent.pieces import Cut, Piece, as_read

RUN = 6
"""Most pieces that are put together in every way."""
LONG_RUN = 12
"""Most pieces that are put together when each is the only odd one of its text."""
STEADY = 3
"""So many texts with one odd piece each may be parts of one thing, whatever their pieces look like."""
SHORT_CHARS = 8
"""A longer word that looks ordinary is."""
REST_CHARS = 2
"""By so much the last of several pieces may be longer."""
LEAD = re.compile("[A-Za-z]{2,12}[_-]")
"""How a key begins."""
HEX = re.compile("[0-9a-f]+")
DIGEST = re.compile("[0-9a-f]{32,}", re.IGNORECASE)
SECRET = re.compile(
    "(?:token|secret|password|passwd|passphrase|credential|api[_-]?key|_key|passwort|kennwort|schlussel|passe"
    "|contrasena|senha|пароль|ключ|密码|パスワード)$",
    re.IGNORECASE,
)
"""In a word right before a piece: it is one of something that is kept."""
ENCODED_CHARS = 16
"""Fewer of them together are not looked into for an encoding."""
NUMBERS = as_read(
    """account amex bank card cards cc cell credit cvv debit dial digits iban insurance mastercard mobile number numbers
    pan passport payment phone security social ssn tax tel telephone visa whatsapp karte kartennummer konto
    kontonummer nummer telefon telefonnummer handy ausweis steuernummer carte compte numéro téléphone passeport sécu
    tarjeta cuenta número teléfono pasaporte carta conto numero telefono passaporto cartão conta telefone
    карта карты карте номер счёт счет счёта телефон телефона паспорт паспорта 卡号 银行卡 账号 电话 手机 身份证
    口座 電話 番号 カード"""
)
"""Beside one of these words, digits may be part of a number that is somebody's."""


@dataclass(frozen=True, slots=True)
class Part:
    """A piece with the text it comes from; `place` counts the texts of the window, the oldest is 0."""

    piece: Piece
    place: int
    cut: Cut


@dataclass(frozen=True, slots=True)
class Form:
    """Parts put together, to be judged.

    Attributes:
        view: what is judged, made from the parts as they stand one after another.
        spans: for each part, where it stands in that, half open.
        named: the words beside the parts stand before them.
    """

    view: View = field(repr=False)
    parts: tuple[Part, ...]
    spans: tuple[tuple[int, int], ...]
    named: bool = False

    def within(self, start: int, end: int) -> list[Part]:
        """The parts that a span of the view touches."""
        start, end = self.view.span(start, end)
        return [
            part for part, (begin, stop) in zip(self.parts, self.spans, strict=True) if begin < end and start < stop
        ]

    def around(self, start: int, end: int) -> str:
        """The parts that a span touches, whole, without the others; of a decoded form, the span."""
        if self.view.of is not None:
            return self.view.text[start:end]
        touched = [(begin, stop) for begin, stop in self.spans if begin < end and start < stop]
        return self.view.text[touched[0][0] : touched[-1][1]]


def forms(cuts: Sequence[Cut]) -> Iterator[Form]:
    """What is worth judging of these texts (the oldest first) with a piece of the last; likely forms come first."""
    seen: set[tuple[tuple[int, int], ...]] = set()
    for parts in _chains(cuts):
        key = tuple((part.place, part.piece.start) for part in parts)
        if key not in seen and (likely(parts) or steady(parts)):
            seen.add(key)
            yield from _ways(parts)


def likely(parts: Sequence[Part]) -> bool:
    """Whether these may be pieces of one thing, of several texts, rather than words that each stand for themselves."""
    if len({part.place for part in parts}) < 2 or len({part.piece.text for part in parts}) < len(parts):
        return False
    kinds = [part.piece.kind for part in parts]
    if told(parts) or _secret(parts):
        return True
    if set(kinds) == {"digits"}:
        return _numbers(parts)
    return kinds[0] == "random" or (_alike(parts) and any(kind != "ordinary" for kind in kinds))


def steady(parts: Sequence[Part]) -> bool:
    """Whether each of these is the only odd piece of its text; then they may belong together, however short."""
    texts = {part.place for part in parts}
    if not STEADY <= len(texts) == len(parts) or not all(part.cut.clear is part.piece for part in parts):
        return False
    pieces = [part.piece for part in parts]
    *sizes, rest = (len(piece.text) for piece in pieces)
    odd = sum(piece.kind == "random" for piece in pieces)
    if max(sizes) > 2 * min(sizes) or rest > max(sizes) + REST_CHARS:
        return False
    if len(set(sizes)) == 1 and (odd or LEAD.match(pieces[0].text)) and all(map(_short, pieces[1:])):
        return True
    return 2 * odd >= len(pieces) and not any(map(_complete, pieces[1:]))


def _short(piece: Piece) -> bool:
    return not _complete(piece) or (bool(HEX.fullmatch(piece.text)) and not DIGEST.fullmatch(piece.text))


def _complete(piece: Piece) -> bool:
    """Whether it rather stands for itself: a version, a hash, the name of a model."""
    shaped = piece.kind != "random" and (len(piece.text) > SHORT_CHARS or not piece.text.isalnum())
    return shaped or bool(DIGEST.fullmatch(piece.text))


def firm(parts: Sequence[Part]) -> bool:
    """Whether none of them is complete in itself, but for what stands behind an `@`."""
    whole = any(part.piece.kind == "ordinary" for part in parts)
    return not whole or told(parts) or _alike(parts) or parts[0].piece.text.endswith("@")


def _numbers(parts: Sequence[Part]) -> bool:
    """Digits beside a word for numbers of persons, alone in their texts, or with a sign where they were cut."""
    beside = {word.lower() for part in parts for word in (*part.cut.before, *part.cut.after)}
    signed = any(part.piece.text[0] in "+-" or part.piece.text[-1] == "-" for part in parts)
    bare = all(word.endswith("?") for word in beside) and all(len(part.cut.pieces) == 1 for part in parts)
    return signed or bare or not NUMBERS.isdisjoint(beside)


def told(parts: Sequence[Part]) -> bool:
    """Two of the texts tell of pieces, and no more than one does not."""
    silent = {part.place for part in parts if not part.cut.telling}
    telling = {part.place for part in parts} - silent
    return len(telling) > 1 and len(silent) < 2


def _alike(parts: Sequence[Part]) -> bool:
    """The pieces stand beside the same word."""
    before, after = {part.cut.before[-1:] for part in parts}, {part.cut.after[:1] for part in parts}
    return any(len(beside) == 1 and beside != {()} for beside in (before, after))


def _secret(parts: Sequence[Part]) -> bool:
    """All stand right after the same word for something that is kept."""
    before = {part.cut.before[-1:] for part in parts}
    return len(before) == 1 and all(word and SECRET.search(word[0]) for word in before)


def _chains(cuts: Sequence[Cut]) -> Iterator[Sequence[Part]]:
    texts = [[Part(piece, place, cut) for piece in cut.pieces] for place, cut in enumerate(cuts)]
    oddest = [max(parts, key=_rank) for parts in texts]
    clear = [part for parts in texts for part in parts if part.cut.clear is part.piece]
    every = [part for parts in texts for part in parts]
    yield from _runs([part for part in oddest if part.piece.kind == "random"], len(cuts))
    yield from _runs(clear, len(cuts), LONG_RUN)
    yield from _runs(oddest, len(cuts))
    yield from _runs([part for part in every if part.piece.kind == "digits"], len(cuts))
    yield sorted((part for part in oddest if part.cut.number is not None), key=lambda part: part.cut.number or 0)
    yield from (oddest[-size:][::-1] for size in (2, 3, 4))
    yield from _runs([part for part in every if part.piece.kind in ("random", "weak")], len(cuts))
    yield from ((before, part) for before in texts[-2] for part in texts[-1])
    yield from ((part, oddest[-1]) for part in reversed(oddest[:-2]))


def _rank(part: Part) -> tuple[bool, bool, int]:
    return part.piece.rank


def _runs(parts: Sequence[Part], texts: int, most: int = RUN) -> Iterator[Sequence[Part]]:
    """Neighbours, two to `most` of them, that end in the last text."""
    if parts and parts[-1].place == texts - 1:
        yield from (parts[-size:] for size in range(2, min(most, len(parts)) + 1))


def _ways(parts: Sequence[Part]) -> Iterator[Form]:
    given = [part.piece.text for part in parts]
    inner = [part.piece.code or part.piece.text for part in parts]
    bare = _form(given, parts)
    yield bare
    if len(parts) <= RUN:
        yield from _named(given, inner, parts)
    if inner != given:
        yield _form(inner, parts)
    if len(bare.view.text) >= ENCODED_CHARS:
        yield from (replace(bare, view=view) for view in (unwrapped(bare.view),) if view)
        yield from _backwards(bare, parts)


def _named(given: Sequence[str], inner: Sequence[str], parts: Sequence[Part]) -> Iterator[Form]:
    name = _name(parts)
    if name:
        yield _form(given, parts, f"{name}: ")
        if inner != given:
            yield _form(inner, parts, f"{name}: ")


def _backwards(bare: Form, parts: Sequence[Part]) -> Iterator[Form]:
    """Each piece read from its end, and all of it."""
    kinds = {part.piece.kind for part in parts}
    if kinds == {"random"} or ("digits" not in kinds and steady(parts)):
        yield _form([part.piece.text[::-1] for part in parts], parts)
        if len(parts) <= RUN:
            yield replace(bare, view=Mirror("reversed", bare.view.text[::-1], bare.view))


def _form(texts: Sequence[str], parts: Sequence[Part], name: str = "") -> Form:
    ends = list(accumulate(map(len, texts), initial=len(name)))
    return Form(View("joined", name + "".join(texts)), tuple(parts), tuple(pairwise(ends)), bool(name))


def _name(parts: Sequence[Part]) -> str:
    """The words beside the pieces, where what they name may be told with them."""
    kinds = {part.piece.kind for part in parts}
    kept = _kept(parts) if "random" in kinds and told(parts) else ""
    tells = told(parts) and not kinds.isdisjoint({"random", "digits"}) and not any(map(_named_word, parts))
    if not (kept or tells or _secret(parts) or (_alike(parts) and "ordinary" not in kinds)):
        return ""
    cuts = [part.cut for part in parts]
    return kept or " ".join([*_once(cut.after for cut in cuts), *_once(cut.before for cut in cuts)])


def _kept(parts: Sequence[Part]) -> str:
    """The word for something that is kept, right before the first of them."""
    return next((word for word in parts[0].cut.before[-1:] if SECRET.search(word)), "")


def _named_word(part: Part) -> bool:
    return part.piece.kind == "ordinary" and _complete(part.piece)


def _once(groups: Iterable[Sequence[str]]) -> list[str]:
    return list(dict.fromkeys(word for group in groups for word in group))
