"""Why an engine did not start: from its log, from what its owner says, and from the kernel's log. Pure.

The rule. Only the last start in the log counts. There the first line that gives a cause wins, as what follows it is
its consequence; on one line the first row of the table wins. A row that refines this cause takes its place. Lines that
call themselves information or warnings, and rows that are hints, count only when no other line gives a cause and
nothing ended the process from outside. That memory ran out on the machine is said only with proof: by the owner, or
by a kernel line that names a process of the engine.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from sparkgate.engines.spec import line
from sparkgate.failures.table import Ending, Row, load_failures
from sparkgate.policy.decision import replace
from sparkgate.policy.judge import Policy
from sparkgate.policy.rules import shipped
from sparkgate.runtimes.spec import Look

LINES_MAX = 4_000
LOG_MAX_CHARS = 2_000_000
LINE_MAX_CHARS = 4_000
EVIDENCE_BEFORE_CHARS = 60
GROUP_MAX_CHARS = 80
MASK_DEADLINE_S = 2.0
KERNEL_ROWS = ("cuda_oom", "cuda_fault")
"""What is looked for in the kernel's log too: the driver tells it there."""

_COLOUR = re.compile(r"\x1b\[[0-9;]{0,20}[a-zA-Z]")
_KILLED = re.compile(r"killed process (\d{1,9})\b", re.IGNORECASE)
_LEVEL = re.compile(r'(?:^|[\s\[|"=(])(info|warning|warn|debug|trace|error|fatal|critical|[iwdef])(?=$|[\s\]|":,)])')
"""The level that a line gives itself, in lower case; one letter with llama.cpp and TensorRT-LLM."""
_QUIET = ("info", "warning", "warn", "debug", "trace", "i", "w", "d")
_HEAD_CHARS = 100
_EXCEPTION = re.compile(r"(?:^|[\])] )[a-z_][\w.]{0,80}(?:error|exception)(?::|$)")

