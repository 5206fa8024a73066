"""OpenClaw: `mcp.servers` in openclaw.json (read in its 2026.9.6)."""

from __future__ import annotations

import json

from sparkgate.clients.hosts.entry import Host, Launch


def _snippet(launches: tuple[Launch, ...]) -> str:
    servers = {
        launch.server: {
            "command": launch.command,
            "args": list(launch.arguments),
            "requestTimeoutMs": 120_000,
            "connectionTimeoutMs": 30_000,
            "toolFilter": {"exclude": ["resources_*", "prompts_*"]},
        }
        for launch in launches
    }
    return json.dumps({"mcp": {"servers": servers}}, indent=2) + "\n"


OPENCLAW = Host(
    name="openclaw",
    title="OpenClaw",
    file="~/.openclaw/openclaw.json",
    snippet=_snippet,
    advice='OpenClaw\'s own web tools go past this policy until you set `tools.deny: ["group:web"]`.',
)
