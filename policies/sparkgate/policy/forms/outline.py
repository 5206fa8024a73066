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


MEMBER = "a"
RUNS: Mapping[str, str] = {
    "digits": DIGITS,
    "spaced": f"{DIGITS} ",
    "words": f"{LETTERS}{DIGITS}",
    "tokens": f"{LETTERS}{DIGITS}_+/-",
}
"""Name of an outline → characters that are MEMBER in it, where others are blanks: a run of them is quickly seen."""
OPENED = "opened"
"""As tokens, but only white space, a quote, a bracket and a comma are blanks: a run opens behind one."""
_KINDS = _table({"0": DIGITS, "a": SMALL, "A": CAPITALS, " ": BLANKS})
OUTLINES: Mapping[str, bytes] = {
    "kinds": _KINDS,
    "numerals": _KINDS,
    "zeros": _table({"1": "123456789", "a": LETTERS, " ": BLANKS}),
    "letters": _table({"0": DIGITS, "a": LETTERS, " ": BLANKS}),
    "hex": _table({"0": HEX, " ": " :,;.\n-"}, "x"),
    "colons": _table({"0": HEX, ":": ":"}, "x"),
    "solid": _table({" ": BLANKS}, "x"),
    OPENED: _table({MEMBER: RUNS["tokens"], " ": " \n\t\"'`(,"}, "x"),
    "names": _table({MEMBER: f"{LETTERS}{DIGITS}_-", ".": "."}, " "),
    **{name: _table({MEMBER: members}, " ") for name, members in RUNS.items()},
}
"""Name → what each byte of the text becomes (bytes.translate), and a blank in front. Of ASCII text a byte is a
character."""
LEFT_OUT: Mapping[str, bytes] = {"digits": b" .()/+-"}
"""Characters that are not in it, so that a number is one run however it is grouped."""
SQUEEZED: Mapping[str, str] = {"numerals": "00", "hex": "  "}
"""What becomes one character, twice over: up to four digits are one then."""


def in_a_row(outline: str, size: int) -> str:
    """So many characters in a row, in one of `RUNS` or `OPENED`."""
    return (" " if outline == OPENED else "") + MEMBER * size


class Outlines(dict[str, str]):
    """Those of one text (UTF-8), each made when it is asked for first."""

    def __init__(self, raw: bytes) -> None:
        super().__init__()
        self._raw = b" " + raw

    def __missing__(self, name: str) -> str:
        made = self._raw.translate(OUTLINES[name], LEFT_OUT.get(name, b"")).decode("latin-1")
        if (twice := SQUEEZED.get(name)) and twice in made:
            made = made.replace(twice, twice[:1]).replace(twice, twice[:1])
        self[name] = made
        return made
