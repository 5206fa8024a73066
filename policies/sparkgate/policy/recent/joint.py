"""What is found in pieces put together, and not in any of them alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from sparkgate.policy.finding import Class, Finding, Named
from sparkgate.policy.recent.assemble import Form, Part, firm, forms, likely, steady
from sparkgate.policy.recent.pieces import Cut, Piece

CLASSES: frozenset[Class] = frozenset({"secret", "pii"})
MAX_FORMS = 64
"""Most forms judged for one text in one lane."""
Find = Callable[[str, float], Sequence[Finding]]
"""(text, deadline in seconds of time.monotonic) → findings; `Rulebook.find` is one."""
Found = tuple[Named, tuple[Piece, ...], tuple[Part, ...]]
"""A rule, the pieces of the newest text that it takes, and the parts of all texts."""


def first_finding(
    recent: Sequence[Cut], newest: Cut, find: Find, deadline: float, most: int = MAX_FORMS
) -> Found | None:
    """The first finding that reaches over several texts, in so many forms of them at most."""
    for form in islice(forms([*recent, newest]), most) if recent else ():
        hits = find(form.view.text, deadline)
        for hit in hits:
            parts = form.within(hit.start, hit.end)
            mine = tuple(part.piece for part in parts if part.place == len(recent))
            if not (mine and _counts(hit, hits, parts) and _stands(form, hit, find, deadline)):
                continue
            if not any(_is_whole(piece, hit, find, deadline) for piece in mine):
                return hit.rule, mine, tuple(parts)
    return None


def _counts(hit: Finding, hits: Sequence[Finding], parts: Sequence[Part]) -> bool:
    """Whether a finding is of a kind that is looked for, and its parts may belong together."""
    if hit.rule.cls not in CLASSES or hit.rule.verdict == "allow":
        return False
    if hit.rule.cls == "secret":
        return likely(parts) or steady(parts)
    shields = (one for one in hits if one.rule.verdict == "allow")
    return (
        likely(parts)
        and firm(parts)
        and not any(shield.start <= hit.start and hit.end <= shield.end for shield in shields)
    )


def _is_whole(piece: Piece, hit: Finding, find: Find, deadline: float) -> bool:
    """Whether the same is found in the piece by itself, once an encoding is taken off: it needs no other."""
    return bool(piece.code) and any(one.rule.id == hit.rule.id for one in find(piece.code, deadline))


def _stands(form: Form, hit: Finding, find: Find, deadline: float) -> bool:
    """Whether it is found by what it is; by a name before it, only if that was said beside the pieces."""
    if form.named:
        return hit.start == form.spans[0][0]
    alone = form.around(hit.start, hit.end)
    return any(one.rule.id == hit.rule.id for one in find(alone, deadline))
