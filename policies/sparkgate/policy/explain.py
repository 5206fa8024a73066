"""Why a text is judged as it is: each form of it, what was found there, and how long that took."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic, perf_counter
from typing import Literal

from sparkgate.policy.acceptance import accepts, restriction
from sparkgate.policy.decision import Decision
from sparkgate.policy.finding import ANYWHERE, Named, Overrun, Where
from sparkgate.policy.forms.view import View
from sparkgate.policy.judge import Policy
from sparkgate.policy.rules import Rule
from sparkgate.policy.views import Expanded, views

PATIENCE_S = 5.0
Confidence = Literal["certain", "likely", "possible"]
CERTAIN = ("known-value", "canary", "unreleased-code")
CHECK_SUMS = frozenset(
    {
        "luhn",
        "card",
        "iban",
        "nhs",
        "pesel",
        "aba",
        "verhoeff",
        "iso7064",
        "french-nir",
        "spanish-dni",
        "identity-number",
    }
)
"""Checks that few strings pass by chance."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One finding in one form; `counts` is False where such a finding says nothing in that form."""

    rule: str
    cls: str
    verdict: str
    start: int
    end: int
    checks: tuple[str, ...]
    confidence: Confidence
    counts: bool
    why: str
    source: str


@dataclass(frozen=True, slots=True)
class Form:
    """One form of the text; `name` tells what was done to it, the last thing first."""

    name: str
    size_chars: int
    elapsed_us: int
    seen: tuple[Seen, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """All forms, and the decision that comes of them."""

    decision: Decision
    forms: tuple[Form, ...]


def explain(policy: Policy, text: str, where: Where = ANYWHERE) -> Explanation:
    """The decision over a text, and every form and finding behind it; without the text itself."""
    forms: list[Form] = []
    try:
        for view in views(text):
            forms.append(_form(policy, view))
    except (Overrun, Expanded):
        pass  # the decision says so
    return Explanation(policy.judge(text, where), tuple(forms))


def _form(policy: Policy, view: View) -> Form:
    begun = perf_counter()
    hits = policy.find(view, monotonic() + PATIENCE_S, restriction(view))
    elapsed_us = round((perf_counter() - begun) * 1e6)
    seen = []
    for hit in hits:
        rule = hit.rule
        checks, source = (rule.check_names, rule.source) if isinstance(rule, Rule) else ((), "")
        counts = accepts(view, rule, hit.start, hit.end)
        span = view.span(hit.start, hit.end)
        told = Seen(rule.id, rule.cls, rule.verdict, *span, checks, confidence(rule), counts, rule.why, source)
        seen.append(told)
    return Form(chain(view), len(view.text), elapsed_us, tuple(seen))


def confidence(rule: Named) -> Confidence:
    """How sure a finding of this rule is: a check sum or a value that is known, a literal, or only a shape."""
    checks = rule.check_names if isinstance(rule, Rule) else ()
    if rule.id in CERTAIN or any(name in CHECK_SUMS for name in checks):
        return "certain"
    return "likely" if rule.forms == "all" else "possible"


def chain(view: View) -> str:
    """ "base64 of percent of raw"."""
    names = [view.name]
    while view.of is not None:
        view = view.of
        names.append(view.name)
    return " of ".join(names)
