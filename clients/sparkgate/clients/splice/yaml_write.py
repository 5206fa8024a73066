"""Values as YAML: block lines for tables, one line for everything else, strings always in double quotes."""

from __future__ import annotations

import re
from typing import Any

from sparkgate.clients.splice.edit import quoted

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_OTHERS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
"""Words that some reader takes for something else than a string."""


def name_of(name: str, in_quotes: bool = False) -> str:
    plain = _PLAIN.fullmatch(name) and name.lower() not in _OTHERS
    return name if plain and not in_quotes else quoted(name)


def flow(value: Any, in_quotes: bool = False) -> str:
    """On one line; `in_quotes` are names."""
    if isinstance(value, dict):
        return "{" + ", ".join(pair(name, part, in_quotes) for name, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(flow(part, in_quotes) for part in value) + "]"
    return scalar(value)


def pair(name: str, value: Any, in_quotes: bool = False) -> str:
    return f"{name_of(name, in_quotes)}: {flow(value, in_quotes)}"


def scalar(value: Any) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    shown = repr(value)
    return shown if "." in shown or "e" not in shown else shown.replace("e", ".0e")


def lines(table: dict[str, Any], indent: str, step: str, blocks: int = 0) -> list[str]:
    """A table in block style. So are tables in it, down to this many levels; below, those of scalars take a line."""
    found = []
    for name, value in table.items():
        if isinstance(value, dict) and value and (blocks > 0 or _is_deep(value)):
            found += [f"{indent}{name_of(name)}:", *lines(value, indent + step, step, blocks - 1)]
        else:
            found.append(indent + pair(name, value))
    return found


def _is_deep(table: dict[str, Any]) -> bool:
    return any(isinstance(part, (dict, list)) and part for part in table.values())
