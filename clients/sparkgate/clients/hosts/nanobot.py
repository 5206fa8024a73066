"""nanobot: `tools.mcpServers` in ~/.nanobot/config.json (read in nanobot-ai 0.3.5: schema.py, mcp.py).

A call may take 30 s unless `toolTimeout` says more. It hands on what the MCP SDK does. Names are cut to 64 characters.
"""

from __future__ import annotations

from sparkgate.clients.hosts.doors import Confined, Switched, doors
from sparkgate.clients.hosts.filters import SDK
from sparkgate.clients.hosts.host import Host, Target, Ways, Where
from sparkgate.clients.hosts.names import Named
from sparkgate.clients.hosts.shapes import CALL_S, Shape

KEY = ("tools", "mcpServers")
ENTRY = Shape(after={"toolTimeout": CALL_S})


def _targets(where: Where) -> list[Target]:
    folder = where.home / ".nanobot"
    return [Target(folder / "config.json", "json", KEY, folder)]


NANOBOT = Host(
    name="nanobot",
    title="nanobot",
    targets=_targets,
    entry=ENTRY,
    owned=ENTRY.owned,
    tool_name=Named("mcp_{server}_{tool}", most=64),
    environment=SDK,
    doors=doors(
        Switched(
            "web_tools",
            "Its own web_search and web_fetch go past the policy and the log.",
            ("tools", "web", "enable"),
            shut=False,
        ),
        Confined("shell", "Its shell reaches whatever this machine reaches.", ("tools", "exec", "enable")),
    ),
    call_s=CALL_S,
    after="Start nanobot again.",
    ways=Ways(folder=("cwd",)),
    seen="read",
    binaries=("nanobot",),
)
