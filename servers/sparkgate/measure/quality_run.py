"""The tasks of a quality run as requests, and their answers as outcomes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sparkgate.measure.cell_facts import CellFacts
from sparkgate.measure.chunk import Dialect, transcript
from sparkgate.measure.clock import Burst
from sparkgate.measure.lengths import length_forms, request_fields
from sparkgate.measure.order import Writer
from sparkgate.measure.plan import Cell
from sparkgate.measure.quality import (
    Answer,
    Call,
    Item,
    Outcome,
    Score,
    by_family,
    digest_of_tasks,
    grade,
    messages,
    score,
    tools,
)
from sparkgate.measure.stream import StreamParser
from sparkgate.measure.validity import Flag

QUALITY = "quality"
NEEDLE_WORDS, MARGIN_TOKENS = 2000, 256
MARKS: Mapping[Outcome, str] = {"pass": "p", "wrong": "w", "truncated": "t", "error": "e"}
"""How a trial ended → its letter in what is kept of each task."""
RATES = ("decode_tok_s", "ttft_any_ms")
KEPT = (*RATES, "output_tokens")
ABOUT_RATES = frozenset(
    ("canary_drift", "client_saturated", "clocks_disagree", "cpu_fallback", "foreign_load", "too_short_for_clock")
)
"""Ids of rules by which a rate is worth nothing and an answer is not: what may have been another's stays out."""
_SCORES_STAND = "the scores do not depend on it, the rates are left out; for rates, run decode"


def body(writer: Writer, item: Item, cell: Cell, context: int | None) -> bytes:
    """One task as a request that may end when it likes; its text is no longer than the context allows."""
    length = length_forms(writer.engine, writer.model, free=True)[0]
    thinking = cell.thinking if writer.thinks else None
    own = request_fields(writer.engine, length, cell.output_tokens, thinking=thinking, warm=True)
    room = NEEDLE_WORDS if context is None else context - cell.output_tokens - MARGIN_TOKENS
    told = messages(item, needle_words=max(0, min(NEEDLE_WORDS, room)))
    asked: dict[str, Any] = {"model": writer.model, "messages": told, "stream": True, "temperature": 0}
    return json.dumps({**asked, **own, **({"tools": tools()} if item.tools else {})}).encode()


def judge(item: Item, burst: Burst, dialect: Dialect) -> Outcome:
    """How the answer of a burst of one is judged."""
    [sample], [exchange] = burst.samples, burst.exchanges
    parser = StreamParser(dialect)
    chunks = [chunk for at_ns, piece in exchange.pieces for chunk in parser.feed(piece, at_ns)]
    told = transcript([*chunks, *parser.end()])
    calls = tuple(Call(*call) for call in told.tools)
    return grade(item, Answer(told.content, calls, sample.finish or "stop", sample.error))


def facts(found: CellFacts) -> CellFacts:
    """Without what is not asked of tasks: their prompts have lengths of their own, and come again."""
    return replace(found, cold=False, asked_prompt_tokens=None, bursts=None, burst_variation=None, aggregate_tok_s=None)


def held_against(found: Sequence[Flag]) -> tuple[tuple[Flag, ...], dict[str, str]]:
    """(flags of a cell of tasks, rate → why it is not told).

    What makes rates worthless, as a late clock does, leaves an answer as right or wrong as it was: a warning here.
    """
    worthless = [flag for flag in found if flag.severity == "invalid" and flag.id in ABOUT_RATES]
    told = tuple(replace(one, severity="warning", advice=_SCORES_STAND) if one in worthless else one for one in found)
    return told, dict.fromkeys(RATES, worthless[0].text) if worthless else {}


def stats(outcomes: Mapping[str, Sequence[Outcome]], rates: Mapping[str, Any]) -> dict[str, Any]:
    """The scores of all tasks and of each family, as metrics, and those of `rates` that mean something for tasks.

    `pass_1` of all tasks also has its `outcomes`, id of a task → a letter a trial, and the digest of the tasks.
    """
    told = _scores("", score(outcomes)) | {name: rates[name] for name in KEPT if name in rates}
    marks = {id_: "".join(MARKS[outcome] for outcome in some) for id_, some in outcomes.items()}
    if "pass_1" in told:
        told["pass_1"] |= {"outcomes": marks, "tasks": digest_of_tasks()}
    for family, one in by_family(outcomes).items():
        told |= _scores(f"_{family}", one)
    return told


def _scores(suffix: str, one: Score) -> dict[str, Any]:
    passes = {"pass_1": {"median": one.pass_1, "low": one.low, "high": one.high, "n": one.judged}}
    passes |= {"pass_3": {"median": one.pass_3, "n": one.items}}
    passes |= {"truncated": {"median": float(one.truncated), "n": one.judged + one.truncated + one.errors}}
    known = {name: told for name, told in passes.items() if told["median"] is not None}
    return {f"{name}{suffix}": {key: v for key, v in told.items() if v is not None} for name, told in known.items()}
