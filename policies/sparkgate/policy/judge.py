"""The decision over one text: every rule in every view, spans merged, replaced once, under one deadline."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, perf_counter

from sparkgate.policy.rules import Class, Finding, Overrun, Rule, Rulebook, Verdict, load, shipped
from sparkgate.policy.syntax import Form, Neutral
from sparkgate.policy.terms import load_terms
from sparkgate.policy.views import View, views

SHIELDED: frozenset[Class] = frozenset({"pii", "local"})
ROUNDS = 4
STRENGTH: dict[Verdict, int] = {"allow": 0, "redact": 1, "block": 2}


@dataclass(frozen=True, slots=True)
class Withheld:
    """A span of the judged text that must not leave as it is (str indices)."""

    rule: str
    cls: Class
    start: int
    end: int
    replacement: str
    verdict: Verdict

    def public(self) -> dict[str, object]:
        """What may be told of it: never the value."""
        return {"rule": self.rule, "class": self.cls, "start": self.start, "end": self.end}


@dataclass(frozen=True, slots=True)
class Decision:
    """`released` is what may leave: the text itself, a redacted copy, or "" when blocked.

    `findings` are disjoint; `spans` are all places that any rule matched, before overlapping ones were joined.
    `reason` is "" or why the decision is a block although no rule asked for it. `syntax` are the forms of the
    destination's query syntax that were met, refused or rewritten.
    """

    verdict: Verdict
    released: str
    findings: tuple[Withheld, ...] = ()
    elapsed_us: int = 0
    reason: str = ""
    spans: tuple[tuple[int, int], ...] = ()
    syntax: tuple[Form, ...] = ()

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
        others = [rule for rule in self.rules if all(rule != finding.rule for finding in self.findings)]
        return spans + [{"rule": rule} for rule in others]

    def for_syntax(self, neutralise: Callable[[str], Neutral]) -> Decision:
        """The same decision with the query syntax of a destination taken out of what may leave, or refused for it."""
        neutral = neutralise(self.released)
        if self.verdict == "block" or not neutral.forms:
            return self
        verdict: Verdict = "block" if neutral.refused else "redact"
        released = "" if neutral.refused else neutral.text
        return dataclasses.replace(self, verdict=verdict, released=released, syntax=neutral.forms)


class Policy:
    """A rulebook with its limits.

    Args:
        rules: all rules, shipped and the operator's.
        deadline_s: seconds for one whole decision; past it the answer is block.
        max_bytes: longest text judged, in UTF-8 bytes; a longer one is blocked.
    """

    def __init__(self, rules: Iterable[Rule], *, deadline_s: float = 0.25, max_bytes: int = 16_384) -> None:
        self.book = Rulebook(rules)
        self.deadline_s = deadline_s
        self.max_bytes = max_bytes
        self.digest = _digest(self.book.rules)

    @classmethod
    def from_folder(cls, folder: Path, *, deadline_s: float = 0.25, max_bytes: int = 16_384) -> Policy:
        """The shipped rules plus `rules/*.toml` and `terms.toml` of an operator's folder.

        Raises:
            RuleError: any file of it cannot be used.
        """
        own = load(sorted((folder / "rules").glob("*.toml")))
        rules = (*shipped(), *own, *load_terms(folder / "terms.toml"))
        return cls(rules, deadline_s=deadline_s, max_bytes=max_bytes)

    def judge(self, text: str) -> Decision:
        """Decide over `text`. Never raises: whatever goes wrong is a block that names its reason."""
        start = perf_counter()
        try:
            decision = self._judge(text)
        except Overrun:
            decision = Decision("block", "", reason="policy-deadline")
        except Exception:
            decision = Decision("block", "", reason="policy-fault")
        return dataclasses.replace(decision, elapsed_us=round((perf_counter() - start) * 1e6))

    def judge_for(self, text: str, neutralise: Callable[[str], Neutral]) -> Decision:
        """`judge`, then the destination's query syntax taken out; what its taking out brings to light is a block."""
        decision = self.judge(text)
        settled = decision.for_syntax(neutralise)
        if settled is decision or settled.verdict == "block":
            return settled
        plain = neutralise(text).text
        again = self.judge(plain)
        elapsed_us = decision.elapsed_us + again.elapsed_us
        leaving = [one.rule for one in again.findings if plain[one.start : one.end] in settled.released]
        if again.verdict != "block" and not leaving:
            return dataclasses.replace(settled, elapsed_us=elapsed_us)
        reason = (*leaving, *again.rules)[0]
        return Decision("block", "", elapsed_us=elapsed_us, reason=reason, syntax=settled.syntax)

    def _judge(self, text: str) -> Decision:
        if len(text.encode("utf-8", "surrogatepass")) > self.max_bytes:
            return Decision("block", "", reason="input-too-long")
        if any("\ud800" <= character <= "\udfff" for character in text):
            return Decision("block", "", reason="not-unicode")
        deadline = monotonic() + self.deadline_s
        found = self._find(views(text), deadline)
        for _ in range(ROUNDS):
            findings = merge(found)
            verdict = strongest(findings)
            released = replace(text, findings)
            # What was taken out may have hidden something from a rule, so a redacted text is judged again; what lies
            # inside a placeholder is ours.
            more = self._find([released], deadline) if verdict == "redact" else []
            more = [hit for hit in more if not any(one.start <= hit.start and hit.end <= one.end for one in findings)]
            if not more:
                spans = tuple(sorted({(one.start, one.end) for one in found}))
                return Decision(verdict, "" if verdict == "block" else released.text, findings, spans=spans)
            found += more
        return Decision("block", "", reason="policy-unstable")

    def _find(self, forms: Iterable[View], deadline: float) -> list[Withheld]:
        found: list[Withheld] = []
        for view in forms:
            hits = self.book.find(view.text, deadline)
            found += [_withheld(hit, view.span(hit.start, hit.end)) for hit in _unshielded(hits)]
        return found


