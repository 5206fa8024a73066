"""Names of hosts that carry data: whoever answers for a domain reads every name that is looked up below it."""

from __future__ import annotations

import re
from itertools import pairwise
from time import monotonic

from sparkgate.policy.finding import Finding, Label, Overrun

LABEL = Label(
    "data-in-hostname",
    "secret",
    "block",
    "[hostname]",
    "A random-looking part of a hostname hands data to whoever answers for the domain, before any connection.",
)
MIN_CHARS = 16
LONG_CHARS = 30
TURNS = 5
"""From letter to digit and back, in a shorter part: names of machines have fewer."""
FEW_VOWELS = 0.25

_HOST = re.compile(
    r"(?:://(?:[^\s/@?#]{0,256}@)?|\b(?:dig|nslookup|ping|curl|wget|resolve)\s+(?:-\S{1,20}\s+){0,4})"
    r"((?:[A-Za-z0-9_-]{1,63}\.){2,12}[A-Za-z]{2,24})(?![A-Za-z0-9_-])"
)
_RUN = re.compile(rf"[A-Za-z0-9]{{{MIN_CHARS},63}}")


class Hostnames:
    """Finds parts of hostnames that are no words."""

    def find(self, text: str, deadline: float) -> list[Finding]:
        found: list[Finding] = []
        if "." not in text:
            return found
        for host in _HOST.finditer(text):
            if monotonic() > deadline:
                raise Overrun
            registered = host[1].rfind(".", 0, host[1].rfind("."))
            for run in _RUN.finditer(text, host.start(1), host.start(1) + registered):
                if is_random(run[0]):
                    found.append(Finding(LABEL, *run.span()))
        return found


def is_random(part: str) -> bool:
    """Letters and digits without the shape of a name: they take turns, or go on for long with hardly a vowel."""
    turns = sum(one.isdigit() != other.isdigit() for one, other in pairwise(part))
    digits = sum(map(str.isdigit, part))
    vowels = sum(one in "aeiouAEIOU" for one in part)
    if turns >= TURNS and digits < len(part):
        return True
    return len(part) >= LONG_CHARS and (digits >= 2 or vowels < FEW_VOWELS * len(part))
