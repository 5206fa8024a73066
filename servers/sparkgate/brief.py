"""Answers cut to what a small model can read: what matters most first, and always how much was left out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from json.encoder import encode_basestring
from typing import Any

ANSWER_BYTES = 6000
SHORT_CHARS = 40
"""A text that is no longer is left out rather than cut."""
DEPTHS = ((50, 50), (10, 20), (4, 8), (2, 3), (1, 1))
"""(models, routes) told of each engine; the first that fits is taken."""


def brief_engines(found: Sequence[Mapping[str, Any]], more: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Records of engines as they fit beside `more`: loaded models first, and routes that may leave the box."""
    for models, routes in DEPTHS:
        shown = [_brief(one, models, routes) for one in found]
        if size_bytes({**more, "engines": shown}) <= ANSWER_BYTES:
            break
    return shown


def _brief(one: Mapping[str, Any], models: int, routes: int) -> dict[str, Any]:
    told = dict(one)
    if told.get("models"):
        ranked = sorted(told["models"], key=lambda model: model.get("loaded") is not True)
        told |= _cut("models", ranked, models, told.get("models_left_out", 0))
    if told.get("routes"):
        told |= _cut("routes", sorted(told["routes"], key=_stays), routes)
    return told


def _stays(route: Mapping[str, Any]) -> bool:
    return route["off_box"] is False and route["fallbacks_off_box"] is False


def _cut(name: str, items: Sequence[Any], most: int, left_out: int = 0) -> dict[str, Any]:
    left_out += max(0, len(items) - most)
    return {name: list(items[:most])} | ({f"{name}_left_out": left_out} if left_out else {})


def brief_findings(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """As many findings as fit, the worst first."""
    for most in range(len(found), 0, -1):
        told = _cut("findings", found, most)
        if size_bytes(told) <= ANSWER_BYTES:
            return told
    return {"findings": list(found[:1])}


def fit(rest: dict[str, Any], results: Sequence[dict[str, Any]], budget_bytes: int) -> list[dict[str, Any]]:
    """As many of `results` as fit beside `rest` in the budget, at least one."""
    left = budget_bytes - size_bytes(rest)
    kept: list[dict[str, Any]] = []
    for item in results:
        left -= listed_bytes(item)
        if left < 0 and kept:
            break
        kept.append(item)
    return kept


def bounded(
    fields: Mapping[str, Any], budget_bytes: int, size: Callable[[dict[str, Any]], int] | None = None
) -> dict[str, Any]:
    """The fields as far as they fit, the first ones first; what does not is shortened from its end."""
    measure = size or size_bytes
    if not fields or measure(dict(fields)) <= budget_bytes:
        return {name: value for name, value in fields.items() if value}
    kept: dict[str, Any] = {}
    for name, value in fields.items():
        while value and measure(kept | {name: value}) > budget_bytes:
            value = _shorter(value)
        if value:
            kept[name] = value
    return kept


def _shorter(value: Any) -> Any:
    """Without its last part, or with a shorter one; empty in the end."""
    if isinstance(value, str):
        return f"{value[: len(value) // 2].rstrip('…')}…" if len(value) > SHORT_CHARS else ""
    if isinstance(value, list):
        return value[:-1] if len(value) > 1 else list(filter(None, map(_shorter, value)))
    if isinstance(value, dict) and value:
        name = next(reversed(value))
        last = _shorter(value[name]) if isinstance(value[name], (str, list, dict)) else ""
        return {**value, name: last} if last else {key: one for key, one in value.items() if key != name}
    return None


def size_bytes(value: Any) -> int:
    """Of an answer as a model reads it: indented JSON in UTF-8."""
    return _size(value, 0)


def listed_bytes(item: Any) -> int:
    """What it adds to a list of an answer, at most."""
    return _size([[item]], 0) - _size([[]], 0)


def _size(value: Any, depth: int) -> int:
    """What `json.dumps(value, indent=2)` writes, counted and not written, as that is slow where it indents."""
    if isinstance(value, str):
        return _text_size(value)
    if isinstance(value, dict):
        held = sum(_text_size(str(key)) + 2 + _size(one, depth + 1) for key, one in value.items())
    elif isinstance(value, (list, tuple)):
        held = sum(_size(one, depth + 1) for one in value)
    else:
        return len(json.dumps(value))
    line_ends = 2 * depth + len(value) * (2 * depth + 4)
    return 2 + (held + line_ends if value else 0)


def _text_size(text: str) -> int:
    quoted = encode_basestring(text)
    return len(quoted) if quoted.isascii() else len(quoted.encode("utf-8", "replace"))
