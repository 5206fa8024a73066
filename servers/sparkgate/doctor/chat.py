"""A short chat with a tool in it, by which a wrong template or parser shows: nothing else tells of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sparkgate.engine_state import Status
from sparkgate.engines import ENGINES
from sparkgate.engines.spec import line
from sparkgate.fleet import Fleet
from sparkgate.policy.local import Answer, LocalDoorError

CHAT_S = 20.0
TEXT_MAX_CHARS = 4000
ASK: dict[str, object] = {
    "messages": [{"role": "user", "content": "What time is it in Oslo? Use the tool."}],
    "max_tokens": 96,
    "temperature": 0,
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "clock",
                "description": "Tells the time in a city.",
                "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
            },
        }
    ],
}
NO_THINKING = {"chat_template_kwargs": {"enable_thinking": False}}
TAKES_TEMPLATE_KWARGS = ("vllm", "sglang", "llamacpp")
"""Engines that hand `chat_template_kwargs` to the template; others may refuse a request that has them."""


@dataclass(frozen=True, slots=True)
class Chat:
    """The answer to a chat: HTTP status, what it said and thought, whether it called the tool, its error as one line.

    `quiet` tells that it was asked not to think.
    """

    status: int
    text: str = ""
    reasoning: str = ""
    called: bool = False
    error: str = ""
    quiet: bool = False


def ask_chat(fleet: Fleet, name: str, status: Status) -> Chat | None:
    """Ask an engine that generates, in at most 20 s; None when no answer came in that time, or it may not be asked."""
    if fleet.locked(name, status):
        return None
    path = ENGINES[status.engine].generate.path
    quiet = status.engine in TAKES_TEMPLATE_KWARGS
    body = ASK | (NO_THINKING if quiet else {}) | {"model": status.loaded}
    try:
        answer = fleet.door(name, CHAT_S).post_json(fleet.catalogue[name].base + path, body)
    except LocalDoorError:
        return None
    return read_chat(answer, quiet)


def read_chat(answer: Answer, quiet: bool = False) -> Chat:
    """`{"choices": [{"message": {"content", "reasoning_content" | "reasoning", "tool_calls"}}]}`, or an error."""
    try:
        told = json.loads(answer.text)
    except (ValueError, RecursionError):
        told = None
    message = _message(told)
    if answer.status != 200 or message is None:
        return Chat(answer.status, error=_error(told) or line(answer.text), quiet=quiet)
    return Chat(
        answer.status,
        _words(message.get("content")),
        _words(message.get("reasoning_content") or message.get("reasoning")),
        called=bool(message.get("tool_calls")),
        quiet=quiet,
    )


def _message(told: Any) -> dict[str, Any] | None:
    try:
        message = told["choices"][0]["message"]
    except (KeyError, IndexError, TypeError):
        return None
    return message if isinstance(message, dict) else None


def _error(told: Any) -> str:
    error = told.get("error", told.get("message")) if isinstance(told, dict) else None
    return line(error.get("message") if isinstance(error, dict) else error)


def _words(value: Any) -> str:
    return value[:TEXT_MAX_CHARS] if isinstance(value, str) else ""
