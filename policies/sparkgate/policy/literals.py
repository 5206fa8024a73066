"""Whether any of many literals stands in a text, in one pass however many there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import ahocorasick


def any_of(literals: Iterable[str]) -> Callable[[str], bool]:
    """What tells whether a text holds one of these, at least one."""
    automaton = ahocorasick.Automaton(ahocorasick.STORE_LENGTH)
    for literal in literals:
        automaton.add_word(literal)
    automaton.make_automaton()
    return lambda text: next(automaton.iter(text), None) is not None
