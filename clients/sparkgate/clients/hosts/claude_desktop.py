"""Claude Desktop: `mcpServers` in claude_desktop_config.json, strict JSON (told by its documentation and reports).

The packaged build on Windows keeps its own copy of the folder. A program of the desktop has a PATH of its own, so only
an absolute interpreter starts.
"""

from __future__ import annotations

from sparkgate.clients.hosts.doors import ByPerson, doors
from sparkgate.clients.hosts.filters import SDK
from sparkgate.clients.hosts.host import Host, Target, Where
from sparkgate.clients.hosts.names import Named
from sparkgate.clients.hosts.places import application_data, local
from sparkgate.clients.hosts.shapes import Shape

KEY = ("mcpServers",)
ENTRY = Shape()
PACKAGE = ("Packages", "Claude_pzs8sxrjxfjjc", "LocalCache", "Roaming", "Claude")


def _targets(where: Where) -> list[Target]:
    folders = [(application_data(where) / "Claude", "")]
    if where.system == "windows":
        folders.append((local(where).joinpath(*PACKAGE), "packaged"))
    return [Target(folder / "claude_desktop_config.json", "json", KEY, folder, name) for folder, name in folders]


CLAUDE_DESKTOP = Host(
    name="claude_desktop",
    title="Claude Desktop",
    targets=_targets,
    entry=ENTRY,
    owned=ENTRY.owned,
    tool_name=Named("{server}:{tool}"),
    environment=SDK,
    doors=doors(
        ByPerson(
            "web_tools", "Its own web search runs at the provider.", "switch web search off in the menu of a chat"
        ),
    ),
    after="Quit Claude Desktop and open it again.",
    seen="told",
)
