"""The decision over one text: every rule in every view, spans merged, replaced once, under one deadline."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from time import monotonic, perf_counter

from sparkgate.policy.acceptance import Accept, accepts
from sparkgate.policy.code.detector import CodeDetector
from sparkgate.policy.decision import Decision, merge, replace, strongest
from sparkgate.policy.finding import ANYWHERE, Class, Detector, Finding, Overrun, Where, Withheld
from sparkgate.policy.forms.view import View
from sparkgate.policy.hidden import HiddenText
from sparkgate.policy.hostnames import Hostnames
from sparkgate.policy.profiles import FILE as PROFILES
from sparkgate.policy.profiles import Profiles, load_profiles
from sparkgate.policy.recent.clauses import Clauses
from sparkgate.policy.rules import Rule, Rulebook, RuleError, load, shipped, unique
from sparkgate.policy.sheet import Sheet
from sparkgate.policy.suspects import Suspects, suspects
from sparkgate.policy.syntax import Neutral
from sparkgate.policy.terms import load_terms
from sparkgate.policy.views import Expanded, sheets

SHIELDED: frozenset[Class] = frozenset({"pii", "local"})
OTHER_IDS = (
    "own-code",
    "diff",
    "own-stack-frame",
    "confidential-header",
    "own-configuration",
    "joined-texts",
    "code",
    "data-in-hostname",
    "hidden-text",
    "unreleased-code",
    "known-value",
    "canary",
    "own-user",
    "own-host",
    "own-home",
    "own-mail",
    "own-name",
)
"""Of what is found by no rule."""
CLEAN = Decision("allow", "")
"""Nothing was found: the text may leave as it is."""
ROUNDS = 4


class Policy:
    """A rulebook and other detectors, with their limits.

    Args:
        rules: all rules, shipped and the operator's; they see every form of a text.
        values: finds values that are known, in every form too.
        names: finds names, in every form too.
        profiles: what the operator says of findings at one place or another.
        others: detectors of what stands in words and lines; they see the forms in which those are whole.
        deadline_s: seconds for one whole decision; past it the answer is block.
        max_bytes: longest text judged, in UTF-8 bytes; a longer one is blocked.
    """

    def __init__(
        self,
        rules: Iterable[Rule],
        *,
        values: Sequence[Detector] = (),
        names: Sequence[Detector] = (),
        others: Sequence[Detector] = (),
        profiles: Profiles | None = None,
        told: Sequence[object] = (),
        deadline_s: float = 0.25,
        max_bytes: int = 16_384,
    ) -> None:
        self.rules = unique(rules)
        self._shields = Rulebook(rule for rule in self.rules if rule.verdict == "allow")
        self._book = Rulebook(rule for rule in self.rules if rule.verdict != "allow")
        self._everywhere = (*values, *names)
        self._values = tuple(values)
        self._others = (*others, Clauses(self._find_in_pieces))
        self._profiles = profiles or Profiles()
        self.deadline_s = deadline_s
        self.max_bytes = max_bytes
        self.digest = _digest(self.rules, [*told, *self._profiles.told()])

    @classmethod
    def from_folder(
        cls,
        folder: Path,
        *,
        values: Sequence[Detector] = (),
        others: Sequence[Detector] = (),
        deadline_s: float = 0.25,
        max_bytes: int = 16_384,
    ) -> Policy:
        """The shipped rules with `rules/*.toml`, `terms.toml` and `profiles.toml` of an operator's folder.

        A rule of the operator takes the place of the shipped one of the same id.

        Raises:
            RuleError: any file of it cannot be used.
        """
        own = load(sorted((folder / "rules").glob("*.toml")))
        if taken := [rule.id for rule in own if rule.id in OTHER_IDS]:
            raise RuleError(f"{folder / 'rules'}: {taken[0]!r} is the name of something else; call the rule otherwise")
        names = {rule.id for rule in own}
        rules = (*(rule for rule in shipped() if rule.id not in names), *own)
        terms = load_terms(folder / "terms.toml")
        labels = [*(rule.id for rule in rules), *(label.id for label in terms.labels), *OTHER_IDS]
        return cls(
            rules,
            values=values,
            names=(terms,),
            others=(HiddenText(), CodeDetector(), Hostnames(), *others),
            profiles=load_profiles(folder / PROFILES, labels),
            told=[terms.told()],
            deadline_s=deadline_s,
            max_bytes=max_bytes,
        )

    def judge(self, text: str, where: Where = ANYWHERE) -> Decision:
        """Decide over `text`. Never raises: whatever goes wrong is a block that names its reason."""
        start = perf_counter()
        try:
            decision = self._judge(text, where)
        except Overrun:
            decision = Decision("block", "", reason="policy-deadline")
        except Expanded:
            decision = Decision("block", "", reason="input-expands")
        except Exception:
            decision = Decision("block", "", reason="policy-fault")
        elapsed_us = round((perf_counter() - start) * 1e6)
        if decision is CLEAN:
            return Decision("allow", text, elapsed_us=elapsed_us)
        return dataclasses.replace(decision, elapsed_us=elapsed_us)

    def judge_for(self, text: str, neutralise: Callable[[str], Neutral], where: Where = ANYWHERE) -> Decision:
        """`judge`, then the destination's query syntax taken out; what its taking out brings to light is a block."""
        decision = self.judge(text, where)
        settled = decision.for_syntax(neutralise)
        if settled is decision or settled.verdict == "block":
            return settled
        plain = neutralise(text).text
        again = self.judge(plain, where)
        elapsed_us = decision.elapsed_us + again.elapsed_us
        leaving = [one.rule for one in again.findings if plain[one.start : one.end] in settled.released]
        if again.verdict != "block" and not leaving:
            return dataclasses.replace(settled, elapsed_us=elapsed_us)
        reason = (*leaving, *again.rules)[0]
        return Decision("block", "", elapsed_us=elapsed_us, reason=reason, syntax=settled.syntax)

    def agreed(self, decision: Decision, neutralise: Callable[[str], Neutral], where: Where = ANYWHERE) -> Decision:
        """The decision when a person has agreed; what is left is judged again, and only what was asked may be in it."""
        agreed = decision.with_consent(neutralise)
        if agreed.verdict == "block":
            return agreed
        again = self.judge(agreed.released, where)
        others = [one.rule for one in again.findings if one.rule not in decision.askable]
        if not again.reason and not others:
            return agreed
        return Decision("block", "", elapsed_us=decision.elapsed_us, reason=(*others, again.reason)[0])

    def _judge(self, text: str, where: Where) -> Decision:
        try:
            size_bytes = len(text.encode())
        except UnicodeEncodeError:
            return Decision("block", "", reason="not-unicode")
        if size_bytes > self.max_bytes:
            return Decision("block", "", reason="input-too-long")
        deadline = monotonic() + self.deadline_s
        found, on_trial = self._settled(text, sheets(text), where, deadline)
        if not found and not on_trial:
            return CLEAN
        for _ in range(ROUNDS):
            findings = merge(found)
            verdict = strongest(findings)
            released = replace(text, findings)
            # What was taken out may have hidden something from a rule, so a redacted text is judged again; what lies
            # inside a placeholder is ours.
            more = self._settled(text, sheets(released, plain=True), where, deadline)[0] if verdict == "redact" else []
            more = [hit for hit in more if not any(one.start <= hit.start and hit.end <= one.end for one in findings)]
            if not more:
                return _decision(text, findings, found, on_trial, released.text)
            found += more
        return Decision("block", "", reason="policy-unstable")

    def _settled(
        self, text: str, forms: Iterable[Sheet], where: Where, deadline: float
    ) -> tuple[list[Withheld], list[Withheld]]:
        """What counts at that place, and what is only on trial."""
        return self._profiles.settle(self._find(forms, deadline), text, where)

    def find(
        self, view: View, deadline: float, accept: Accept | None, suspects: Suspects | None = None
    ) -> list[Finding]:
        """What every detector that looks at this form finds in it, of what may count there; of suspects alone where
        there are some. Raises Overrun."""
        hits = self._book.find(view, deadline, accept, suspects.rules if suspects else None)
        detectors = suspects.detectors if suspects else self._everywhere
        for detector in detectors if accept else (*detectors, *self._others):
            hits += detector.find(view, deadline)
        return hits

    def find_at(self, where: Where) -> Callable[[str, float], list[Finding]]:
        """What is found in a text as it stands and counts at that place: for texts put together of several."""

        def find(text: str, deadline: float) -> list[Finding]:
            view = View("raw", text)
            return [
                hit
                for hit in self._find_in_pieces(text, deadline)
                if hit.rule.verdict == "allow" or self._profiles.settle([_withheld(view, hit)], text, where)[0]
            ]

        return find

    def _find_in_pieces(self, text: str, deadline: float) -> list[Finding]:
        """What counts in a text put together of others, and what shields there."""
        detectors, view = (self._shields, self._book, *self._values), View("raw", text)
        return [hit for detector in detectors for hit in detector.find(view, deadline) if hit.rule.forms != "plain"]

    def _find(self, forms: Iterable[Sheet], deadline: float) -> list[Withheld]:
        found: list[Withheld] = []
        plain: list[View] = []
        for sheet in forms:
            several = len(sheet.forms) > 1
            suspected = suspects(sheet, self._book, self._everywhere, deadline) if several else None
            for view, accept in sheet.forms:
                plain += [view] if accept is None else []
                hits = self.find(view, deadline, accept, suspected)
                found += [_withheld(view, hit) for hit in hits if accepts(view, hit.rule, hit.start, hit.end)]
        if not any(one.cls in SHIELDED for one in found):
            return found
        shields = [_withheld(view, hit) for view in plain for hit in self._shields.find(view, deadline)]
        return [one for one in found if not (one.cls in SHIELDED and _inside(one, shields))]


