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
# Nothing of this works with sparkgate as it is: its servers speak over stdin and stdout, and it has no HTTP mode.
#
# A sandbox of NemoClaw starts no stdio server and takes none from the host. What it takes is a server that
#   - speaks MCP by Streamable HTTP, with TLS and one bearer credential,
#   - stands at a stable private or public address; 127.0.0.1, ::1, host.openshell.internal and host.docker.internal
#     are refused,
#   - answers at one path, with requests of at most 131072 bytes.
# On the host that means a reverse proxy with a certificate, in front of a server that stays on loopback.
#
# NemoClaw's own command then writes the network policy: that host, port and path, the methods of MCP, and the program
# of the agent. For a server SERVER at https://HOST/SERVER, its credential in TOKEN:
#
#   nemoclaw SANDBOX mcp add SERVER --url https://HOST/SERVER --env TOKEN --trusted-private-host HOST
#   nemoclaw SANDBOX mcp status SERVER --json
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
    why="it takes MCP by Streamable HTTP only, which sparkgate does not serve",
    after="Until then an agent in a sandbox has no tools of sparkgate; its network policy is what keeps it in.",
    seen="told",
    binaries=("nemoclaw",),
    instead=NEEDED,
)
