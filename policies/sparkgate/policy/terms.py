"""Client and code names from the operator's `terms.toml`, found however people write them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from time import monotonic
from typing import Any

from sparkgate.policy.finding import Finding, Label, Overrun
from sparkgate.policy.forms.turns import both_turned
from sparkgate.policy.forms.view import View
from sparkgate.policy.names.fold import BASE, DIGRAPH, has_digraphs
from sparkgate.policy.names.index import Index
from sparkgate.policy.names.leet import LEETED, Leet
from sparkgate.policy.names.match import matches
from sparkgate.policy.names.parse import needs_digraphs, normal, parse_name, variants
from sparkgate.policy.names.words import is_common
from sparkgate.policy.rules import RuleError, read_tables

NEAR_CHARS = 80
KNOWN = {"name", "verdict", "forms", "near"}
TURNED_CHARS = 7
WHY = "A name the operator listed as one that must not leave."
MASK = "\x00"


@dataclass(frozen=True, slots=True)
class Term:
    """One name: its forms in words, and words of which one must stand close by ("" list: none need)."""

    label: Label
    forms: tuple[str, ...]
    near: tuple[str, ...] = ()


class Terms:
    """A detector of the operator's names.

    A name is found in any case, with or without accents (ü as u or ue), inflected, joined to other words, spelled
    letter by letter, with digits for letters, and with one letter wrong when it has seven or more. A name of several
    parts needs them all; "project" and "group" among them stand first or last and in any language, and what is derived
    from a long last part counts beside the rare ones.
    """

    def __init__(self, terms: Iterable[Term] = ()) -> None:
        self.terms = tuple(terms)
        parsed = (parse_name(form, number) for number, term in enumerate(self.terms) for form in term.forms)
        names = [name for name in parsed if name]
        known = [variant for name in names for variant in variants(name)]
        self._index = Index(known)
        long = [name for name in known if name.size >= LEETED]
        self._leet, self._leet_index = Leet(long), self._index if len(long) == len(known) else Index(long)
        self._foldings = (BASE, DIGRAPH) if any(map(needs_digraphs, names)) else (BASE,)

    @property
    def labels(self) -> tuple[Label, ...]:
        """What is known of each term, in the order of the file."""
        return tuple(term.label for term in self.terms)

    def told(self) -> list[list[object]]:
        """Everything that decides, for a digest of the policy. It holds the names themselves: never show or log it."""
        return [[term.label.id, term.label.verdict, list(term.forms), list(term.near)] for term in self.terms]

    def find(self, view: View, deadline: float) -> list[Finding]:
        """Every name in a form, in text order; they may overlap.

        Raises:
            Overrun: `deadline` (time.monotonic seconds) passed before the end.
        """
        if not self.terms:
            return []
        found: set[tuple[int, int, int]] = set()
        rest = view.text
        while more := self._find_once(view.text, rest, deadline) - found:
            # What is taken out may leave an edge for what stands beside it.
            found |= more
            rest = _masked(rest, more)
        return [Finding(self.terms[term].label, start, end) for start, end, term in sorted(found)]

    def _find_once(self, text: str, rest: str, deadline: float) -> set[tuple[int, int, int]]:
        def tick() -> None:
            if monotonic() > deadline:
                raise Overrun("terms")

        tick()
        found: set[tuple[int, int, int]] = set()
        foldings = self._foldings if has_digraphs(rest) else self._foldings[:1]
        for read, index in chain([(rest, self._index)], ((one, self._leet_index) for one in self._leet.readings(rest))):
            for folding in foldings:
                for term, start, end in matches(read, folding, index, tick):
                    if _is_near(self.terms[term].near, text, start, end):
                        found.add((start, end, term))
        return found


def _masked(text: str, found: Iterable[tuple[int, int, int]]) -> str:
    characters = list(text)
    for start, end, _ in found:
        characters[start:end] = MASK * (end - start)
    return "".join(characters)


def _is_near(near: tuple[str, ...], text: str, start: int, end: int) -> bool:
    """Whether one of these words stands within `NEAR_CHARS` characters, or none need to."""
    if not near:
        return True
    around = text[max(0, start - NEAR_CHARS) : end + NEAR_CHARS].casefold()
    return any(word in around for word in near)


def load_terms(path: Path) -> Terms:
    """`[[term]]` tables → a detector; an empty one without a file.

    `name` is needed. `verdict` is redact (the default), ask or block, `forms` lists other spellings, and with `near`
    the name counts only where one of those words stands close by.

    Raises:
        RuleError: naming the file and the table that cannot be used.
    """
    tables = read_tables(path, "term") if path.exists() else []
    return Terms(_term(table, path, number) for number, table in enumerate(tables, 1))


def _term(table: Mapping[str, Any], path: Path, number: int) -> Term:
    name, verdict = table.get("name"), table.get("verdict", "redact")
    where = f"{path}: term {number}"
    if not isinstance(name, str) or len(name.strip()) < 2:
        raise RuleError(f"{where}: needs a name of at least two characters")
    if set(table) - KNOWN:
        raise RuleError(f"{where}: does not know {sorted(set(table) - KNOWN)} (known: {sorted(KNOWN)})")
    if verdict not in ("redact", "ask", "block"):
        raise RuleError(f"{where}: verdict is redact, ask or block")
    near = tuple(word.casefold() for word in _texts(table, "near", where))
    forms = (normal(name), *_texts(table, "forms", where))
    forms += tuple(other for form in forms for other in _turned(form))
    return Term(Label(f"term-{number}", "client", verdict, "[name]", WHY), forms, near)


def _turned(form: str) -> Iterator[str]:
    """A longer name backwards and in ROT13, unless it then is an ordinary word."""
    for turned in both_turned(View("raw", form)) if form.isascii() else ():
        words = turned.text.casefold().split()
        if sum(map(len, words)) >= TURNED_CHARS and not any(map(is_common, words)):
            yield turned.text


def _texts(table: Mapping[str, Any], key: str, where: str) -> Iterator[str]:
    texts = table.get(key, [])
    if not isinstance(texts, list) or not all(isinstance(text, str) and len(text.strip()) >= 2 for text in texts):
        raise RuleError(f"{where}: {key} must be a list of texts of at least two characters")
    return map(normal, texts)
