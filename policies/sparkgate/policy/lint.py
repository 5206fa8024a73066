"""What is to be bettered in rules: slow patterns, rules that others make needless or that weaken one of ours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import monotonic, perf_counter
from typing import Literal, get_args

from sparkgate.policy.finding import Finding, Overrun, Verdict
from sparkgate.policy.forms.view import View
from sparkgate.policy.literals import any_of
from sparkgate.policy.rules import Rule, Rulebook, literals, matches

Kind = Literal["slow", "weakened", "narrow", "shadowed", "overlapping", "common-keyword"]
MILDEST_FIRST = get_args(Verdict)
PATIENCE_S = 2.0
SIZES = (2_000, 16_000)
TRIES = 2
SLOW_MS = 20.0
"""For 16,000 characters made to look like the beginning of a match again and again."""
GROWTH = 24.0
"""Eight times as much text may take so many times as long; a quadratic pattern takes 64."""
_NEXT_DIGITS = str.maketrans("0123456789", "1234567890")
COMMON_SHARE = 0.2
"""Of ordinary texts, that a keyword may be in."""


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing about one rule; `other` is a second rule that it is about, or ""."""

    kind: Kind
    rule: str
    other: str
    words: str


def lint(rules: Sequence[Rule], shipped: Iterable[Rule] = ()) -> Iterator[Remark]:
    """All remarks, by rule; `shipped` are those that a rule of the same id takes the place of."""
    book = Rulebook(rules)
    replaced = {rule.id: rule for rule in shipped}
    ordinary = [text.lower() for rule in rules for text in rule.clean]
    for rule in rules:
        yield from _slow(rule)
        yield from _narrow(rule)
        if not rule.trusted and rule.id in replaced:
            yield from _weakened(rule, replaced[rule.id], book)
        yield from _beside(rule, book)
        yield from _common(rule, ordinary)


def _slow(rule: Rule) -> Iterator[Remark]:
    for seed in _seeds(rule):
        small, large = (min(_took_ms(rule, seed, size) for _ in range(TRIES)) for size in SIZES)
        if large >= PATIENCE_S * 1e3 or (large > SLOW_MS and large > GROWTH * max(small, 0.05)):
            words = (
                f"takes {large:.0f} ms for {SIZES[1]:,} characters of its own beginnings, and grows faster than they do"
            )
            yield Remark("slow", rule.id, "", words)
            return


def _narrow(rule: Rule) -> Iterator[Remark]:
    """A rule that its outline keeps from what its pattern finds: its leaks in other case, or with other digits."""
    bound, free = Rulebook([rule]), Rulebook([replace(rule, outline=())])
    for text in (other for leak in rule.leaks for other in _variants(leak)) if rule.outline else ():
        view, deadline = View("raw", text), monotonic() + PATIENCE_S
        if free.find(view, deadline) and not bound.find(view, deadline):
            yield Remark(
                "narrow", rule.id, "", "its outline keeps it from one of its leaks in other case or other digits"
            )
            return


def _variants(text: str) -> Iterable[str]:
    return text, text.upper(), text.lower(), text.translate(_NEXT_DIGITS)


def _weakened(rule: Rule, before: Rule, book: Rulebook) -> Iterator[Remark]:
    """A rule of the user that says less, or finds less, than the one whose place it takes."""
    if MILDEST_FIRST.index(rule.verdict) < MILDEST_FIRST.index(before.verdict):
        words = f"takes the place of the shipped rule and says {rule.verdict} where that says {before.verdict}"
        yield Remark("weakened", rule.id, before.id, words)
    own = Rulebook([before])
    found = [text for text in before.leaks if own.find(View("raw", text), monotonic() + PATIENCE_S)]
    if missed := sum(not book.find(View("raw", text), monotonic() + PATIENCE_S) for text in found):
        words = (
            f"takes the place of the shipped rule, of whose {len(before.leaks)} leaks {missed} are found by no rule now"
        )
        yield Remark("weakened", rule.id, before.id, words)


def _seeds(rule: Rule) -> Iterable[str]:
    """Texts that begin as a match does."""
    keyword = literals(rule.keywords[0])[0] if rule.keywords else "0"
    leak = next(iter(rule.leaks), keyword)
    return (keyword, f"{keyword} ", leak[: max(4, len(leak) // 2)], f"{keyword}a1")


def _took_ms(rule: Rule, seed: str, size: int) -> float:
    text = (seed * (size // len(seed) + 1))[:size]
    begun = perf_counter()
    try:
        matches(rule, text, monotonic() + PATIENCE_S)
    except Overrun:
        return PATIENCE_S * 1e3
    return (perf_counter() - begun) * 1e3


def _beside(rule: Rule, book: Rulebook) -> Iterator[Remark]:
    """Rules that find all of its leaks as well, with the same verdict; and those that find some, with another."""
    found = [book.find(View("raw", leak), monotonic() + PATIENCE_S) for leak in rule.leaks]
    own = [[hit for hit in hits if hit.rule.id == rule.id] for hits in found]
    others: dict[str, list[bool]] = {}
    for hits, mine in zip(found, own, strict=True):
        for name in {hit.rule.id for hit in hits} - {rule.id}:
            others.setdefault(name, []).append(_covers([hit for hit in hits if hit.rule.id == name], mine))
    for name, covered in others.items():
        verdict = next(hit.rule.verdict for hits in found for hit in hits if hit.rule.id == name)
        if verdict == rule.verdict and len(covered) == len(rule.leaks) and all(covered):
            yield Remark("shadowed", rule.id, name, f"everything it finds, {name} finds too, with the same verdict")
        elif verdict not in (rule.verdict, "allow") and any(covered):
            yield Remark(
                "overlapping", rule.id, name, f"{name} finds the same, and says {verdict} where it says {rule.verdict}"
            )


def _covers(hits: Sequence[Finding], own: Sequence[Finding]) -> bool:
    return bool(own) and all(any(one.start <= mine.start and mine.end <= one.end for one in hits) for mine in own)


def _common(rule: Rule, ordinary: Sequence[str]) -> Iterator[Remark]:
    for keyword in rule.keywords:
        found = any_of(literals(keyword))
        share = sum(map(found, ordinary)) / len(ordinary) if ordinary else 0.0
        if share > COMMON_SHARE:
            words = f"the keyword {keyword!r} is in {share:.0%} of ordinary texts: the pattern is tried nearly always"
            yield Remark("common-keyword", rule.id, "", words)
