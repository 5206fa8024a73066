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
        shows: what it shows, with an example.
        table: what each byte becomes (bytes.translate).
        left_out: bytes that are not in it, so that a number is one run however it is grouped.
        twice: two characters that become one, twice over: up to four are one then.
        opens: what stands before a run of MEMBER whose length may be told; None where none may.
    """

    shows: str
    table: bytes
    left_out: bytes = b""
    twice: str = ""
    opens: str | None = None

    @property
    def letters(self) -> frozenset[str]:
        """The ASCII characters that may stand in it."""
        return frozenset(bytes(range(128)).translate(self.table, self.left_out).decode())


MEMBER = "a"
_TOKEN = f"{LETTERS}{DIGITS}_+/-"
_KINDS = _table({"0": DIGITS, "a": SMALL, "A": CAPITALS, " ": BLANKS})
OUTLINES: Mapping[str, Outline] = {
    "kinds": Outline(
        "digits, small letters, capitals and blanks, signs as they are: `Tel. 030-12` → `Aaa. 000-00`", _KINDS
    ),
    "numerals": Outline("the same with up to four digits as one: `v10.0.0.127` → `a0.0.0.0`", _KINDS, twice="00"),
    "zeros": Outline(
        "zeros, other digits as 1, letters as a: `+49 0x` → `+11 0a`",
        _table({"1": "123456789", "a": LETTERS, " ": BLANKS}),
    ),
    "edged": Outline(
        "digits, and letters and _ as a; all else is a blank: `(DE89-x` → ` aa00 a`",
        _table({"0": DIGITS, "a": f"{LETTERS}_"}, " "),
    ),
    "hex": Outline(
        "hexadecimal digits as 0, what stands between them as one blank: `4a:FF, x` → `00 00 x`",
        _table({"0": HEX, " ": " :,;.\n-"}, "x"),
        twice="  ",
    ),
    "colons": Outline(
        "hexadecimal digits as 0, and colons: `fe80::1/64` → `0000::0x00`", _table({"0": HEX, ":": ":"}, "x")
    ),
    "solid": Outline("blanks, and all else as x: `a b` → `x x`", _table({" ": BLANKS}, "x")),
    "names": Outline(
        "letters, digits, _ and - as a, and dots: `ab-1.c/d` → `aaaa.a a`",
        _table({MEMBER: f"{LETTERS}{DIGITS}_-", ".": "."}, " "),
    ),
    "opened": Outline(
        "as tokens, but a blank is only what opens a value: `x=ab, (cd` → `axaa   aa`",
        _table({MEMBER: _TOKEN, " ": " \n\t\"'`(,"}, "x"),
        opens=" ",
    ),
    "digits": Outline(
        "digits as a, without what groups them: `+49 (30) 12, 4` → `aaaaaa a`",
        _table({MEMBER: DIGITS}, " "),
        left_out=b" .()/+-",
        opens="",
    ),
    "words": Outline(
        "letters and digits as a, all else is a blank: `ab1-c` → `aaa a`",
        _table({MEMBER: f"{LETTERS}{DIGITS}"}, " "),
        opens="",
    ),
    "base32": Outline(
        "small letters and 2 to 7 as a, other letters and digits as x, all else is a blank: `ab2-c1` → `aaa ax`",
        _table({MEMBER: f"{SMALL}234567", "x": f"{CAPITALS}0189"}, " "),
        opens=" ",
    ),
    "base32-capitals": Outline(
        "the same with capitals: `AB2-C1` → `aaa ax`",
        _table({MEMBER: f"{CAPITALS}234567", "x": f"{SMALL}0189"}, " "),
        opens=" ",
    ),
    "bits": Outline("0 and 1 as a, all else is a blank: `10,2` → `aa  `", _table({MEMBER: "01"}, " "), opens=""),
    "tokens": Outline(
        "letters, digits, _, +, / and - as a, all else is a blank: `ab_1=c` → `aaaa a`",
        _table({MEMBER: _TOKEN}, " "),
        opens="",
    ),
}


RUNS: Mapping[str, str] = {name: one.opens for name, one in OUTLINES.items() if one.opens is not None}
"""Name of an outline in which the length of a run may be told → what stands before the run."""


def in_a_row(outline: str, size: int) -> str:
    """So many characters in a row, in one of `RUNS`."""
    return RUNS[outline] + MEMBER * size


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
