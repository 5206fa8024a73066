"""Pasted source code: blocks of lines, code squeezed into one line, diffs, stack frames, marked headers, configuration.

Every line has a score from the signs of `signs.toml`. Lines that follow each other are one block, together with
what only hangs on to them: deeper lines, comments, closing brackets, lines inside an open bracket. A block is own code
when it defines a name of its own and scores `DEFINED` or more, or when it scores `UNDEFINED` or more with two kinds of
signs that are not all `WEAK`, or less with a kind of `ALONE`. A single call, an import, a
textbook function or a log line stays below that.
Once a text holds such a block, the other blocks in it need only `BESIDE`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from time import monotonic

from sparkgate.policy.code.diffs import diffs
from sparkgate.policy.code.rows import BLANK_LINES, Row, rows
from sparkgate.policy.code.shapes import Span, configs, frames, marked
from sparkgate.policy.code.signs import Signs, signs
from sparkgate.policy.code.statements import statements
from sparkgate.policy.finding import Finding, Label, Overrun
from sparkgate.policy.forms.view import View
from sparkgate.policy.literals import any_of

DEFINED = 5
UNDEFINED = 7
QUERY = 8
"""The same for a block of nothing but SQL queries; what names its own tables is found by `statements` as well."""
BESIDE = 4
KINDS = 2
OUTSIDE = ("shell-command", "shell-assignment", "shell-flow", "shell-setup")
WEAK = frozenset(("assignment", "call", "chain", "annotation", "statement-end", "entry", *OUTSIDE))
"""What the use of a public library, or a script that starts a public program, shows as well."""
ALONE = {
    "sql-column": (4, 1),
    "sql-definition": (4, 1),
    "ts-member": (4, 1),
    "ts-union": (4, 1),
    "shell-branch": (6, 2),
    "shell-case": (5, 2),
}
"""Kinds that stand in types, tables and scripts only: the score and the number of kinds that are enough beside them."""
INLINE_KINDS = 3
INLINE_DEFINED = 8
INLINE_UNDEFINED = 13
INLINE_MIN_CHARS = 60
INLINE_DENSITY = 0.055
"""Least score a character of a line of code; a sentence about code has a few signs over many words."""
BODY_OPENS = ("body-opens", 3, True)
"""A brace alone below a closing bracket: what stands above it is a function in the style of C."""
MEMBERS = ("self.", "this.", "this->")
PART_MAX = 2
BODY_MAX = 3
OPEN_LINES = 12
GAP = 3
"""Plain commands in a row between two lines of a script that have signs."""
SCRIPT = frozenset(("shell-branch", "shell-case", "shell-flow", "shell-setup", "shell-function", "shell-assignment"))
ROWS_A_CHECK = 64

CODE = Label("own-code", "code", "redact", "[code]", "Source code of your own; it names what you are building.")
DIFF = Label("diff", "code", "redact", "[code]", "A change to source code of your own.")
FRAME = Label("own-stack-frame", "code", "redact", "[code]", "A stack frame inside code of your own.")
MARKED = Label("confidential-header", "code", "redact", "[code]", "Words by which a firm marks what must not leave.")
CONFIG = Label("own-configuration", "code", "redact", "[code]", "Configuration of an application of your own.")

_STOP = re.compile(
    r"\[?\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:|(?:INFO|WARN|WARNING|ERROR|DEBUG|FATAL|TRACE)\b"
    r"|Traceback |```|[\w.-]+@[\w.-]+:|[A-Z]\w*(?:Error|Exception|Warning)\b: |\$ (?!\w+ ?=)|[|+]--|\| .*\|$"
)
_COMMENT = re.compile(r"#(?!!)|//|/\*|\*(?: |/|$)|--(?: |$)|\"\"\"|'''|<!--")
_CLOSER = re.compile(r"[\[\](){}<>;,:\s]+(?:\w{0,3})[\[\](){}<>;,\s]*$|(?:end|fi|done)\b.{0,20}$")
_COMMAND = re.compile(r"[a-z_/.][\w./-]*(?: [\w./\"'=:$@{}*,+\\|<>&-]+){0,9}$")
_MARKER = re.compile(r"\s*[\^~]+\s*$")
_PACKAGE_FRAME = re.compile(r'\s*File "|\s*at [\w$.<]')
STATEMENT_WORDS = ("return ", "def ", "SELECT ", "select ", "CREATE ")
STATEMENT_SIGNS = (
    " = ",
    "; ",
    ";}",
    ") {",
    "){",
    "=> ",
    "+= ",
    " { ",
    ":= ",
)
"""A line with code in it has two of these, and each of the latter has one of `;={`."""
_has_a_sign = any_of(STATEMENT_SIGNS)


@dataclass(slots=True)
class _Block:
    first: int
    last: int
    score: int = 0
    lines: int = 0
    defined: bool = False
    textbook: bool = False
    kinds: set[str] = field(default_factory=set)
    indent: int = 0
    depth: int = 0
    pending: int = 0
    blank: int = 0
    gap: int = 0
    body: int = 0
    start: int = -1


class CodeDetector:
    """Finds source code of one's own in a text. It keeps no text and holds no state."""

    def __init__(self) -> None:
        self._signs = signs()

    def find(self, view: View, deadline: float) -> list[Finding]:
        """Every piece of code, each span whole lines or, within one line, the dense part of it.

        Raises:
            Overrun: `deadline` (time.monotonic seconds) passed.
        """
        text = view.text
        found: list[Finding] = []
        if not view.is_printable or _is_dense(text) or "\\" in text:
            lines = rows(text)
            found += [Finding(CODE, *span) for span in self._blocks(lines, deadline)] if len(lines) > 1 else []
            found += [Finding(CODE, *span) for span in self._inline(lines, found, deadline)]
        _check(deadline)
        found += [Finding(CODE, *span) for span in statements(text, self._signs)]
        for label, spans in self._shapes(view):
            found += [Finding(label, *span) for span in joined(spans)]
            _check(deadline)
        return found

    def _shapes(self, view: View) -> Iterator[tuple[Label, Iterable[Span]]]:
        """What is known by its frame."""
        text = view.text
        if "\n" in text or "@@ -" in text or "+++ " in text:
            yield DIFF, diffs(text, self._is_code, self._signs.prose.search)
        yield FRAME, frames(view, self._signs)
        yield MARKED, marked(view, self._signs)
        if "\n" in text:
            yield CONFIG, configs(text, self._signs)

    def _is_code(self, row: str) -> bool:
        return line_score(row, self._signs) is not None

    def _blocks(self, lines: list[Row], deadline: float) -> list[Span]:
        blocks = list(_gather(lines, self._signs, deadline))
        for block in blocks:
            _reach_back(block, lines, self._signs)
        own = any(_is_own(block) for block in blocks)
        kept = [b for b in blocks if _is_own(b) or (own and b.score >= BESIDE)]
        return [(block.start, lines[block.last].end) for block in kept]

    def _inline(self, lines: list[Row], found: list[Finding], deadline: float) -> Iterator[Span]:
        for line in lines:
            if line.end - line.start < INLINE_MIN_CHARS or not _is_dense(line.body):
                continue
            if any(hit.start <= line.start < hit.end for hit in found):
                continue
            _check(deadline)
            offset = line.end - len(line.body)
            yield from ((offset + start, offset + end) for start, end in dense(line.body, self._signs))


