"""The same plan for a load generator of the field, and its results as runs that name where they are from.

Written for guidellm 0.8 and aiperf 0.13, and read from what these wrote. Their protocols are not ours: each command
says how it differs, and a run that was read is never compared with one of ours.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkgate.measure.lengths import dialect, length_forms
from sparkgate.measure.plan import WARMUP_BURSTS, Cell, Plan

MAX_SEED = 2**31 - 1
ONLY_MAX_TOKENS = frozenset({"ollama"})
"""Engines that do not read `max_completion_tokens`, which guidellm sends."""
NEEDS_TOKENIZER = "a Hugging Face tokenizer of the model (name or folder) makes its prompts"

_REFILL = "a stream that has ended is followed by the next at once; ours wait for the last of a burst"
_TEXT = "its synthetic text stands for the family {family}: with speculation the rates differ"
_WARM = "it cannot send the beginning of a prompt again and only that"
_FREE = "it measures load, and no answer is judged"
_THINKING = "whether thinking is {state} is asked for, and not verified"
_SHORT = "an answer that ends early is not held against it: see the output tokens"
_NONCE = "its prompts are unique by its seed alone: a second run with this seed hits the prefix cache"


class ExportError(Exception):
    """A plan that cannot be written for a load generator; the message says why."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where the load goes. `engine` is the kind name, "" when it is not known; `url` is without /v1."""

    url: str
    model: str
    engine: str = ""
    tokenizer: str = ""


@dataclass(frozen=True, slots=True)
class Command:
    """One cell for a load generator.

    Attributes:
        result: path of the file that it writes, below the folder where it runs; `interchange_read` reads it.
        differs: how what it measures differs from ours.
    """

    cell: Cell
    argv: tuple[str, ...]
    result: str
    differs: tuple[str, ...]


def commands(planned: Plan, target: Target, tool: str) -> tuple[list[Command], list[tuple[Cell, str]]]:
    """One command a cell, and the cells that the load generator cannot measure, each with why.

    Raises ExportError for a load generator that is not known, and when no cell is left.
    """
    if tool not in TOOLS:
        raise ExportError(f"there is no export for {tool!r}; there are {', '.join(TOOLS)}")
    left_out = [(cell, why) for cell in planned.cells if (why := _cannot(cell))]
    kept = [(number, cell) for number, cell in enumerate(planned.cells) if not _cannot(cell)]
    if not kept:
        raise ExportError(f"{tool} can measure none of its cells: {left_out[0][1]}")
    return [TOOLS[tool](planned, number, cell, target) for number, cell in kept], left_out


def script(made: Sequence[Command], left_out: Sequence[tuple[Cell, str]], tool: str) -> str:
    """A shell script of all commands, which says how they differ from ours."""
    shared = list(dict.fromkeys(note for one in made for note in one.differs))
    notes = [f"# {note}" for note in (f"Measured by {tool}. How that differs from ours:", *shared)]
    missing = [f"# left out: concurrency {cell.concurrency}, {cell.cache_mode}: {why}" for cell, why in left_out]
    lines = [shlex.join(one.argv) for one in made]
    return "\n".join(["#!/bin/sh", "set -eu", *notes, *missing, *lines, ""])


def _cannot(cell: Cell) -> str:
    if cell.cache_mode == "warm":
        return _WARM
    return "" if cell.enforced else _FREE


def _differs(cell: Cell, target: Target) -> list[str]:
    exact = length_forms(target.engine, target.model)[0].exactness == "exact"
    state = {True: "on", False: "off"}.get(cell.thinking) if cell.thinking is not None else None
    return [
        _REFILL,
        _TEXT.format(family=cell.family),
        *([_THINKING.format(state=state)] if state else []),
        *([] if exact else [_SHORT]),
    ]


