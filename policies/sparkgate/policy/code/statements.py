"""SQL statements over tables of one's own, from their first word to the semicolon or the blank line that ends them.

A statement is own when it has two clauses and names two things that neither every textbook nor a database system
names. One line without a semicolon is left to the signs of `signs.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sparkgate.policy.code.signs import Signs

Span = tuple[int, int]

CLAUSES = 2
OWN_NAMES = 2
MAX_CHARS = 4000
"""A statement is followed no further than this, so the work on a text is bounded."""
TRIES = 24
"""So many first words that begin no own statement are looked at; a statement may begin again inside another."""

_HEAD = re.compile(
    r"(?im)^[ \t>]*(?:```sql[ \t]+)?(?=[siudacmwe])"
    r"(?:select|insert into|update|delete from|alter table|create|merge into|with|explain)\b"
)
_BODY = re.compile(r"(?:'[^'\n]*'|--[^\n]*|\n(?![ \t>]*(?:\r?\n|$)|```)|[^;'`\n]|'|`(?!``))*+;?")
"""Up to a semicolon outside strings and comments, a blank line or the end of a fence."""
_CLAUSE = re.compile(
    r"(?i)\b(?:select|insert into|update|delete from|alter table|create (?:or replace )?(?:unique |materialized )?"
    r"(?:table|view|index|function)|merge into|set|from|join|where|group by|order by|having|values|union|returning"
    r"|(?:add|drop|alter|rename) (?:column|constraint)|on conflict|partition by|limit|explain|with)\b"
)
_QUOTED = re.compile(r"'[^'\n]*'|--[^\n]*")
_NAME = re.compile(r"[A-Za-zÄÖÜäöüß]\w*_\w+")
_SYSTEM = re.compile(
    r"(?i)\b(?:pg_\w+|information_schema|sqlite_\w+|performance_schema|mysql\.|sys\.|all_tables|dba_\w+|system\.\w|v\$\w)"
)
_ROW = re.compile(
    r"(?im)[ \t>]*(?:(?:select|from|(?:left |right |inner |full |cross |outer )*join|where|and|or|on|set|group by"
    r"|order by|having|union|values|returning|limit|offset|with|when|then|else|case|end|add|drop|using|window|as"
    r"|primary|foreign|constraint|unique|check|references|default)\b(?=.*[\w)\"'*])"
    r"|[(),].*$|.*[,(][ \t]*\r?$|[\w.\"]+ ?[=<>].*$|[\w.]*\w_\w+(?:\s|$))"
)


def statements(text: str, table: Signs) -> Iterator[Span]:
    """Spans of SQL statements that name tables and columns of one's own; half open, from the first word on."""
    if ";" not in text and "\n" not in text:
        return
    reached = tried = 0
    for head in _HEAD.finditer(text):
        if head.start() < reached or tried >= TRIES:
            continue
        tried += 1
        body = _BODY.match(text, head.end(), head.start() + MAX_CHARS)
        end = body.end() if body else head.end()
        closed = text[end - 1] == ";"
        if not closed:
            end = _last_row(text, head.start(), end)
        if _is_own(text[head.start() : end], closed, table):
            reached, tried = end, 0
            yield head.end() - len(head[0].lstrip(" \t>")), end


def _last_row(text: str, start: int, end: int) -> int:
    """Where the last line that reads as SQL ends, in a statement that no semicolon ends."""
    reached = text.find("\n", start, end)
    if reached < 0:
        return end
    while reached < end and _ROW.match(text, reached + 1, end):
        following = text.find("\n", reached + 1, end)
        reached = following if following >= 0 else end
    return reached


def _is_own(statement: str, closed: bool, table: Signs) -> bool:
    if not (closed or "\n" in statement) or _SYSTEM.search(statement):
        return False
    bare = _QUOTED.sub(" ", statement)
    names = {name.lower() for name in _NAME.findall(bare)}
    own = sum(not _is_plain(name, table) for name in names)
    rest, clauses = _CLAUSE.subn("=", bare)
    return own >= OWN_NAMES and clauses >= CLAUSES and not table.prose.search(rest)


def _is_plain(name: str, table: Signs) -> bool:
    """Whether every part of a name is one that many databases have."""
    return all(
        part in table.columns or part in table.textbook or part in table.frequent or part in table.common
        for part in name.split("_")
    )
