"""Putting an entry into YAML and taking it out: whole lines in block style, pairs in flow style."""

from __future__ import annotations

import re
from typing import Any

from sparkgate.clients.splice import yaml_write
from sparkgate.clients.splice.edit import (
    Edit,
    Span,
    Splice,
    body_start,
    ends_whole,
    line_break,
    line_end,
    line_start,
    newline,
    refuse,
    span,
    spliced,
)
from sparkgate.clients.splice.yaml_tree import Node, tree

Entry = tuple[Node, Node]
Level = tuple[Node, "Entry | None"]
"""A map on the path, and the entry of it that the path leads through, None where it ends."""

_COLON = re.compile(r"[ \t]*:")
_KEPT_BREAK = re.compile(r"[|>][0-9+]*[ \t\r\n]")
_REMARK = re.compile(r"((?:[ \t]*\r?\n)*)([ ]*)#[^\n]*(?:\n|\Z)")
_DOCUMENT_END = re.compile(r"^\.\.\.(?=\s|\Z)", re.MULTILINE)


def read(text: str) -> Any:
    root = tree(text)
    return {} if root is None or root.empty else root.data


def where(text: str, key: tuple[str, ...]) -> Span | None:
    """The entry at this path, from its name to the end of its value."""
    path = _path(text, key)
    entry = path[-1][1] if len(path) == len(key) else None
    return span(text, entry[0].start, max(entry[1].end, entry[0].end)) if entry else None


def _path(text: str, key: tuple[str, ...]) -> list[Level]:
    """The maps along a path as far as they are there; empty when the text holds no value."""
    node, path = tree(text), list[Level]()
    if node is None or (node.empty and node.plain and not node.anchor):
        return path
    for depth, name in enumerate(key):
        shown = f"`{'.'.join(key[:depth])}`" if depth else "the file"
        if node.kind != "map":
            refuse(text, node.start, f"{shown} is {'an alias' if node.target else 'not a table'}")
        if node.anchor or not node.plain:
            refuse(text, node.start, f"{shown} has an anchor or a tag, so other places may change with it")
        path.append((node, _find(text, node, name)))
        entry = path[-1][1]
        if entry is None or (entry[1].empty and entry[1].plain and not entry[1].anchor):
            break
        node = entry[1]
    return path


def _find(text: str, table: Node, name: str) -> Entry | None:
    """The entry with this name; refuses a map whose names are not certain."""
    seen, found = set[str](), None
    for entry in table.entries():
        own = entry[0]
        if own.tag.endswith(":merge"):
            refuse(text, own.start, "`<<` brings another table in here, which may hold the same names")
        if repr(own.data) in seen:
            refuse(text, own.start, "this name stands twice in its table, so what it means is not certain")
        seen.add(repr(own.data))
        if own.kind == "scalar" and own.data == name:
            found = entry
    if found and (found[0].anchor or not found[0].plain or not _COLON.match(text, found[0].end)):
        refuse(text, found[0].start, "a name with an anchor, a tag, or `?` in front")
    return found


def _column(text: str, table: Node) -> str:
    """The indent of the entries of a block map; each begins its own line."""
    indent = text[line_start(text, table.start) : table.start]
    if indent.strip(" "):
        refuse(text, table.start, "a table that begins behind something else on its line")
    return indent


def _step(text: str, path: list[Level]) -> str:
    """Spaces of one level, as the first table in the root has them."""
    root = path[0][0] if path else None
    for _, value in root.entries() if root and not root.flow else ():
        if value.kind == "map" and not value.flow and value.plain and not value.anchor:
            return " " * max(value.start - line_start(text, value.start) - len(_column(text, root)), 1) if root else ""
    return "  "


def put(text: str, key: tuple[str, ...], value: Any) -> Edit:
    path = _path(text, key)
    table, entry = path[-1] if path else (None, None)
    if entry and len(path) == len(key):
        return Edit(spliced(text, _replaced(text, path, value)))
    depth = len(path) - (entry is None and bool(path))
    wanted: Any = value
    for name in reversed(key[depth:]):
        wanted = {name: wanted}
    made = len(key) - depth - 1
    step = _step(text, path)
    if table is None:
        ends = _DOCUMENT_END.search(text)
        at, lines = ends.start() if ends else len(text), yaml_write.lines(wanted, "", step, made + 1)
    elif entry and not table.flow:
        column = _column(text, table)
        at, lines = _below(text, entry, column), yaml_write.lines(wanted, column + step, step, made + 1)
    elif entry or table.flow:
        return Edit(spliced(text, [_in_flow(text, table, wanted)] if not entry else _refused(text, entry)), made)
    else:
        at = _behind_remarks(text, line_end(text, table.end), len(_column(text, table)))
        lines = yaml_write.lines(wanted, _column(text, table), step, made + 1)
    return Edit(_with_lines(text, at, lines), made)


