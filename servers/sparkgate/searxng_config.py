"""What `/config` of a SearXNG tells: its engines and categories, and what an engine can do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sparkgate.results import as_list


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What `/config` tells of one engine. An instance that does not say whether it can do something is taken to."""

    name: str
    categories: frozenset[str]
    enabled: bool
    paging: bool
    time_range: bool


def engines_of(config: Mapping[str, Any]) -> dict[str, EngineFacts]:
    """`/config` → engines by lower-cased name."""
    found = {}
    for entry in as_list(config.get("engines")):
        if isinstance(entry, dict) and isinstance(name := entry.get("name"), str):
            found[name.lower()] = EngineFacts(
                name,
                frozenset(one.lower() for one in as_list(entry.get("categories")) if isinstance(one, str)),
                entry.get("enabled") is not False,
                entry.get("paging") is not False,
                entry.get("time_range_support") is not False,
            )
    return found


def categories_of(config: Mapping[str, Any]) -> dict[str, str]:
    """`/config` → categories, each lower-cased name → the exact one."""
    return {name.lower(): name for name in as_list(config.get("categories")) if isinstance(name, str)}


def cannot(asked: Iterable[EngineFacts], fields: Mapping[str, str]) -> list[str]:
    """What the chosen engines cannot do of what is asked. SearXNG leaves such an engine out and says nothing."""
    engines = list(asked)
    lacking = (
        ("has no further pages", fields.get("pageno", "1") != "1", [one.name for one in engines if not one.paging]),
        ("cannot filter by time", "time_range" in fields, [one.name for one in engines if not one.time_range]),
    )
    return [
        f"{', '.join(sorted(names)[:12])} {told}, and is not asked"
        for told, wanted, names in lacking
        if wanted and names
    ]
