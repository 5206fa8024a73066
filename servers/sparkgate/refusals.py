"""What a tool says when nothing was sent, or nothing came back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkgate.policy.egress import Refused
from sparkgate.policy.kill_switch import CODE as LOCKED
from sparkgate.searxng import Problem
from sparkgate.toolset import failure

BLOCKED = "Nothing was sent: the {what} matches {rules}. {advice}"
ADVICE: Mapping[str, str] = {
    "secret": "Leave the value out, and ask about the kind of key or the error message instead.",
    "pii": "Ask without the person's details.",
    "local": "Name the program or the kind of path, not where it lies on this machine.",
    "client": "Say what kind of company or project it is, not its name.",
    "code": "Describe in words what the code does, or name the public function it calls.",
}
"""Class of a finding → how to ask instead."""
NO_LOG = "Nothing was sent: the log cannot be written, and nothing leaves without its row."
NOT_NOW = "Nothing was sent: the operator has locked the way out. Go on without the web, or tell the person who asks."


def refusal(what: Problem | Refused, asked: str = "query") -> dict[str, Any]:
    """The answer of a tool; `asked` is our word for what it was given."""
    if isinstance(what, Problem):
        return failure(what.code, what.message)
    code, message = refused_words(what, asked)
    return failure(code, message, rules=list(what.rules), classes=list(what.classes))


def refused_words(refused: Refused, asked: str = "query") -> tuple[str, str]:
    """Code and message of what the policy, or a log that cannot be written, kept back."""
    if LOCKED in refused.rules:
        return LOCKED, NOT_NOW
    code, message = ("log_unavailable", NO_LOG) if refused.rules == ("log-unavailable",) else ("blocked", BLOCKED)
    notes = "".join(f" {note}." for note in refused.notes)
    advice = " ".join(ADVICE[cls] for cls in refused.classes) or "Ask again without it."
    return code, message.format(what=asked, rules=" and ".join(refused.rules), advice=advice) + notes