def _refused(text: str, entry: Entry) -> list[Splice]:
    refuse(text, entry[0].start, "a name without a value between braces")


def _below(text: str, entry: Entry, column: str) -> int:
    """Where the first lines under a name without a value go."""
    colon = _COLON.match(text, entry[0].end)
    end = line_end(text, entry[0].end)
    rest = text[colon.end() if colon else end : end].strip()
    if rest and not rest.startswith("#"):
        refuse(text, entry[0].start, "a value that is nothing, but not written as nothing")
    return _behind_remarks(text, end, len(column) + 1)


def _behind_remarks(text: str, at: int, indent: int) -> int:
    """Behind the comments from here that are indented at least so far, and so belong to what stands above."""
    while (found := _REMARK.match(text, at)) and len(found[2]) >= indent:
        at = found.end()
    return at


def _with_lines(text: str, at: int, lines: list[str]) -> str:
    """The text with lines that begin at this index; at an end without a line break they end without one too."""
    line = newline(text)
    new = line.join(lines)
    new = new + line if at < len(text) or ends_whole(text) else line + new
    return text[:at] + new + text[at:]


def _in_flow(text: str, table: Node, wanted: dict[str, Any]) -> Splice:
    in_quotes = bool(table.parts) and text[table.parts[0].start] == '"'
    new = yaml_write.flow(wanted, in_quotes)[1:-1]
    if table.parts:
        return table.parts[-1].end, table.parts[-1].end, f", {new}"
    empty = text[table.start + 1 : table.end - 1]
    return table.start + 1, table.start + 1, empty + new


def _replaced(text: str, path: list[Level], value: Any) -> list[Splice]:
    """The value of an entry that is there."""
    table, entry = path[-1]
    assert entry is not None
    old = entry[1]
    flow = yaml_write.flow(value)
    block = old.kind in ("map", "list") and not old.flow
    if not old.plain or old.anchor:
        refuse(text, old.start, "a value with an anchor or a tag, so other places may change with it")
    if old.empty and isinstance(value, dict) and value and not table.flow:
        column, line = _column(text, table), newline(text)
        at, step = _below(text, entry, column), _step(text, path)
        new = line.join(yaml_write.lines(value, column + step, step))
        return [(at, at, new + line if text.endswith("\n", 0, at) else line + new)]
    if old.empty:
        return [(old.start, old.start, f" {flow}")]
    if not block:
        return [(old.start, old.end, flow)]
    start = line_start(text, old.start)
    if old.kind == "map" and isinstance(value, dict) and value:
        lines = yaml_write.lines(value, _column(text, old), _step(text, path))
        return [(start, old.end, newline(text).join(lines))]
    colon, end = text.index(":", entry[0].end) + 1, start - len(line_break(text, start))
    if not text[colon:end].strip():
        return [(colon, old.end, f" {flow}")]
    return [(colon, colon, f" {flow}"), (end, old.end, "")]


def drop(text: str, key: tuple[str, ...], made: int) -> str:
    path = _path(text, key)
    if len(path) < len(key) or path[-1][1] is None:
        return text
    level = len(path) - 1
    while made and level and len(path[level][0].parts) == 2 and not _has_remarks(text, path, level):
        level, made = level - 1, made - 1
    table, entry = path[level]
    assert entry is not None
    return spliced(text, [_from_flow(text, table, entry) if table.flow else _whole_lines(text, table, entry)])


def _has_remarks(text: str, path: list[Level], level: int) -> bool:
    """Whether a comment stands between the name of a map and its only entry."""
    above, entry = path[level - 1][1], path[level][1]
    return bool(above and entry and "#" in text[above[0].end : entry[0].start])


def _whole_lines(text: str, table: Node, entry: Entry) -> Splice:
    _column(text, table)
    start, end = line_start(text, entry[0].start), line_end(text, max(entry[1].end, entry[0].end))
    if end == len(text) and not text.endswith("\n") and start > body_start(text):
        start -= 0 if _behind_block(text, table, entry, start) else len(line_break(text, start))
    return start, end, ""


def _behind_block(text: str, table: Node, entry: Entry, start: int) -> bool:
    """Whether the line break in front of an entry is the last character of a `|` or `>` text, not one of `|-`."""
    index = table.parts.index(entry[0])
    before = table.parts[index - 1] if index else None
    while before and before.parts:
        before = before.parts[-1]
    return bool(before and _KEPT_BREAK.match(text, before.start) and not text[before.end : start].strip())


def _from_flow(text: str, table: Node, entry: Entry) -> Splice:
    index, (name, value) = table.parts.index(entry[0]), entry
    if len(table.parts) == 2:
        before, after = text[table.start + 1 : name.start], text[value.end : table.end - 1]
        return name.start, value.end + (len(after) if before == after else 0), ""
    if index == len(table.parts) - 2:
        return table.parts[index - 1].end, value.end, ""
    return name.start, table.parts[index + 2].start, ""
