"""Words that were taken apart, as the edits that put them together again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, product

from sparkgate.policy.forms.view import Edit, Mirror, View, rewrite

CONTEXT_CHARS = 80
"""On each side of a joint: what a rule wants to see beside a value."""
MIN_CHARS = 10
"""Of a word that is worth putting together."""
SIGNS = ".-_/|:,;~*+"
"""What may stand between the parts of a word, one kind at a time; blanks are looked at apart."""

_SINGLES = re.compile(r"(?<!\S)\S(?:\s{1,3}\S){7,}(?!\S)")
_SINGLE = re.compile(r"\s\S\s{1,3}\S\s")
_BLANK = re.compile(r"\s+")
_WRAPPED = re.compile(r"(?<=[\w+/=.:@-])[ \t]*\\?\r?\n[ \t>|#]*(?=[\w+/=.:@-])")
_WORD_AFTER = re.compile(r"\S{1,64}")
_OTHER_BLANKS = re.compile(r"(?<=\S)[^\S\n\r ]+(?=\S)")
_QUOTED = re.compile(r"""(?<=\S)["'`]\s{0,3}(?:\+|\.{1,2}|,|&|\|\|)?\s{0,3}["'`](?=\S)""")
_QUERY = re.compile(r"[?&;][^\s?&;=]{1,64}=[^\s&;]*(?:[&;][^\s&;=]{1,64}=[^\s&;]*)+")
_VALUE = re.compile(r"(?<==)[^\s&;=]{4,}")
_PATH = re.compile(r"(?<![/:])(?:/[^\s/?#]+){2,}")
_PART = re.compile(r"(?<=/)[^\s/?#]{4,}")
_PLAIN = re.compile(r"[A-Za-z]?[a-z]*|[0-9]{1,6}")
_CHUNK = re.compile(r"\S+")
_ODD = re.compile(r"(?=\S*[0-9])\S*[A-Za-z]|\S*[a-z]\S*[A-Z]")
_TWO_GROUPS = re.compile(
    r"(?:(?<!\S)(?=\S{0,11}(?:[0-9][A-Za-z]|[A-Za-z][0-9]|[a-z][A-Z]))\S{2,12}(?:\s+\S{1,12}){0,2}?\s+){2}"
)
_GROUP = re.compile(r"[A-Za-z0-9_+/=-]{1,12}")
_CHUNK_CHARS = 12
_CHUNKS = 4


def _apart(sign: str) -> re.Pattern[str]:
    part = f"[A-Za-z0-9={re.escape('_-+/'.replace(sign, ''))}]{{1,{_CHUNK_CHARS}}}"
    return re.compile(rf"(?<![A-Za-z0-9]){part}(?:{re.escape(sign)}{part}){{3,}}")


_SIGNED = re.compile(r"[A-Za-z0-9=]([-._/|:,;~*+])[A-Za-z0-9=_+/-]{1,12}\1[A-Za-z0-9=_+/-]{1,12}\1[A-Za-z0-9=_+/-]")
_APART: Mapping[str, re.Pattern[str]] = {sign: _apart(sign) for sign in SIGNS}


def _singles(text: str) -> Iterator[Edit]:
    """Letters with blanks between them."""
    for run in _SINGLES.finditer(text):
        for blank in _BLANK.finditer(text, run.start(), run.end()):
            yield blank.start(), blank.end(), ""


def _signs(sign: str) -> Callable[[str], Iterator[Edit]]:
    """Parts of a word with the same sign between them."""

    def edits(text: str) -> Iterator[Edit]:
        for run in _APART[sign].finditer(text):
            bare = run[0].replace(sign, "")
            if len(bare) >= MIN_CHARS and any(map(str.isdigit, bare)):
                for place in re.finditer(re.escape(sign), run[0]):
                    yield run.start() + place.start(), run.start() + place.end(), ""

    return edits


def near(edits: Iterable[Edit], size: int) -> Iterator[Edit]:
    """The edits, and what is far from all of them left out: it is looked at in other forms, and these are many."""
    at = 0
    for start, end, instead in edits:
        if start - at > 2 * CONTEXT_CHARS or (not at and start > CONTEXT_CHARS):
            yield at + CONTEXT_CHARS * bool(at), start - CONTEXT_CHARS, "\n"
        yield start, end, instead
        at = end
    if at and size - at > CONTEXT_CHARS:
        yield at + CONTEXT_CHARS, size, "\n"


def _grouped(view: View) -> Iterator[View]:
    """Short groups that are no words, with blanks between them, as one word.

    A word may begin and end with groups that look like words, so several ways to cut it out are tried.
    """
    groups = list(_CHUNK.finditer(view.text)) if _TWO_GROUPS.search(view.text) else []
    runs = list(_odd_runs(groups))
    for before, after in product(range(4), range(3)) if runs else ():
        form = rewrite(view, "groups", near(_between(groups, runs, before, after), len(view.text)))
        if form is not None:
            yield form


def _between(
    groups: Sequence[re.Match[str]], runs: Sequence[tuple[int, int]], before: int, after: int
) -> Iterator[Edit]:
    last = 0
    for first, end in runs:
        for one, other in pairwise(groups[max(first - before, last) : end + after]):
            yield one.end(), other.start(), ""
        last = end + after


def _odd_runs(groups: Sequence[re.Match[str]]) -> Iterator[tuple[int, int]]:
    """Where at least four odd groups stand in a row, with no more than two others between two of them."""
    first = end = -1
    odd = 0
    for place, group in enumerate((*groups, None)):
        broken = group is None or not _GROUP.fullmatch(group[0]) or place > end + 2
        if broken and odd:
            if odd >= _CHUNKS:
                yield first, end
            odd = 0
        if group is not None and _GROUP.fullmatch(group[0]) and _ODD.match(group[0]):
            first = place if not odd else first
            end, odd = place + 1, odd + 1


def _parameters(text: str) -> Iterator[Edit]:
    """Values of a query string that are no words, without what stands between them."""
    for query in _QUERY.finditer(text):
        values = [one for one in _VALUE.finditer(text, *query.span()) if not _PLAIN.fullmatch(one[0])]
        for before, after in pairwise(values):
            yield before.end(), after.start(), ""


def _segments(text: str) -> Iterator[Edit]:
    """Parts of a path that are no words, without what stands between them."""
    for path in _PATH.finditer(text):
        parts = [one for one in _PART.finditer(text, *path.span()) if not _PLAIN.fullmatch(one[0])]
        for before, after in pairwise(parts):
            yield before.end(), after.start(), ""


def _wrapped(text: str) -> Iterator[Edit]:
    """Ends of lines in the middle of a word that is none of a language."""
    for joint in _WRAPPED.finditer(text):
        before = text[max(0, joint.start() - 64) : joint.start()].rsplit(None, 1)[-1]
        after = _WORD_AFTER.match(text, joint.end())
        if after and any(map(str.isdigit, before + after[0])):
            yield joint.start(), joint.end(), ""


def _matches(pattern: re.Pattern[str]) -> Callable[[str], Iterator[Edit]]:
    return lambda text: ((match.start(), match.end(), "") for match in pattern.finditer(text))


other_blanks = _matches(_OTHER_BLANKS)
OTHER_BLANKS = "other blanks"

JOINS: Mapping[str, tuple[Callable[[str], object], Callable[[str], Iterator[Edit]]]] = {
    "singles": (_SINGLE.search, _singles),
    "wrapped": (lambda text: "\n" in text, _wrapped),
    OTHER_BLANKS: (lambda text: not text.isprintable() or not text.isascii(), other_blanks),
    "parameters": (lambda text: "=" in text, _parameters),
    "segments": (lambda text: text.count("/") > 1, _segments),
    "quoted": (lambda text: any(sign in text for sign in "\"'`"), _matches(_QUOTED)),
}
"""Name → (whether it may be there at all, what puts it together)."""

APART: Mapping[str, Callable[[str], Iterator[Edit]]] = {sign: _signs(sign) for sign in SIGNS}
"""Sign → what takes it out of words that it was put into."""
JOIN_NAMES = (*JOINS, "groups", *(f"apart by {sign}" for sign in SIGNS))
BLANK_NAMES = ("singles", "groups", "wrapped", OTHER_BLANKS)
"""Those in which only blanks were taken out."""


def joined(view: View) -> Iterator[View]:
    """One form for each way in which words were taken apart."""
    text = view.text
    ways = [(name, edits) for name, (possible, edits) in JOINS.items() if possible(text)]
    if _SIGNED.search(text):
        ways += [(f"apart by {sign}", edits) for sign, edits in APART.items() if text.count(sign) > 2]
    for name, edits in ways:
        if form := rewrite(view, name, near(edits(text), len(text))):
            yield form
    yield from _grouped(view)


_HALF = str.maketrans(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "nopqrstuvwxyzabcdefghijklmNOPQRSTUVWXYZABCDEFGHIJKLM"
)
_TOKEN = re.compile(r"(?<![A-Za-z0-9_-])[A-Za-z_-]{0,64}[0-9][A-Za-z0-9_-]{12}|@")
"""Without a longer word that has a digit, and without an address, there is nothing to turn."""


def turned(view: View) -> Iterator[View]:
    """Backwards, and with every letter moved by half the alphabet (ROT13)."""
    if _TOKEN.search(view.text):
        yield Mirror("reversed", view.text[::-1], view)
        yield View("rot13", view.text.translate(_HALF), view, (0,), ((0, len(view.text), True),))
