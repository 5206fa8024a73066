"""LibreChat: `mcpServers` in librechat.yaml (told by its documentation); time-outs are in milliseconds.

The file stands where LibreChat was put, or where CONFIG_PATH says: other programs use a variable of that name too, so
only the name of its file counts there. In a container there is no interpreter of ours.
"""

from __future__ import annotations

from sparkgate.clients.hosts.doors import Switched, doors
from sparkgate.clients.hosts.filters import SDK
from sparkgate.clients.hosts.gates import Has, gates
from sparkgate.clients.hosts.host import Host, Target, Where
from sparkgate.clients.hosts.names import Named
from sparkgate.clients.hosts.places import moved
from sparkgate.clients.hosts.shapes import CALL_S, START_S, Shape

KEY = ("mcpServers",)
FILES = ("librechat.yaml", "librechat.yml")
ENTRY = Shape(before={"type": "stdio"}, after={"timeout": CALL_S * 1000, "initTimeout": START_S * 1000})


def _targets(where: Where) -> list[Target]:
    usual = where.home / "LibreChat" / FILES[0]
    given = moved(where, "CONFIG_PATH", usual)
    file = given if given.name in FILES else usual
    return [Target(file, "yaml", KEY, file.parent)]


LIBRECHAT = Host(
    name="librechat",
    title="LibreChat",
    targets=_targets,
    entry=ENTRY,
    owned=ENTRY.owned,
    tool_name=Named("{tool}_mcp_{server}"),
    environment=SDK,
    gates=gates(Has(("interface", "mcpServers", "use"), False, "interface", "set `interface.mcpServers.use` to true")),
    doors=doors(
        Switched(
            "web_tools", "Its own web search goes past the policy and the log.", ("interface", "webSearch"), shut=False
        ),
    ),
    call_s=CALL_S,
    after="Start LibreChat again.",
    seen="told",
    minds=("A LibreChat in a container finds no interpreter of the host: install sparkgate in the container's image.",),
)
