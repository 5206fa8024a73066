"""SearXNG's query syntax: words that change where a query goes are refused, unmarked or quoted.

SearXNG looks at every whitespace-separated word of a query (searx/query.py): `!!name` redirects to a third
party, `!name` picks an engine even if it is off, `:xx` picks a language, `<n` a timeout. A quoted word is none of
them. A word hidden behind invisible characters is judged as if it were bare, in case somebody strips them later.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from sparkgate.policy.views import is_invisible

_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class Form:
    """A kind of live word: `rewrite` is None when the query is refused for it."""

    rule: str
    matches: Callable[[str], bool]
    rewrite: Callable[[str], str] | None
    note: str


def _like(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern)
    return lambda word: compiled.fullmatch(word) is not None


FORMS = (
    Form(
        "searxng-external-bang",
        _like(r"!!.+"),
        None,
        "`!!name` sends the query past SearXNG to another site",
    ),
    Form("searxng-lucky", _like(r"!!"), lambda word: "", "a bare `!!` was taken out"),
    Form(
        "searxng-engine-bang",
        _like(r"!\w.*"),
        lambda word: word.lstrip("!"),
        "a leading `!` was taken out; choose engines with the engines argument",
    ),
    Form(
        "searxng-language",
        _like(r":[^\W\d]\S+"),
        lambda word: f'"{word}"',
        "a word starting with `:` was quoted; choose a language with the language argument",
    ),
    Form(
        "searxng-timeout",
        lambda word: word[:1] == "<" and word[1:].isdigit(),
        lambda word: f'"{word}"',
        "a word like `<3` was quoted, as SearXNG reads it as a timeout",
    ),
)


@dataclass(frozen=True, slots=True)
class Neutral:
    """`text` without live words; `forms` that were met; refused when one of them cannot be rewritten."""

    text: str
    forms: tuple[Form, ...]

    @property
    def refused(self) -> bool:
        return any(form.rewrite is None for form in self.forms)


def neutralise(query: str) -> Neutral:
    """Rewrite the live words of a query; a query without any comes back unchanged."""
    met: dict[str, Form] = {}

    def rewrite(match: re.Match[str]) -> str:
        form = form_of(match[0])
        if form is None:
            return match[0]
        met[form.rule] = form
        return form.rewrite(_bare(match[0])) if form.rewrite else ""

    text = _WORD.sub(rewrite, query)
    return Neutral(text if met == {} else " ".join(text.split()), tuple(met.values()))


def form_of(word: str) -> Form | None:
    """The kind of live word this is, if any."""
    bare = _bare(word)
    return next((form for form in FORMS if form.matches(bare)), None)


def _bare(word: str) -> str:
    return "".join(character for character in word if not is_invisible(character))
