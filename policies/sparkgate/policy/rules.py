"""Rules as data: TOML tables, each with its reason, its source, texts it must catch and texts it must leave alone."""

from __future__ import annotations

import string
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Any, get_args

import regex

from sparkgate.policy.acceptance import Accept
from sparkgate.policy.checks import Check, parse_check
from sparkgate.policy.finding import Class, Finding, Forms, Overrun, Verdict
from sparkgate.policy.forms.outline import OUTLINES, RUNS, in_a_row
from sparkgate.policy.forms.view import View
from sparkgate.policy.literals import Literals
from sparkgate.policy.samples import fill

SHIPPED = Path(__file__).parent / "rules"

REQUIRED = ("id", "class", "verdict", "keywords", "pattern", "why", "source", "leaks", "clean")
OPTIONAL = ("replacement", "checks", "forms", "outline")
TRUSTED_CHARS = 2000
"""Up to here a shipped pattern needs no deadline of its own, which costs as much as a short search."""
REMEMBERED = 512
"""Sets of keywords whose rules are kept at hand: of a text no more is kept than which keywords it holds."""
LISTS = ("keywords", "leaks", "clean", "checks")
LONGEST_RUN = 1000
"""Characters in a row that an outline may ask for."""


class RuleError(ValueError):
    """A rule file that cannot be used; the message begins with the file, and names the rule and the way out."""

    @property
    def public(self) -> str:
        """The same for an agent and the log: no word of what the file holds, which may be what must not leave."""
        return f"{str(self).partition(': ')[0]} cannot be used; `sparkgate policy test` in a terminal says why"


@dataclass(frozen=True, slots=True)
class Rule:
    r"""One detector.

    `pattern` starts at its literal; a named group `value` narrows what is withheld to that group.
    `keywords` are lower-case literals, one of which must stand in the lower-cased text before the
    pattern is tried at all; `\d` in one stands for any digit. `outline` are (name of one, parts of which one
    stands in it wherever the pattern matches ASCII text): what lacks them is not searched, and with them
    there may be no keywords. A rule whose verdict is `allow` is a shield: pii and local findings that lie
    inside its match are dropped. `trusted` ones are shipped.
    """

    id: str
    cls: Class
    verdict: Verdict
    keywords: tuple[str, ...]
    pattern: regex.Pattern[str]
    why: str
    source: str
    replacement: str
    forms: Forms = "all"
    trusted: bool = False
    outline: tuple[tuple[str, tuple[str, ...]], ...] = ()
    checks: tuple[Check, ...] = ()
    check_names: tuple[str, ...] = ()
    leaks: tuple[str, ...] = field(default=(), repr=False)
    clean: tuple[str, ...] = field(default=(), repr=False)