def line_score(body: str, table: Signs) -> tuple[str, int, bool] | None:
    """Sign, score and whether it is a definition of one's own, of a line without indentation; None without a sign."""
    found = table.of_line(body)
    ends = body.endswith((";", "{"))
    if found is None and not ends:
        return None
    parts = min(PART_MAX, sum(weight for literal, weight in table.parts if literal in body))
    if found is None:
        return ("statement-end", 1, False) if parts and not table.prose.search(body) else None
    sign, match = found
    weight, defined = table.weight_of(sign, match)
    if weight < 3 and table.prose.search(_unquoted(body)):
        return None
    kind = "member" if any(word in body for word in MEMBERS) else sign.id
    return kind, weight + (parts if weight > 0 else 0) + (ends and weight in (1, 2)), defined


def _is_dense(body: str) -> bool:
    found = sum(map(body.__contains__, STATEMENT_WORDS))
    if ("=" in body or ";" in body or "{" in body) and _has_a_sign(body):
        found += sum(map(body.__contains__, STATEMENT_SIGNS))
    return found > 1


def dense(line: str, table: Signs) -> list[Span]:
    """Spans of one line that are code with hardly a word between, at most one."""
    hits: list[Span] = []
    score, defined, kinds = 0, False, set()
    for sign in table.inline:
        for match in sign.pattern.finditer(line):
            weight, own = table.weight_of(sign, match)
            score, defined = score + weight, defined or own
            kinds.add(sign.id)
            hits.append(match.span())
    least = INLINE_DEFINED if defined else INLINE_UNDEFINED
    if score < least or len(kinds) < INLINE_KINDS:
        return []
    start, end = min(a for a, _ in hits), _closed(line, min(a for a, _ in hits), max(b for _, b in hits))
    if end - start < INLINE_MIN_CHARS or score < INLINE_DENSITY * (end - start):
        return []
    return [(start, end)]


def _check(deadline: float) -> None:
    if monotonic() > deadline:
        raise Overrun("code")


def _is_own(block: _Block) -> bool:
    if block.defined:
        return block.score + block.body >= DEFINED and block.lines + block.body >= 2
    enough = [ALONE[kind] for kind in block.kinds & ALONE.keys()] if not block.textbook else []
    if any(block.score >= score and len(block.kinds) >= kinds for score, kinds in enough):
        return True
    several = len(block.kinds) >= KINDS or "member" in block.kinds
    least = QUERY if block.kinds <= {"sql-clause", "sql-condition", "sql-expression"} else UNDEFINED
    return block.score >= least and several and not block.kinds <= WEAK