_SECRET_NAME = r"(?:token|passw(?:or)?d|secret|credentials?|(?:api|access|private|signing|master|auth)[_-]?key)"
_WORD = r"""(?!(?:none|null|true|false|\d{1,9}|<[^>]{0,20}>)(?![^\s"',;&)\]}]))[^\s"',;&)\]}\[]{1,500}"""
_ASSIGNED = re.compile(
    rf"""((?:{_SECRET_NAME}|authorization)[\\"']{{0,2}}\s{{0,2}}[:=]\s{{0,2}}[\\"'\[(]{{0,3}}(?:(?:bearer|basic) )?)"""
    rf"""{_WORD}"""
    rf"""|(--[a-z-]{{0,30}}{_SECRET_NAME}["',\s]{{1,5}}){_WORD}"""
    rf"""|(\bbearer ){_WORD}"""
    r"""|(://[^\s/:@]{0,64}:)[^\s/@]{1,128}(?=@)""",
    re.IGNORECASE,
)
_PREFIXED = re.compile(r"\b(?:hf_[A-Za-z0-9]{16,200}|(?:nvapi-|sk-|ghp_|glpat-)[\w-]{8,200})")
WITHHELD = "[withheld]"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why it did not start.

    Attributes:
        id: of a row or an ending in failures.toml.
        cause, advice: one sentence each.
        evidence: the line it was read from, short and without secrets; "" when there is none.
        retry: whether trying once more with the same settings helps.
    """

    id: str
    cause: str
    evidence: str
    advice: str
    retry: bool = False

    def as_json(self) -> dict[str, str]:
        """As answers tell it."""
        return {"id": self.id, "cause": self.cause, "evidence": self.evidence, "advice": self.advice}


@dataclass(frozen=True, slots=True)
class _Hit:
    """`at` is the index of the line; `text` the line as it is, with the indices of `match`."""

    at: int
    row: Row
    match: re.Match[str]
    text: str
    quiet: bool

    @property
    def loud(self) -> bool:
        return self.row.kind == "cause" and not self.quiet

    @property
    def hint(self) -> bool:
        return self.row.kind == "hint" or (self.row.kind == "cause" and self.quiet)


def diagnose(lines: Sequence[str], look: Look | None = None, kernel: Sequence[str] = ()) -> Diagnosis:
    """The cause of a start that failed; never None.

    Args:
        lines: the log, oldest first. No more than the last 4,000 lines and 2 MB are read.
        look: what the owner said after it failed; its `pids` are those the engine had.
        kernel: lines of the kernel's log since the start.
    """
    look = look or Look("unknown")
    if (proof := _memory_proof(look, kernel)) is not None:
        row = load_failures().row("host_oom")
        return Diagnosis(row.id, row.cause, _evidence(proof), row.advice)
    run = last_run(_bounded(lines))
    hits = _hits((*run, *_bounded([look.detail])))
    known = hits + [hit for hit in _hits(_bounded(kernel)) if hit.row.id in KERNEL_ROWS]
    stages = _open_stages(hits, run)
    hints = [hit for hit in known if hit.hint]
    if causes := [hit for hit in known if hit.loud] or stages:
        return _told(_refined(causes[0], causes + stages + hints))
    ending = None if look.exit_code is None else load_failures().ending_of(look.exit_code)
    if hints and not (ending and ending.outside):
        return _told(_refined(hints[0], hints))
    ending = ending or _crash_loop(look) or load_failures().endings["unknown"]
    return Diagnosis(ending.id, ending.cause, _last_word(run, hits) or _evidence(look.detail), ending.advice)


def stalled(silent_s: float, lines: Sequence[str] = ()) -> Diagnosis:
    """For an engine that has printed nothing for `silent_s` seconds; `lines` is its log, for the evidence."""
    ending = load_failures().endings["stall"]
    run = _bounded(lines)
    cause = ending.cause.format("", round(silent_s))
    return Diagnosis(ending.id, cause, _last_word(run, _hits(run)), ending.advice)


def last_run(lines: Sequence[str]) -> Sequence[str]:
    """The part of a log that the last start wrote, or what came after an engine was ready."""
    table = load_failures()
    starts = [at for at, text in enumerate(lines) if table.starts.search(text.lower())]
    ready = [at + 1 for at, text in enumerate(lines) if table.ready.search(text.lower())]
    return lines[max([0, *starts[1:], *ready]) :]


def without_secrets(text: str) -> str:
    """Text of a log without what looks like a secret; all of it is withheld when that cannot be told."""
    plain = _PREFIXED.sub(WITHHELD, _ASSIGNED.sub(lambda found: "".join(filter(None, found.groups())) + WITHHELD, text))
    decision = _policy().judge(plain)
    if decision.reason:
        return WITHHELD
    return replace(plain, [finding for finding in decision.findings if finding.cls == "secret"]).text


@cache
def _policy() -> Policy:
    return Policy(shipped(), deadline_s=MASK_DEADLINE_S)


def _bounded(lines: Sequence[str]) -> list[str]:
    """A progress bar is one line with many returns in it, so lines are split again."""
    text = "\n".join(lines[-LINES_MAX:])[-LOG_MAX_CHARS:]
    return [_COLOUR.sub("", one[:LINE_MAX_CHARS]) for one in text.splitlines()[-LINES_MAX:] if one.strip()]


def _hits(lines: Sequence[str]) -> list[_Hit]:
    return [hit for at, text in enumerate(lines) if (hit := _hit(at, text))]


def _hit(at: int, text: str) -> _Hit | None:
    low = text.lower()
    for row in load_failures().rows:
        if match := row.pattern.search(low):
            return _Hit(at, row, match, text if len(text) == len(low) else low, _is_quiet(low))
    return None


def _is_quiet(low: str) -> bool:
    level = _LEVEL.search(low[:_HEAD_CHARS])
    return level is not None and level[1] in _QUIET


def _open_stages(hits: Sequence[_Hit], run: Sequence[str]) -> list[_Hit]:
    """Stages that were begun, and that no later line says are over."""
    over = {
        row.id: max((at for at, text in enumerate(run) if row.until and row.until.search(text.lower())), default=-1)
        for row in load_failures().rows
        if row.kind == "stage"
    }
    return [hit for hit in hits if hit.at > over.get(hit.row.id, hit.at)]


def _refined(chosen: _Hit, hits: Sequence[_Hit]) -> _Hit:
    for hit in hits:
        if chosen.row.id in hit.row.refines:
            chosen = hit
    return chosen


def _memory_proof(look: Look, kernel: Sequence[str]) -> str | None:
    named = [text for text in kernel if (found := _KILLED.search(text)) and int(found[1]) in look.pids]
    if named:
        return named[-1]
    return (look.detail or "its owner says: killed for its memory") if look.killed_for_memory else None


def _crash_loop(look: Look) -> Ending | None:
    if not look.restarts or look.state not in ("starting", "failed"):
        return None
    row = load_failures().row("crash_loop")
    return Ending(row.id, row.cause, row.advice)


def _told(hit: _Hit) -> Diagnosis:
    row, spans = hit.row, [hit.match.span(group) for group in range(1, hit.match.re.groups + 1)]
    groups = [_short(hit.text[start:end]) if start >= 0 else "" for start, end in spans]
    advice = row.without if row.without and not groups[0] else row.advice
    first = next(filter(None, groups), "")
    cause, advice = (text.format("", *groups, any=first) for text in (row.cause, advice))
    return Diagnosis(row.id, cause, _evidence(hit.text, row), advice, row.retry)


def _short(text: str) -> str:
    return line(without_secrets(text))[:GROUP_MAX_CHARS]


def _evidence(text: str, row: Row | None = None) -> str:
    """The line; of a long one what the row matched. It is masked before it is cut: no half of a secret is left."""
    plain = without_secrets(text[:LINE_MAX_CHARS])
    found = row.pattern.search(plain.lower()) if row else None
    start = max(0, found.start() - EVIDENCE_BEFORE_CHARS) if found and found.end() > 2 * EVIDENCE_BEFORE_CHARS else 0
    return line(("… " if start else "") + plain[start:])


def _last_word(run: Sequence[str], hits: Sequence[_Hit]) -> str:
    """The last line that ends a traceback, else the last line, "" of an empty log. Symptoms only when all are."""
    symptoms = {hit.at for hit in hits if hit.row.kind == "symptom"}
    telling = [text for at, text in enumerate(run) if at not in symptoms] or run
    errors = [text for text in telling if _EXCEPTION.search(text.lower())]
    return _evidence((errors or telling or [""])[-1])
