"""Open WebUI, by way of mcpo, which makes OpenAPI of the `mcpServers` in its own file.

Open WebUI itself takes MCP by Streamable HTTP only. mcpo has no usual file: it is started with `--config FILE`, and
passes its whole environment on.
"""

from __future__ import annotations

from sparkgate.clients.hosts.doors import ByPerson, doors
from sparkgate.clients.hosts.filters import everything
from sparkgate.clients.hosts.host import Host, Target, Where
from sparkgate.clients.hosts.names import Named
from sparkgate.clients.hosts.shapes import Shape

KEY = ("mcpServers",)
ENTRY = Shape()


def _targets(where: Where) -> list[Target]:
    """A place for mcpo's file; it may be anywhere."""
    folder = where.home / "mcpo"
    return [Target(folder / "config.json", "json", KEY, folder)]


OPENWEBUI = Host(
    name="openwebui",
    title="Open WebUI through mcpo",
    targets=_targets,
    entry=ENTRY,
    owned=ENTRY.owned,
    tool_name=Named("tool_{tool}_post"),
    environment=everything,
    doors=doors(
        ByPerson(
            "web_tools",
            "Its own web search goes past the policy and the log.",
            "switch web search off in its admin panel",
        ),
    ),
    how="print",
    why="mcpo reads the file that it is started with (`mcpo --config FILE`), wherever that is",
    after="Start mcpo again, unless it runs with --hot-reload; then add its address as a tool server in Open WebUI.",
    seen="told",
    binaries=("mcpo",),
    minds=("Give mcpo an API key, and keep it on loopback: it lets anyone who reaches it call the tools.",),
)
