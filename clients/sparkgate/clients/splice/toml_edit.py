"""Putting a pair or a table into TOML and taking it out: whole lines, or pairs within inline tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NoReturn

from sparkgate.clients.splice import toml_scan
from sparkgate.clients.splice.edit import (
    Edit,
    Span,
    Splice,
    body_start,
    ends_whole,
    indent_at,
    line_break,
    line_end,
    line_start,
    newline,
    quoted,
    refuse,
    span,
    spliced,
)
from sparkgate.clients.splice.toml_scan import Path, Statement, inline, statements

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def read(text: str) -> Any:
    return toml_scan.read(text)


def _dotted(path: Path) -> str:
    return ".".join(name if _BARE.fullmatch(name) else quoted(name) for name in path)


def _written(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, dict):
        pairs = [f"{_dotted((name,))} = {_written(part)}" for name, part in value.items()]
        return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return quoted(value) if isinstance(value, str) else repr(value)


def _section(path: Path, table: dict[str, Any]) -> list[str]:
    return [f"[{_dotted(path)}]", *(f"{_dotted((name,))} = {_written(value)}" for name, value in table.items())]


@dataclass(frozen=True, slots=True)
class _Found:
    """What the text has at a path: the `pair` that is it or leads to it, or `runs` of statements.

    `levels` are the inline tables from that pair on, each with the index of its pair on the path, -1 where it ends.
    """

    pair: Statement | None
    runs: tuple[tuple[Statement, ...], ...]
    levels: tuple[tuple[Statement, tuple[Statement, ...], int], ...] = ()

    @property
    def whole(self) -> bool:
        """The value at the path is there."""
        return bool(self.runs) or (self.pair is not None and (not self.levels or self.levels[-1][2] >= 0))


def _find(text: str, all_of: list[Statement], key: Path) -> _Found:
    runs, pair, last = list[tuple[Statement, ...]](), None, -2
    for index, statement in enumerate(all_of):
        if statement.kind == "array" and statement.path == key[: len(statement.path)]:
            refuse(text, statement.start, f"`{_dotted(statement.path)}` is a list of tables")
        if statement.kind == "pair" and statement.path == key[: len(statement.path)]:
            pair = statement
        elif statement.path[: len(key)] == key:
            runs[-1:] = [(*runs[-1], statement)] if index == last + 1 else [*runs[-1:], (statement,)]
            last = index
    if pair is None:
        return _Found(None, tuple(runs))
    return _Found(pair, (), _levels(text, pair, key[len(pair.path) :]))


def _levels(text: str, pair: Statement, rest: Path) -> tuple[tuple[Statement, tuple[Statement, ...], int], ...]:
    """The inline tables from a pair on along the rest of a path, as far as they are there."""
    found = []
    for name in rest:
        if text[pair.value] != "{":
            refuse(text, pair.start, f"`{_dotted(pair.path)}` is not a table")
        pairs = tuple(inline(text, pair.value))
        dotted = next((part for part in pairs if part.path[0] == name and len(part.path) > 1), None)
        if dotted:
            refuse(text, dotted.start, "a dotted name within braces")
        index = next((index for index, part in enumerate(pairs) if part.path == (name,)), -1)
        found.append((pair, pairs, index))
        if index < 0:
            break
        pair = pairs[index]
    return tuple(found)


def where(text: str, key: Path) -> Span | None:
    """The pair at this path, or the first statements that make the table there."""
    found = _find(text, statements(text), key)
    if not found.whole:
        return None
    if found.runs:
        return span(text, found.runs[0][0].start, found.runs[0][-1].end)
    member = _member(found)
    return span(text, member.start, member.end)


def _member(found: _Found) -> Statement:
    """The pair that holds the value itself."""
    if found.levels:
        _, pairs, index = found.levels[-1]
        return pairs[index]
    assert found.pair is not None
    return found.pair


def put(text: str, key: Path, value: Any) -> Edit:
    if _has_null(value):
        refuse(text, body_start(text), "TOML has no null")
    all_of = statements(text)
    found = _find(text, all_of, key)
    if found.runs:
        return Edit(spliced(text, [_table_replaced(text, key, found, value)]))
    if found.whole:
        member = _member(found)
        return Edit(spliced(text, [(member.value, member.end, _written(value))]))
    if found.pair:
        rest = key[len(found.pair.path) + len(found.levels) - 1 :]
        return Edit(spliced(text, [_into_braces(text, found, rest, value)]), len(rest) - 1)
    return _added(text, all_of, key, value)


def _has_null(value: Any) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return value is None or any(map(_has_null, parts))


def _table_replaced(text: str, key: Path, found: _Found, value: Any) -> Splice:
    first, last = found.runs[0][0], found.runs[0][-1]
    if len(found.runs) > 1 or first.kind == "pair" or not isinstance(value, dict):
        refuse(text, first.start, f"`{_dotted(key)}` is a table that is spread over the file, or made of dotted names")
    return first.start, last.end, newline(text).join(_section(key, value))


def _into_braces(text: str, found: _Found, rest: Path, value: Any) -> Splice:
    table, pairs, _ = found.levels[-1]
    new = f"{_dotted(rest[:1])} = {_written(_wrapped(rest[1:], value))}"
    if pairs:
        return pairs[-1].end, pairs[-1].end, f", {new}"
    return table.value + 1, table.value + 1, text[table.value + 1 : table.end - 1] + new


def _wrapped(names: Path, value: Any) -> Any:
    for name in reversed(names):
        value = {name: value}
    return value


def _added(text: str, all_of: list[Statement], key: Path, value: Any) -> Edit:
    """A value that is not there yet, whose parents are tables as far as they are there."""
    depth = next(n for n in range(len(key) - 1, -1, -1) if n == 0 or any(s.path[:n] == key[:n] for s in all_of))
    parent, made = key[:depth], len(key) - depth - 1
    inside = [statement for statement in all_of if statement.path[:depth] == parent]
    dotted = [statement for statement in inside if statement.kind == "pair" and len(statement.header) < depth]
    if dotted:
        header = dotted[-1].header
        shown = f"{_dotted(key[len(header) : depth + 1])} = {_written(_wrapped(key[depth + 1 :], value))}"
        return Edit(_with_pair(text, dotted[-1], shown), made)
    if not made and not isinstance(value, dict) and (not parent or any(s.path == parent for s in inside)):
        pair = f"{_dotted(key[-1:])} = {_written(value)}"
        return Edit(_with_pair(text, _last_of_section(all_of, parent), pair, bool(all_of)), 0)
    table, path = (value, key) if isinstance(value, dict) else ({key[-1]: value}, key[:-1])
    at = line_end(text, inside[-1].end) if parent else len(text)
    return Edit(_with_section(text, at, _section(path, table)), max(made, int(path != key)))


def _last_of_section(all_of: list[Statement], path: Path) -> Statement | None:
    """The last pair under a header, or the header; None at the top of a file that has no pairs there."""
    own = [s for s in all_of if (s.header == path if s.kind == "pair" else s.path == path)]
    return own[-1] if own else None


def _with_pair(text: str, behind: Statement | None, pair: str, first: bool = False) -> str:
    """A line for a pair behind this statement, or at the start or the end of the text without one."""
    at = line_end(text, behind.end) if behind else body_start(text) if first else len(text)
    indent = indent_at(text, behind.start) if behind else ""
    if at < len(text) or ends_whole(text):
        return f"{text[:at]}{indent}{pair}{newline(text)}{text[at:]}"
    return f"{text}{newline(text)}{indent}{pair}"


def _with_section(text: str, at: int, lines: list[str]) -> str:
    """The text with a section in it, behind an empty line; at the start of a file there is none."""
    line = newline(text)
    new = line.join(lines)
    if at == body_start(text):
        return f"{text[:at]}{new}{line}{text[at:]}"
    if at < len(text) or ends_whole(text):
        return f"{text[:at]}{line}{new}{line}{text[at:]}"
    return text + line + line + new


def drop(text: str, key: Path, made: int) -> str:
    all_of = statements(text)
    found = _find(text, all_of, key)
    if found.runs:
        return spliced(text, [_lines(text, run[0], run[-1]) for run in found.runs])
    if found.levels:
        pairs, index = found.levels[-1][1:]
        alone = made and len(pairs) == 1
        return drop(text, key[:-1], made - 1) if alone else spliced(text, [_from_braces(text, found, index)])
    pair = found.pair or _nothing()
    before = all_of[max(all_of.index(pair) - 1, 0)]
    if made and before.kind == "table" and before.path == pair.header == key[:-1] and _is_alone(text, all_of, pair):
        return spliced(text, [_lines(text, before, pair)])
    return spliced(text, [_lines(text, pair, pair)])


def _nothing() -> NoReturn:
    raise LookupError("callers look whether the value is there")


def _is_alone(text: str, all_of: list[Statement], pair: Statement) -> bool:
    """Whether a section holds nothing but this pair, not even a comment in front of it."""
    index = all_of.index(pair)
    last = index + 1 == len(all_of) or all_of[index + 1].kind != "pair"
    return last and "#" not in text[all_of[index - 1].end : pair.start]


def _lines(text: str, first: Statement, last: Statement) -> Splice:
    """The lines of these statements, with the empty line that stands before a section."""
    start, end = line_start(text, first.start), line_end(text, last.end)
    above = line_start(text, max(start - 1, 0))
    if first.kind != "pair" and text[above:start] in ("\n", "\r\n"):
        start = above
    if end == len(text) and not text.endswith("\n") and start > body_start(text):
        start -= len(line_break(text, start))
    return start, end, ""


def _from_braces(text: str, found: _Found, index: int) -> Splice:
    table, pairs, _ = found.levels[-1]
    pair = pairs[index]
    if len(pairs) == 1:
        before, after = text[table.value + 1 : pair.start], text[pair.end : table.end - 1]
        return pair.start, pair.end + (len(after) if before == after else 0), ""
    if index == len(pairs) - 1:
        return pairs[index - 1].end, pair.end, ""
    return pair.start, pairs[index + 1].start, ""
