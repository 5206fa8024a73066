"""How many filler words make a prompt of N tokens with this engine: its tokenizer if it offers one, or its usage."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sparkgate.measure.clock import Clock
from sparkgate.measure.order import Writer
from sparkgate.measure.plan import Cell
from sparkgate.measure.prompts import Calibration, Family, Fit, Prompt, PromptError, template_tokens
from sparkgate.policy.local_stream import StreamDoor, StreamDoorError

DEADLINE_S = 600.0
TRIES = 2
JSON = Any
Count = Callable[[Prompt, bool | None], Awaitable[int | None]]
"""(prompt, thinking) → tokens of the whole prompt as the engine counts them; None when it does not tell."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """What the search has found.

    Attributes:
        words: (family, prompt tokens, thinking) → filler words.
        fits: (family, thinking) → the line between words and tokens.
        method: "tokenizer" or "usage"; "none" when it does not count prompts.
    """

    words: Mapping[tuple[Family, int, bool | None], int]
    fits: Mapping[tuple[Family, bool | None], Fit]
    method: str

    def of(self, cell: Cell) -> int:
        return self.words[cell.family, cell.whole_prompt_tokens, cell.thinking]

    def template_tokens(self, cell: Cell) -> int | None:
        """Tokens that all prompts begin or end with; None when not known."""
        fit = self.fits.get((cell.family, cell.thinking))
        return None if fit is None else template_tokens(fit, cell.family)


async def calibrate(cells: tuple[Cell, ...], writer: Writer, clock: Clock) -> Lengths:
    """Find the lengths of all cells.

    Raises:
        PromptError: a length that this engine cannot be given.
        StreamDoorError: the engine cannot be reached.
    """
    method, count = await _counting(writer, clock)
    words: dict[tuple[Family, int, bool | None], int] = {}
    fits: dict[tuple[Family, bool | None], Fit] = {}
    for cell in sorted(cells, key=lambda one: one.whole_prompt_tokens):
        key, line = (cell.family, cell.whole_prompt_tokens, cell.thinking), (cell.family, cell.thinking)
        if key in words:
            continue
        found = await _search(Calibration(cell.whole_prompt_tokens, known=fits.get(line)), cell, writer, count)
        words[key] = found.best[0] if found.best else cell.whole_prompt_tokens
        if found.fit:
            fits[line] = found.fit
    return Lengths(words, fits, method if fits else "none")


async def _search(search: Calibration, cell: Cell, writer: Writer, count: Count) -> Calibration:
    while (words := search.next_words()) is not None:
        tokens = await count(writer.prompt(words, cell.family), cell.thinking)
        if tokens is None:
            return search
        search = search.observed(words, tokens)
    if search.fault:
        raise PromptError(f"a prompt of {cell.whole_prompt_tokens} tokens cannot be made: {search.fault}")
    return search


async def _counting(writer: Writer, clock: Clock) -> tuple[str, Count]:
    """The engine's tokenizer where it has one, else one answer of one token a prompt."""
    tokenizer = _TOKENIZERS.get(writer.engine)

    async def by_usage(prompt: Prompt, thinking: bool | None) -> int | None:
        return await _by_usage(writer, clock, prompt, thinking)

    if tokenizer is None:
        return "usage", by_usage
    own = tokenizer

    async def by_tokenizer(prompt: Prompt, thinking: bool | None) -> int | None:
        return await own(clock.door, writer, prompt, thinking)

    told, used = [await count(writer.prompt(16, "prose"), False) for count in (by_tokenizer, by_usage)]
    agree = told is not None and (used is None or abs(told - used) <= 1)
    return ("tokenizer", by_tokenizer) if agree else ("usage", by_usage)


async def _by_usage(writer: Writer, clock: Clock, prompt: Prompt, thinking: bool | None) -> int | None:
    for _ in range(TRIES):
        sample = await clock.one(writer.body(prompt, 1, thinking), DEADLINE_S)
        if sample.counts.prompt is not None:
            break
    if sample.outcome != "ok" and sample.counts.prompt is None:
        raise PromptError(f"a prompt of {prompt.words} words was not answered: {sample.error}")
    return sample.counts.prompt


async def _vllm(door: StreamDoor, writer: Writer, prompt: Prompt, thinking: bool | None) -> int | None:
    switch = {} if thinking is None else {"chat_template_kwargs": {"enable_thinking": thinking}}
    asked = {"model": writer.model, "messages": writer.chat(prompt), "add_generation_prompt": True}
    return _whole((await _json(door, "/tokenize", asked | switch)).get("count"))


async def _llamacpp(door: StreamDoor, writer: Writer, prompt: Prompt, thinking: bool | None) -> int | None:
    switch = {} if thinking is None else {"chat_template_kwargs": {"enable_thinking": thinking}}
    text = (await _json(door, "/apply-template", {"messages": writer.chat(prompt)} | switch)).get("prompt")
    if not isinstance(text, str):
        return None
    asked = {"content": text, "add_special": True, "parse_special": True}
    tokens = (await _json(door, "/tokenize", asked)).get("tokens")
    return len(tokens) if isinstance(tokens, list) else None


_TOKENIZERS: Mapping[str, Callable[[StreamDoor, Writer, Prompt, bool | None], Awaitable[int | None]]] = {
    "vllm": _vllm,
    "llamacpp": _llamacpp,
}


async def _json(door: StreamDoor, path: str, asked: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """{} when there is no such answer."""
    try:
        status, body = await door.ask("POST", path, json.dumps(asked).encode(), 30.0)
        told = json.loads(body) if status == 200 else {}
    except (StreamDoorError, ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def _whole(value: JSON) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
