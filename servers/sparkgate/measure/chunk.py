"""One event of a stream as what it means, whatever dialect it came in."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from sparkgate.engines.spec import line
from sparkgate.measure.sample import Counts, EngineClock, Kind, Scalar

JSON = Any
Dialect = Literal["openai", "ollama"]
_FIELDS_KEPT = 16
_PROTOCOL = (
    {"id", "object", "created", "model", "choices", "usage", "timings", "prompt_progress", "error"}
    | {"created_at", "message", "response", "thinking", "done", "done_reason", "total_duration", "load_duration"}
    | {"prompt_eval_count", "prompt_eval_cached_count", "prompt_eval_duration", "eval_count", "eval_duration"}
)


@dataclass(frozen=True, slots=True)
class ToolDelta:
    """A piece of a tool call; pieces with the same index belong together."""

    index: int
    name: str = ""
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Chunk:
    """One event.

    Attributes:
        at_ns: when the bytes that completed its data were read.
        content, reasoning, tools: generated text; "" and () for none.
        has_choice: it belongs to the answer, and is not only about it.
        role: it names the role.
        progress: it tells how far the prompt is.
        token_ids: how many ids of generated tokens it holds; None when it holds no list of them.
        finish: why generation ended.
        counts: numbers of tokens so far; None when it tells none.
        engine: the engine's own clock; None when it tells none.
        model: the name the engine gives itself.
        error: why the request has failed; None when it has not.
        done: the last event of the stream.
    """

    at_ns: int
    content: str = ""
    reasoning: str = ""
    tools: tuple[ToolDelta, ...] = ()
    has_choice: bool = False
    role: bool = False
    progress: bool = False
    token_ids: int | None = None
    finish: str = ""
    counts: Counts | None = None
    engine: EngineClock | None = None
    model: str = ""
    error: str | None = None
    done: bool = False

    @property
    def texts(self) -> tuple[tuple[Kind, int], ...]:
        """The kinds of its generated text, and how many characters of each."""
        tool = sum(len(delta.name) + len(delta.arguments) for delta in self.tools)
        sizes: tuple[tuple[Kind, int], ...] = (
            ("reasoning", len(self.reasoning)),
            ("content", len(self.content)),
            ("tool", tool),
        )
        return tuple(one for one in sizes if one[1])

    @property
    def role_only(self) -> bool:
        """A chunk by which an engine says that it has begun, perhaps long before the first token."""
        return self.role and not self.texts and not self.finish and not self.progress


def failed(at_ns: int, message: str) -> Chunk:
    return Chunk(at_ns, error=line(message) or "the engine reported an error without a message")


def read_openai(told: Mapping[str, JSON], at_ns: int) -> Chunk:
    """A chunk of /v1/chat/completions or /v1/completions."""
    if (error := _error(told)) is not None:
        return failed(at_ns, error)
    choice = _first(told.get("choices"))
    delta = _object(choice.get("delta")) or _object(choice.get("message"))
    ids = choice.get("token_ids")
    reasoning, twin = _text(delta, "reasoning_content"), _text(delta, "reasoning")
    return Chunk(
        at_ns,
        content=_text(delta, "content") + _text(delta, "refusal") or _text(choice, "text"),
        reasoning=reasoning if twin in ("", reasoning) else reasoning + twin,
        tools=tuple(_tools(delta)) if delta.get("tool_calls") or delta.get("function_call") else (),
        has_choice=bool(choice),
        role="role" in delta,
        progress="prompt_progress" in told,
        token_ids=len(ids) if isinstance(ids, list) else None,
        finish=line(choice.get("finish_reason")),
        counts=_usage(told["usage"]) if told.get("usage") else None,
        engine=_timings(told["timings"]) if told.get("timings") else None,
        model=_text(told, "model"),
    )


def read_ollama(told: Mapping[str, JSON], at_ns: int) -> Chunk:
    """A line of /api/chat or /api/generate."""
    if (error := _error(told)) is not None:
        return failed(at_ns, error)
    message = _object(told.get("message"))
    done = told.get("done") is True
    chunk = Chunk(
        at_ns,
        content=_text(message, "content") or _text(told, "response"),
        reasoning=_text(message, "thinking") or _text(told, "thinking"),
        tools=tuple(_tools(message)) if message.get("tool_calls") else (),
        has_choice=True,
        finish=(line(told.get("done_reason")) or "stop") if done else "",
        model=_text(told, "model"),
        done=done,
    )
    return replace(chunk, engine=_durations(told), counts=_prompt_counts(told)) if done else chunk


READ: Mapping[Dialect, Callable[[Mapping[str, JSON], int], Chunk]] = {"openai": read_openai, "ollama": read_ollama}


def other_fields(told: Mapping[str, JSON]) -> dict[str, Scalar]:
    """Plain values of a chunk that the protocol does not name, such as a fingerprint; at most 16."""
    kept: dict[str, Scalar] = {}
    for key, value in told.items():
        if key not in _PROTOCOL and isinstance(value, str | int | float) and len(kept) < _FIELDS_KEPT:
            kept[line(key)] = line(value) if isinstance(value, str) else value if _plain(value) else str(value)[:40]
    return kept


def _plain(value: float) -> bool:
    return math.isfinite(value) if isinstance(value, float) else abs(value) < 2**63


def _error(told: Mapping[str, JSON]) -> str | None:
    """The message of an error, in the forms in which engines send one within a stream that began with 200."""
    error = told.get("error")
    if error:
        return error_message(error)
    return error_message(told) if told.get("object") == "error" else None


def error_message(error: JSON) -> str:
    """What an error object, or an error text, says."""
    told = _object(error)
    return line(error) or line(told.get("message")) or line(told.get("type")) or line(json.dumps(error))


def _usage(usage: JSON) -> Counts:
    told = _object(usage)
    prompt, completion = _object(told.get("prompt_tokens_details")), _object(told.get("completion_tokens_details"))
    reasoning = completion.get("reasoning_tokens")
    return Counts(
        prompt=_whole(told.get("prompt_tokens")),
        completion=_whole(told.get("completion_tokens")),
        cached=_whole(prompt.get("cached_tokens")),
        reasoning=_whole(told.get("reasoning_tokens") if reasoning is None else reasoning),
    )


def _timings(timings: JSON) -> EngineClock:
    told = _object(timings)
    return EngineClock(
        prompt_n=_whole(told.get("prompt_n")),
        prompt_ms=_duration(told.get("prompt_ms")),
        predicted_n=_whole(told.get("predicted_n")),
        predicted_ms=_duration(told.get("predicted_ms")),
        cache_n=_whole(told.get("cache_n")),
        draft_n=_whole(told.get("draft_n")),
        draft_accepted_n=_whole(told.get("draft_n_accepted")),
    )


def _prompt_counts(told: Mapping[str, JSON]) -> Counts:
    """Ollama counts the whole prompt; older ones leave the count out, or say 0, when all of it was cached."""
    prompt = _whole(told.get("prompt_eval_count")) or None
    return Counts(prompt=prompt, cached=_whole(told.get("prompt_eval_cached_count")))


def _durations(told: Mapping[str, JSON]) -> EngineClock:
    prompt, cached = _prompt_counts(told).prompt, _prompt_counts(told).cached
    return EngineClock(
        prompt_n=None if prompt is None else max(prompt - (cached or 0), 0),
        prompt_ms=_duration(told.get("prompt_eval_duration"), 1e6),
        predicted_n=_whole(told.get("eval_count")),
        predicted_ms=_duration(told.get("eval_duration"), 1e6),
        cache_n=cached,
        load_ms=_duration(told.get("load_duration"), 1e6),
    )


def _tools(delta: Mapping[str, JSON]) -> Iterator[ToolDelta]:
    calls = delta.get("tool_calls") or [{"function": delta.get("function_call")}]
    for place, call in enumerate(calls if isinstance(calls, list) else ()):
        told = _object(call)
        function = _object(told.get("function"))
        arguments = function.get("arguments")
        text = json.dumps(arguments, ensure_ascii=False) if isinstance(arguments, dict) else arguments
        index = _whole(told.get("index"))
        yield ToolDelta(
            place if index is None else index, _text(function, "name"), text if isinstance(text, str) else ""
        )


def _first(choices: JSON) -> Mapping[str, JSON]:
    return _object(choices[0]) if isinstance(choices, list) and choices else {}


def _object(value: JSON) -> Mapping[str, JSON]:
    return value if isinstance(value, dict) else {}


def _text(told: Mapping[str, JSON], key: str) -> str:
    value = told.get(key)
    return value if isinstance(value, str) else ""


def _whole(value: JSON) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None


def _duration(value: JSON, per_ms: float = 1.0) -> float | None:
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return value / per_ms if known and _plain(value) and value >= 0 else None


@dataclass(frozen=True, slots=True)
class Transcript:
    """The text of an answer; `tools` are (name, arguments as text) in the order of their index."""

    content: str
    reasoning: str
    tools: tuple[tuple[str, str], ...]


def transcript(chunks: Iterable[Chunk]) -> Transcript:
    """What was generated, put together again."""
    content, reasoning, tools = [], [], dict[int, list[str]]()
    for chunk in chunks:
        content.append(chunk.content)
        reasoning.append(chunk.reasoning)
        for delta in chunk.tools:
            call = tools.setdefault(delta.index, ["", ""])
            call[0] = call[0] or delta.name
            call[1] += delta.arguments
    calls = tuple((tools[index][0], tools[index][1]) for index in sorted(tools))
    return Transcript("".join(content), "".join(reasoning), calls)
