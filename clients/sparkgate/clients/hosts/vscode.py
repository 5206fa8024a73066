"""VS Code: `servers` in mcp.json of the user's folder or of `.vscode` (told by its documentation).

A server first asks for trust. Names begin with `mcp_` and at most 18 characters for the server; the whole has 64.
"""

from __future__ import annotations

from sparkgate.clients.hosts.doors import SHELL, ByPerson, doors
from sparkgate.clients.hosts.filters import everything
from sparkgate.clients.hosts.gates import Has, gates
from sparkgate.clients.hosts.host import Beside, Host, Target, Where
from sparkgate.clients.hosts.names import Named
from sparkgate.clients.hosts.places import vscode_folders
from sparkgate.clients.hosts.shapes import Shape

KEY = ("servers",)
ENTRY = Shape(before={"type": "stdio"})
PROFILES = ("", "insiders")


def _targets(where: Where) -> list[Target]:
    """The user's file, also of the Insiders build and of each profile, and that of the project."""
    targets = []
    for folder, build in zip(vscode_folders(where), PROFILES, strict=True):
        profiles = sorted(path for path in (folder / "profiles").glob("*") if path.is_dir())
        targets += [Target(folder / "mcp.json", "jsonc", KEY, folder, build)]
        targets += [Target(one / "mcp.json", "jsonc", KEY, one, f"{build} {one.name}".strip()) for one in profiles]
    if where.project:
        own = where.project / ".vscode"
        targets.append(Target(own / "mcp.json", "jsonc", KEY, own, "project"))
    return targets


def _settings(where: Where) -> list[Target]:
    folders = zip(vscode_folders(where), PROFILES, strict=True)
    return [Target(folder / "settings.json", "jsonc", (), folder, build) for folder, build in folders]


VSCODE = Host(
    name="vscode",
    title="VS Code",
    targets=_targets,
    entry=ENTRY,
    owned=ENTRY.owned,
    tool_name=Named("mcp_{server}_{tool}", most=64),
    environment=everything,
    doors=doors(
        ByPerson(
            "web_tools",
            "Its own fetch tool goes past the policy and the log.",
            "take `fetch` out of the tools of a chat",
        ),
        SHELL,
    ),
    beside=(
        Beside(
            _settings,
            gates=gates(
                Has(("chat.mcp.access",), "none", "mcp_off", 'set `chat.mcp.access` to "all"'),
                Has(("chat.mcp.access",), "registry", "mcp_off", 'set `chat.mcp.access` to "all"'),
                Has(("chat.mcp.enabled",), False, "mcp_off", "remove `chat.mcp.enabled`"),
            ),
        ),
    ),
    call_s=None,
    after="Start the servers in the list of MCP servers and trust them.",
    seen="told",
    binaries=("code", "code-insiders"),
)
