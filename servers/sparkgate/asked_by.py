"""The host that calls a tool: what it says of itself, and how it hears of progress."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import count
from typing import Any

from mcp.server.context import ServerRequestContext

from sparkgate.policy.audit import Caller
from sparkgate.results import plain

Tell = Callable[[str], Awaitable[None]]
"""Tells the host what is being done."""


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
    params = context.session.client_params
    name, version = (params.client_info.name, params.client_info.version) if params else ("", "")
    name, version = plain(name, 80), plain(version, 40)
    if caller.host:
        return replace(caller, host_version=f"{name} {version}".strip())
    return replace(caller, host=name or "unknown", host_version=version)
