"""The host that calls a tool: what it says of itself, and how it hears of progress."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any

from mcp.server.context import ServerRequestContext

from sparkgate.policy.audit import Caller
from sparkgate.results import plain

Tell = Callable[[str], Awaitable[None]]
"""Tells the host what is being done."""


CALL_IDS: Mapping[str, tuple[str, ...]] = {
    "call": ("callId",),
    "tool_use": ("claudecode/toolUseId",),
    "host_session": ("x-codex-turn-metadata", "session_id"),
    "thread": ("x-codex-turn-metadata", "thread_id"),
    "turn": ("x-codex-turn-metadata", "turn_id"),
    "model": ("x-codex-turn-metadata", "model"),
}
"""Our name → where it stands in `_meta` of a call (seen in Claude Code 2.1.332 and Codex 0.171)."""
ID_CHARS, MAX_META_CHARS = 80, 4000


async def silent(_words: str) -> None:
    """Nobody waits for progress."""


def teller(context: ServerRequestContext[Any, Any]) -> Tell:
    """Reports each step to the host, where it asks for progress."""
    steps = count(1)

    async def tell(words: str) -> None:
        await context.session.report_progress(float(next(steps)), None, words)

    return tell


def with_host(caller: Caller, context: ServerRequestContext[Any, Any]) -> Caller:
    """The caller with what its host says of itself in the MCP handshake or envelope.

    Some hosts give the name of their SDK there, so the name that the entry in the host's configuration gives wins.
    """
    caller = replace(caller, call_ids=call_ids(context.meta or {}))
    params = context.session.client_params
    name, version = (params.client_info.name, params.client_info.version) if params else ("", "")
    name, version = plain(name, 80), plain(version, 40)
    if caller.host:
        return replace(caller, host_version=f"{name} {version}".strip())
    return replace(caller, host=name or "unknown", host_version=version)


def call_ids(meta: Mapping[str, Any]) -> dict[str, str]:
    """What the host calls this call; names that are none of the usual ones are not kept."""
    found: dict[str, str] = {}
    for name, path in CALL_IDS.items():
        value: Any = meta
        for key in path:
            value = _inside(value).get(key)
        if isinstance(value, (str, int)) and not isinstance(value, bool) and (told := plain(str(value), ID_CHARS)):
            found[name] = told
    return found


def _inside(value: Any) -> Mapping[str, Any]:
    """Codex writes its metadata as the text of a JSON object."""
    if isinstance(value, str):
        with suppress(ValueError, RecursionError):
            value = json.loads(value[:MAX_META_CHARS])
    return value if isinstance(value, Mapping) else {}
