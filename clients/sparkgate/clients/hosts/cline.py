"""Cline: `mcpServers` in cline_mcp_settings.json, of the extension or of its own program.

Told by its documentation. It starts a server again whenever the file changes; `timeout` is in seconds.
"""

from __future__ import annotations

from sparkgate.clients.hosts.doors import BROWSER, SHELL, ByPerson, doors
from sparkgate.clients.hosts.filters import SDK
from sparkgate.clients.hosts.gates import SwitchedOff, gates
from sparkgate.clients.hosts.host import Host, Target, Where
from sparkgate.clients.hosts.names import PLAIN
from sparkgate.clients.hosts.places import vscode_folders
from sparkgate.clients.hosts.shapes import CALL_S, Shape

KEY = ("mcpServers",)
ENTRY = Shape(after={"timeout": CALL_S})
EXTENSION = ("globalStorage", "saoudrizwan.claude-dev", "settings")


def _targets(where: Where) -> list[Target]:
    extension = vscode_folders(where)[0].joinpath(*EXTENSION)
    folders = [(extension, ""), (where.home / ".cline" / "data" / "settings", "cli")]
    return [Target(folder / "cline_mcp_settings.json", "json", KEY, folder, name) for folder, name in folders]


CLINE = Host(
    name="cline",
    title="Cline",
    targets=_targets,
    entry=ENTRY,
    owned=ENTRY.owned,
    tool_name=PLAIN,
    environment=SDK,
    gates=gates(SwitchedOff(KEY, "disabled")),
    doors=doors(
        ByPerson("web_tools", "Its own web tools go past the policy and the log.", "switch them off in its settings"),
        SHELL,
        BROWSER,
    ),
    call_s=CALL_S,
    after="Cline takes it by itself.",
    seen="told",
    binaries=("cline",),
)
