"""NemoClaw: OpenClaw, Hermes and others in a sandbox of OpenShell (told by docs/manage-sandboxes/add-mcp-server.mdx).

It takes MCP by Streamable HTTP only: HTTPS, a bearer credential, an address that its gateway can route to; loopback and
the names of the container's host are refused. Its own command writes the network policy and the configuration.
"""

from __future__ import annotations

from sparkgate.clients.hosts.filters import SDK
from sparkgate.clients.hosts.host import Host, Target, Where
from sparkgate.clients.hosts.names import Named
from sparkgate.clients.hosts.shapes import Shape

ENTRY = Shape()
NEEDED = """\
# This takes work of yours, and none of it was run against a NemoClaw: it is what its documentation asks for.
#
# A sandbox of NemoClaw starts no stdio server and takes none from the host. What it takes is a server that
#   - speaks MCP by Streamable HTTP, with TLS and one bearer credential,
#   - stands at a stable private or public address; 127.0.0.1, ::1, host.openshell.internal and host.docker.internal
#     are refused,
#   - answers at one path, with requests of at most 131072 bytes.
#
# sparkgate does the first half: MCP by Streamable HTTP with a bearer token, on loopback only and without TLS. It opens
# a port that every program of this machine can use that has the token.
#
#   sparkgate serve search --http 8765 --token-file ~/.config/sparkgate/http.token --allow-host HOST --host nemoclaw
#
# The second half is yours: a reverse proxy with a certificate at https://HOST, which passes /mcp on to
# http://127.0.0.1:8765/mcp with its Authorization, and does not hold event streams back.
#
# NemoClaw's own command then writes the network policy: that host, port and path, the methods of MCP, and the program
# of the agent. HOST has a private address, so it must be named as trusted; the token of the file goes into TOKEN:
#
#   nemoclaw SANDBOX mcp add sparksearch --url https://HOST/mcp --env TOKEN --trusted-private-host HOST
#   nemoclaw SANDBOX mcp status sparksearch --json
"""


def _targets(where: Where) -> list[Target]:
    """Its folder on the host; nothing in it is ours to write."""
    folder = where.home / ".nemoclaw"
    return [Target(folder / "sandboxes.json", "json", ("mcp", "servers"), folder)]


NEMOCLAW = Host(
    name="nemoclaw",
    title="NemoClaw",
    targets=_targets,
    entry=ENTRY,
    owned=ENTRY.owned,
    tool_name=Named("{server}__{tool}", instead="-", most=64),
    environment=SDK,
    how="print",
    why="it takes MCP by HTTPS only: `sparkgate serve --http` behind a reverse proxy of yours",
    after="Until then an agent in a sandbox has no tools of sparkgate; its network policy is what keeps it in.",
    seen="told",
    binaries=("nemoclaw",),
    instead=NEEDED,
)
