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
_ORDINARY = re.compile("[ -~\u00a1-\u00ac\u00ae-\u024f\u2010-\u2027\u2030-\u203a\u20ac\u2122]*")
"""Of these characters alone, none is a mark on another."""
_CODED = (
    re.compile(r"[%&\\=@$^`{}<>~|#]|U\+|0[xX]|[01]{8}"),
    re.compile("[A-Za-z0-9+/_-]{16}"),
    re.compile(r"(?<!\S)(?=\S{10})\S*[!*()?;]"),
    re.compile(r"(?:[0-9A-Fa-f]{2,4}[ :,;.\n-]{1,2}){3}"),
    re.compile(r"(?<![A-Za-z0-9])[A-Za-z][\s.*_|/-]{1,4}[A-Za-z][\s.*_|/-]"),
)
"""What a text with a code in it has one of, and one with words written letter by letter; so have some others."""
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
    raw = View("raw", text)
    if is_ordinary(text):
        yield from _letters(raw)
        return
    view: View | None = raw
    for _ in range(LAYERS + 1):
        if view is None:
            return
        yield from written(view)
        view = unwrapped(view)


def is_ordinary(text: str) -> bool:
    """Whether nothing but lower case and lookalikes can make another text of it; quickly told."""
    return _ORDINARY.fullmatch(text) is not None and not any(sign.search(text) for sign in _CODED)


def written(view: View) -> Iterator[View]:
    """The forms of one layer."""
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
    if not _MIXED.search(latin):
        return
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
