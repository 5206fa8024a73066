"""A text as a reader sees it: letters that look like others folded, words that were spread out put together again."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sparkgate.policy.forms.view import Edit, View, rewrite
from sparkgate.policy.views import folded

_APART = re.compile(
    r"(?<![\w.-])[A-Za-z0-9_]{1,2}(?P<sign>[-.:,;/|*+~·•…‧]{1,2})(?:[A-Za-z0-9_]{1,2}|(?!(?P=sign))-)"
    r"(?:(?P=sign)(?:[A-Za-z0-9_]{1,2}|(?!(?P=sign))-))+(?![\w-])"
)
"""`a.b.c`, `ab/cd/ef`: one or two characters at a time, the same sign between them."""
_SPACED = re.compile(r"(?<!\S)[\w-](?:[ \t]{1,3}[\w-]){2,}(?!\S)|(?<!\S)[\w-]{1,2}(?:[ \t]{1,3}[\w-]{1,2}){2,}(?!\S)")
_BLANK = re.compile(r"[ \t]+")
_NO_WORD = re.compile(r"[\d\W]*[A-Za-z_](?=.*[\d_])|.*\d.*[A-Za-z]|.*[a-z].*[A-Z]|(?:\S[ \t]+)+\S$")
"""Letters with digits or in mixed case, or one sign at a time."""
_SHAPED = re.compile(
    r"(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}|v?\d+(?:[.:_/-]\d+)*(?:[.:_/-]?(?:[a-z]{1,2}\d{0,2}|[A-Z]{2}))?", re.IGNORECASE
)


def plain(text: str) -> View:
    """The text as a reader sees it: folded, put together, and nothing decoded."""
    return _together(folded(View("raw", text)))


def _together(view: View) -> View:
    edits = sorted([*_apart(view.text), *_spaced(view.text)])
    return (rewrite(view, "together", _disjoint(edits)) or view) if edits else view


def _disjoint(edits: list[Edit]) -> Iterator[Edit]:
    end = 0
    for edit in edits:
        if edit[0] >= end:
            yield edit
            end = edit[1]


def _apart(text: str) -> Iterator[Edit]:
    for found in _APART.finditer(text):
        if _SHAPED.fullmatch(found[0]) or not any(map(str.isalpha, found[0])):
            continue
        sign = re.escape(found["sign"])
        for gap in re.finditer(rf"(?<=[\w-]){sign}(?=[\w-])", found[0]):
            yield found.start() + gap.start(), found.start() + gap.end(), ""


def _spaced(text: str) -> Iterator[Edit]:
    for found in _SPACED.finditer(text):
        if any(map(str.isalpha, found[0])) and _NO_WORD.match(found[0]):
            for gap in _BLANK.finditer(found[0]):
                yield found.start() + gap.start(), found.start() + gap.end(), ""
