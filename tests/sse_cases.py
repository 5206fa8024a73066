"""Streams as engines and proxies send them, each with what it means. Data only; nothing here is read from a socket."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

JSON = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """A stream, and what must be read from it.

    `kinds` has a letter for each event with tokens: c(ontent), r(easoning), t(ool). `counts` and `notes` name the
    fields that are looked at; `error` must stand in the error of the sample, "" means that the request is answered.
    """

    stream: bytes
    kinds: str
    chars: int
    counts: Mapping[str, object] = field(default_factory=dict)
    notes: Mapping[str, object] = field(default_factory=dict)
    finish: str = "stop"
    error: str = ""


def text_of(told: JSON) -> bytes:
    return json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode()


def chunk(delta: object, finish: str | None = None, **more: Any) -> JSON:
    return {"model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


def says(text: str, finish: str | None = None, **more: Any) -> JSON:
    return chunk({"content": text}, finish, **more)


def thinks(text: str, **more: Any) -> JSON:
    return chunk({"reasoning_content": text}, **more)


def usage(completion: int, prompt: int = 9, **more: Any) -> JSON:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion, **more}


def only_usage(completion: int, **more: Any) -> JSON:
    return {"model": "m", "choices": [], "usage": usage(completion, **more)}


def sse(*events: JSON | bytes, end: bytes = b"\n", prefix: bytes = b"data: ") -> bytes:
    """Each JSON object as an event; bytes stand as they are."""
    return b"".join(one if isinstance(one, bytes) else prefix + text_of(one) + 2 * end for one in events)


def before_each(line: bytes, *events: JSON) -> bytes:
    return b"".join(line + sse(one) for one in events) + DONE


DONE = b"data: [DONE]\n\n"
ROLE = chunk({"role": "assistant", "content": ""})
FOUR = (says("a"), says("b"), says("c"), says("d"))
LAST = (chunk({}, "stop"), only_usage(4))
PLAIN = (ROLE, *FOUR, *LAST)
TWO = (says("a"), says("b", "stop"))
USED: Mapping[str, object] = {"prompt": 9, "completion": 4, "source": "usage"}
UNCOUNTED: Mapping[str, object] = {"completion": None, "source": "none"}

SPLIT: dict[str, Case] = {
    "lines end with LF": Case(sse(*TWO), "cc", 2, notes={"no_done": True}),
    "lines end with CRLF": Case(sse(*TWO, end=b"\r\n"), "cc", 2),
    "lines end with CR": Case(sse(*TWO, end=b"\r"), "cc", 2),
    "no space after the colon": Case(sse(*TWO, prefix=b"data:"), "cc", 2),
    "comments between the events": Case(
        sse(b": ping\n\n", TWO[0], b":\n\n", TWO[1]), "cc", 2, notes={"keep_alives": 2, "malformed": 0}
    ),
    "events without data": Case(
        sse(b"data:\n\n", TWO[0], b"data: \n\n", TWO[1]), "cc", 2, notes={"keep_alives": 2, "malformed": 0}
    ),
    "event and id lines": Case(
        b"event: message\nid: 1\n" + sse(TWO[0]) + b"id: 2\nretry: 10\n" + sse(TWO[1]), "cc", 2, notes={"malformed": 0}
    ),
    "data over several lines": Case(
        b'data: {"choices":[{"index":0,\ndata: "delta":{"content":"a"}}]}\n\n' + sse(TWO[1]), "cc", 2
    ),
    "U+2028 in the text": Case(sse(says("x\u2028y"), TWO[1]), "cc", 4),
    "U+0085 in the text": Case(sse(says("x\u0085y"), TWO[1]), "cc", 4),
    "characters of several bytes": Case(sse(says("\U0001f600\u00e9"), TWO[1]), "cc", 3),
    "a byte order mark": Case(b"\xef\xbb\xbf" + sse(*TWO), "cc", 2),
    "no blank line at the end": Case(sse(*TWO)[:-1], "cc", 2),
}
"""What splits lines in the wrong place, or needs more of a line than there is."""

SENT: dict[str, Case] = {
    "plain": Case(sse(*PLAIN, DONE), "cccc", 4, USED, {"keep_alives": 0, "no_done": False, "malformed": 0}),
    "CRLF": Case(sse(*PLAIN, end=b"\r\n") + b"data: [DONE]\r\n\r\n", "cccc", 4, USED, {"no_done": False}),
    "no space": Case(sse(*PLAIN, prefix=b"data:") + b"data:[DONE]\n\n", "cccc", 4, USED, {"no_done": False}),
    "a comment before each event": Case(before_each(b": ping\n\n", *PLAIN), "cccc", 4, USED, {"keep_alives": 7}),
    "a bare colon before each event": Case(before_each(b":\n", *PLAIN), "cccc", 4, USED, {"keep_alives": 7}),
    "empty data before each event": Case(
        before_each(b"data: \n\n", *PLAIN), "cccc", 4, USED, {"keep_alives": 7, "malformed": 0}
    ),
    "event lines": Case(before_each(b"event: chunk\n", *PLAIN), "cccc", 4, USED),
    "U+2028": Case(sse(ROLE, says("a\u2028b"), *FOUR[1:], *LAST, DONE), "cccc", 6, USED),
    "U+0085": Case(sse(ROLE, says("a\u0085b"), *FOUR[1:], *LAST, DONE), "cccc", 6, USED),
    "no [DONE]": Case(sse(*PLAIN), "cccc", 4, USED, {"no_done": True}),
    "no blank line at the end": Case(sse(*PLAIN, DONE)[:-1], "cccc", 4, USED, {"no_done": False}),
    "no usage": Case(sse(ROLE, *FOUR, LAST[0], DONE), "cccc", 4, {"prompt": None, **UNCOUNTED}),
    "an error in a stream that began with 200": Case(
        sse(ROLE, FOUR[0], {"error": {"message": "boom", "code": 500}}, DONE), "c", 1, error="boom", finish=""
    ),
    "the role before all others": Case(
        sse(ROLE, b": wait\n\n", *FOUR, *LAST, DONE), "cccc", 4, USED, {"role_ns": 7_000, "empties": 0}
    ),
    "reasoning first": Case(sse(ROLE, thinks("a"), thinks("b"), *FOUR[2:], *LAST, DONE), "rrcc", 4, USED),
    "usage on every chunk": Case(
        sse(*(says(letter, usage=usage(place + 1)) for place, letter in enumerate("abcd")), *LAST, DONE),
        "cccc",
        4,
        {"completion": 4, "source": "usage_deltas"},
    ),
    "choices is null": Case(
        sse(*FOUR, LAST[0], {"model": "m", "choices": None, "usage": usage(4)}, DONE), "cccc", 4, USED, {"malformed": 0}
    ),
    "delta is null at the end": Case(sse(*FOUR, chunk(None, "stop"), LAST[1], DONE), "cccc", 4, USED, {"malformed": 0}),
    "a line of 200 kB": Case(sse(says("x" * 200_000), *FOUR[1:], *LAST, DONE), "cccc", 200_003, USED),
    "characters of several bytes": Case(
        sse(ROLE, says("\u00fc\u6f22\U0001f680"), *FOUR[1:], *LAST, DONE), "cccc", 6, USED
    ),
}
"""What clients of the field have read wrongly."""

ERRORS: dict[str, tuple[bytes, str]] = {
    "object": (sse({"error": {"message": "out of memory", "type": "server_error"}}), "out of memory"),
    "text": (sse({"error": "model runner has stopped"}), "model runner has stopped"),
    "without a message": (sse({"error": {"code": 502}}), '{"code": 502}'),
    "of its own kind": (sse({"object": "error", "message": "too long", "code": 400}), "too long"),
    "named by its event": (b"event: error\n" + sse({"message": "slot gone"}), "slot gone"),
    "named by its event, as text": (b"event: error\ndata: gone away\n\n", "gone away"),
    "a field of its own": (b'error: {"code":500,"message":"context shift failed"}\n\n', "context shift failed"),
    "without a word": (b"event: error\ndata: {}\n\n", "{}"),
}


@dataclass(frozen=True, slots=True)
class Counting:
    """Chunks, what is counted of them, the tokens of each event, and whether two sources disagree."""

    chunks: tuple[JSON, ...]
    counts: Mapping[str, object]
    tokens: list[int | None]
    disagree: bool = False


def with_ids(told: JSON, *ids: int) -> JSON:
    told["choices"][0]["token_ids"] = list(ids)
    return told


def with_totals(*totals: int) -> tuple[JSON, ...]:
    return tuple(says("a", usage=usage(total)) for total in totals)


END = chunk({}, "stop")
UNKNOWN: list[int | None] = [None] * 4
COUNTING: dict[str, Counting] = {
    "usage before the end": Counting((*FOUR, only_usage(4), END), USED, UNKNOWN),
    "usage after the end": Counting((*FOUR, *LAST), USED, UNKNOWN),
    "usage with the end": Counting((*FOUR, chunk({}, "stop", usage=usage(4))), USED, UNKNOWN),
    "no usage": Counting((*FOUR, END), UNCOUNTED, UNKNOWN),
    "usage without a number": Counting((*FOUR, END, {"usage": {"completion_tokens": None}}), UNCOUNTED, UNKNOWN),
    "usage below the number of chunks": Counting(
        (*FOUR, END, only_usage(1)), {"completion": 1, "source": "usage"}, UNKNOWN, True
    ),
    "usage of each chunk alone": Counting(
        (*with_totals(1, 1, 1, 1), END), {"completion": 1, "source": "usage"}, UNKNOWN, True
    ),
    "usage that shrinks": Counting(
        (*with_totals(3, 2), only_usage(5), END), {"completion": 5, "source": "usage"}, [None, None]
    ),
    "usage that grows by several": Counting(
        (*with_totals(1, 4, 6, 9), chunk({}, "stop", usage=usage(9))),
        {"completion": 9, "source": "usage_deltas"},
        [1, 3, 2, 3],
    ),
    "usage that grows without text": Counting(
        (*with_totals(1), says("", usage=usage(2)), *with_totals(3), END),
        {"completion": 3, "source": "usage_deltas"},
        [1, 1, 1],
    ),
    "usage that grows with the end": Counting(
        (*with_totals(1, 2), chunk({}, "stop", usage=usage(3))), {"completion": 3, "source": "usage_deltas"}, [1, 1, 1]
    ),
    "usage with the role": Counting(
        (chunk({"role": "assistant", "content": ""}, usage=usage(1)), *with_totals(1, 2), END),
        {"completion": 2, "source": "usage_deltas"},
        [1, 1],
    ),
    "ids in each chunk": Counting(
        (ROLE, with_ids(says("a"), 5), with_ids(says("bc"), 6, 7), chunk({}, "stop"), only_usage(3)),
        {"completion": 3, "source": "token_ids"},
        [1, 2],
    ),
    "ids before usage in each chunk": Counting(
        (with_ids(says("a", usage=usage(1)), 5), with_ids(says("b", usage=usage(3)), 6, 7), END),
        {"completion": 3, "source": "token_ids"},
        [1, 2],
    ),
    "ids of a last token without text": Counting(
        (with_ids(says("a"), 5), with_ids(chunk({}, "stop"), 2), only_usage(2)),
        {"completion": 2, "source": "token_ids"},
        [1, 1],
    ),
    "ids that are not all in the usage": Counting(
        (with_ids(says("a"), 5), with_ids(says("b"), 6), END, only_usage(7)),
        {"completion": 2, "source": "token_ids"},
        [1, 1],
        True,
    ),
    "ids in some chunks only": Counting(
        (with_ids(says("a"), 5), says("b"), END, only_usage(2)), {"completion": 2, "source": "usage"}, [None, None]
    ),
    "ids with the role": Counting(
        (with_ids(chunk({"role": "assistant", "content": ""}), 1), with_ids(says("a"), 5), END),
        {"completion": 2, "source": "token_ids"},
        [2],
    ),
}


def timings(cached: int, prompt: tuple[int, float], predicted: tuple[int, float], rate: float) -> JSON:
    return {
        "cache_n": cached,
        "prompt_n": prompt[0],
        "prompt_ms": prompt[1],
        "predicted_n": predicted[0],
        "predicted_ms": predicted[1],
        "predicted_per_second": rate,
    }


LLAMACPP: dict[str, tuple[JSON, float]] = {
    "build 11434": (timings(35, (1, 9.075), (32, 297.852), 104.07853564857716), 104.07853564857716),
    "build 11434, a long prompt": (timings(0, (803, 2842.118), (4, 35.509), 84.48562336309105), 84.48562336309105),
    "an older build": (timings(236, (1, 30.958), (35, 661.064), 52.94494935437416), 1e3 * 34 / 661.064),
}
"""Timings as llama.cpp sent them → tokens/s over the intervals between tokens. The older build divides n, not n - 1."""

OLLAMA_LAST: JSON = {
    "model": "llama3.2:1b",
    "message": {"role": "assistant", "content": ""},
    "done": True,
    "done_reason": "stop",
    "total_duration": 30258609300,
    "load_duration": 19906358300,
    "prompt_eval_count": 29,
    "prompt_eval_cached_count": 0,
    "prompt_eval_duration": 10175903000,
    "eval_count": 3,
    "eval_duration": 173639000,
}
OLLAMA_OLDER: JSON = {
    "model": "gemma2:2b",
    "message": {"role": "assistant", "content": ""},
    "done": True,
    "done_reason": "stop",
    "total_duration": 4353619900,
    "load_duration": 63915300,
    "prompt_eval_count": 10,
    "prompt_eval_duration": 246847000,
    "eval_count": 17,
    "eval_duration": 4032296000,
}


def json_lines(*told: JSON) -> bytes:
    return b"".join(text_of(one) + b"\n" for one in told)


def ollama_says(message: JSON) -> JSON:
    return {"model": "llama3.2:1b", "message": {"role": "assistant", "content": "", **message}, "done": False}


TOOL = {"function": {"name": "f", "arguments": {"x": "\u00e9"}}}
OLLAMA: dict[str, Case] = {
    "an answer": Case(
        json_lines(*(ollama_says({"content": letter}) for letter in "abc"), OLLAMA_LAST),
        "ccc",
        3,
        {"prompt": 29, "completion": 3, "cached": 0, "source": "engine"},
        {"no_done": False, "role_ns": None},
    ),
    "thinking, then a tool": Case(
        json_lines(
            ollama_says({"thinking": "hm"}),
            ollama_says({"content": "so"}),
            ollama_says({"tool_calls": [TOOL]}),
            OLLAMA_LAST,
        ),
        "rct",
        15,
        {"completion": 3},
    ),
    "no line end after the last": Case(
        json_lines(ollama_says({"content": "a"}), OLLAMA_LAST)[:-1], "c", 1, {"completion": 3}, {"no_done": False}
    ),
    "an error after the first token": Case(
        json_lines(ollama_says({"content": "a"}), {"error": "llama runner terminated"}),
        "c",
        1,
        finish="",
        error="llama runner terminated",
    ),
    "cut off": Case(
        json_lines(ollama_says({"content": "a"})), "c", 1, notes={"no_done": True}, finish="", error="ended"
    ),
}