def unique(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules as they are. Raises RuleError when two of them share an id."""
    rules, seen = tuple(rules), set[str]()
    for rule in rules:
        if rule.id in seen:
            raise RuleError(f"the rules: two are called {rule.id!r}; rename one of them")
        seen.add(rule.id)
    return rules


@dataclass(frozen=True, slots=True)
class Called:
    """Rules that want one of the same keywords, in file order.

    Attributes:
        bound: ids of those that an outline may keep from being tried.
        free: the others.
        probes: of the bound ones, each part of the first outline, and its name.
    """

    rules: tuple[Rule, ...]
    bound: frozenset[str]
    free: tuple[Rule, ...]
    probes: tuple[tuple[str, str, Rule], ...]


def _called(rules: Sequence[Rule], *, ascii_only: bool) -> Called:
    bound = {rule.id: rule for rule in rules if rule.outline and (ascii_only or _is_of_ascii(rule))}
    probes = ((part, rule.outline[0][0], rule) for rule in bound.values() for part in rule.outline[0][1])
    return Called(tuple(rules), frozenset(bound), tuple(one for one in rules if one.id not in bound), tuple(probes))


def _is_of_ascii(rule: Rule) -> bool:
    """Whether what its outline is about is ASCII in any text without digits of other scripts.

    Not where letters of all scripts are meant, or those that differ from ASCII ones in case only.
    """
    pattern = rule.pattern.pattern
    lettered = any(one.isalpha() for _, parts in rule.outline for part in parts for one in part)
    return pattern.isascii() and "\\p" not in pattern and not (lettered and "(?i" in pattern)


class Rulebook:
    """All rules, behind one look for all keywords.

    Raises:
        RuleError: two rules share an id.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = unique(rules)
        by_keyword: dict[str, list[int]] = {}
        for index, rule in enumerate(self.rules):
            for keyword in rule.keywords:
                for literal in literals(keyword):
                    by_keyword.setdefault(literal, []).append(index)
        self._always = frozenset(index for index, rule in enumerate(self.rules) if not rule.keywords)
        numbers: dict[tuple[int, ...], int] = {}
        self._keywords = Literals(
            {keyword: numbers.setdefault(tuple(indices), len(numbers)) for keyword, indices in by_keyword.items()}
        )
        self._wanted = tuple(map(frozenset, numbers))
        """Indices of the rules that want the same keywords, by the number that a keyword has."""
        self._known: dict[tuple[frozenset[int], Accept | None, bool], Called] = {}

    def candidates(self, view: View, accept: Accept | None = None) -> Sequence[Rule]:
        """Rules whose keyword and outline stand in a form and that may count there, in file order."""
        called = self._called(view, accept)
        if view.has_other_digits:
            return called.rules
        outlines = view.outlines
        begun = [rule for part, outline, rule in called.probes if part in outlines[outline]]
        fitting = {rule.id for rule in begun if len(rule.outline) == 1 or _fits(rule.outline[1:], outlines)}
        if not fitting:
            return called.free
        return [rule for rule in called.rules if rule.id in fitting or rule.id not in called.bound]

    def _called(self, view: View, accept: Accept | None) -> Called:
        """Rules with a keyword in a form."""
        numbers = frozenset(self._keywords.values(view.lower))
        key = numbers, accept, view.is_ascii
        if (found := self._known.get(key)) is None:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            wanted = self._always.union(*(self._wanted[one] for one in numbers))
            rules = [self.rules[index] for index in sorted(wanted)]
            self._known[key] = found = _called(
                [rule for rule in rules if not accept or accept.takes(rule)], ascii_only=view.is_ascii
            )
        return found

    def find(
        self, view: View, deadline: float, accept: Accept | None = None, among: Sequence[Rule] | None = None
    ) -> list[Finding]:
        """Every accepted match in a form, of rules that may count there; of `among` alone where it is given, which is
        for ASCII text.

        Raises:
            Overrun: `deadline` (time.monotonic seconds) passed before the last rule was tried.
        """
        text = view.text
        brief = len(text) <= TRUSTED_CHARS
        if monotonic() > deadline:
            raise Overrun
        return [
            hit
            for rule in (self.candidates(view, accept) if among is None else _candidates(among, view, accept))
            if not (brief and rule.trusted) or rule.pattern.search(text)
            for hit in matches(rule, text, deadline)
        ]


def literals(keyword: str) -> list[str]:
    """A keyword as it stands, and with each digit that `\\d` in it may be."""
    return [keyword, *(keyword.replace(r"\d", digit) for digit in string.digits if r"\d" in keyword)]


def _candidates(rules: Iterable[Rule], view: View, accept: Accept | None) -> Iterator[Rule]:
    """Those whose keyword and outline stand in ASCII text and that may count there."""
    for rule in rules:
        if (not accept or accept.takes(rule)) and _fits(rule.outline, view.outlines) and _is_called(rule, view.lower):
            yield rule


def _fits(outline: Iterable[tuple[str, tuple[str, ...]]], outlines: Mapping[str, str]) -> bool:
    """Whether a part of each stands in ASCII text."""
    for name, parts in outline:
        found = outlines[name]
        if parts[0] not in found and (len(parts) == 1 or not any(map(found.__contains__, parts))):
            return False
    return True


def _is_called(rule: Rule, lower: str) -> bool:
    """Whether a keyword stands in text of small letters; one with `\\d` always does."""
    return not rule.keywords or any(word in lower or r"\d" in word for word in rule.keywords)


def matches(rule: Rule, text: str, deadline: float) -> list[Finding]:
    left_s = deadline - monotonic()
    if left_s <= 0:
        raise Overrun(rule.id)
    timeout_s = None if rule.trusted and len(text) <= TRUSTED_CHARS else left_s
    group = "value" if "value" in rule.pattern.groupindex else 0
    found = []
    try:
        for match in rule.pattern.finditer(text, timeout=timeout_s):
            start, end = match.span(group)
            if 0 <= start < end and all(check(match[group], text, start) for check in rule.checks):
                found.append(Finding(rule, start, end))
            if monotonic() > deadline:
                raise Overrun(rule.id)
    except TimeoutError as error:
        raise Overrun(rule.id) from error
    return found


def load(paths: Iterable[Path]) -> tuple[Rule, ...]:
    """Read rule files in the order given.

    Raises:
        RuleError: a file is not TOML, or a rule is incomplete or cannot be compiled. Nothing is
            dropped silently: one bad rule refuses the whole set.
    """
    return tuple(rule for path in paths for rule in _load_file(path))


@cache
def shipped() -> tuple[Rule, ...]:
    """The rules that come with sparkgate."""
    return tuple(replace(rule, trusted=True) for rule in load(sorted(SHIPPED.glob("*.toml"))))


def _load_file(path: Path) -> list[Rule]:
    return [parse(table, str(path)) for table in read_tables(path, "rule")]


def read_tables(path: Path, name: str) -> list[dict[str, Any]]:
    """The `[[name]]` tables of a TOML file that has no others. Raises RuleError."""
    return read_kinds(path, name)[name]


def read_kinds(path: Path, *names: str) -> dict[str, list[dict[str, Any]]]:
    """The `[[name]]` tables of a TOML file, by name.

    Raises:
        RuleError: the file cannot be read, is not TOML, or holds anything else.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RuleError(f"{path}: not usable as TOML: {error}") from error
    found = {name: data.get(name, []) for name in names}
    lists = [table for tables in found.values() if isinstance(tables, list) for table in tables]
    if set(data) - set(names) or not all(isinstance(one, list) for one in found.values()):
        raise RuleError(f"{path}: only [[{']] and [['.join(names)}]] tables are known here")
    if not all(isinstance(table, dict) for table in lists):
        raise RuleError(f"{path}: only [[{']] and [['.join(names)}]] tables are known here")
    return found


def parse(table: Mapping[str, Any], where: str) -> Rule:
    """One `[[rule]]` table → Rule.

    Raises:
        RuleError: naming `where`, the rule and what to change.
    """
    name = f"{where}: rule {table.get('id', '(no id)')!r}"
    try:
        _check_shape(table, name)
        pattern = regex.compile(table["pattern"])
        checks = tuple(parse_check(text) for text in table.get("checks", ()))
    except RuleError:
        raise
    except (regex.error, ValueError) as error:
        raise RuleError(f"{name}: {error}") from error
    return Rule(
        id=table["id"],
        cls=table["class"],
        verdict=table["verdict"],
        keywords=tuple(table.get("keywords", ())),
        pattern=pattern,
        why=table["why"],
        source=table["source"],
        replacement=table.get("replacement", f"[{table['class']}]"),
        forms=table.get("forms", "all"),
        checks=checks,
        check_names=tuple(table.get("checks", ())),
        outline=tuple((name, _parts(name, value)) for name, value in table.get("outline", {}).items()),
        leaks=tuple(fill(text) for text in table["leaks"]),
        clean=tuple(fill(text) for text in table["clean"]),
    )


def _check_shape(table: Mapping[str, Any], name: str) -> None:
    missing = [key for key in REQUIRED if not table.get(key) and not (key == "keywords" and table.get("outline"))]
    unknown = sorted(set(table) - set(REQUIRED) - set(OPTIONAL))
    if missing or unknown:
        raise RuleError(f"{name}: " + "; ".join(_complaints(missing, unknown)))
    for key in (*REQUIRED, *OPTIONAL):
        _check_type(table.get(key), name, key)
    if table["class"] not in get_args(Class) or table["verdict"] not in get_args(Verdict):
        raise RuleError(f"{name}: class is one of {get_args(Class)}, verdict one of {get_args(Verdict)}")
    if table.get("forms", "all") not in get_args(Forms):
        raise RuleError(f"{name}: forms is one of {get_args(Forms)}")
    if regex.compile(table["pattern"]).fullmatch(""):
        raise RuleError(f"{name}: the pattern matches nothing at all; it needs at least one character")
    loud = [word for word in table.get("keywords", ()) if word != word.lower()]
    if loud:
        raise RuleError(f"{name}: keywords are lower case, these are not: {loud}")


def _check_type(value: Any, name: str, key: str) -> None:
    if value is None:
        return
    if key == "outline":
        _check_outline(value, name)
        return
    if key not in LISTS and not isinstance(value, str):
        raise RuleError(f"{name}: {key} must be text in quotes")
    words = value if isinstance(value, list) else [None]
    if key in LISTS and not all(isinstance(word, str) and word for word in words):
        raise RuleError(f"{name}: {key} must be a list of texts, none of them empty")


def _check_outline(value: Any, name: str) -> None:
    if isinstance(value, dict) and value and all(_is_outline(*one) for one in value.items()):
        return
    raise RuleError(
        f'{name}: outline is a table of texts in one of {", ".join(OUTLINES)}, as in {{ kinds = "000-00-0000" }}, or'
        f" lengths of runs in one of {', '.join(RUNS)}, as in {{ tokens = 28 }}"
    )


def _is_outline(name: str, value: Any) -> bool:
    if type(value) is int:
        return name in RUNS and 0 < value <= LONGEST_RUN
    texts = value if isinstance(value, list) else [value]
    letters = OUTLINES[name].letters if name in OUTLINES else frozenset()
    return bool(texts) and all(isinstance(text, str) and text and letters.issuperset(text) for text in texts)


def _parts(name: str, value: int | str | list[str]) -> tuple[str, ...]:
    """What stands in an outline: a run of so many, a text, or one of several."""
    if isinstance(value, int):
        return (in_a_row(name, value),)
    return (value,) if isinstance(value, str) else tuple(value)


def _complaints(missing: Sequence[str], unknown: Sequence[str]) -> Iterable[str]:
    if missing:
        yield f"needs {', '.join(missing)}"
    if unknown:
        yield f"does not know {', '.join(unknown)} (known: {', '.join((*REQUIRED, *OPTIONAL))})"
