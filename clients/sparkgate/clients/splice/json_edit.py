"""Putting a member into JSON, JSONC and JSON5, and taking it out, in the style of what stands around it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from sparkgate.clients.splice import json_read
from sparkgate.clients.splice.edit import (
    Edit,
    Span,
    Splice,
    ends_whole,
    indent_at,
    line_break,
    line_start,
    newline,
    quoted,
    span,
    spliced,
)
from sparkgate.clients.splice.json_members import Member, Table, last_ink, tables
from sparkgate.clients.splice.json_read import Dialect

_BARE = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_OPEN_LIST = re.compile(r"\[\s*\n")
_OWN_COMMENT = re.compile(r"[ \t]*//[^\n\r]*+(?=\r?\n)")
_BLANKS = re.compile(r"[ \t]*+")
_STEP = re.compile(r"[\[{,]\r?\n([ \t]+)")


@dataclass(frozen=True, slots=True)
class Style:
    """How members are written: `step` of one level, whether on `one_line`, `tight` without spaces, with `bare` names,
    whether one-line tables have `padded` braces, and whether lists are `spread` over lines."""

    step: str
    line: str
    one_line: bool
    tight: bool
    bare: bool
    spread: bool
    padded: bool

    def member(self, name: str, value: Any, indent: str) -> str:
        shown = name if self.bare and _BARE.fullmatch(name) else quoted(name)
        return f"{shown}:{'' if self.tight else ' '}{self.value(value, indent)}"

    def value(self, value: Any, indent: str) -> str:
        """A value whose own line begins with this indent."""
        inner = indent + self.step
        if isinstance(value, dict) and value:
            parts = [self.member(name, part, inner) for name, part in value.items()]
            return self.wrapped("{}", parts, indent, self.one_line)
        if isinstance(value, list) and value:
            parts = [self.value(part, inner) for part in value]
            return self.wrapped("[]", parts, indent, self.one_line or not self.spread)
        return quoted(value) if isinstance(value, str) else json.dumps(value)

    def wrapped(self, ends: str, parts: list[str], indent: str, one_line: bool) -> str:
        if one_line:
            pad = " " if self.padded and ends == "{}" else ""
            return ends[0] + pad + ("," if self.tight else ", ").join(parts) + pad + ends[1]
        inner = self.line + indent + self.step
        return ends[0] + inner + f",{inner}".join(parts) + self.line + indent + ends[1]


def _own_line(text: str, member: Member) -> bool:
    return not text[line_start(text, member.start) : member.start].strip()


def _style(text: str, path: list[Table], old: Member | None = None) -> Style:
    """The style at the end of the last of these tables, or of the member that is replaced there."""
    near = [table.members[-1] for table in reversed(path) if table.members]
    step = _STEP.search(text)
    like = old or (near[0] if near else None)
    shown = text[like.value : like.end] if like else ""
    own = bool(like and (_own_line(text, like) or ("\n" in shown and old is None)))
    flat = shown.startswith("{") and shown[1:-1].strip() and "\n" not in shown
    return Style(
        step=step[1] if step else "  ",
        line=newline(text),
        one_line=bool(like) and (not own or bool(flat and (old or path[-1].members))),
        tight=bool(like) and not text[like.colon + 1].isspace() if like else False,
        bare=bool(like) and text[like.start] not in "\"'" if like else False,
        spread=bool(_OPEN_LIST.search(shown)),
        padded=shown.startswith("{ "),
    )


def read(text: str, dialect: Dialect) -> Any:
    return json_read.read(text, dialect)


def where(text: str, key: tuple[str, ...], dialect: Dialect) -> Span | None:
    """The member at this path, from its name to the end of its value."""
    path = tables(text, key, dialect)
    index = path[-1].find(key[-1]) if len(path) == len(key) else -1
    return span(text, path[-1].members[index].start, path[-1].members[index].end) if index >= 0 else None


def put(text: str, key: tuple[str, ...], value: Any, dialect: Dialect) -> Edit:
    path = tables(text, key, dialect)
    made = len(key) - len(path)
    for name in reversed(key[len(path) :]):
        value = {name: value}
    if not path:
        return Edit(_as_root(text, value), made)
    last, name = path[-1], key[len(path) - 1]
    if (index := last.find(name)) >= 0:
        old = last.members[index]
        new = _style(text, path, old).value(value, indent_at(text, old.start))
        return Edit(spliced(text, [(old.value, old.end, new)]), 0)
    style = _style(text, path)
    return Edit(spliced(text, _added(text, last, name, value, style)), made)


def _as_root(text: str, value: Any) -> str:
    """The value of a file that has none; the line break that comes with it tells `_without_root` where it came in."""
    line = newline(text)
    root = Style("  ", line, False, False, False, False, False).value(value, "")
    return text + root + line if ends_whole(text) else text + line + root


def _added(text: str, table: Table, name: str, value: Any, style: Style) -> list[Splice]:
    """A new last member."""
    ink, line_comment = table.ink_end(text, len(table.members))
    outer = indent_at(text, table.start)
    if not table.members and ink == table.start + 1:
        return [_first(text, table, name, value, style, outer)]
    last = table.members[-1] if table.members else None
    own = _own_line(text, last) if last else "\n" in text[ink : table.end]
    indent = indent_at(text, last.start) if last else outer + style.step
    lead = style.line + indent if own or line_comment else "" if style.tight and last else " "
    added = lead + style.member(name, value, indent)
    if last is None:
        return [(ink, ink, added)]
    if last.comma >= 0:
        return [(ink, ink, f"{added},")]
    return [(last.end, last.end, ","), (ink, ink, added)] if ink > last.end else [(ink, ink, f",{added}")]


def _first(text: str, table: Table, name: str, value: Any, style: Style, outer: str) -> Splice:
    """The only member of a table; white space that stood in it stays behind it."""
    empty = text[table.start + 1 : table.end - 1]
    if style.one_line and "\n" not in empty:
        return table.start + 1, table.start + 1, empty + style.member(name, value, outer)
    indent = outer + style.step
    new = style.line + indent + style.member(name, value, indent) + style.line + outer
    return table.start + 1, table.start + 1, new


def drop(text: str, key: tuple[str, ...], made: int, dialect: Dialect) -> str:
    path = tables(text, key, dialect)
    if len(path) < len(key) or path[-1].find(key[-1]) < 0:
        return text
    level = len(path) - 1
    while made and len(path[level].members) == 1 and not _has_comments(text, path[level]):
        level, made = level - 1, made - 1
        if level < 0:
            return _without_root(text, path[0])
    return spliced(text, _removed(text, path[level], path[level].find(key[level])))


def _has_comments(text: str, table: Table) -> bool:
    only = table.members[0]
    return any(last_ink(text, start)[0] > start for start in (table.start + 1, only.end, only.whole_end))


def _without_root(text: str, root: Table) -> str:
    start, end = root.start, root.end
    rest = text[end:]
    if rest in ("\n", "\r\n"):
        end = len(text)
    elif not rest:
        start -= len(line_break(text, start))
    return text[:start] + text[end:]


def _removed(text: str, table: Table, index: int) -> list[Splice]:
    member, count = table.members[index], len(table.members)
    ink, _ = table.ink_end(text, index)
    end = member.whole_end
    before = text[ink : member.start]
    if "\n" in before and (own := _OWN_COMMENT.match(text, end)):
        end = own.end()
    if count == 1:
        return [_only(text, table, ink, end)]
    if index == count - 1 and member.comma < 0:
        comma = table.members[index - 1].comma
        return [(comma, comma + 1, ""), (ink, end, "")]
    if index == 0 and "\n" not in before:
        blanks = _BLANKS.match(text, end)
        return [(member.start, blanks.end() if blanks else end, "")]
    return [(ink, end, "")]


def _only(text: str, table: Table, ink: int, end: int) -> Splice:
    """The only member goes, and the white space that `_first` brought with it."""
    start = table.members[0].start
    before, after = text[ink:start], text[end : table.end - 1]
    if ink > table.start + 1:
        return ink, end, ""
    if "\n" not in before:
        return start, end + (len(after) if before == after else 0), ""
    closing = newline(before) + indent_at(text, table.start)
    return ink, end + (len(closing) if after.startswith(closing) else 0), ""
