"""Letters that look like Latin ones, and marks on letters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping

import regex

from sparkgate.policy.forms.view import Edit

_ROWS: Mapping[str, str] = {
    "a": "аɑαӑ", "b": "ƅЬьᏏ", "c": "сϲᴄⅽ", "d": "ԁɗժᏧ", "e": "еєҽɛё", "f": "ƒϝք", "g": "ɡցɢ", "h": "һհⱨн",
    "i": "іıɩιїӏᎥ", "j": "јϳյ", "k": "κкᴋқ", "l": "ӏⅼǀ", "m": "ⅿмᴍ", "n": "ոռпᴎ", "o": "оοσօᴏ", "p": "рρϱ",
    "q": "ԛզգ", "r": "гᴦⲅ", "s": "ѕꜱ", "t": "тτᴛ", "u": "υսцᴜ", "v": "νѵᴠ", "w": "ԝѡᴡш", "x": "хҳ×χ",
    "y": "уүγʏ", "z": "ᴢʐ",
    "A": "АΑᎪᗅ", "B": "ВΒᏴᗷ", "C": "СϹᏟ", "D": "ᎠᗞᎴ", "E": "ЕΕᎬЁ", "F": "ϜᖴҒ", "G": "ԌᏀ", "H": "НΗᎻ",
    "I": "ІΙӀЇ", "J": "ЈᎫᒍ", "K": "КΚᏦ", "L": "ᏞᒪԼ", "M": "МΜᎷ", "N": "ΝИ", "O": "ОΟՕ", "P": "РΡᏢ", "Q": "Ԛ",
    "R": "ᎡᖇЯ", "S": "ЅՏᏚ", "T": "ТΤᎢ", "U": "ՍᑌЦ", "V": "ѴᏙᐯ", "W": "ԜᎳ", "X": "ХΧ", "Y": "ҮΥУᎩ", "Z": "ΖᏃ",
    "0": "០൦", "1": "١۱", "3": "ЗӠƷ", "4": "Ꮞ", "6": "б", "8": "Ȣ",
    "-": "‐‑‒–—−﹣", "_": "ˍ", ".": "․。", ":": "׃꞉∶ː", "/": "⁄∕", "@": "﹫", "=": "᐀⁼", "'": "’‘ʼ", '"': "“”",
}  # fmt: skip
"""Character → those that are drawn like it (a choice of Unicode's confusables, written by sight)."""
LATIN: Mapping[str, str] = {like: letter for letter, alike in _ROWS.items() for like in alike}

_RUN = re.compile(r"\S*[^\x00-\x7f]\S*")
_LATIN = re.compile(r"[A-Za-z0-9]")
_CLUSTER = regex.compile(r"\X", regex.DOTALL)


def plain(text: str) -> Iterator[Edit]:
    """Edits to the Latin letters that others look like, in words that have some of their own."""
    for run in _RUN.finditer(text):
        if not _LATIN.search(run[0]):
            continue
        for cluster in _CLUSTER.finditer(text, run.start(), run.end()):
            if not cluster[0].isascii() and (meant := "".join(map(_plain, cluster[0]))) != cluster[0]:
                yield cluster.start(), cluster.end(), meant


def _plain(character: str) -> str:
    """Without marks, and as the Latin letter that it looks like."""
    if character in LATIN:
        return LATIN[character]
    bare = "".join(one for one in unicodedata.normalize("NFD", character) if not unicodedata.combining(one))
    return "".join(LATIN.get(one, one) for one in bare)
