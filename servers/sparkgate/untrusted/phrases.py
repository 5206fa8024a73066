"""Phrases that speak to a model, as data: TOML tables with why, texts that must be marked and texts that must not.

A pattern sees text in lower case without accents. In it a blank stands for any signs between two words, `{name}` for a
set of words from words.toml, and a letter at either end for the beginning or end of a word.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any

import regex

from sparkgate.policy.literals import Literals
from sparkgate.policy.rules import RuleError, read_tables

SHIPPED = Path(__file__).parent / "phrases"
WORDS = "words.toml"
BEFORE_CHARS, AFTER_CHARS = 160, 320
"""Around a keyword, that the pattern is tried in."""
TEXTS = ("id", "why")
LISTS = ("keywords", "patterns", "hits", "clean")

_making = Lock()
_SLOT = regex.compile(r"\{([a-z_]+)\}")
_GAP = r"(?:[[\W--[.!?\u3002]]_]{1,6}+)"
_BEGINS, _ENDS = regex.compile(r"[a-z\p{Cyrillic}({]"), regex.compile(r"[a-z\p{Cyrillic})}]")
_WORD = regex.compile(r"((?<!\w)\\w|\[\\w[.'-]*\]|\\S)\+( |\)(?=[?{]| ))")
"""A word between others is taken whole: what it may end with, the signs after it may begin with."""
_WITHOUT_BLANKS = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}]")
_WORD_BEGINS, _WORD_ENDS = r"(?<![\p{L}\p{N}])", r"(?![\p{L}\p{N}])"


@dataclass(frozen=True, slots=True)
class Phrase:
    """One rule. `family` is the file it stands in; one of `keywords` must be near for the pattern to be tried."""

    id: str
    family: str
    why: str
    keywords: tuple[str, ...]
    pattern: regex.Pattern[str]
    hits: tuple[str, ...] = field(default=(), repr=False)
    clean: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Hit:
    """Half-open indices of a phrase in the text that was looked through."""

    phrase: Phrase
    start: int
    end: int


class Phrasebook:
    """All rules, behind one look for all keywords."""

    def __init__(self, phrases: Sequence[Phrase]) -> None:
        self.phrases = tuple(phrases)
        wanted: dict[str, list[int]] = {}
        for index, phrase in enumerate(self.phrases):
            for keyword in phrase.keywords:
                wanted.setdefault(keyword, []).append(index)
        self._keywords = Literals({keyword: tuple(indices) for keyword, indices in wanted.items()})

    def find(self, text: str, deadline: float) -> Iterator[Hit]:
        """Every phrase in a text that was made plain.

        Raises:
            TimeoutError: `deadline` (time.monotonic seconds) passed before the last one.
        """
        windows: dict[int, list[list[int]]] = {}
        for end, indices in self._keywords.places(text):
            for index in indices:
                _widen(windows.setdefault(index, []), max(0, end - 1 - BEFORE_CHARS), end - 1 + AFTER_CHARS)
        for index, spans in sorted(windows.items()):
            for start, end in spans:
                yield from _matches(self.phrases[index], text, start, end, deadline)


def _widen(spans: list[list[int]], start: int, end: int) -> None:
    if spans and start <= spans[-1][1]:
        spans[-1][1] = end
    else:
        spans.append([start, end])


def _matches(phrase: Phrase, text: str, start: int, end: int, deadline: float) -> Iterator[Hit]:
    left_s = deadline - monotonic()
    if left_s <= 0:
        raise TimeoutError
    for match in phrase.pattern.finditer(text, start, end, timeout=left_s):
        yield Hit(phrase, *match.span())


def shipped() -> Phrasebook:
    """The rules that come with sparkgate; who asks while they are made waits for them."""
    with _making:
        return _shipped()


@cache
def _shipped() -> Phrasebook:
    return Phrasebook(tuple(load(sorted(SHIPPED.glob("*.toml")))))


def load(paths: Iterable[Path]) -> Iterator[Phrase]:
    """Read rule files; words.toml beside them has the sets of words.

    Raises:
        RuleError: a file is not TOML, or a rule is incomplete or cannot be compiled.
    """
    for path in paths:
        if path.name != WORDS:
            words = _words(path.with_name(WORDS))
            yield from (parse(table, path, words) for table in read_tables(path, "phrase"))


@cache
def _words(path: Path) -> Mapping[str, str]:
    sets: Mapping[str, Sequence[str]] = tomllib.loads(path.read_text(encoding="utf-8"))
    return {name: f"(?:{'|'.join(words)})" for name, words in sets.items()}


def parse(table: Mapping[str, Any], path: Path, words: Mapping[str, str]) -> Phrase:
    """One `[[phrase]]` table → Phrase. Raises RuleError, naming file and rule."""
    name = f"{path}: phrase {table.get('id', '(no id)')!r}"
    lacking = [key for key in (*TEXTS, *LISTS) if not table.get(key)]
    unknown = sorted(set(table) - {*TEXTS, *LISTS})
    if lacking or unknown:
        raise RuleError(
            f"{name}: needs {', '.join(lacking) or 'nothing'}, does not know {', '.join(unknown) or 'none'}"
        )
    try:
        pattern = regex.compile(
            "|".join(expand(one, words) for one in table["patterns"]), regex.VERSION1 | regex.MULTILINE
        )
    except (regex.error, KeyError) as error:
        raise RuleError(f"{name}: {error}") from error
    lists = {key: tuple(table[key]) for key in ("keywords", "hits", "clean")}
    return Phrase(table["id"], path.stem, table["why"], pattern=pattern, **lists)


def expand(pattern: str, words: Mapping[str, str]) -> str:
    """A pattern as it is written → as `regex` takes it. Raises KeyError for an unknown set of words."""
    apart = not _WITHOUT_BLANKS.search(pattern)
    begins = _WORD_BEGINS if apart and _BEGINS.match(pattern) else ""
    ends = _WORD_ENDS if apart and _ENDS.match(pattern[-1]) else ""
    pattern = _WORD.sub(r"\1++\2", pattern)
    for _ in range(3):
        pattern = _SLOT.sub(lambda slot: words[slot[1]], pattern)
    return f"{begins}(?:{pattern.replace(' ', _GAP)}){ends}"
