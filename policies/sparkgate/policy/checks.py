"""Named checks a rule may ask for, beyond its pattern. Each judges the matched value in its text."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

Check = Callable[[str, str, int], bool]
"""(value, text, start of the value in the text) → whether the match stands."""


def entropy_bits(value: str) -> float:
    """Shannon entropy of the characters of `value`, in bits per character."""
    counts = Counter(value)
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts.values())


CHECKS: dict[str, Check] = {}


def parse_check(text: str) -> Check:
    """`"luhn"` or `"entropy:3.0"` → the check.

    Raises:
        ValueError: no check of that name.
    """
    name, _, number = text.partition(":")
    if name == "entropy":
        floor = float(number or 3.0)
        return lambda value, _text, _start: entropy_bits(value) >= floor
    if name not in CHECKS or number:
        raise ValueError(f"no check is called {text!r} (known: entropy:BITS, {', '.join(sorted(CHECKS))})")
    return CHECKS[name]