def _gather(lines: list[Row], table: Signs, deadline: float) -> Iterator[_Block]:
    block: _Block | None = None
    in_frame = False
    for index, line in enumerate(lines):
        if index % ROWS_A_CHECK == 0:
            _check(deadline)
        frame = _PACKAGE_FRAME.match(line.body) is not None
        scored = None
        if not frame and not (in_frame and line.indent) and not _STOP.match(line.body):
            scored = line_score(line.body, table)
        if line.body == "{" and index and _is_bare_head(lines[index - 1].body, table):
            scored = BODY_OPENS
        in_frame = frame or (in_frame and line.indent > 0)
        if scored is not None:
            block = block or _Block(index, index, indent=line.indent)
            _add(block, index, line, scored)
        elif block is not None and not (_hangs_on(block, line) and not in_frame):
            if not _is_between(block, line):
                yield block
                block = None
        elif block is not None:
            block.last = index if line.body else block.last
    if block is not None:
        yield block


def _is_between(block: _Block, line: Row) -> bool:
    """Whether a line may be a plain command in a script; it is part of the block when a sign follows."""
    block.gap += 1
    return block.gap <= GAP and bool(block.kinds & SCRIPT) and bool(_COMMAND.match(line.body))


def _is_bare_head(body: str, table: Signs) -> bool:
    """A line that could be the end of a function's head, and has no sign that says so already."""
    found = line_score(body, table)
    return body.endswith(")") and (found is None or found[0] in WEAK)


def _add(block: _Block, index: int, line: Row, scored: tuple[str, int, bool]) -> None:
    sign, score, defined = scored
    block.last, block.pending, block.blank, block.gap = index, 0, 0, 0
    block.score += score
    block.lines += score != 0
    block.defined |= defined
    block.textbook |= score < 0
    block.indent = min(block.indent, line.indent)
    if score > 0:
        block.kinds.add(sign)
    block.depth = max(0, block.depth + _opens(line.body))


def _hangs_on(block: _Block, line: Row) -> bool:
    """Whether a line without a sign belongs to the block above it."""
    if not line.body:
        block.blank += 1
        return block.blank <= BLANK_LINES
    block.pending += 1
    if _STOP.match(line.body) or block.pending > OPEN_LINES:
        return False
    deeper = line.indent > block.indent
    inside = block.depth > 0 or deeper
    if deeper and block.defined and block.body < BODY_MAX and not _COMMENT.match(line.body):
        block.body += 1
    block.depth = max(0, block.depth + _opens(line.body))
    return inside or bool(_COMMENT.match(line.body)) or bool(_CLOSER.match(line.body)) or bool(_MARKER.match(line.body))


def _reach_back(block: _Block, lines: list[Row], table: Signs) -> None:
    """Take in deeper lines and comments above a block, and a definition at the end of the sentence before it."""
    first = lines[block.first]
    while block.first and lines[block.first - 1].body and not _STOP.match(lines[block.first - 1].body):
        above = lines[block.first - 1]
        head = lines[block.first].body == "{" or ("(" in above.body and above.body.endswith((",", "(")))
        if not (head or _COMMENT.match(above.body) or above.indent > max(first.indent, 1)):
            break
        block.first -= 1
    block.start = lines[block.first].start
    if not block.first:
        return
    above = lines[block.first - 1]
    for sign in table.inline if any(word in above.body for word in "({") else ():
        match = sign.pattern.search(above.body) if sign.weight >= 3 else None
        weight, own = table.weight_of(sign, match) if match else (0, False)
        if match and own:
            block.start = above.end - len(above.body) + match.start()
            block.score, block.defined, block.lines = block.score + weight, True, block.lines + 1
            return


def _opens(body: str) -> int:
    """Brackets a line opens and does not close."""
    return sum(map(body.count, "([{")) - sum(map(body.count, ")]}"))


def _unquoted(body: str) -> str:
    """A line without its strings and its trailing comment, where prose is no sign of prose."""
    return re.sub(r"\"[^\"]*\"|'[^']*'|`[^`]*`|(?:#|//|--) .*", '""', body)


def _closed(line: str, start: int, end: int) -> int:
    """Where the brackets that `line[start:end]` leaves open are closed, and what closes right behind."""
    depth = max(0, _opens(line[start:end]))
    closed = end
    for index in range(end, min(len(line), end + 300) if depth else end):
        depth += (line[index] in "([{") - (line[index] in ")]}")
        if line[index] in ")]}":
            closed = index + 1
        if depth <= 0:
            break
    tail = re.compile(r"(?:\s?[;})\]])*").match(line, closed)
    return tail.end() if tail else closed


def joined(spans: Iterable[Span]) -> list[Span]:
    """Spans in order, those that touch or overlap joined."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
