"""What the operator says of findings: other verdicts for a tool or a destination, rules on trial, exceptions."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from sparkgate.policy.finding import Class, Verdict, Where, Withheld
from sparkgate.policy.rules import RuleError, read_kinds

FILE = "profiles.toml"
TOOLS = ("web_search", "read_page")
DESTINATIONS = ("searxng", "web", "engine")
SHADOW = "shadow"
VERDICTS = (*get_args(Verdict), SHADOW)
CLASSES = get_args(Class)
Today = Callable[[], datetime.date]


@dataclass(frozen=True, slots=True)
class Profile:
    """Other verdicts at one place.

    Attributes:
        where: "" stands for any tool or destination.
        verdicts: class or rule id → allow, redact, ask, block, or shadow: only logged.
    """

    where: Where
    verdicts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Exemption:
    """Text, or all that a rule finds, that may leave.

    Attributes:
        text: exactly this, in any case; "" for all that the rule finds.
        rule: only where this rule found it; "" for any.
        until: the last day it holds; None for good.
    """

    where: Where
    reason: str
    text: str = ""
    rule: str = ""
    until: datetime.date | None = None

    def covers(self, found: Withheld, text: str, where: Where, today: datetime.date) -> bool:
        return (
            self.where.covers(where)
            and self.rule in ("", found.rule)
            and self.text.casefold() in ("", text[found.start : found.end].strip().casefold())
            and (self.until is None or today <= self.until)
        )


@dataclass(frozen=True, slots=True)
class Profiles:
    """All of them; the last profile that names a rule, or else its class, has the word.

    Args:
        today: of the operator's calendar.
    """

    profiles: Sequence[Profile] = ()
    exemptions: Sequence[Exemption] = ()
    today: Today = field(default=datetime.date.today)

    def settle(self, found: Iterable[Withheld], text: str, where: Where) -> tuple[list[Withheld], list[Withheld]]:
        """What counts, with the verdicts that hold there; and what is on trial.

        What may leave takes along what a general rule of its class finds inside it, and nothing that is certain.
        """
        found = list(found)
        if not found:
            return [], []
        today = self.today()
        free = [one for one in found if any(exempt.covers(one, text, where, today) for exempt in self.exemptions)]
        counts: list[Withheld] = []
        on_trial: list[Withheld] = []
        for one in found:
            verdict = self._verdict(one, where)
            if verdict == "allow" or any(_within(one, other) for other in free):
                continue
            if verdict == SHADOW:
                on_trial.append(one)
            else:
                counts.append(one if verdict == one.verdict else replace(one, verdict=verdict))
        return counts, on_trial

    def _verdict(self, found: Withheld, where: Where) -> Any:
        holding = [profile.verdicts for profile in self.profiles if profile.where.covers(where)]
        for key in (found.rule, found.cls):
            if told := [verdicts[key] for verdicts in holding if key in verdicts]:
                return told[-1]
        return found.verdict

    def told(self) -> list[str]:
        """For the digest of the policy."""
        return [repr(one) for one in (*self.profiles, *self.exemptions)]


def _within(one: Withheld, other: Withheld) -> bool:
    if one == other:
        return True
    return one.general and one.cls == other.cls and other.start <= one.start and one.end <= other.end


def load_profiles(path: Path, known_rules: Iterable[str] = ()) -> Profiles:
    """`[[profile]]` and `[[allow]]` tables; empty without a file.

    Args:
        known_rules: ids that may stand in it beside classes.

    Raises:
        RuleError: naming the file and the table that cannot be used.
    """
    if not path.exists():
        return Profiles()
    tables = read_kinds(path, "profile", "allow")
    names = {*known_rules, *CLASSES}
    profiles = [_profile(table, f"{path}: profile {n}", names) for n, table in enumerate(tables["profile"], 1)]
    exemptions = [_exemption(table, f"{path}: allow {n}", names) for n, table in enumerate(tables["allow"], 1)]
    return Profiles(tuple(profiles), tuple(exemptions))


def _where(table: Mapping[str, Any], label: str) -> Where:
    tool, destination = table.get("tool", ""), table.get("destination", "")
    if tool not in ("", *TOOLS) or destination not in ("", *DESTINATIONS):
        known = f"tool is one of {', '.join(TOOLS)}, and destination one of {', '.join(DESTINATIONS)}"
        raise RuleError(f"{label}: {known}")
    return Where(tool, destination)


def _profile(table: Mapping[str, Any], label: str, names: set[str]) -> Profile:
    where = _where(table, label)
    verdicts = {name: told for name, told in table.items() if name not in ("tool", "destination")}
    if not verdicts:
        raise RuleError(f"{label}: gives no verdict: name a class or a rule")
    for name, told in verdicts.items():
        if name not in names:
            raise RuleError(f"{label}: {name!r} is no class ({', '.join(CLASSES)}) and no rule")
        if told not in VERDICTS:
            raise RuleError(f"{label}: {name} is one of {', '.join(VERDICTS)}")
    return Profile(where, verdicts)


def _exemption(table: Mapping[str, Any], label: str, names: set[str]) -> Exemption:
    unknown = set(table) - {"tool", "destination", "text", "rule", "reason", "until"}
    text, rule, reason, until = (table.get(name, "") for name in ("text", "rule", "reason", "until"))
    if unknown:
        raise RuleError(f"{label}: does not know {sorted(unknown)}")
    if not all(isinstance(one, str) for one in (text, rule, reason)):
        raise RuleError(f"{label}: text, rule and reason are texts in quotes")
    text, reason = text.strip(), reason.strip()
    if not reason or not (text or rule):
        raise RuleError(f"{label}: needs a reason, and a text or a rule that may pass")
    if rule and rule not in names:
        raise RuleError(f"{label}: there is no rule {rule!r}; `sparkgate policy rules` lists them")
    if until != "" and type(until) is not datetime.date:
        raise RuleError(f"{label}: until is a date such as 2027-01-31")
    return Exemption(_where(table, label), reason, text, rule, until or None)
