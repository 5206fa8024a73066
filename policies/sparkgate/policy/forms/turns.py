"""Texts that were turned: backwards, or with other letters."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise

from sparkgate.policy.forms.joins import JOIN_NAMES
from sparkgate.policy.forms.view import Mirror, View

_HALF = str.maketrans(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "nopqrstuvwxyzabcdefghijklmNOPQRSTUVWXYZABCDEFGHIJKLM"
)
_TOKEN = re.compile(
    r"(?<![A-Za-z0-9_-])(?=[a-z_-]{0,15}[A-Z0-9])(?=[A-Z0-9_-]{0,15}[a-z]|[A-Z0-9]{16})[A-Za-z0-9_-]{16}"
)
"""How a longer word of mixed letters begins."""
_PLAIN_PART = (
    "(?>(?:[A-Z]?[a-z]{2,11}(?:[A-Z][a-z]{2,11}){0,2}(?:[A-Z]{2,3})?[0-9]{0,3}|[a-z][0-9]{0,3}"
    "|[A-Z]{1,6}[0-9]{0,4}[A-Z]{0,2}|[0-9]{1,8}[A-Za-z]{0,3}|[a-z][0-9]{1,2}[a-z][0-9]{1,2})(?![A-Za-z0-9]))"
)
"""Of the name of a model or a package: `Coder`, `DeepSeek`, `aarch64`, `NVFP4`, `A35B`, `480B`, `0528`, `w4a16`."""
_NAMED = re.compile(f"{_PLAIN_PART}(?:[_-]{{1,2}}{_PLAIN_PART})*")
_NAME_WORD = re.compile("[A-Z]?[a-z]{2,}|[A-Z]{3,}")
_LONG_WORD = re.compile("[A-Z]?[a-z]{5,}")
_TOKEN_REST = re.compile("[A-Za-z0-9_-]*")
TURNED = ("reversed", "rot13")


def turned(view: View) -> Iterator[View]:
    """Both, where that may bring something to light."""
    if may_be_turned(view) or (view.name in JOIN_NAMES and view.of is not None and may_be_turned(view.of)):
        yield from both_turned(view)


def both_turned(view: View) -> tuple[View, View]:
    """Backwards, and with every letter moved by half the alphabet (ROT13)."""
    moved = View("rot13", view.text.translate(_HALF), view, (0,), ((0, len(view.text), True),))
    return Mirror("reversed", view.text[::-1], view), moved


def may_be_turned(view: View) -> bool:
    """Whether there is an address, or a token that is more than words with short numbers between them."""
    if "@" in view.text:
        return True
    return _TOKEN.search(view.runs) is not None and not all(map(_is_named, _tokens(view)))


def _tokens(view: View) -> Iterator[str]:
    """Each token, with a sign wherever something was put together or taken off in it."""
    text, begins = view.text, view.begins
    for match in _TOKEN.finditer(text):
        start, end = match.start(), _TOKEN_REST.match(text, match.end()).end()  # type: ignore[union-attr]
        cuts = [start, *begins[bisect_right(begins, start) : bisect_left(begins, end)], end]
        yield "-".join([text[one:other] for one, other in pairwise(cuts)])


def _is_named(token: str) -> bool:
    """Whether it is a name of plain parts, half of it in words and one of them long: what is cut up has none."""
    if not _NAMED.fullmatch(token) or not _LONG_WORD.search(token):
        return False
    return 2 * sum(map(len, _NAME_WORD.findall(token))) >= len(token)
