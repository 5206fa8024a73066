"""Whether the numbers of a cell may be believed: one table of rules over what is known of it.

A rule whose facts are not known does not apply: nothing is held against a cell that nobody has seen. A cell that an
`invalid` rule applies to has no headline number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sparkgate.measure.cell_facts import CellFacts
from sparkgate.measure.rule import Rule, Severity
from sparkgate.measure.rules_answers import ANSWERS
from sparkgate.measure.rules_around import AROUND

Status = Literal["valid", "tainted", "invalid"]
RULES: tuple[Rule, ...] = (*ANSWERS, *AROUND)


@dataclass(frozen=True, slots=True)
class Flag:
    """A rule that applies, with the figures of the cell in its text."""

    id: str
    severity: Severity
    text: str
    advice: str


class _Unknown:
    """What a text says of a fact that is not known, whatever form it wants."""

    def __format__(self, spec: str) -> str:
        return "?"


class _Told:
    """Facts as texts name them."""

    def __init__(self, facts: CellFacts) -> None:
        self._facts = facts

    def __getattr__(self, name: str) -> object:
        value = getattr(self._facts, name)
        return _Unknown() if value is None else value


def flags(facts: CellFacts, rules: Sequence[Rule] = RULES) -> tuple[Flag, ...]:
    """The rules that apply, in the order of the table."""
    return tuple(
        Flag(rule.id, rule.severity, rule.text.format(f=_Told(facts)), rule.advice)
        for rule in rules
        if rule.applies(facts)
    )


def status(found: Sequence[Flag]) -> Status:
    """`tainted` is a cell with warnings only."""
    if any(flag.severity == "invalid" for flag in found):
        return "invalid"
    return "tainted" if found else "valid"


def headline(value: float | None, found: Sequence[Flag]) -> float | None:
    """The number that may be shown for a cell; None for an invalid one."""
    return None if status(found) == "invalid" else value
