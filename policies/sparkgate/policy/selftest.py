"""Every rule against its own examples: the leaks it must catch, the texts everybody must leave alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from time import monotonic

from sparkgate.policy.forms.view import View
from sparkgate.policy.judge import Policy
from sparkgate.policy.rules import Rule, Rulebook

PATIENCE_S = 30.0


def failures(rules: Iterable[Rule]) -> Iterator[str]:
    """One sentence for every example that does not hold, without the example's text."""
    policy = Policy(rules, deadline_s=PATIENCE_S, max_bytes=1_000_000)
    book = Rulebook(policy.rules)
    for rule in book.rules:
        for number, leak in enumerate(rule.leaks, 1):
            if all(hit.rule.id != rule.id for hit in book.find(View("raw", leak), monotonic() + PATIENCE_S)):
                yield f"{rule.id}: leak {number} is not caught by it"
        for number, clean in enumerate(rule.clean, 1):
            decision = policy.judge(clean)
            if decision.verdict != "allow":
                yield f"{rule.id}: clean {number} is touched by {', '.join(decision.rules)}"
        if policy.judge(rule.replacement).verdict != "allow":
            yield f"{rule.id}: its replacement is itself withheld"
