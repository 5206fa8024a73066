"""What nobody sees in a text from the web is taken out, and counted by kind."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import regex

Removed = Counter[str]
"""Kind → how many were taken out."""
BROKEN = "broken character"
"""Half of a surrogate pair: replaced, not taken out, so that nothing reads on as if it had not been there."""

_BREAK = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_SEPARATOR = re.compile("[\x1c-\x1f]")
_ESCAPE = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]"
    "|(?:\x1b[\\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]{0,512}(?:\x07|\x1b\\\\|\x9c)"
    "|\x1b[ -/]{1,4}[0-~]|\x1b[0-Z\\\\-~]"
)
"""Of a terminal: colours and the cursor, titles and links, others."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_HIDDEN = regex.compile(r"[\p{Default_Ignorable_Code_Point}\p{Cf}\p{Cc}\p{Co}--[\t\n]]+", regex.VERSION1)
_NEVER_SPELLING = regex.compile(
    r"[\p{Default_Ignorable_Code_Point}\p{Cf}\p{Cc}\p{Co}--[\t\n\u200c\u200d\ufe0e\ufe0f\U000e0020-\U000e007f]]+",
    regex.VERSION1,
)
_PRINTED = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""Of those that nobody sees, the ones that Python takes for printable."""
_FACE = regex.compile(r"[\p{Emoji}\p{So}\p{Sm}\u203c\u2049\ufe0f]")
_JOINING = regex.compile(
    r"[[\p{Arabic}\p{Syriac}\p{Mongolian}[\u0900-\u0dff][\u1780-\u17ff]]&&[\p{L}\p{M}]]", regex.VERSION1
)
_FLAGS = tuple("".join(chr(0xE0000 + ord(c)) for c in f"{code}\x7f") for code in ("gbeng", "gbsct", "gbwls"))

_ROWS: Mapping[str, Sequence[Iterable[int]]] = {
    "tag character": [range(0xE0000, 0xE0080)],
    "bidi control": [[0x61C, 0x200E, 0x200F], range(0x202A, 0x202F), range(0x2066, 0x206A)],
    "zero-width character": [[0x180E, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF]],
    "soft hyphen": [[0xAD]],
    "variation selector": [range(0x180B, 0x180E), [0x180F], range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0)],
    "control character": [range(32), range(0x7F, 0xA0)],
}
_KINDS = {chr(code): kind for kind, rows in _ROWS.items() for code in chain.from_iterable(rows)}
_OTHER = "other invisible character"


def block(text: str, removed: Removed) -> str:
    """The text with its lines and tabs, and without what nobody sees. Every end of a line is a line feed."""
    if text.isprintable() and (text.isascii() or not _PRINTED.search(text)):
        return text
    text = _BREAK.sub("\n", text)
    for pattern, kind, instead in (
        (_ESCAPE, "terminal escape", ""),
        (_SEPARATOR, "control character", " "),
        (_SURROGATE, BROKEN, "\ufffd"),
    ):
        text, times = pattern.subn(instead, text)
        removed[kind] += times
    _count("".join(_NEVER_SPELLING.findall(text)), removed)
    return _HIDDEN.sub(lambda run: _visible(run, removed), _NEVER_SPELLING.sub("", text))


def line(text: str, removed: Removed) -> str:
    """The same as one line: every run of blanks is one space."""
    return " ".join(block(text, removed).split())


def _visible(run: regex.Match[str], removed: Removed) -> str:
    """What stays of characters that nobody sees: spelling of a script, and of pictures."""
    hidden = run[0]
    if len(hidden) <= 6 and _is_spelling(
        hidden, run.string[max(0, run.start() - 1) : run.start()], run.string[run.end() : run.end() + 1]
    ):
        return hidden
    _count(hidden, removed)
    return ""


def _count(hidden: str, removed: Removed) -> None:
    for character, times in Counter(hidden).items():
        removed[_KINDS.get(character, _OTHER)] += times


def _is_spelling(hidden: str, before: str, after: str) -> bool:
    if hidden in ("\u200c", "\u200d") and _JOINING.match(before):
        return _JOINING.match(after) is not None
    if hidden in ("\ufe0e", "\ufe0f"):
        return _FACE.match(before) is not None
    if hidden in ("\u200d", "\ufe0f\u200d"):
        return _FACE.match(before) is not None and _FACE.match(after) is not None
    return before == "\U0001f3f4" and hidden in _FLAGS
