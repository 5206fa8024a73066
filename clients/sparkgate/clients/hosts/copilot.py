"""Copilot CLI: `mcpServers` in ~/.copilot/mcp-config.json (told by its documentation and reports).

Its 1.0.81 asks server/discover first and then initialize all the same, which the MCP SDK refuses (-32022).
"""

from __future__ import annotations

from sparkgate.clients.hosts.doors import SHELL, ByPerson, doors
from sparkgate.clients.hosts.filters import everything
from sparkgate.clients.hosts.host import Host, Target, Where
from sparkgate.clients.hosts.names import Named
from sparkgate.clients.hosts.places import moved
from sparkgate.clients.hosts.shapes import Shape

KEY = ("mcpServers",)
ENTRY = Shape(before={"type": "local"}, after={"tools": ["*"]})


def _targets(where: Where) -> list[Target]:
    folder = moved(where, "COPILOT_HOME", where.home / ".copilot")
    targets = [Target(folder / "mcp-config.json", "json", KEY, folder)]
    if where.project:
        targets.append(Target(where.project / ".mcp.json", "json", KEY, where.project, "project"))
    return targets


COPILOT = Host(
    name="copilot",
    title="Copilot CLI",
    targets=_targets,
    entry=ENTRY,
    owned=ENTRY.owned,
    tool_name=Named("{server}-{tool}"),
    environment=everything,
    doors=doors(
        ByPerson(
            "web_tools",
            "Its own web_fetch goes past the policy and the log.",
            "start it with `--excluded-tools=web_fetch`",
        ),
        SHELL,
    ),
    protocol="2025-11-25",
    opens=("server/discover", "initialize"),
    after="Start Copilot CLI again.",
    seen="told",
    binaries=("copilot",),
    minds=("Versions about 1.0.81 cannot talk to servers of the current MCP SDK; sparkgate's are such.",),
)
