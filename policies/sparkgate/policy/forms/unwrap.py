"""Encodings of text within text, each as the edits that take it off where it stands."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Callable, Collection, Iterator, Mapping

from sparkgate.policy.forms.outline import in_a_row
from sparkgate.policy.forms.turns import is_named
from sparkgate.policy.forms.view import Edit, View, rewrite

Gate = Callable[[View], object]
Decode = Callable[[View], Iterator[Edit]]
MIN_BYTES = 6
"""Text that is shorter is not looked for. The patterns below say the same of what encodes it; they begin with the sign
that they are about, which is searched for faster than any group."""

_PERCENT = re.compile(r"%(?:25)*[0-9A-Fa-f]{2}(?:%(?:25)*[0-9A-Fa-f]{2})*")
_ONE_PERCENT = re.compile(r"%(?:25)*([0-9A-Fa-f]{2})")
_ENTITY = re.compile(r"&(?:#[0-9]{1,7};?|#[xX][0-9A-Fa-f]{1,6};?|[A-Za-z][A-Za-z0-9]{1,31};)")
_ESCAPE = re.compile(
    r"\\+u\{([0-9A-Fa-f]{1,6})\}|(?:\\+u?|%u|U\+u?)([0-9A-Fa-f]{4})(?![0-9A-Fa-f])|\\+u([0-9A-Fa-f]{4})"
    r"|\\+U([0-9A-Fa-f]{8})|\\+x([0-9A-Fa-f]{2})"
)
_OCTAL = re.compile(r"\\[0-3][0-7]{2}(?:\\[0-3][0-7]{2}){3,}")
_QUOTED = re.compile(r"=[0-9A-F]{2}(?:=[0-9A-F]{2}){3,}")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{16,}={0,2}")
_BASE64_PARTS = re.compile(r"[A-Za-z0-9+/]{16,}={0,2}|[A-Za-z0-9_-]{16,}={0,2}|[A-Za-z0-9]{16,}={0,2}")
_ASCII_FIRST = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdef")
"""Where a group of four begins, in the base64 of ASCII text: its first bit is 0."""
_BASE85 = re.compile(
    r"(?<!\S)(?=[0-9A-Za-z+_=-]{0,40}[!#$%&()*;<>?@^`{|}~])[0-9A-Za-z!#$%&()*+;<=>?@^_`{|}~-]{10,}(?!\S)"
)
_BASE32 = re.compile(r"(?<![A-Za-z0-9])(?:[A-Z2-7]{16,}|[a-z2-7]{16,})={0,6}(?![A-Za-z0-9=])")
_HEX = re.compile("[0-9A-Fa-f]{16,}")
_HEX_MARK = re.compile("(?<![0-9A-Fa-f])0[xX]")
_HEX_LIST = re.compile(
    r"(?<![0-9A-Za-z])(?:(?:0x)?[0-9A-Fa-f]{2}(?:[ :,;-]{1,2}(?:0x)?[0-9A-Fa-f]{2}){7,}|(?:0x[0-9A-Fa-f]{2}){8,})"
    r"(?![0-9A-Za-z])"
)
_DUMP = re.compile(
    r"(?<![0-9A-Za-z])[0-9A-Fa-f]{4}(?: {1,2}[0-9A-Fa-f]{4}){3,}(?: {1,2}[0-9A-Fa-f]{2})?(?![0-9A-Za-z])"
)
_BITS = re.compile(r"(?<![0-9A-Za-z])[01]{8}(?:[ ,]{0,2}[01]{8}){7,}(?![0-9A-Za-z])")
_CODES = re.compile(r"(?<![0-9])[0-9]{2,3}(?:[ ,;.\n-]{1,2}[0-9]{2,3}){7,}(?![0-9])")
_ASCII = b"\t\n\r" + bytes(range(0x20, 0x7F))
_PRINTABLE = _ASCII + bytes(range(0x80, 0x100))
_TEXTS = tuple((kind, re.compile(b"[%s]{%d,}" % (re.escape(kind), MIN_BYTES))) for kind in (_PRINTABLE, _ASCII))
_STRAY_BYTES = 3
"""Before and behind a text, that hide nothing."""


def readable(data: bytes) -> str | None:
    """The text in bytes, as UTF-8 or, where every other byte is 0, UTF-16; None for others."""
    for start in (0, 1) if 0 in data else ():
        if len(data) >= 2 * MIN_BYTES and data[start::2].count(0) >= 0.8 * (len(data) // 2):
            data = data[1 - start :: 2]
            break
    for kind, pattern in _TEXTS:
        if data[_STRAY_BYTES:-_STRAY_BYTES].translate(None, kind):
            return None
        longest = max(pattern.findall(data), key=len, default=b"")
        if len(longest) >= max(MIN_BYTES, len(data) - _STRAY_BYTES):
            try:
                return longest.decode()
            except UnicodeDecodeError:
                continue
    return None


def _percent(view: View) -> Iterator[Edit]:
    """Each character by itself, so that no more is withheld than must be."""
    text = view.text
    for run in _PERCENT.finditer(text):
        data = bytes.fromhex("".join(_ONE_PERCENT.findall(run[0])))
        stops = [match.end() for match in _ONE_PERCENT.finditer(text, run.start(), run.end())]
        start, place = run.start(), 0
        for character in data.decode("utf-8", "surrogateescape"):
            place += 1 if "\udc80" <= character <= "\udcff" else len(character.encode())
            end = stops[place - 1]
            if not "\udc80" <= character <= "\udcff":
                yield start, end, character
            start = end


def _entities(view: View) -> Iterator[Edit]:
    for match in _ENTITY.finditer(view.text):
        meant = html.unescape(match[0])
        if meant != match[0]:
            yield match.start(), match.end(), meant


def _escapes(view: View) -> Iterator[Edit]:
    for match in _ESCAPE.finditer(view.text):
        code = int(next(filter(None, match.groups())), 16)
        if code < 0xD800 or 0xE000 <= code < 0x110000:
            yield match.start(), match.end(), chr(code)


def _octal(view: View) -> Iterator[Edit]:
    return _runs(view.text, _OCTAL, lambda word: bytes(int(one, 8) & 255 for one in word.split("\\")[1:]))


def _quoted(view: View) -> Iterator[Edit]:
    return _runs(view.text, _QUOTED, lambda word: bytes.fromhex(word.replace("=", "")))


def _hex(view: View) -> Iterator[Edit]:
    """Pairs may begin at the first digit or at the second."""
    for match in _HEX.finditer(view.text):
        digits, start = match[0], match.start()
        for skipped in range(2):
            pairs = digits[skipped : len(digits) - (len(digits) - skipped) % 2]
            meant = readable(bytes.fromhex(pairs))
            if meant is not None:
                yield start - 2 * bool(_HEX_MARK.match(view.text, max(0, start - 2), start)), match.end(), meant
                break


def _hex_list(view: View) -> Iterator[Edit]:
    return _runs(view.text, _HEX_LIST, lambda word: bytes.fromhex(re.sub(r"[ :,;-]|0x", "", word)))


def _dump(view: View) -> Iterator[Edit]:
    """Two bytes together, as `xxd` prints them."""
    return _runs(view.text, _DUMP, bytes.fromhex)


def _bits(view: View) -> Iterator[Edit]:
    def decoded(word: str) -> bytes:
        bare = re.sub("[ ,]", "", word)
        return int(bare, 2).to_bytes(len(bare) // 8)

    return _runs(view.text, _BITS, decoded)


def _codes(view: View) -> Iterator[Edit]:
    """Numbers of characters; one beyond a byte ends it."""
    return _runs(view.text, _CODES, lambda word: bytes(map(int, re.findall("[0-9]+", word))))


def _base32(view: View) -> Iterator[Edit]:
    def decoded(word: str) -> bytes:
        bare = word.rstrip("=").upper()
        return base64.b32decode(bare + "=" * (-len(bare) % 8))

    return _runs(view.text, _BASE32, decoded)


def _base85(view: View) -> Iterator[Edit]:
    return _runs(view.text, _BASE85, base64.b85decode)


def _runs(text: str, pattern: re.Pattern[str], decode: Callable[[str], bytes]) -> Iterator[Edit]:
    """The matches whose decoded form is text."""
    for match in pattern.finditer(text):
        try:
            meant = readable(decode(match[0]))
        except ValueError:
            continue
        if meant is not None:
            yield match.start(), match.end(), meant


def _base64(view: View) -> Iterator[Edit]:
    """Words of either alphabet, and their parts where both are mixed, as in a path.

    Text in base64 has a capital in nearly every group of four, and is no name of known words.
    """
    text = view.text
    for start, _ in view.long_runs:
        word = _BASE64.match(text, start)
        if word is None or word[0].islower() or is_named(word[0]):
            continue
        found = list(_from_base64(text, *word.span()))
        if not found and {*"+/"} & {*word[0]} and {*"_-"} & {*word[0]}:
            parts = _BASE64_PARTS.finditer(text, *word.span())
            found = [edit for part in parts for edit in _from_base64(text, *part.span())]
        if not found and "/" in word[0]:
            places = [match.span() for match in re.finditer("[^/]{16,}", word[0])]
            found = [e for i, j in places for e in _from_base64(text, word.start() + i, word.start() + j)]
        yield from found


def _from_base64(text: str, start: int, end: int) -> Iterator[Edit]:
    """What hangs on other characters is tried from the next three on, too."""
    bare = text[start:end].rstrip("=")
    for skipped in range(4):
        word = bare[skipped:]
        word = word[:-1] if len(word) % 4 == 1 else word
        if len(word) < 2 * MIN_BYTES or not _ASCII_FIRST.issuperset(word[4:12:4]):
            continue
        try:
            data = base64.b64decode(word + "=" * (-len(word) % 4), b"-_" if "-" in word or "_" in word else None)
        except ValueError:
            continue
        if (meant := readable(data)) is not None:
            yield start + skipped, end, meant
            return


_OCTETS = re.compile("[01]{8}[ ,]{0,2}[01]{8}")
_SIXTEEN = 16 * "0"
_OCTET, _LONG_WORD = in_a_row("bits", 8), in_a_row("words", 16)
_BASE85_SIGNS = frozenset(b"!#$%&()*;<>?@^`{|}~")
_BASE32_RUNS = tuple((name, in_a_row(name, 16)) for name in ("base32", "base32-capitals"))


def _dumped(view: View) -> bool:
    return "0000 0000 0000" in view.outlines["hex"]


def _in_base32(view: View) -> bool:
    if not view.runs or _LONG_WORD not in view.outlines["words"]:
        return False
    return any(run in view.outlines[name] for name, run in _BASE32_RUNS)


def _in_base85(view: View) -> bool:
    return not _BASE85_SIGNS.isdisjoint(view.signs) and bool(_BASE85.search(view.odd_words))


def _in_octets(view: View) -> bool:
    outlines = view.outlines
    return "00000000" in outlines["hex"] and _OCTET in outlines["bits"] and bool(_OCTETS.search(view.text))


ENCODINGS: Mapping[str, tuple[Gate, Decode]] = {
    "percent": (lambda view: "%" in view.text, _percent),
    "entities": (lambda view: "&" in view.text, _entities),
    "escapes": (lambda view: "\\" in view.text or "%u" in view.text or "U+" in view.text, _escapes),
    "octal": (lambda view: "\\" in view.text, _octal),
    "quoted-printable": (lambda view: view.text.count("=") > 3, _quoted),
    "hex-list": (lambda view: view.is_listed, _hex_list),
    "hex-dump": (_dumped, _dump),
    "bits": (_in_octets, _bits),
    "hex": (lambda view: _SIXTEEN in view.outlines["hex"], _hex),
    "base32": (_in_base32, _base32),
    "base64": (lambda view: not all(map(str.islower, view.runs.split())), _base64),
    "base85": (_in_base85, _base85),
}
"""Name → (whether it may be there at all, what takes it off); those that stand in one word come last."""


def spelled(view: View) -> View | None:
    """The form with lists of decimal numbers read as characters: what is also a list of bytes is read as that first."""
    return rewrite(view, "codes", _codes(view)) if view.is_listed else None


def encodings(view: View) -> list[str]:
    """Those that may be in a form."""
    return [name for name, (possible, _) in ENCODINGS.items() if possible(view)]


def unwrapped(view: View, names: Collection[str] | None = None) -> View | None:
    """The form without one layer of these encodings, and of others that they hide; None when there is none.

    Without names, of those that may be there; of those named it is tried whether they are.
    """
    names = encodings(view) if names is None else names
    if not names:
        return None
    at = view
    for name, (possible, edits) in ENCODINGS.items():
        if name in names if at is view else possible(at):
            at = rewrite(at, name, edits(at)) or at
    return None if at is view else at
