"""Windsurf: `mcpServers` in ~/.codeium/windsurf/mcp_config.json, strict JSON (told by its documentation).

All servers together show at most 100 tools.
"""

from __future__ import annotations

from sparkgate.clients.hosts.doors import SHELL, ByPerson, doors
from sparkgate.clients.hosts.filters import everything
from sparkgate.clients.hosts.gates import SwitchedOff, gates
from sparkgate.clients.hosts.host import Host, Target, Where
from sparkgate.clients.hosts.names import Named
from sparkgate.clients.hosts.shapes import Shape

KEY = ("mcpServers",)
ENTRY = Shape()


def _targets(where: Where) -> list[Target]:
    folder = where.home / ".codeium" / "windsurf"
    return [Target(folder / "mcp_config.json", "json", KEY, folder)]


WINDSURF = Host(
    name="windsurf",
    title="Windsurf",
    targets=_targets,
    entry=ENTRY,
    owned=ENTRY.owned,
    tool_name=Named("mcp_{server}_{tool}"),
    environment=everything,
    gates=gates(SwitchedOff(KEY, "disabled")),
    doors=doors(
        ByPerson("web_tools", "Its own web search goes past the policy and the log.", "switch it off in its settings"),
        SHELL,
    ),
    after="Refresh the list of MCP servers in Windsurf.",
    seen="told",
    binaries=("windsurf",),
)
