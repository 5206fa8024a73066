"""What is decided over a text, and how the places that were found in it become one copy that may leave."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sparkgate.policy.finding import Verdict, Withheld
from sparkgate.policy.forms.view import View, rewrite
from sparkgate.policy.syntax import Form, Neutral

AGREED = "person-agreed"
STRENGTH: dict[Verdict, int] = {"allow": 0, "redact": 1, "ask": 2, "block": 3}


@dataclass(frozen=True, slots=True)
class Decision:
    """`released` is what may leave: the text itself, a redacted copy, or "" when blocked.

    `findings` are disjoint; `spans` are all places that any rule matched, before overlapping ones were joined.
    `reason` is "" or why the decision is a block although no rule asked for it. `syntax` are the forms of the
    destination's query syntax that were met, refused or rewritten. `on_trial` are findings that were only noted.
    `asked` is what may leave if a person agrees, "" when that is no question, `askable` the rules that ask, and
    `agreed` that one has.
    """

    verdict: Verdict
    released: str
    findings: tuple[Withheld, ...] = ()
    elapsed_us: int = 0
    reason: str = ""
    spans: tuple[tuple[int, int], ...] = ()
    syntax: tuple[Form, ...] = ()
    on_trial: tuple[Withheld, ...] = ()
    asked: str = ""
    askable: tuple[str, ...] = ()
    agreed: bool = False

    @property
    def rules(self) -> tuple[str, ...]:
        """Ids of everything that decided, each once: rules, syntax forms, and the reason."""
        ids = [finding.rule for finding in self.findings] + [form.rule for form in self.syntax]
        return tuple(dict.fromkeys(ids + ([self.reason] if self.reason else [])))

    @property
    def notes(self) -> tuple[str, ...]:
        """What was changed for the destination's query syntax, in words."""
        return tuple(form.note for form in self.syntax)

    def told(self) -> list[dict[str, object]]:
        """Everything that decided, as the log keeps it: never a value."""
        spans = [finding.public() for finding in self.findings]
        spans += [{**finding.public(), "shadow": True} for finding in self.on_trial]
        others = [rule for rule in self.rules if all(rule != finding.rule for finding in self.findings)]
        others += [AGREED] if self.agreed else []
        return spans + [{"rule": rule} for rule in others]

    def with_consent(self, neutralise: Callable[[str], Neutral]) -> Decision:
        """The same decision when a person has agreed to what it asks."""
        agreed = dataclasses.replace(self, verdict="redact", released=self.asked, agreed=True)
        return agreed.for_syntax(neutralise)

    def for_syntax(self, neutralise: Callable[[str], Neutral]) -> Decision:
        """The same decision with the query syntax of a destination taken out of what may leave, or refused for it."""
        neutral = neutralise(self.released)
        if self.verdict == "block" or not neutral.forms:
            return self
        verdict: Verdict = "block" if neutral.refused else "redact"
        released = "" if neutral.refused else neutral.text
        return dataclasses.replace(self, verdict=verdict, released=released, syntax=neutral.forms)


def strongest(findings: Iterable[Withheld]) -> Verdict:
    """The strongest verdict of all; allow when there are none."""
    verdict: Verdict = "allow"
    for finding in findings:
        verdict = max(verdict, finding.verdict, key=STRENGTH.__getitem__)
    return verdict


def merge(found: Iterable[Withheld]) -> tuple[Withheld, ...]:
    """Join overlapping spans into disjoint ones in text order; the strongest, then longest, names the union."""
    merged: list[Withheld] = []
    for item in sorted(found, key=lambda item: (item.start, -item.end)):
        if merged and item.start < merged[-1].end:
            merged[-1] = _union(merged[-1], item)
        else:
            merged.append(item)
    return tuple(merged)


def _union(a: Withheld, b: Withheld) -> Withheld:
    lead = max(a, b, key=lambda item: (STRENGTH[item.verdict], item.end - item.start))
    span = min(a.start, b.start), max(a.end, b.end)
    return dataclasses.replace(lead, start=span[0], end=span[1])


def replace(text: str, findings: Iterable[Withheld]) -> View:
    """`text` with each (disjoint, ordered) span replaced once, as a view of the original."""
    given = View("raw", text)
    return rewrite(given, "released", ((one.start, one.end, one.replacement) for one in findings)) or given