def strongest(findings: Iterable[Withheld]) -> Verdict:
    """The strongest verdict of all; allow when there are none."""
    verdict: Verdict = "allow"
    for finding in findings:
        verdict = max(verdict, finding.verdict, key=STRENGTH.__getitem__)
    return verdict


def _unshielded(hits: list[Finding]) -> list[Finding]:
    shields = [hit for hit in hits if hit.rule.verdict == "allow"]
    return [
        hit
        for hit in hits
        if hit.rule.verdict != "allow"
        and not (hit.rule.cls in SHIELDED and any(s.start <= hit.start and hit.end <= s.end for s in shields))
    ]


def _withheld(hit: Finding, span: tuple[int, int]) -> Withheld:
    return Withheld(hit.rule.id, hit.rule.cls, *span, hit.rule.replacement, hit.rule.verdict)


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
    return Withheld(lead.rule, lead.cls, *span, lead.replacement, lead.verdict)


def replace(text: str, findings: Iterable[Withheld]) -> View:
    """`text` with each (disjoint, ordered) span replaced once, as a view of the original."""
    parts: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    last = 0

    def add(part: str, begins: Iterable[int], stops: Iterable[int]) -> None:
        parts.append(part)
        starts.extend(begins)
        ends.extend(stops)

    for finding in findings:
        kept = range(last, finding.start)
        add(text[last : finding.start], kept, (index + 1 for index in kept))
        size = len(finding.replacement)
        add(finding.replacement, [finding.start] * size, [finding.end] * size)
        last = finding.end
    kept = range(last, len(text))
    add(text[last:], kept, (index + 1 for index in kept))
    return View("released", "".join(parts), tuple(starts), tuple(ends))


def _digest(rules: Iterable[Rule]) -> str:
    told = [
        [r.id, r.cls, r.verdict, list(r.keywords), r.pattern.pattern, list(r.check_names), r.replacement] for r in rules
    ]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]
