"""Crush: `mcp` in crush.json (told by its documentation and schema).

An entry with a key that it does not know is refused.
`timeout` is in seconds, 10 unless it is set. It expands `$NAME` and `$(command)` in what it reads.
"""

from __future__ import annotations

from sparkgate.clients.hosts.doors import Confined, Listed, doors
from sparkgate.clients.hosts.filters import everything
from sparkgate.clients.hosts.gates import SwitchedOff, gates
from sparkgate.clients.hosts.host import Host, Target, Ways, Where
from sparkgate.clients.hosts.names import Named
from sparkgate.clients.hosts.places import dot_config, local, moved
from sparkgate.clients.hosts.shapes import CALL_S, Shape

KEY = ("mcp",)
DISABLED = ("options", "disabled_tools")
ENTRY = Shape(before={"type": "stdio"}, after={"timeout": CALL_S})


def _targets(where: Where) -> list[Target]:
    usual = (local(where) if where.system == "windows" else dot_config(where)) / "crush"
    folder = moved(where, "CRUSH_GLOBAL_CONFIG", usual)
    targets = [Target(folder / "crush.json", "json", KEY, folder)]
    if where.project:
        targets.append(Target(where.project / "crush.json", "json", KEY, where.project, "project"))
    return targets


CRUSH = Host(
    name="crush",
    title="Crush",
    targets=_targets,
    entry=ENTRY,
    owned=ENTRY.owned,
    tool_name=Named("mcp_{server}_{tool}"),
    environment=everything,
    gates=gates(SwitchedOff(KEY, "disabled")),
    doors=doors(
        Listed(
            "web_tools",
            "Its own fetch, agentic_fetch, download and sourcegraph go past the policy and the log.",
            DISABLED,
            ("fetch", "agentic_fetch", "download", "sourcegraph"),
        ),
        Confined("shell", "Its shell reaches whatever this machine reaches.", DISABLED, ("bash",)),
    ),
    grace_s=10.0,
    call_s=CALL_S,
    after="Start Crush again.",
    ways=Ways(expands=True),
    seen="told",
    binaries=("crush",),
)
