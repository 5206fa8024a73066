"""A text in few letters, which kind of character stands where: a look for bytes in it tells what cannot be there.

Such a look takes a tenth of the time of a search for a pattern, and most texts hold nothing of most kinds.
"""

from __future__ import annotations

import string
from collections.abc import Mapping

DIGITS, SMALL, CAPITALS = string.digits, string.ascii_lowercase, string.ascii_uppercase
LETTERS, HEX = string.ascii_letters, string.hexdigits
BLANKS = "\t\n\v\f\r\x1c\x1d\x1e\x1f "


def _table(kinds: Mapping[str, str], rest: str = "") -> bytes:
    """Letter → characters it stands for; `rest` for all others, or "" for these as they are."""
    letters = {character: letter for letter, characters in kinds.items() for character in characters}
    return bytes(ord(letters.get(chr(code), rest or chr(code))) for code in range(256))


MEMBER = b"a"
RUNS: Mapping[str, str] = {
    "numbers": f"{DIGITS} .()/+-",
    "spaced": f"{DIGITS} ",
    "words": f"{LETTERS}{DIGITS}",
    "tokens": f"{LETTERS}{DIGITS}_+/-",
}
"""Name of an outline → characters that are MEMBER in it, where others are blanks: a run of them is quickly seen."""
_KINDS = _table({"0": DIGITS, "a": SMALL, "A": CAPITALS, " ": BLANKS})
OUTLINES: Mapping[str, bytes] = {
    "kinds": _KINDS,
    "numerals": _KINDS,
    "letters": _table({"0": DIGITS, "a": LETTERS, " ": BLANKS}),
    "hex": _table({"0": HEX, " ": " :,;.\n-"}, "x"),
    "pairs": _table({"0": HEX, ":": ":-"}, "x"),
    "solid": _table({" ": BLANKS}, "x"),
    **{name: _table({MEMBER.decode(): members}, " ") for name, members in RUNS.items()},
}
"""Name → what each byte of the text becomes (bytes.translate). Of ASCII text a byte is a character."""
SQUEEZED: Mapping[str, bytes] = {"numerals": b"00"}
"""What becomes one character, twice over: up to four digits are one then."""


class Outlines(dict[str, bytes]):
    """Those of one text (UTF-8), each made when it is asked for first."""

    def __init__(self, raw: bytes) -> None:
        super().__init__()
        self._raw = raw

    def __missing__(self, name: str) -> bytes:
        made = self._raw.translate(OUTLINES[name])
        if twice := SQUEEZED.get(name):
            made = made.replace(twice, twice[:1]).replace(twice, twice[:1])
        self[name] = made
        return made
