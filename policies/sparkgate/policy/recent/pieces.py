"""What of a text may be a piece of something that was cut up: the words that are no ordinary words."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from sparkgate.policy.checking.wording import slug, words
from sparkgate.policy.forms.view import View
from sparkgate.policy.recent.plain import plain


def as_read(text: str) -> frozenset[str]:
    """Words as they stand in the form in which pieces are looked for."""
    return words(plain(text).text)


Kind = Literal["random", "digits", "ordinary", "weak"]
"""Of no pattern; a number; complete in itself (a version, a hash, a name); letters, or the mere start of a token."""

MAX_PIECES = 4
"""Kept of one text, the oddest ones."""
END_CHARS = 512
"""Of a very long word, its two ends."""
MAX_WORDS = 3
SHORT = 20
"""Words of a text that can tell of pieces; a longer one holds such words anyway."""
MIN_BYTES = 4
"""Fewer are not looked for in an encoding."""
TELLING = as_read(
    """1st 2nd 3rd append beginning begins chunk chunks combine concat concatenate continued continues continuing
    digits ending ends first followed fragment fourth half halves last next part parts
    piece pieces portion remainder remaining remember rest second segment starting starts then
    third anfang beginnt dann endet ende erste ersten erster fängt fortsetzung hälfte schließlich teil weiter
    zuerst zuletzt zweite zweiten zweiter début commence continue deuxième enfin ensuite fin finit moitié partie
    première puis reste suite termine comienza continúa empieza luego mitad parte primera segunda sigue termina
    comincia continua finisce inizia poi seconda começa depois metade primeira
    дальше далее ещё конец кончается начало начинается остаток первая половина потом продолжение часть вторая
    заканчивается 开头 结尾 前半 后半 最初 最後 続き"""
)
"""Words that tell of pieces."""
LINKS = words(
    """a an and are as at auf avec con de der die et for from has in is ist it its la le mit of on or par so that the
    this to und with y на с и"""
)
NO_NAMES = TELLING | LINKS
ORDINALS = {"first": 1, "1st": 1, "second": 2, "2nd": 2, "third": 3, "3rd": 3, "fourth": 4}
ALPHABETS = ((re.compile(r"[-+\d]+"), 3.32), (re.compile(r"[0-9a-fA-F]+"), 4.0), (re.compile(r"[a-z]+|[A-Z]+"), 4.7))
MIXED_BITS = 5.95
COUNT_CHARS = 4
"""Shorter numbers are counts, years and codes of errors when something longer stands in the same text."""
LABEL_CHARS = 8
"""Shorter labels of a host are names."""

_WORD = re.compile(r"""[^\s"'`<>()\[\]{},;|]+""")
_ODD = re.compile(r"[\d_!#$%&*+?@^~=]|[a-z][A-Z]|[A-Z]{5}|[^\W\d_]-$|[bcdfghjklmnpqrstvwxz]{5}")
_URL = re.compile(r"(?:[a-z][a-z0-9+.-]{1,9}:)?//|www\.|(?=[~.]{0,2}/[a-z.])", re.IGNORECASE)
_URL_PART = re.compile(r"[^/?&#=\\]+")
_HOST = re.compile(r"[\w-]+(?:\.[\w-]+)+(?::\d+)?")
_HOST_PART = re.compile(r"[^.@:]+")
_NAME = re.compile(r"-{0,2}[A-Za-z_][\w.-]{0,40}(?:=|:(?!//))(?=[^=\s])")
_PLAIN = re.compile(r"[\w-]{4,64}")
_WHOLE = re.compile(r"[\w+/=-]+")
_NAMING = re.compile(r"[A-Za-z]+(?:[_-][A-Za-z]+)*")
_DIGITS = re.compile(r"[-+]?\d[\d-]+")
_START = re.compile(r"(?:[a-z]{2,12}|[A-Z]{2,12})[_-]")
_BEGUN = re.compile(r"(?:AKIA|ASIA)[A-Z2-7]{3,}")
"""What a key begins with that looks like no key by itself."""
_NUMBER = re.compile(
    r"(?:part|piece|chunk|half|teil|segment|fragment)\s{0,2}#?(\d{1,2})\b"
    r"|(?<![\w/.-])(\d{1,2})(?:/| of )\d{1,2}(?![\w/.-])|^\W?([A-H1-9])[:.)]\s",
    re.IGNORECASE,
)
_DATE = re.compile(r"(?:19|20)\d\d(?:-(?:0\d|1[0-2])(?:-[0-3]\d)?)?")
_HASH = re.compile(r"(?:[a-z0-9]+:)?[0-9a-f-]{32,}", re.IGNORECASE)
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
CAMEL_CHARS = 3.3
"""Mean length from which the humps of a word are words."""
NAME_CHARS = 11
"""Shorter words with a number among them may have such humps by chance."""
NAME_HUMP, MEAN_HUMP = 2.8, 1.6
"""Longer humps are words, even beside numbers; shorter ones are none."""
_ORDINARY = re.compile(
    r"(?:19|20)\d\d-\d\d(?:-\d\d(?:T[\d:.]+(?:Z|[+-][\d:]+)?)?)?|v?\d+(?:[.:_]\d+)+(?:[-+.]?[a-z]{1,8}\d{0,4}){0,4}(?::\d+)?"
    r"|(?:[a-z]+\d*[:-])?(?:[0-9a-f]{6,12}|[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{56}|[0-9a-f]{64}|[0-9a-f]{128})"
    r"|[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"
    r"|[~<>=$€£#]{0,3}\d[\d.,]*[%a-z]{0,3}(?:/[a-z]{1,4})?"
    r"|(?-i:[a-z]{1,14}|[A-Z][a-z]{1,13}|[A-Z]{1,10})[-_=/]{0,2}\d{1,4}[a-z]{0,2}"
    r"|(?:\$\{?|\*{1,2})[a-z_]+|[a-z_]+="
    r"|[\w.+-]+@[\w-]+(?:[\w.:/#~$-]*)|@[\w-]+(?:/[\w.-]*)*"
    r"|(?-i:[a-z_.-]{3,}\(?|[A-Z_]{3,}|[A-Z]?[a-z]+(?:[-/=][A-Z]?[a-z]+)+)|[\W_]+"
    r"|[@#]?[\w-]+(?:/[\w.-]+)*(?:@|[=<>~]=)[v^~]?\d[\w.]*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Piece:
    """A word that may be part of something, and where it stands in the text (str indices, half open)."""

    text: str = field(repr=False)
    start: int
    end: int
    kind: Kind
    code: str = field(default="", repr=False)
    """What it reads as when an encoding is taken off; "" when it has none."""

    @property
    def rank(self) -> tuple[bool, bool, int]:
        """The greater, the odder."""
        return self.kind == "random", self.kind != "ordinary", len(self.text)

    @property
    def bits(self) -> float:
        """What it can hold at most, in bits, by the characters it is made of."""
        each = next((bits for alphabet, bits in ALPHABETS if alphabet.fullmatch(self.text)), MIXED_BITS)
        return each * len(self.text) if self.kind == "random" or _HASH.fullmatch(self.text) else 0.0


@dataclass(frozen=True, slots=True)
class Cut:
    """What is kept of one text.

    Attributes:
        pieces: in text order.
        before: the ordinary words before the oddest piece, the last `MAX_WORDS`, without those of `TELLING`.
        after: the first of them after it.
        telling: it says that it is a part of something.
        number: which part; None when it does not say.
        clear: the one piece that is no ordinary word, or the only one; None when there are several.
    """

    pieces: tuple[Piece, ...]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    telling: bool = False
    number: int | None = None
    clear: Piece | None = None


def bits(text: str) -> float:
    """An estimate of how much of the text is no language, in bits: random words and hashes at their full alphabet."""
    return sum(piece.bits for piece in pieces_of(plain(text).text))


def cut(text: str) -> Cut | None:
    """What a text gives to a joined one; None when it has nothing but ordinary words."""
    view = plain(text)
    told = _NUMBER.search(view.text)
    found = [piece for piece in pieces_of(view.text) if not (told and told.start() <= piece.start < told.end())]
    if not found and view.text.count(" ") >= SHORT:
        return None
    said = [(word.start(), _bare(word[0])) for word in _WORD.finditer(view.text)]
    telling = len(said) <= SHORT and (bool(told) or any(word.lower() in TELLING for _, word in said))
    if not found and (telling or len(said) <= 2):
        found = _longest(view.text)
    if not found:
        return None
    kept = sorted(sorted(found, key=lambda piece: piece.rank)[-MAX_PIECES:], key=lambda piece: piece.start)
    before, after = _beside(said, kept)
    placed = tuple(placed_in(view, piece) for piece in kept)
    return Cut(placed, before, after, telling, _number(told, said), _clear(placed))


def _clear(kept: Sequence[Piece]) -> Piece | None:
    long = [piece for piece in kept if not (piece.kind == "digits" and len(piece.text) <= COUNT_CHARS)] or kept
    odd = [piece for piece in long if piece.kind != "ordinary"] or long
    return odd[0] if len(odd) == 1 and _WHOLE.fullmatch(odd[0].text) else None


def _beside(said: Sequence[tuple[int, str]], kept: Sequence[Piece]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names before and after the oddest piece; a word may be a name as well as another piece."""
    lead = max(kept, key=lambda piece: piece.rank)
    taken = [piece for piece in kept if piece is lead or not _NAMING.fullmatch(piece.text)]
    names = [(at, word) for at, word in said if _is_name(word) and not any(p.start <= at < p.end for p in taken)]
    before = [word for at, word in names if at < lead.start]
    after = [word for at, word in names if at >= lead.end]
    return tuple(before[-MAX_WORDS:]), tuple(after[:MAX_WORDS])


def placed_in(view: View, piece: Piece) -> Piece:
    """The piece of a form of a text, with the span in the text as it was given."""
    code = decoded(piece.text)
    return Piece(piece.text, *view.span(piece.start, piece.end), "random" if code else piece.kind, code)


def decoded(word: str) -> str:
    """The visible ASCII characters that a whole word encodes in hex, base32 or base64, at least four; "" for none."""
    for pattern, decode in ENCODINGS:
        if pattern.fullmatch(word):
            try:
                data = decode(word.rstrip("="))
            except ValueError:
                continue
            if len(data) >= MIN_BYTES and data.isascii() and b" " not in data and data.decode().isprintable():
                return data.decode()
    return ""


def _from_base32(word: str) -> bytes:
    return base64.b32decode(word.upper() + "=" * (-len(word) % 8))


def _from_base64(word: str) -> bytes:
    return base64.b64decode(word.replace("-", "+").replace("_", "/") + "=" * (-len(word) % 4))


ENCODINGS: tuple[tuple[re.Pattern[str], Callable[[str], bytes]], ...] = (
    (re.compile(r"(?:[0-9a-fA-F]{2}){4,}"), bytes.fromhex),
    (re.compile(r"(?:[A-Z2-7]{7,}|[a-z2-7]{7,})=*"), _from_base32),
    (re.compile(r"[A-Za-z0-9+/_-]{6,}={0,2}"), _from_base64),
)


def _bare(word: str) -> str:
    """Without what stands at its edges; of an address, the host, with a `?` when nothing but parameters follows."""
    scheme = _URL.match(word) if "/" in word else None
    host = _URL_PART.search(word, scheme.end()) if scheme and scheme.end() else None
    if host is None:
        return word.strip(".:=?!")
    return host[0] + ("?" if word[host.end() : host.end() + 2].lstrip("/")[:1] == "?" else "")


def _is_name(word: str) -> bool:
    return len(word) > 1 and word.lower() not in NO_NAMES and not word[0].isdigit()


def _number(told: re.Match[str] | None, said: Sequence[tuple[int, str]]) -> int | None:
    if told:
        return int(told[1] or told[2] or told[3], 18)
    return next((ORDINALS[word.lower()] for _, word in said if word.lower() in ORDINALS), None)


def _longest(text: str) -> list[Piece]:
    """The longest word, when nothing else can be what is told of."""
    found = [word for word in _WORD.finditer(text) if _PLAIN.fullmatch(word[0]) and word[0].lower() not in TELLING]
    return [Piece(word[0], *word.span(), "weak") for word in sorted(found, key=lambda word: -len(word[0]))[:1]]


def pieces_of(text: str) -> Iterator[Piece]:
    """Every word of a text that may be a piece; spans are those of the text."""
    run: Piece | None = None
    for word in _WORD.finditer(text):
        for piece in _of_word(word[0], word.start()) if _ODD.search(word[0]) else ():
            if run and piece.kind == "digits" and run.kind == "digits" and piece.start == run.end + 1:
                run = Piece(run.text + piece.text, run.start, piece.end, "digits")
                continue
            if run:
                yield run
            run = piece
    if run:
        yield run


def _of_word(word: str, start: int) -> Iterator[Piece]:
    scheme = _URL.match(word)
    if scheme:
        yield from _of_url(word, start, scheme.end())
        return
    skipped = 0
    while name := _NAME.match(word, skipped):
        skipped = name.end()
    yield from _of_part(word[skipped:], start + skipped)


def _of_url(url: str, start: int, skipped: int) -> Iterator[Piece]:
    """The long labels and the user of its host, the segments of its path, its parameters and what follows."""
    parts = list(_URL_PART.finditer(url, skipped))
    for part in parts:
        host = skipped > 0 and part is parts[0]
        for word in _HOST_PART.finditer(part[0]) if host else (part,):
            if not host or len(word[0]) >= LABEL_CHARS:
                yield from _of_part(word[0], start + word.start() + (part.start() if host else 0))


def _of_part(word: str, start: int) -> Iterator[Piece]:
    bare = word.rstrip(".:?…")
    left = bare.lstrip(":") if bare[:2] != ".." else bare.lstrip(".")
    start += len(bare) - len(left)
    if len(left) > 2 * END_CHARS:
        yield Piece(left[:END_CHARS], start, start + END_CHARS, "random")
        start, left = start + len(left) - END_CHARS, left[-END_CHARS:]
    kind = kind_of(left)
    if kind and not (left.endswith("=") and len(left) < 8):
        yield Piece(left, start, start + len(left), kind)


def kind_of(word: str) -> Kind | None:
    """What kind of piece a word may be; None for an ordinary word of letters, or one too short to count."""
    if len(word) < 3 or not _ODD.search(word):
        return None
    if _DIGITS.fullmatch(word):
        return "ordinary" if _DATE.fullmatch(word) else "digits"
    if "example" in word.lower():
        return "ordinary"
    if _BEGUN.fullmatch(word):
        return "random"
    if _START.fullmatch(word) or (word.isalpha() and (word.isupper() or word.islower())):
        return "weak"
    return "ordinary" if len(word) <= 200 and all(map(_is_ordinary, re.split("[/_]", word))) else "random"


def looks_named(word: str) -> bool:
    """Words run together with a number among them, as classes of code are called."""
    humps = [hump for hump in _CAMEL.findall(word) if hump.isalpha()]
    return len(word) >= NAME_CHARS and sum(map(len, humps)) >= NAME_HUMP * len(humps)


def looks_cased(word: str) -> bool:
    """Letters whose case changes more often than in the name of anything: a piece that by itself looks ordinary."""
    return word.isalpha() and len(word) > 4 and len(word) < MEAN_HUMP * len(_CAMEL.findall(word))


def _is_ordinary(word: str) -> bool:
    if len(word) < 4 or (word.isalpha() and (word.islower() or word.isupper())):
        return True
    humps = _CAMEL.findall(word)
    camel = word.isalpha() and (len(word) < 6 or len(word) >= CAMEL_CHARS * len(humps))
    return camel or bool(_ORDINARY.fullmatch(word)) or slug(word) or _is_host(word)


def _is_host(word: str) -> bool:
    """Labels with dots between them, none of them of no pattern by itself."""
    return bool(_HOST.fullmatch(word)) and all(map(_is_label, re.split("[.:]", word)))


def _is_label(label: str) -> bool:
    humps = _CAMEL.findall(label)
    if label.isalpha() and len(label) >= CAMEL_CHARS * len(humps):
        return True
    return len(label) < NAME_CHARS or label.islower() or label.isupper() or not _ODD.search(label) or slug(label)
