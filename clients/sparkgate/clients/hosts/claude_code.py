"""Claude Code: `mcpServers` (run as 2.1.332).

Every session rewrites ~/.claude.json, and servers have been lost from it in races, so for the user's scope its own
command writes; `add-json` ends with 1 when the name is there. A project's `.mcp.json` waits for approval. Names longer
than 128 characters are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from sparkgate.clients.hosts.doors import Confined, Listed, doors
from sparkgate.clients.hosts.entry import Launch
from sparkgate.clients.hosts.filters import everything
from sparkgate.clients.hosts.gates import Denied, gates
from sparkgate.clients.hosts.host import Beside, Commands, Data, Gate, Host, Target, Ways, Where
from sparkgate.clients.hosts.names import Named
from sparkgate.clients.hosts.places import moved
from sparkgate.clients.hosts.reading import at, table, words
from sparkgate.clients.hosts.shapes import CALL_S, Shape

KEY = ("mcpServers",)
ENTRY = Shape(before={"type": "stdio"}, after={"timeout": CALL_S * 1000})
DENY = ("permissions", "deny")


def _folder(where: Where) -> Path:
    return moved(where, "CLAUDE_CONFIG_DIR", where.home / ".claude")


def _state(where: Where) -> Target:
    """Its file of state: beside its folder, and in it where that has been moved."""
    file = moved(where, "CLAUDE_CONFIG_DIR", where.home) / ".claude.json"
    return Target(file, "json", KEY, _folder(where))


def _targets(where: Where) -> list[Target]:
    project = where.project
    in_project = [Target(project / ".mcp.json", "json", KEY, project, "project", "file")] if project else []
    return [_state(where), *in_project]


def _settings(where: Where) -> list[Target]:
    folder = _folder(where)
    return [Target(folder / "settings.json", "json", (), folder)]


def _projects(data: Data, names: Sequence[str]) -> Iterable[Gate]:
    """Servers of a project's `.mcp.json` that the user has said no to, or has switched off for that project."""
    for folder, project in table(at(data, "projects")).items():
        for word in ("disabledMcpjsonServers", "disabledMcpServers"):
            for name in set(names) & set(words(at(project, word))):
                yield Gate(
                    "project",
                    f"{name} is switched off in {folder}.",
                    f"allow it by /mcp there, or take it out of `{word}`",
                )


def _add(launch: Launch) -> tuple[str, ...]:
    return "claude", "mcp", "add-json", launch.server, json.dumps(ENTRY(launch)), "-s", "user"


CLAUDE_CODE = Host(
    name="claude_code",
    title="Claude Code",
    targets=_targets,
    entry=ENTRY,
    owned=ENTRY.owned,
    tool_name=Named("mcp__{server}__{tool}"),
    environment=everything,
    beside=(
        Beside(
            _settings,
            gates=gates(
                Denied(DENY, ("mcp__{server}", "mcp__{server}__*")),
                Denied(("disabledMcpjsonServers",), ("{server}",), "project_denied"),
            ),
            doors=doors(
                Listed(
                    "web_tools",
                    "Its own WebSearch and WebFetch go past the policy and the log.",
                    DENY,
                    ("WebSearch", "WebFetch"),
                ),
                Confined("shell", "Its shell reaches whatever this machine reaches.", DENY, ("Bash",)),
            ),
        ),
        Beside(lambda where: [_state(where)], gates=gates(_projects)),
    ),
    commands=Commands(
        add=_add,
        remove=lambda server: ("claude", "mcp", "remove", server, "-s", "user"),
        show=lambda server: ("claude", "mcp", "get", server),
    ),
    protocol="",
    call_s=CALL_S,
    max_tool_name=128,
    how="command",
    why="every session of it rewrites the file, and what another writes there is lost in races",
    after="New sessions have it; a server of a project's .mcp.json first asks for approval.",
    ways=Ways(expands=True, adds=(("CLAUDECODE", "1"),)),
    seen="run",
    binaries=("claude",),
)
