"""LM Studio: `mcpServers` in mcp.json, as Cursor writes it (told by its documentation and reports).

It takes time-outs out of the file and waits 60 s for a call; it has no web tools of its own.
"""

from __future__ import annotations

from sparkgate.clients.hosts.filters import everything
from sparkgate.clients.hosts.host import Host, Target, Where
from sparkgate.clients.hosts.names import PLAIN
from sparkgate.clients.hosts.shapes import Shape

KEY = ("mcpServers",)
ENTRY = Shape()
FOLDERS = ((".lmstudio", ""), (".cache/lm-studio", "older"))


def _targets(where: Where) -> list[Target]:
    folders = [(where.home / path, name) for path, name in FOLDERS]
    return [Target(folder / "mcp.json", "json", KEY, folder, name) for folder, name in folders]


LMSTUDIO = Host(
    name="lmstudio",
    title="LM Studio",
    targets=_targets,
    entry=ENTRY,
    owned=ENTRY.owned,
    tool_name=PLAIN,
    environment=everything,
    call_s=60.0,
    after="Switch the servers on in the sidebar of a chat.",
    seen="told",
    binaries=("lms",),
)
