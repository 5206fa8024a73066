"""The tool that shows an agent what left in its own session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio.to_thread
from mcp.server.context import ServerRequestContext

from sparkgate.brief import fit
from sparkgate.policy.audit import Caller, LogUnavailable
from sparkgate.policy.trail.read import Filter, count, newest, reading
from sparkgate.services import Services
from sparkgate.toolset import Arguments, Parameter, Tool, failure

MAX_BYTES = 6000
"""Of an answer."""
PARAMETERS = (
    Parameter("limit", "integer", "Rows to show, 1 to 50, the newest first.", default=10, low=1, high=50),
    Parameter(
        "verdict", "string", "Only rows with this verdict.", default="any", choices=("any", "allow", "redact", "block")
    ),
)


def outbound_log_tool(services: Services, caller: Caller) -> Tool:
    async def handle(arguments: Arguments, _context: ServerRequestContext[Any, Any]) -> dict[str, Any]:
        verdict = "" if arguments["verdict"] == "any" else arguments["verdict"]
        wanted = Filter(session=caller.session, verdict=verdict)
        try:
            return await anyio.to_thread.run_sync(rows_of, services.state / "audit.db", wanted, arguments["limit"])
        except LogUnavailable as error:
            return failure("log_unavailable", str(error))

    return Tool(
        name="outbound_log",
        title="What left in this session",
        meaning="The queries of this session: what was sent, what the policy withheld and by which rule, and how it "
        "ended. Withheld values are not in it.",
        parameters=PARAMETERS,
        handler=handle,
        read_only=True,
        destructive=False,
        idempotent=True,
        open_world=False,
    )


def rows_of(path: Path, wanted: Filter, limit: int) -> dict[str, Any]:
    """The answer: rows newest first, as many as fit; none when there is no log yet.

    Raises:
        LogUnavailable: the log cannot be read.
    """
    if not path.exists():
        return {"ok": True, "shown": "0 of 0", "rows": []}
    with reading(path) as connection:
        total = count(connection, wanted)
        rows = [_brief(row) for row in newest(connection, wanted, limit=limit)]
    fitting = fit({}, rows, MAX_BYTES)
    return {"ok": True, "shown": f"{len(fitting)} of {total}", "rows": fitting}


def _brief(row: dict[str, Any]) -> dict[str, Any]:
    """What an agent can use of a row; empty parts are left out."""
    told = {
        "id": row["id"],
        "at": row["at"],
        "tool": row["tool"],
        "verdict": row["verdict"],
        "sent": row["sent"],
        "rules": list(dict.fromkeys(finding["rule"] for finding in row["findings"])),
        "outcome": row["outcome"] or "unknown",
    }
    return {name: value for name, value in told.items() if value not in ("", [])}
