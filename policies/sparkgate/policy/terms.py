"""Client and code names from the operator's `terms.toml`, turned into rules like any other."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import regex

from sparkgate.policy.checks import Check
from sparkgate.policy.rules import Rule, RuleError, read_tables

NEAR_CHARS = 80
KNOWN = {"name", "verdict", "forms", "near"}


def load_terms(path: Path) -> tuple[Rule, ...]:
    """`[[term]]` tables → one rule each; () without a file.

    `name` is needed. `verdict` is redact (the default) or block, `forms` lists other spellings, and with `near` the
    name counts only where one of those words stands close by.

    Raises:
        RuleError: naming the file and the table that cannot be used.
    """
    if not path.exists():
        return ()
    return tuple(_rule(table, path, number) for number, table in enumerate(read_tables(path, "term"), 1))


def _rule(table: Mapping[str, Any], path: Path, number: int) -> Rule:
    name, verdict = table.get("name"), table.get("verdict", "redact")
    where = f"{path}: term {number}"
    if not isinstance(name, str) or len(name.strip()) < 2:
        raise RuleError(f"{where} needs a name of at least two characters")
    if set(table) - KNOWN:
        raise RuleError(f"{where} does not know {sorted(set(table) - KNOWN)} (known: {sorted(KNOWN)})")
    if verdict not in ("redact", "block"):
        raise RuleError(f"{where}: verdict is redact or block")
    forms = [normal(name), *_texts(table, "forms", where)]
    near = _texts(table, "near", where)
    return Rule(
        id=f"term-{number}",
        cls="client",
        verdict=verdict,
        keywords=tuple({word.lower() for form in forms for word in regex.findall(r"\w+", form)[:1]}),
        pattern=_pattern(forms),
        why="A name the operator listed as one that must not leave.",
        source=path.name,
        replacement="[name]",
        checks=(_beside(near),) if near else (),
        check_names=tuple(near),
    )


def _texts(table: Mapping[str, Any], key: str, where: str) -> list[str]:
    texts = table.get(key, [])
    if not isinstance(texts, list) or not all(isinstance(text, str) and len(text.strip()) >= 2 for text in texts):
        raise RuleError(f"{where}: {key} must be a list of texts of at least two characters")
    return [normal(text) for text in texts]


def normal(text: str) -> str:
    """A name as the normal view of a text shows it."""
    return unicodedata.normalize("NFKC", text.strip())


def _pattern(forms: list[str]) -> regex.Pattern[str]:
    """Whole words in any case; spaces, `-`, `_`, `.` and `+` join their parts, and border them, alike."""
    literals = (r"[\s_.+-]{0,3}".join(regex.escape(word) for word in form.split()) for form in forms)
    return regex.compile(rf"(?i)(?<![^\W_])(?:{'|'.join(literals)})(?![^\W_])")


def _beside(near: list[str]) -> Check:
    """Only where one of these words stands within `NEAR_CHARS` characters."""
    words = [word.casefold() for word in near]

    def check(value: str, text: str, start: int) -> bool:
        around = text[max(0, start - NEAR_CHARS) : start + len(value) + NEAR_CHARS].casefold()
        return any(word in around for word in words)

    return check
