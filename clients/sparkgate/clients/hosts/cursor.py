"""Cursor: `mcpServers` in ~/.cursor/mcp.json (told by its documentation and reports).

A tool is left out when the names of its server and its own have more than 60 characters together.
"""

from __future__ import annotations

from sparkgate.clients.hosts.doors import SHELL, ByPerson, doors
from sparkgate.clients.hosts.filters import everything
from sparkgate.clients.hosts.host import Host, Target, Ways, Where
from sparkgate.clients.hosts.names import Named
from sparkgate.clients.hosts.shapes import Shape

KEY = ("mcpServers",)
ENTRY = Shape()


def _targets(where: Where) -> list[Target]:
    roots = [(where.home, ""), *([(where.project, "project")] if where.project else [])]
    return [Target(root / ".cursor" / "mcp.json", "json", KEY, root / ".cursor", name) for root, name in roots]


CURSOR = Host(
    name="cursor",
    title="Cursor",
    targets=_targets,
    entry=ENTRY,
    owned=ENTRY.owned,
    tool_name=Named("mcp_{server}_{tool}"),
    environment=everything,
    doors=doors(
        ByPerson("web_tools", "Its own web tool goes past the policy and the log.", "switch it off in its settings"),
        SHELL,
    ),
    max_tool_name=60,
    after="Cursor takes it by itself; switch the servers on in its settings when they are off there.",
    ways=Ways(expands=True),
    seen="told",
    binaries=("cursor",),
)
