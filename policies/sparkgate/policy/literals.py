"""Many literals looked for in one pass over a text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from ahocorasick_rs import AhoCorasick, Implementation

T = TypeVar("T")

_HALVES = re.compile("[\ud800-\udfff]")
"""Of surrogate pairs, which are no text for the automaton."""


class Literals(Generic[T]):
    """Literals, each with a value.

    Args:
        values: by literal; none of them is empty.
    """

    def __init__(self, values: Mapping[str, T]) -> None:
        self._values = tuple(values.values())
        # Of the three kinds the one that is small and quick; by itself it is chosen for few literals only.
        self._automaton = AhoCorasick([*values], store_patterns=False, implementation=Implementation.ContiguousNFA)

    def values(self, text: str) -> list[T]:
        """The value of every literal in a text, wherever it stands; they may overlap."""
        values = self._values
        return [values[number] for number, _, _ in _places(self._automaton, text)]

    def places(self, text: str) -> list[tuple[int, T]]:
        """(index behind its last character, value) of the same."""
        return [(end, self._values[number]) for number, _, end in _places(self._automaton, text)]


def any_of(literals: Iterable[str]) -> Callable[[str], bool]:
    """What tells whether a text holds one of these."""
    automaton = AhoCorasick([*literals], store_patterns=False)
    return lambda text: bool(_places(automaton, text, overlapping=False))


def _places(automaton: AhoCorasick, text: str, overlapping: bool = True) -> list[tuple[int, int, int]]:
    """(number of the literal, start, end), half open."""
    try:
        return automaton.find_matches_as_indexes(text, overlapping)
    except UnicodeEncodeError:
        return automaton.find_matches_as_indexes(_HALVES.sub("\ufffd", text), overlapping)
