"""Looking into parsed files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final

MISSING: Final[Any] = object()
"""Not there; None is a value."""


def at(data: Any, key: Sequence[str]) -> Any:
    """The value at a path of names; MISSING where there is none."""
    for name in key:
        if not isinstance(data, Mapping) or name not in data:
            return MISSING
        data = data[name]
    return data


def is_ours(entry: Mapping[str, Any]) -> bool:
    """Whether an entry starts a server of sparkgate, whichever way its host writes commands down."""
    words = list(_strings(entry))
    starts = [word for word in words if PurePath(word).name == "sparkgate"]
    return "sparkgate.stdio" in words or (bool(starts) and "serve" in words)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, Sequence):
        for inner in value:
            yield from _strings(inner)
