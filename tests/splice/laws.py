"""The laws that every edit of a foreign file keeps, as functions for tests."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from sparkgate.clients.hosts.host import Format
from sparkgate.clients.splice import drop, put, read, where

FORMATS: tuple[Format, ...] = ("json", "jsonc", "json5", "yaml", "toml")
SERVER = {
    "command": "/opt/venv/bin/python",
    "args": ["-I", "-m", "sparkgate.stdio", "search"],
    "timeout": 120,
    "tools": {"resources": False, "prompts": False},
}


def with_value(data: Any, key: tuple[str, ...], value: Any) -> Any:
    """A copy of the data with the value at this path."""
    data = deepcopy(data)
    table = data
    for name in key[:-1]:
        if table.get(name) is None:
            table[name] = {}
        table = table[name]
    table[key[-1]] = value
    return data


def only_added(before: str, after: str) -> bool:
    """Whether `after` is `before` with one piece more, or with one and a comma before it."""
    most = min(len(before), len(after))
    head = next((n for n in range(most) if before[n] != after[n]), most)
    tail = next((n for n in range(most - head) if before[-1 - n] != after[-1 - n]), most - head)
    rest = before[head : len(before) - tail]
    return not rest or (after[head] == "," and after.startswith(rest, head + 1))


def hold(text: str, format: Format, key: tuple[str, ...], value: Any) -> str:
    """Put the value in, check every law, and answer the new text."""
    before, old = read(text, format), where(text, format, key)
    edit = put(text, format, key, value)
    after, new = edit.text, where(edit.text, format, key)
    assert new is not None
    assert read(after, format) == with_value(before, key, value)
    assert put(after, format, key, value).text == after
    if old:
        around = after[: old.start] == text[: old.start] and after[new.end :] == text[old.end :]
        assert around or only_added(text, after) or "#" in text[old.start : old.end]
    else:
        assert only_added(text, after)
        assert drop(after, format, key, edit.made).text == text
    return after
