"""The engine server: what the engines of the catalogue say of themselves. It only reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
from mcp.server import Server
from mcp.server.context import ServerRequestContext

from sparkgate import log
from sparkgate.engine_state import Status, as_json, status_of
from sparkgate.policy.audit import Caller
from sparkgate.policy.guard import Guard
from sparkgate.policy.local import LocalDoor
from sparkgate.services import NotReady, Services
from sparkgate.settings import EngineSettings
from sparkgate.toolset import Arguments, Parameter, Tool, build_server, failure

INSTRUCTIONS = (
    "The inference engines of this machine, by the names its operator gave them. Numbers an engine does not tell are "
    "left out."
)
ROUTES = 4
PROOF_S = 30.0
"""Longest wait for one token: the first request of some engines compiles."""
NO_ENGINES = "No engine is in the catalogue. The operator adds [engines.NAME] with a url to config.toml."


def build(services: Services, caller: Caller) -> Server[Any]:
    """The engine server for one connection."""
    return build_server("sparkengine", "Inference engines", INSTRUCTIONS, [engine_status_tool(services)])


def engine_status_tool(services: Services) -> Tool:
    async def handle(arguments: Arguments, _: ServerRequestContext[Any, Any]) -> dict[str, Any]:
        return await engine_status(services, arguments["name"].strip())

    return Tool(
        name="engine_status",
        title="State of the engines",
        meaning="State of the inference engines of this machine: models, context, load, warnings. With a name, the "
        "engine is also asked for one token, to see that it really generates.",
        parameters=(Parameter("name", "string", "One engine of the catalogue; empty for all.", default=""),),
        handler=handle,
        read_only=True,
        destructive=False,
        idempotent=True,
        open_world=False,
    )


async def engine_status(services: Services, name: str) -> dict[str, Any]:
    """The answer of the tool."""
    try:
        live = services.live()
    except NotReady as error:
        return failure(error.code, str(error))
    catalogue = live.settings.engines
    if not catalogue:
        return failure("not_configured", NO_ENGINES)
    if name and name not in catalogue:
        return failure("unknown_engine", f"no engine of that name; there are {', '.join(catalogue)}")
    chosen = {name: catalogue[name]} if name else catalogue
    found = await all_states(chosen, services.guard, prove=bool(name))
    return {"ok": True, "engines": [as_json(status) for status in found]}


async def all_states(
    catalogue: Mapping[str, EngineSettings], guard: Guard | None = None, *, prove: bool = False
) -> list[Status]:
    """The state of every engine, asked at the same time, in the order of the catalogue."""
    found: dict[str, Status] = {}

    async def ask(name: str, entry: EngineSettings) -> None:
        late = Status(name, entry.engine or "unknown", "unknown", warnings=("it did not answer in time",))
        found[name] = late
        with anyio.move_on_after(entry.timeout_s * ROUTES + (PROOF_S if prove else 0)):
            found[name] = await anyio.to_thread.run_sync(
                _ask, name, entry, guard, prove, abandon_on_cancel=True, limiter=limiter
            )

    limiter = anyio.CapacityLimiter(16)
    async with anyio.create_task_group() as group:
        for name, entry in catalogue.items():
            group.start_soon(ask, name, entry)
    return [found[name] for name in catalogue]


def _ask(name: str, entry: EngineSettings, guard: Guard | None, prove: bool) -> Status:
    """One engine; a mistake of ours with one does not take the answers of the others away."""
    try:
        with (
            LocalDoor([entry.url], timeout_s=entry.timeout_s, guard=guard) as door,
            LocalDoor([entry.url], timeout_s=PROOF_S, guard=guard) as patient,
        ):
            return status_of(name, entry, door, patient if prove else None)
    except Exception as error:
        log.error("engine_fault", **log.describe(error))
        return Status(name, entry.engine or "unknown", "unknown", warnings=("its answer could not be read",))
