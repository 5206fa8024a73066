"""Changes of code: unified diffs with or without hunk heads, and runs of changed lines.

A change counts when `LINES` of its lines are code, so that a corrected word in a README is none. Spans are str indices,
half open, whole lines where a line is all of that kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise

Span = tuple[int, int]
IsCode = Callable[[str], bool]
IsProse = Callable[[str], object]

LINES = 3
ROWS = 120
"""Changed lines that are looked at in one run."""

_HUNK = re.compile(r"@@ -\d{1,6}(?:,\d{1,6})? \+\d{1,6}(?:,\d{1,6})? @@[^\r\n]*")
_DIFF_HEAD = re.compile(
    r"(?m)^(?:diff --git |index [0-9a-f]{6,}|--- \S|\+\+\+ \S|new file mode|deleted file mode|old mode|new mode"
    r"|similarity index|rename (?:from|to)|Index: |={20,}).*$"
)
_HUNK_BODY = re.compile(r"(?:\r?\n(?:[ +\\-][^\r\n]*|(?=\r?\n[ +-])))+")
_CONTEXT = re.compile(
    r"@@ .*@@ .*?(?:\b(?:def|class|fn|func|function|impl|struct|void|int|public|static|async)\b \w|[({;]$)"
)
_LOOSE_BODY = re.compile(r"@@ .*@@.* [+-] ?\S.*[=(;:]")
_LOOSE_HEAD = re.compile(r"(?:diff --git|--- a/)[^\r\n]*$")
_CHANGED = re.compile(r"(?m)(?:^[+-](?![+-]{2})[ \t]*\S[^\r\n]*(?:\r?\n|$)(?:^ [^\r\n]*\r?\n(?=[+-]))?)+")
_COMMIT = re.compile(r"(?m)^commit [0-9a-f]{7,40}\b[^\r\n]*\r?\n(?:(?:[A-Z]\w+: | {4})[^\r\n]*\r?\n|\r?\n)*")
_PROSE_MARK = re.compile(r"[#>*\s\d.-]*(?:\[[^\]]*\]\([^)]*\))*")
_POINTS = re.compile(r"[=(){};:\[\]<>]|\w_\w")


def diffs(text: str, is_code: IsCode, is_prose: IsProse) -> list[Span]:
    """Unified diffs: headers, hunk lines and their bodies, also squeezed into one line; and changed lines alone.

    `is_code` tells whether a line surely is code, `is_prose` whether it is a sentence.
    """
    found = list(_changes(text, is_code))
    if "@@ -" not in text and "+++ " not in text:
        return found

    def is_row(row: str) -> bool:
        return is_code(row) or bool(_POINTS.search(row) and not is_prose(row))

    heads = [match.span() for match in _DIFF_HEAD.finditer(text)]
    hunks = [(hunk, _HUNK_BODY.match(text, hunk.end())) for hunk in _HUNK.finditer(text)]
    shown = [hunk[0].split("@@")[-1] + (body[0] if body else "") for hunk, body in hunks]
    if hunks and sum(_code_lines(part, is_row) for part in shown) < LINES and not any(map(_is_loose, hunks)):
        return found
    for hunk, body in hunks:
        at_line = hunk.start() == 0 or text[hunk.start() - 1] in "\r\n"
        if not _is_loose((hunk, body)) and not (at_line and body):
            continue
        before = _LOOSE_HEAD.search(text, text.rfind("\n", 0, hunk.start()) + 1, hunk.start())
        start = before.start() if before else hunk.start()
        found.append((start, body.end() if body and at_line else hunk.end()))
    return found + _heads(text, heads, found, is_row)


def _heads(text: str, heads: list[Span], found: list[Span], is_row: IsCode) -> list[Span]:
    """Header lines beside hunks; without any, those of a pair and the changed lines below it."""
    if found:
        return heads
    pairs = [two for one, two in pairwise(heads) if _is_pair(text, one, two)]
    bodies = [body for pair in pairs if (body := _HUNK_BODY.match(text, pair[1]))]
    if not pairs or (bodies and sum(_code_lines(body[0], is_row) for body in bodies) < LINES):
        return []
    return heads + [body.span() for body in bodies]


def _is_pair(text: str, one: Span, two: Span) -> bool:
    return text.startswith("--- ", one[0]) and text.startswith("+++ ", two[0]) and two[0] - one[1] <= 2


def _is_loose(hunk: tuple[re.Match[str], re.Match[str] | None]) -> bool:
    return bool(_CONTEXT.match(hunk[0][0])) or bool(_LOOSE_BODY.match(hunk[0][0]))


def _code_lines(body: str, is_row: IsCode) -> int:
    return sum(is_row(_PROSE_MARK.sub("", row.lstrip(" +-\\"), count=1)) for row in body.splitlines())


def _changes(text: str, is_code: IsCode) -> Iterator[Span]:
    """Runs of changed lines, some taken out and some put in, most of them code; and the commit they stand below."""
    if "\n+" not in text and "\n-" not in text:
        return
    commits = {match.end(): match.start() for match in _COMMIT.finditer(text)} if "commit " in text else {}
    for run in _CHANGED.finditer(text):
        rows = run[0].splitlines()
        if len({row[0] for row in rows if row[0] != " "}) < 2:
            continue
        if sum(is_code(row[1:].strip()) for row in rows[:ROWS]) >= LINES:
            yield commits.get(run.start(), run.start()), run.start() + len(run[0].rstrip())