def _fields(cell: Cell, target: Target, *, with_max_tokens: bool) -> dict[str, object]:
    """What is sent beside prompt, stream and limit."""
    length = length_forms(target.engine, target.model)[0].fields(cell.output_tokens)
    switch = {} if cell.thinking is None else dialect(target.engine).thinking(cell.thinking)
    told: dict[str, object] = {"temperature": 0, **length, **switch}
    return {name: value for name, value in told.items() if name != "max_tokens" or with_max_tokens}


def _seed(planned: Plan, number: int) -> int:
    """Another one for each cell: equal seeds would give cells equal prompts, and so a shared prefix."""
    return (planned.seed + number) % MAX_SEED


def _guidellm(planned: Plan, number: int, cell: Cell, target: Target) -> Command:
    """Its options as JSON, as its own documentation advises for nested ones."""
    warmup = WARMUP_BURSTS * cell.concurrency
    body = _fields(cell, target, with_max_tokens=target.engine in ONLY_MAX_TOKENS)
    if "ignore_eos" not in body:
        # It asks for ignore_eos by itself.
        body["ignore_eos"] = False
    backend = {"kind": "openai_http", "target": target.url, "request_format": "/v1/chat/completions"}
    data = {"kind": "synthetic_text", "prompt_tokens": cell.whole_prompt_tokens, "output_tokens": cell.output_tokens}
    result = f"guidellm-{number:02d}.json"
    options: list[tuple[str, Mapping[str, object]]] = [
        ("--backend", {**backend, **({"model": target.model} if target.model else {}), "extras": {"body": body}}),
        (
            "--profile",
            {
                "kind": "concurrent",
                "streams": [cell.concurrency],
                "warmup": {"value": warmup, "mode": "requests"},
            },
        ),
        ("--constraint", {"kind": "max_requests", "count": warmup + planned.repeats * cell.concurrency}),
        ("--data", data),
        *([("--tokenizer", {"kind": "huggingface_auto", "model": target.tokenizer})] if target.tokenizer else []),
        ("--seed", {"kind": "static", "value": _seed(planned, number)}),
        ("--output", {"kind": "json", "path": result}),
    ]
    argv = ["guidellm", "run", *(word for name, value in options for word in (name, json.dumps(value)))]
    return Command(cell, (*argv, "--disable-console-interactive"), result, (*_differs(cell, target), _NONCE))


def _aiperf(planned: Plan, number: int, cell: Cell, target: Target) -> Command:
    folder = f"aiperf-{number:02d}"
    options = {
        "--model": target.model or "model",
        "--url": target.url,
        "--endpoint-type": "chat",
        "--tokenizer": target.tokenizer or "builtin",
        "--isl": cell.whole_prompt_tokens,
        "--isl-stddev": 0,
        "--osl": cell.output_tokens,
        "--osl-stddev": 0,
        "--concurrency": cell.concurrency,
        "--request-count": planned.repeats * cell.concurrency,
        "--warmup-request-count": WARMUP_BURSTS * cell.concurrency,
        "--random-seed": _seed(planned, number),
        "--cache-bust": "first_turn_prefix",
        "--extra-inputs": json.dumps(_fields(cell, target, with_max_tokens=False)),
        "--artifact-dir": folder,
        "--ui": "none",
    }
    words = [str(word) for pair in options.items() for word in pair]
    argv = ("aiperf", "profile", "--streaming", "--use-server-token-count", "--use-legacy-max-tokens", *words)
    return Command(cell, argv, f"{folder}/profile_export_aiperf.json", tuple(_differs(cell, target)))


TOOLS: Mapping[str, Callable[[Plan, int, Cell, Target], Command]] = {"guidellm": _guidellm, "aiperf": _aiperf}
"""Name of a load generator → its command for one cell."""


def as_json(made: Iterable[Command], left_out: Iterable[tuple[Cell, str]]) -> dict[str, Any]:
    """Commands and what was left out, for programs."""
    told = [
        {"key": one.cell.key, "argv": list(one.argv), "result": one.result, "differs": list(one.differs)}
        for one in made
    ]
    return {"commands": told, "left_out": [{"key": cell.key, "why": why} for cell, why in left_out]}
