"""A text in few letters, which kind of character stands where: a look for bytes in it tells what cannot be there.

Such a look takes a tenth of the time of a search for a pattern, and most texts hold nothing of most kinds.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass

DIGITS, SMALL, CAPITALS = string.digits, string.ascii_lowercase, string.ascii_uppercase
LETTERS, HEX = string.ascii_letters, string.hexdigits
BLANKS = "\t\n\v\f\r\x1c\x1d\x1e\x1f "


def _table(kinds: Mapping[str, str], rest: str = "") -> bytes:
    """Letter → characters it stands for; `rest` for all others, or "" for these as they are."""
    letters = {character: letter for letter, characters in kinds.items() for character in characters}
    return bytes(ord(letters.get(chr(code), rest or chr(code))) for code in range(256))


@dataclass(frozen=True, slots=True)
class Outline:
    """How one is made. Of ASCII text a byte is a character.

    Attributes:
        table: what each byte becomes (bytes.translate).
        left_out: bytes that are not in it, so that a number is one run however it is grouped.
        twice: two characters that become one, twice over: up to four are one then.
    """

    table: bytes
    left_out: bytes = b""
    twice: str = ""


MEMBER = "a"
RUNS: Mapping[str, str] = {
    "digits": DIGITS,
    "words": f"{LETTERS}{DIGITS}",
    "tokens": f"{LETTERS}{DIGITS}_+/-",
}
"""Name of an outline → characters that are MEMBER in it, where others are blanks: a run of them is quickly seen."""
OPENED = "opened"
"""As tokens, but only white space, a quote, a bracket and a comma are blanks: a run opens behind one."""
_KINDS = _table({"0": DIGITS, "a": SMALL, "A": CAPITALS, " ": BLANKS})
OUTLINES: Mapping[str, Outline] = {
    "kinds": Outline(_KINDS),
    "numerals": Outline(_KINDS, twice="00"),
    "zeros": Outline(_table({"1": "123456789", "a": LETTERS, " ": BLANKS})),
    "edged": Outline(_table({"0": DIGITS, "a": f"{LETTERS}_"}, " ")),
    "hex": Outline(_table({"0": HEX, " ": " :,;.\n-"}, "x"), twice="  "),
    "colons": Outline(_table({"0": HEX, ":": ":"}, "x")),
    "solid": Outline(_table({" ": BLANKS}, "x")),
    "names": Outline(_table({MEMBER: f"{LETTERS}{DIGITS}_-", ".": "."}, " ")),
    OPENED: Outline(_table({MEMBER: RUNS["tokens"], " ": " \n\t\"'`(,"}, "x")),
    "digits": Outline(_table({MEMBER: DIGITS}, " "), left_out=b" .()/+-"),
    "words": Outline(_table({MEMBER: RUNS["words"]}, " ")),
    "tokens": Outline(_table({MEMBER: RUNS["tokens"]}, " ")),
}


def in_a_row(outline: str, size: int) -> str:
    """So many characters in a row, in one of `RUNS` or `OPENED`."""
    return (" " if outline == OPENED else "") + MEMBER * size


class Outlines(dict[str, str]):
    """Those of one text (UTF-8), each made when it is asked for first, and with a blank in front."""

    def __init__(self, raw: bytes) -> None:
        super().__init__()
        self._raw = b" " + raw

    def __missing__(self, name: str) -> str:
        outline = OUTLINES[name]
        made = self._raw.translate(outline.table, outline.left_out).decode("latin-1")
        if outline.twice and outline.twice in made:
            made = made.replace(outline.twice, outline.twice[0]).replace(outline.twice, outline.twice[0])
        self[name] = made
        return made
