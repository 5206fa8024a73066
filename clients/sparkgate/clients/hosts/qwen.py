"""Qwen Code: `mcpServers` in settings.json (run as 0.24.4), like Gemini CLI but for names, environment and tool lists.

A tool's name that is longer than 63 characters is cut and ends with a hash of the whole.
When it first sees a file it adds `$version` and keeps comments; a trailing comma is an error to it.
"""

from __future__ import annotations

from sparkgate.clients.hosts.doors import Confined, Listed, doors
from sparkgate.clients.hosts.filters import everything
from sparkgate.clients.hosts.gates import Denied, NotAllowed, gates
from sparkgate.clients.hosts.host import Host, Target, Ways, Where
from sparkgate.clients.hosts.names import Named
from sparkgate.clients.hosts.places import moved
from sparkgate.clients.hosts.shapes import CALL_S, Shape

KEY = ("mcpServers",)
DENY = ("permissions", "deny")
ENTRY = Shape(after={"timeout": CALL_S * 1000})


def _targets(where: Where) -> list[Target]:
    folder = moved(where, "QWEN_HOME", where.home / ".qwen")
    targets = [Target(folder / "settings.json", "jsonc", KEY, folder)]
    if where.project:
        own = where.project / ".qwen"
        targets.append(Target(own / "settings.json", "jsonc", KEY, own, "project"))
    return targets


QWEN = Host(
    name="qwen",
    title="Qwen Code",
    targets=_targets,
    entry=ENTRY,
    owned=ENTRY.owned,
    tool_name=Named("mcp__{server}__{tool}", most=63),
    environment=everything,
    gates=gates(
        NotAllowed(("mcp", "allowed"), ("{server}",)),
        Denied(("mcp", "excluded"), ("{server}",)),
        Denied(DENY, ("mcp__{server}", "mcp__{server}__*"), "permission"),
    ),
    doors=doors(
        Listed(
            "web_tools",
            "Its own WebFetch and WebSearch go past the policy and the log.",
            DENY,
            ("WebFetch", "WebSearch"),
            (("web_fetch", "web_search"),),
        ),
        Confined(
            "shell",
            "Its shell reaches whatever this machine reaches.",
            DENY,
            ("Bash", "ShellTool", "run_shell_command"),
        ),
    ),
    call_s=CALL_S,
    max_tool_name=63,
    after="Start Qwen Code again.",
    ways=Ways(expands=True, folder=("cwd",)),
    seen="run",
    binaries=("qwen",),
)
