"""What a finding must be to count, in a form of a text that was put together, turned round or otherwise guessed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import get_args

from sparkgate.policy.finding import Class, Forms, Named
from sparkgate.policy.forms.joins import BLANK_NAMES, JOIN_NAMES, SAID
from sparkgate.policy.forms.view import View

CLASSES: frozenset[Class] = frozenset(get_args(Class))
FORMS: frozenset[Forms] = frozenset(get_args(Forms))


@dataclass(frozen=True, slots=True)
class Accept:
    """What counts.

    Attributes:
        classes: findings of these.
        rules: findings of rules that say something in such forms.
        across: it reaches over a place where something was taken out.
    """

    classes: frozenset[Class] = CLASSES
    rules: frozenset[Forms] = FORMS
    across: bool = False

    def takes(self, rule: Named) -> bool:
        """Whether anything that this rule finds may count."""
        return rule.forms in self.rules and rule.cls in self.classes


_SURE: frozenset[Forms] = frozenset({"all"})
_WORDS: frozenset[Forms] = frozenset({"all", "words"})
_JOINED: frozenset[Class] = frozenset({"secret", "pii", "client"})
ACCEPT: Mapping[str, Accept] = {
    "reversed": Accept(_JOINED, _SURE),
    "rot13": Accept(frozenset({"secret", "client"}), _SURE),
    **dict.fromkeys(JOIN_NAMES, Accept(_JOINED, _SURE, across=True)),
    **dict.fromkeys(BLANK_NAMES, Accept(_JOINED, _WORDS, across=True)),
    SAID: Accept(_JOINED, across=True),
}
"""Name of a form → what counts in it; everything in the others."""


def restriction(view: View) -> Accept | None:
    """What may count in a form, by all forms that it was made by; None where everything does.

    That is where words and lines stand as a reader sees them: nothing was put together or turned round.
    """
    names: list[str] = []
    at: View | None = view
    while at is not None:
        if at.name in ACCEPT:
            names.append(at.name)
        at = at.of
    return _together(tuple(names)) if names else None


@lru_cache(maxsize=1024)
def _together(names: tuple[str, ...]) -> Accept:
    """What all of these forms take."""
    classes = frozenset.intersection(*(ACCEPT[name].classes for name in names))
    rules = frozenset.intersection(*(ACCEPT[name].rules for name in names))
    return Accept(classes, rules)


def accepts(view: View, rule: Named, start: int, end: int) -> bool:
    """Whether a finding there counts, by each form that this one was made by."""
    at: View | None = view
    while at is not None:
        wanted = ACCEPT.get(at.name)
        before = at.span_before(start, end)
        if wanted and not (wanted.takes(rule) and (not wanted.across or before[1] - before[0] != end - start)):
            return False
        (start, end), at = before, at.of
    return True