def _decision(
    text: str, findings: Sequence[Withheld], found: Iterable[Withheld], on_trial: Iterable[Withheld], released: str
) -> Decision:
    """What is to be asked is a block until somebody has agreed."""
    verdict, asked = strongest(findings), ""
    found = list(found)
    if verdict == "ask":
        verdict, asked = "block", replace(text, merge(one for one in found if one.verdict == "redact")).text
    spans = tuple(sorted({(one.start, one.end) for one in found}))
    return Decision(
        verdict,
        "" if verdict == "block" else released,
        tuple(findings),
        spans=spans,
        on_trial=merge(on_trial),
        asked=asked,
        askable=tuple(dict.fromkeys(one.rule for one in found if one.verdict == "ask")),
    )


def _inside(one: Withheld, shields: Iterable[Withheld]) -> bool:
    return any(shield.start <= one.start and one.end <= shield.end for shield in shields)


def _withheld(view: View, hit: Finding) -> Withheld:
    rule = hit.rule
    start, end = view.span(hit.start, hit.end)
    return Withheld(
        rule.id, rule.cls, start, end, rule.replacement, rule.verdict, rule.why, general=rule.forms != "all"
    )


def _digest(rules: Iterable[Rule], others: object) -> str:
    told: list[object] = [
        [r.id, r.cls, r.verdict, r.keywords, r.outline, r.pattern.pattern, r.check_names, r.replacement] for r in rules
    ]
    return hashlib.sha256(json.dumps([told, others]).encode()).hexdigest()[:16]
