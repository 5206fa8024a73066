"""Looking into a parsed configuration that may hold anything anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def at(data: Any, *key: str) -> Any:
    """The value that `key` leads to; None where the way ends before."""
    for name in key:
        data = data.get(name) if isinstance(data, Mapping) else None
    return data


def words(value: Any) -> tuple[str, ...]:
    """The texts of a list; hosts that take a list take no single text."""
    return tuple(word for word in value if isinstance(word, str)) if isinstance(value, (list, tuple)) else ()


def table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def reachable(data: Any, key: tuple[str, ...]) -> bool:
    """Whether a value can be put at `key` without replacing something of another shape on the way."""
    return all(
        at(data, *key[:depth]) is None or isinstance(at(data, *key[:depth]), Mapping) for depth in range(len(key))
    )


def is_off(value: Any) -> bool:
    """`false`, and how hosts also read it from YAML."""
    return value is False or (isinstance(value, str) and value.strip().lower() in {"false", "0", "no", "off"})
