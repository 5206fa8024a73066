"""Client and code names from the operator's `terms.toml`, turned into rules like any other."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import regex

from sparkgate.policy.rules import Rule, RuleError

KNOWN = {"name", "verdict", "forms", "near"}


def load_terms(path: Path) -> tuple[Rule, ...]:
    """`[[term]]` tables with `name` and optional `verdict`, `forms`, `near` → one rule a term; () without a file.

    Raises:
        RuleError: naming the file and the table that cannot be used.
    """
    if not path.exists():
        return ()
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise RuleError(f"{path}: {error}") from error
    if set(data) - {"term"}:
        raise RuleError(f"{path}: only [[term]] tables are known here, not {sorted(set(data) - {'term'})}")
    return tuple(_rule(table, path, number) for number, table in enumerate(data.get("term", []), 1))


def _rule(table: Mapping[str, Any], path: Path, number: int) -> Rule:
    name, verdict = table.get("name"), table.get("verdict", "redact")
    where = f"{path}: term {number}"
    if not isinstance(name, str) or len(name.strip()) < 2:
        raise RuleError(f"{where} needs a name of at least two characters")
    if set(table) - KNOWN:
        raise RuleError(
            f"{where} ({name!r}) does not know {sorted(set(table) - KNOWN)} (known: {sorted(KNOWN)})"
        )
    if verdict not in ("redact", "block"):
        raise RuleError(f"{where} ({name!r}): verdict is redact or block, not {verdict!r}")
    return Rule(
        id=f"term-{number}",
        cls="client",
        verdict=verdict,
        keywords=tuple({word.lower() for form in _forms(table) for word in form.split()[:1]}),
        pattern=_pattern(_forms(table)),
        why="A name the operator listed as one that must not leave.",
        source=path.name,
        replacement="[name]",
    )


def _forms(table: Mapping[str, Any]) -> list[str]:
    return [table["name"].strip(), *(form.strip() for form in table.get("forms", ()))]


def _pattern(forms: list[str]) -> regex.Pattern[str]:
    literals = (r"\s+".join(regex.escape(word) for word in form.split()) for form in forms)
    return regex.compile(rf"(?i)(?<!\w)(?:{'|'.join(literals)})(?!\w)")
