"""What each engine must be sent to give exactly N tokens, to think or not, and to use its cache or not.

A field that an engine does not know is often dropped without a word, so a length is believed only after a probe: one
request of `PROBE_TOKENS`, judged by `length_class`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

Body = Mapping[str, object]
LengthClass = Literal["exact", "short", "long", "unknown"]
Exactness = Literal["exact", "upper bound", "unknown"]

PROBE_TOKENS = 48
LONG_FORM_SHARE = 0.95
"""Share of N that each answer must reach where only an upper bound can be asked for."""


@dataclass(frozen=True, slots=True)
class LengthForm:
    """One way to ask for N tokens. `exactness` is what the engine promises, not what a probe has shown."""

    name: str
    fields: Callable[[int], Body]
    exactness: Exactness


FORCED = LengthForm("forced", lambda n: {"max_tokens": n, "min_tokens": n, "ignore_eos": True}, "exact")
IGNORE_EOS = LengthForm("ignore_eos", lambda n: {"max_tokens": n, "ignore_eos": True}, "exact")
UPPER = LengthForm("upper", lambda n: {"max_tokens": n}, "upper bound")
NUM_PREDICT = LengthForm("num_predict", lambda n: {"options": {"num_predict": n}}, "upper bound")


def _template_switch(on: bool) -> Body:
    return {"chat_template_kwargs": {"enable_thinking": on}}


def _effort(on: bool) -> Body:
    return {} if on else {"reasoning_effort": "none"}


def _think(on: bool) -> Body:
    return {"think": on}


USAGE: Body = {"stream_options": {"include_usage": True}}
USAGE_ALWAYS: Body = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}
NEVER = frozenset({"max_completion_tokens"})
"""Beside `max_tokens` some servers refuse it with 400, and Ollama does not read it."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one engine is asked.

    Attributes:
        lengths: ways to ask for N tokens, the strictest first; the next is tried when the probe shows that one is
            refused or leaves the answer short.
        thinking: fields that switch thinking on or off; whether it obeyed is seen in the answer only.
        cold, warm: fields for a cold and a warm prefix. The nonce keeps a prefix cold, these only help.
        extra: fields that make it tell more of what it did.
        never: fields that must not be sent.
        why: what the probe is there to find out.
    """

    lengths: tuple[LengthForm, ...]
    thinking: Callable[[bool], Body] = _template_switch
    cold: Body = field(default_factory=dict)
    warm: Body = field(default_factory=dict)
    extra: Body = field(default_factory=lambda: USAGE)
    path: str = "/v1/chat/completions"
    never: frozenset[str] = NEVER
    why: str = ""


_LLAMACPP = Dialect(
    lengths=(IGNORE_EOS, UPPER),
    cold={"cache_prompt": False},
    warm={"cache_prompt": True},
    never=NEVER | {"min_tokens"},
    why="it ignores min_tokens; its own limits and a context shift can still cut an answer",
)
_UNKNOWN = Dialect(lengths=(FORCED, IGNORE_EOS, UPPER), why="what it makes of min_tokens and ignore_eos is not known")
_FRONT = Dialect(
    lengths=(FORCED, UPPER), why="a router may drop fields; measure the engine behind it where that is possible"
)

LENGTH_FIELDS: Mapping[str, Dialect] = {
    "vllm": Dialect(
        lengths=(FORCED, UPPER),
        extra={**USAGE_ALWAYS, "return_token_ids": True},
        never=NEVER | {"cache_prompt"},
        why="a model of the Harmony format fails after its turn under ignore_eos",
    ),
    "sglang": Dialect(
        lengths=(FORCED, IGNORE_EOS, UPPER),
        never=NEVER | {"cache_prompt"},
        why="stop strings of the template may still end an answer",
    ),
    "llamacpp": _LLAMACPP,
    "llamacpp-router": _LLAMACPP,
    "docker-model-runner": _LLAMACPP,
    "ollama": Dialect(
        lengths=(UPPER,),
        thinking=_effort,
        never=NEVER | {"min_tokens", "ignore_eos", "cache_prompt"},
        why="it knows an upper bound only: ask for a long text, and count",
    ),
    "ollama-native": Dialect(
        lengths=(NUM_PREDICT,),
        thinking=_think,
        extra={},
        path="/api/chat",
        never=NEVER | {"max_tokens", "min_tokens", "ignore_eos", "cache_prompt", "stream_options"},
        why="it knows an upper bound only; eval_count tells what it gave",
    ),
    "trtllm": _UNKNOWN,
    "nim": _UNKNOWN,
    "dynamo": _FRONT,
    "litellm": _FRONT,
    "llama-swap": _FRONT,
    "lmstudio": _UNKNOWN,
    "atlas": _UNKNOWN,
    "llmd": _UNKNOWN,
    "exo": _UNKNOWN,
    "max": _UNKNOWN,
    "mlx": _UNKNOWN,
    "wandler": _UNKNOWN,
    "openai": _UNKNOWN,
}
"""By engine name, and "ollama-native" for Ollama's own route."""


def dialect(engine: str) -> Dialect:
    """How an engine is asked; one that is not known is asked like any server of the OpenAI protocol."""
    return LENGTH_FIELDS.get(engine, _UNKNOWN)


def length_forms(engine: str, model: str = "", *, free: bool = False) -> tuple[LengthForm, ...]:
    """The ways to try in turn, the strictest first.

    `free` is for answers whose end is part of their meaning (tool calls, JSON by a schema, quality items): no
    ignore_eos there, nor for models of the Harmony format (gpt-oss), which fail when they must go on after their turn.
    """
    ways = dialect(engine).lengths
    if not free and "gpt-oss" not in model.lower():
        return ways
    return tuple(way for way in ways if way.exactness != "exact")


def request_fields(engine: str, length: LengthForm, n: int, *, thinking: bool | None, warm: bool) -> dict[str, object]:
    """The engine's own fields of a request body of N output tokens; `thinking` None leaves it as the server has it."""
    asked = dialect(engine)
    switch = {} if thinking is None else asked.thinking(thinking)
    return {**asked.extra, **length.fields(n), **switch, **(asked.warm if warm else asked.cold)}


def length_class(asked_tokens: int, output_tokens: int | None, finish: str | None) -> LengthClass:
    """What a probe showed: `short` when it ended by itself, `unknown` when it does not count its tokens."""
    if output_tokens is None:
        return "unknown"
    if output_tokens > asked_tokens:
        return "long"
    return "exact" if output_tokens == asked_tokens and (finish or "length") == "length" else "short"


def shortest_allowed(asked_tokens: int, shown: LengthClass) -> int:
    """The fewest tokens that an answer of a measured cell may have: all, or 95 % where a length cannot be forced."""
    return asked_tokens if shown == "exact" else math.ceil(asked_tokens * LONG_FORM_SHARE)
