"""Asking the person at the host, where the host can: MCP elicitation."""

from __future__ import annotations

from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext

from sparkgate.policy.decision import Decision
from sparkgate.policy.egress import Ask

WAIT_S = 45.0
"""Hosts give a call about a minute."""
QUESTION = "The query matches {rules}, and your policy wants you to be asked. Send this? {text}"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"send": {"type": "boolean", "title": "Send it", "default": False}},
    "required": ["send"],
}


def asker(context: ServerRequestContext[Any, Any]) -> Ask | None:
    """Asks through this connection; None when its host cannot. No answer in time, or any other than yes, is no."""
    wanted = types.ClientCapabilities(elicitation=types.ElicitationCapability())
    if not context.session.check_client_capability(wanted):
        return None

    async def ask(decision: Decision) -> bool:
        question = QUESTION.format(rules=" and ".join(decision.rules), text=decision.asked)
        try:
            with anyio.fail_after(WAIT_S):
                told = await context.session.elicit_form(question, SCHEMA, context.request_id)
        except Exception:
            return False
        return told.action == "accept" and bool((told.content or {}).get("send"))

    return ask
