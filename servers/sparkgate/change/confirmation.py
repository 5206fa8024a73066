"""Asking the person in front of the host, where the host can."""

from __future__ import annotations

from collections.abc import Mapping
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


def question(plan: Mapping[str, Any]) -> str:
    """What a person is asked: who is cut off, what is done, for how long, and what to mind."""
    leaving = " and ".join((*plan["stops"], *plan.get("evicts", ())))
    what = f"stop {leaving} and start {plan['engine']}" if plan["kind"] != "unload" else f"stop {leaving}"
    outage = f" About {plan['outage_s']:.0f} s without an engine." if plan.get("outage_s") else ""
    warnings = "".join(f" {warning}." for warning in plan.get("warnings", ()))
    return (
        f"{' and '.join(plan['protected_for'])} lives on {leaving}. An agent asks to {what}.{outage}{warnings} Go on?"
    )


async def ask_person(context: ServerRequestContext[Any, Any], plan: Mapping[str, Any]) -> bool:
    """Whether a person has agreed by way of the host's elicitation; False where the host has none."""
    capabilities = context.session.client_capabilities
    if capabilities is None or capabilities.elicitation is None:
        return False
    try:
        answer = await context.session.elicit_form(question(plan), QUESTION)
    except (NoBackChannelError, MCPError):
        return False
    return answer.action == "accept" and bool((answer.content or {}).get("confirm"))
