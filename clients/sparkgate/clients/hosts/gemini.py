"""Gemini CLI: `mcpServers` in settings.json (run as 0.61.0, and read).

Servers start only in folders that the user trusts. A tool's name is kept below 64 characters: the first 30, `...`, the
last 30. Variables with a telling name are taken out of a server's environment, as are others with a telling value.
It warns that `tools.exclude` goes with 1.0, and obeys it.
"""

from __future__ import annotations

from sparkgate.clients.hosts.doors import Confined, Listed, doors
from sparkgate.clients.hosts.filters import Without
from sparkgate.clients.hosts.gates import Denied, Has, NotAllowed, gates
from sparkgate.clients.hosts.host import Host, Target, Ways, Where
from sparkgate.clients.hosts.names import Named
from sparkgate.clients.hosts.places import moved
from sparkgate.clients.hosts.shapes import CALL_S, Shape

KEY = ("mcpServers",)
ENTRY = Shape(after={"timeout": CALL_S * 1000})
EXCLUDE = ("tools", "exclude")
TELLING = (
    "TOKEN|SECRET|PASSWORD|PASSWD|KEY|AUTH|CREDENTIAL|CREDS|PRIVATE|CERT|^(CLIENT_ID|DB_URI|CONNECTION_STRING|DATABASE_URL"
    "|AWS_DEFAULT_REGION|AZURE_CLIENT_ID|AZURE_TENANT_ID|SLACK_WEBHOOK_URL|TWILIO_ACCOUNT_SID|GOOGLE_CLOUD_PROJECT"
    "|GOOGLE_CLOUD_ACCOUNT|FIREBASE_PROJECT_ID)$"
)


def _targets(where: Where) -> list[Target]:
    folder = moved(where, "GEMINI_CLI_HOME", where.home) / ".gemini"
    targets = [Target(folder / "settings.json", "jsonc", KEY, folder)]
    if where.project:
        own = where.project / ".gemini"
        targets.append(Target(own / "settings.json", "jsonc", KEY, own, "project"))
    return targets


GEMINI = Host(
    name="gemini",
    title="Gemini CLI",
    targets=_targets,
    entry=ENTRY,
    owned=ENTRY.owned,
    tool_name=Named("mcp_{server}_{tool}", allowed="A-Za-z0-9_.:-", most=63, middle="...", head=30),
    environment=Without(TELLING),
    gates=gates(
        NotAllowed(("mcp", "allowed"), ("{server}",)),
        Denied(("mcp", "excluded"), ("{server}",)),
        Denied(EXCLUDE, ("mcp_{server}_any",), "tools_excluded"),
        Has(("admin", "mcp", "enabled"), False, "admin", "ask who manages this machine"),
    ),
    doors=doors(
        Listed(
            "web_tools",
            "Its own google_web_search and web_fetch go past the policy and the log.",
            EXCLUDE,
            ("google_web_search", "web_fetch"),
        ),
        Confined("shell", "Its shell reaches whatever this machine reaches.", EXCLUDE, ("run_shell_command",)),
    ),
    call_s=CALL_S,
    max_tool_name=63,
    after="Start Gemini CLI again, in a folder that it trusts.",
    ways=Ways(expands=True, folder=("cwd",)),
    seen="run",
    binaries=("gemini",),
    minds=("In a folder that it does not trust it starts no server (`gemini trust`).",),
)
