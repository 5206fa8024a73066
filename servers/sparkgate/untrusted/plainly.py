"""The forms in which a text is looked through for phrases: case, accents, lookalikes and simple codes taken off."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

import regex

from sparkgate.policy.forms.lookalikes import LATIN
from sparkgate.policy.forms.unwrap import unwrapped
from sparkgate.policy.forms.view import Edit, View, rewrite

LAYERS = 2
"""Of encoding within encoding."""

_MARKS = regex.compile(r"(?<=[A-Za-z])\p{Mn}+")
_SPELLED = regex.compile(r"(?<![\p{L}\p{N}])[A-Za-z](?:[\s.*_|/-]{1,4}[A-Za-z]){4,}(?![\p{L}\p{N}])")
_BETWEEN = regex.compile(r"[^A-Za-z]+")
_MIXED = re.compile(r"[a-z][013457@$]|[013457@$][a-z]")
_TELLING = re.compile("ignor|disreg|forget|instruc|promp|previou|system|assistan|reveal|secret|overrid|bypass")
"""Of words with digits for letters, those that are worth a look: v1 and sha256 are not."""
_DIGITS = str.maketrans("013457@$", "oieastas")
_PUNCTUATION = frozenset("-_.:/@='\"")


class _Plain(dict[int, str]):
    """Each character → one in lower case without its accents; of compatibility forms the ordinary one.

    With `latin`, what looks like a Latin letter becomes one.
    """

    def __init__(self, *, latin: bool) -> None:
        super().__init__()
        self._latin = latin

    def __missing__(self, code: int) -> str:
        found = self[code] = self._of(chr(code))
        return found

    def _of(self, character: str) -> str:
        like = LATIN.get(character, "")
        if like and (self._latin or like in _PUNCTUATION):
            return like.lower()
        wide = unicodedata.normalize("NFKC", character)
        bare = unicodedata.normalize("NFD", wide)[:1] if len(wide) == 1 else character
        lower = (bare if bare.isascii() else wide).lower()
        like = LATIN.get(lower, lower) if self._latin else lower
        return like if len(like) == 1 else character


_PLAIN, _LATIN = _Plain(latin=False), _Plain(latin=True)


def forms(text: str) -> Iterator[View]:
    """Views whose texts are in lower case, the likeliest first."""
    view: View | None = View("raw", text)
    for _ in range(LAYERS + 1):
        if view is None:
            return
        yield from _written(view)
        view = unwrapped(view)


def _written(view: View) -> Iterator[View]:
    bare = view if view.text.isascii() else rewrite(view, "unmarked", _unmarked(view.text)) or view
    together = rewrite(bare, "together", _together(bare.text))
    for at in (bare, together) if together else (bare,):
        yield from _letters(at)


def _letters(view: View) -> Iterator[View]:
    plain = view.text.lower() if view.text.isascii() else view.text.translate(_PLAIN)
    yield _same_length(view, "plain", plain)
    latin = plain if view.text.isascii() else view.text.translate(_LATIN)
    if latin != plain:
        yield _same_length(view, "latin", latin)
    mixed = [word for word in {*latin.split()} if not word.isalpha() and _MIXED.search(word)]
    if _TELLING.search(" ".join(mixed).translate(_DIGITS)):
        yield _same_length(view, "digits", latin.translate(_DIGITS))


def _same_length(view: View, name: str, text: str) -> View:
    return View(name, text, view, (0,), ((0, len(text), True),))


def _unmarked(text: str) -> Iterator[Edit]:
    """Letters without the marks on them."""
    return ((marks.start(), marks.end(), "") for marks in _MARKS.finditer(text))


def _together(text: str) -> Iterator[Edit]:
    """Words that were written letter by letter."""
    for run in _SPELLED.finditer(text):
        for gap in _BETWEEN.finditer(text, run.start(), run.end()):
            yield gap.start(), gap.end(), ""
