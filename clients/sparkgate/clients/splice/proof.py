"""The proof of an edit: both versions of a file are read, and nothing but the one value may differ."""

from __future__ import annotations

import math
from typing import Any

from sparkgate.clients.splice.edit import MAX_DEPTH, CannotEdit

Key = tuple[str, ...]


def same(one: Any, other: Any) -> bool:
    """Equal in values, in their types and in their order."""
    return one is other or (one == other and repr(one) == repr(other))


def equal(one: Any, other: Any) -> bool:
    """Equal in values and in their types, in whatever order names stand."""
    return one == other and repr(_sorted(one)) == repr(_sorted(other))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return [(name, _sorted(value[name])) for name in sorted(value, key=repr)]
    return [_sorted(part) for part in value] if isinstance(value, list) else value


def has(data: Any, key: Key) -> bool:
    return not key or (isinstance(data, dict) and key[0] in data and has(data[key[0]], key[1:]))


def at(data: Any, key: Key) -> Any:
    """The value at a path that is there."""
    for name in key:
        data = data[name]
    return data


def check(key: Key, value: Any) -> None:
    """Refuse a path or a value that cannot be written in every format."""
    if not key or not all(isinstance(name, str) for name in key) or not _fits([list(key), value], MAX_DEPTH // 2):
        raise CannotEdit(1, 1, "the new value cannot be written: plain data, finite numbers and whole characters only")


def _fits(value: Any, depth: int) -> bool:
    if isinstance(value, dict):
        return depth > 0 and all(_fits(part, depth - 1) for pair in value.items() for part in pair) and _named(value)
    if isinstance(value, list):
        return depth > 0 and all(_fits(part, depth - 1) for part in value)
    if isinstance(value, str):
        return not any("\ud800" <= sign <= "\udfff" or sign == "\0" for sign in value)
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return value is None or (isinstance(value, float) and math.isfinite(value))


def _named(table: dict[Any, Any]) -> bool:
    return all(isinstance(name, str) for name in table)


def was_put(before: Any, after: Any, key: Key, value: Any) -> bool:
    """Whether `after` is `before` with the value at this path; `after` is used up by the look."""
    if not has(after, key) or not same(at(after, key), value):
        return False
    if has(before, key):
        at(after, key[:-1])[key[-1]] = at(before, key)
        return same(before, after)
    depth = next(depth for depth in range(1, len(key) + 1) if not has(before, key[:depth]))
    parent, old = at(after, key[: depth - 1]), at(before, key[: depth - 1])
    del parent[key[depth - 1]]
    return same(before, after) if old is not None else not parent and _with_nothing(before, after, key[: depth - 1])


def _with_nothing(before: Any, after: Any, key: Key) -> bool:
    """Equal when the empty table at this path, which is None in `before`, counts as the same."""
    at(after, key[:-1])[key[-1]] = None
    return same(before, after)


def was_dropped(before: Any, after: Any, key: Key, parents: int) -> bool:
    """Whether `after` is `before` without the value at this path, and without up to this many parents above it that
    are empty then. An empty table may also read as None. `before` is used up by the look."""
    del at(before, key[:-1])[key[-1]]
    for depth in range(len(key) - 1, 0, -1):
        holder, name = at(before, key[: depth - 1]), key[depth - 1]
        if same(before, after) or holder[name]:
            break
        holder[name] = None
        if same(before, after):
            return True
        del holder[name]
        if (parents := parents - 1) < 0:
            return False
    return same(before, after)
