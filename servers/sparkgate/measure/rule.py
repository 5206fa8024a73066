"""What a rule over a measured cell is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from sparkgate.measure.cell_facts import CellFacts

Severity = Literal["invalid", "warning"]


@dataclass(frozen=True, slots=True)
class Rule:
    """What makes a cell doubtful.

    Attributes:
        text: what has been seen; `{f.NAME}` stands for a fact.
        advice: what to do about it.
        applies: whether it holds for the facts of a cell; never for facts that are not known.
    """

    id: str
    severity: Severity
    text: str
    advice: str
    applies: Callable[[CellFacts], bool]


def invalid(id_: str, text: str, advice: str, applies: Callable[[CellFacts], bool]) -> Rule:
    return Rule(id_, "invalid", text, advice, applies)


def warning(id_: str, text: str, advice: str, applies: Callable[[CellFacts], bool]) -> Rule:
    return Rule(id_, "warning", text, advice, applies)
