"""Names to look up in one pass: exact spellings all together, misspelt ones behind their deletions.

One edit away from a key means: what one deletion leaves of the word is what at most one deletion leaves of the key,
so a few dictionary look-ups per word find all keys, however many there are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sparkgate.policy.literals import Literals, any_of
from sparkgate.policy.names.fold import unspaced
from sparkgate.policy.names.parse import Key, Name, keys
from sparkgate.policy.names.words import CONNECTORS, is_common

SHORT = 4
"""A key of one part with fewer letters is looked up as a whole word only."""
EDITABLE = 7
"""Letters a name needs before one of them may be wrong."""
EDITABLE_PART = 5
"""The same for one part of a name whose other parts are right."""

T = TypeVar("T")
Part = tuple[int, int]
Tick = Callable[[], None]
Gate = tuple[int, frozenset[str], frozenset[str]]


@dataclass(frozen=True, slots=True)
class Pair:
    """Words `first` to `last` of a text that are a name of several parts, one of them misspelt."""

    name: Name
    first: int
    last: int


class Index:
    """All keys of all names."""

    def __init__(self, names: Sequence[Name]) -> None:
        known = {key for name in names for key in keys(name)}
        exact = _grouped((key.text, key) for key in known)
        self.short = {text: found for text, found in exact.items() if all(map(_is_short, found))}
        self._exact = Literals({text: found for text, found in exact.items() if text not in self.short})
        self.misspelt = Misspelt(names)
        self.pairs = Pairs(names)
        whole = (f" {text} " for text in (*self.short, *self.pairs.parts))
        self._hints = any_of([*whole, *self.misspelt.edges])

    def exact(self, joined: str) -> list[tuple[int, tuple[Key, ...]]]:
        """(index of the last letter, keys) wherever keys stand in a text without separators."""
        return [(end - 1, found) for end, found in self._exact.places(joined)]

    def suspects(self, readings: Sequence[str], tick: Tick) -> bool:
        """Whether a look at each word with its place can find anything: short and misspelt names."""
        if not any(map(self._hints, readings)):
            return False
        cut = [reading.split() for reading in readings]
        words = set().union(*cut)
        if not self.short.keys().isdisjoint(words):
            return True
        if any(self.misspelt.find(word) for word in self.misspelt.likely(words)):
            return True
        return any(self.pairs.find(reading, tick) for reading in cut)


def _is_short(key: Key) -> bool:
    return len(key.text) < SHORT and not key.cuts and not unspaced(key.text[0])


class Near:
    """Texts that are found by words one edit away from them."""

    def __init__(self, known: Iterable[str], shortest: int) -> None:
        texts = {text for text in known if len(text) >= shortest and text.isalpha() and not unspaced(text[0])}
        self._by_deletion = _grouped((rest, text) for text in texts for rest in deletions(text))
        sizes = {len(text) + change for text in texts for change in (-1, 0, 1)}
        self._gates = {size: _gate(size, texts, shortest) for size in sizes}

    @property
    def edges(self) -> Iterator[str]:
        """How likely words begin and end, with the blank there."""
        for _, heads, tails in self._gates.values():
            yield from (f" {head}" for head in heads)
            yield from (f"{tail} " for tail in tails)

    def likely(self, words: Iterable[str]) -> list[str]:
        """Words that begin or end as a text of about their length does; an edit leaves one of the two alone."""
        gates, found = self._gates, []
        for word in words:
            if len(word) in gates:
                size, heads, tails = gates[len(word)]
                if word[:size] in heads or word[-size:] in tails:
                    found.append(word)
        return found

    def find(self, word: str) -> list[str]:
        """Texts exactly one edit away from a likely word."""
        size, heads, tails = self._gates[len(word)]
        first = 0 if word[-size:] in tails else size
        last = len(word) if word[:size] in heads else len(word) - size
        known = self._by_deletion
        near = set(known.get(word, ()))
        for index in range(first, last):
            rest = word[:index] + word[index + 1 :]
            if rest in known:
                near.update(known[rest])
        return [text for text in near if one_edit(word, text)]


def _gate(size: int, texts: Iterable[str], shortest: int) -> Gate:
    half = (max(size - 1, shortest) - 1) // 2
    fitting = [text for text in texts if abs(len(text) - size) <= 1]
    return half, frozenset(text[:half] for text in fitting), frozenset(text[-half:] for text in fitting)


class Misspelt:
    """Names of seven letters and more with one of them wrong."""

    def __init__(self, names: Iterable[Name]) -> None:
        self._terms = _grouped((text, name.term) for name in names for text in _joined(name))
        self._near = Near(self._terms, EDITABLE)
        self.likely, self.edges = self._near.likely, self._near.edges

    def find(self, word: str) -> set[int]:
        """Terms of which a likely word is a misspelt name; none for an ordinary word, or one that holds the name."""
        found = {term for text in self._near.find(word) if text not in word for term in self._terms[text]}
        return found if found and not is_common(word) else set()


def _joined(name: Name) -> Iterable[str]:
    return name.parts[0] if len(name.parts) == 1 else ["".join(part[0] for part in name.parts)]


class Pairs:
    """Names of several parts, found by one misspelt part beside right ones."""

    def __init__(self, names: Sequence[Name]) -> None:
        self._names = names
        several = [(index, name) for index, name in enumerate(names) if len(name.parts) > 1 and name.size >= EDITABLE]
        parts = [(text, (i, at)) for i, name in several for at, part in enumerate(name.parts) for text in part]
        plurals = [(f"{text}s", (i, len(name.parts) - 1)) for i, name in several for text in name.parts[-1]]
        self.parts = {text: frozenset(found) for text, found in _grouped(parts + plurals).items()}
        self._near = Near((text for text, _ in parts), EDITABLE_PART)

    def find(self, words: Sequence[str], tick: Tick) -> list[Pair]:
        """Names of which all parts but one stand right in `words`, and that one is one edit away."""
        if self.parts.keys().isdisjoint(words):
            return []
        known = [index for index, word in enumerate(words) if word in self.parts]
        beside = [(index, at, step) for index in known for at, step in _neighbours(words, index)]
        likely = set(self._near.likely(words[at] for _, at, _ in beside))
        if not likely:
            return []
        parts: dict[tuple[str, str, int], set[Part]] = {}
        found: list[Pair | None] = []
        for index, at, step in beside:
            tick()
            key = words[index], words[at], step
            if words[at] in likely and key not in parts:
                parts[key] = self._beside(words[at], self.parts[words[index]], step)
            found += [self._aligned(words, at, part) for part in parts.get(key, ())]
        return [pair for pair in found if pair]

    def _beside(self, word: str, parts: frozenset[Part], step: int) -> set[Part]:
        """Parts that `word` misspells, and that stand `step` from one of `parts` in their name."""
        near = self._near.find(word)
        if near and is_common(word):
            near = [text for text in near if word == f"{text}s"]
        beside = {(name, at + step) for name, at in parts} if near else set()
        return {part for text in near for part in beside & self.parts[text]}

    def _aligned(self, words: Sequence[str], at: int, part: Part) -> Pair | None:
        """The whole name around its misspelt part at word `at`."""
        index, misspelt = part
        name = self._names[index]
        first = self._walk(words, at, -1, index, range(misspelt - 1, -1, -1))
        last = self._walk(words, at, 1, index, range(misspelt + 1, len(name.parts)))
        return None if first is None or last is None else Pair(name, first, last)

    def _walk(self, words: Sequence[str], at: int, step: int, name: int, parts: Iterable[int]) -> int | None:
        """Where the last of `parts` stands when each follows the one before it."""
        for part in parts:
            at += step
            linked = self._names[name].links[part if step < 0 else part - 1]
            if linked and 0 <= at < len(words) and words[at] in CONNECTORS:
                at += step
            if not (0 <= at < len(words) and (name, part) in self.parts.get(words[at], ())):
                return None
        return at


def _neighbours(words: Sequence[str], index: int) -> list[tuple[int, int]]:
    """(index, direction) of the words beside one, and of those behind a word that joins."""
    ahead = [(index - 1, -1), (index + 1, 1)]
    beyond = [(at + step, step) for at, step in ahead if 0 <= at < len(words) and words[at] in CONNECTORS]
    return [(at, step) for at, step in ahead + beyond if 0 <= at < len(words)]


def _grouped(items: Iterable[tuple[str, T]]) -> dict[str, tuple[T, ...]]:
    found: dict[str, list[T]] = defaultdict(list)
    for rest, item in items:
        found[rest].append(item)
    return {rest: tuple(group) for rest, group in found.items()}


def deletions(word: str) -> set[str]:
    """The word, and the word without each one of its letters."""
    return {word, *(word[:index] + word[index + 1 :] for index in range(len(word)))}


def one_edit(a: str, b: str) -> bool:
    """Whether one insertion, deletion, substitution or swap of neighbours turns `a` into `b`."""
    if a == b or abs(len(a) - len(b)) > 1:
        return False
    head = _shared(a, b)
    a, b = a[head:], b[head:]
    tail = _shared(a[::-1], b[::-1])
    a, b = a[: len(a) - tail], b[: len(b) - tail]
    return max(len(a), len(b)) <= 1 or (len(a) == 2 and a == b[::-1])


def _shared(a: str, b: str) -> int:
    """Letters that both begin with."""
    pairs = enumerate(zip(a, b, strict=False))
    return next((index for index, (x, y) in pairs if x != y), min(len(a), len(b)))
