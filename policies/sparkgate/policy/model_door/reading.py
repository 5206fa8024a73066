"""JSON as every engine must read it: UTF-8, one object, each key once, no more and no deeper than anybody needs."""

from __future__ import annotations

import json
from typing import Any

from sparkgate.policy.model_door.refusal import Refused

MAX_DEPTH = 64
"""Schemas of tools are the deepest part of a request; those of real hosts have 12 levels."""
MAX_MARKS = 2_000_000
"""Of commas and brackets, so of values: what is parsed takes much more memory than the text."""


def read_object(data: bytes | bytearray) -> dict[str, Any]:
    """The object in `data`.

    Raises:
        Refused: there is none, or readers may differ about it.
    """
    if len(data) > MAX_MARKS and sum(map(data.count, (b",", b"[", b"{"))) > MAX_MARKS:
        raise Refused("too_nested")
    try:
        found = _DECODER.decode(data.decode("utf-8"))
    except RecursionError as error:
        raise Refused("too_nested") from error
    except ValueError as error:
        raise Refused("not_json") from error
    if not isinstance(found, dict):
        raise Refused("not_json")
    _check_depth(found)
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise Refused("duplicate_key")
    return made


def _no_constant(_word: str) -> None:
    """NaN and Infinity, which are no JSON."""
    raise Refused("not_json")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant)


def _check_depth(found: dict[str, Any]) -> None:
    level: list[Any] = [found]
    for _ in range(MAX_DEPTH):
        level = [
            one
            for value in level
            for one in (value.values() if isinstance(value, dict) else value)
            if isinstance(one, (dict, list))
        ]
        if not level:
            return
    raise Refused("too_nested")
