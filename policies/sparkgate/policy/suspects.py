"""Who may find something in a form on a sheet: the others need not look."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sparkgate.policy.acceptance import ACCEPT, Accept
from sparkgate.policy.finding import Detector
from sparkgate.policy.rules import Rule, Rulebook
from sparkgate.policy.sheet import Sheet

GUESSED = Accept(
    frozenset().union(*(accept.classes for accept in ACCEPT.values())),
    frozenset().union(*(accept.rules for accept in ACCEPT.values())),
)
"""What may count in one form or another that was guessed."""


@dataclass(frozen=True, slots=True)
class Suspects:
    """Rules whose keyword and outline stand on a sheet, and detectors that find something there."""

    rules: Sequence[Rule]
    detectors: Sequence[Detector]


def suspects(sheet: Sheet, book: Rulebook, detectors: Iterable[Detector], deadline: float) -> Suspects:
    """Those of one sheet.

    Raises:
        Overrun: `deadline` (time.monotonic seconds) passed.
    """
    found = [detector for detector in detectors if detector.find(sheet.text, deadline)]
    return Suspects(book.candidates(sheet.text, GUESSED if sheet.forms[0][1] else None), found)
