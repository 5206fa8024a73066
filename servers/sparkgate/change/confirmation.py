"""Asking the person in front of the host, where the host can."""

from __future__ import annotations

from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError, NoBackChannelError

QUESTION = {
    "type": "object",
    "properties": {
        "confirm": {"type": "boolean", "title": "Go on", "description": "Stop the engine that an agent lives on."}
    },
    "required": ["confirm"],
}


async def ask_person(context: ServerRequestContext[Any, Any], message: str) -> bool:
    """Whether a person has agreed by way of the host's elicitation; False where the host has none."""
    capabilities = context.session.client_capabilities
    if capabilities is None or capabilities.elicitation is None:
        return False
    try:
        answer = await context.session.elicit_form(message, QUESTION)
    except (NoBackChannelError, MCPError):
        return False
    return answer.action == "accept" and bool((answer.content or {}).get("confirm"))
