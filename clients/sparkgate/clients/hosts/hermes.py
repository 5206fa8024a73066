"""Hermes Agent: `mcp_servers` in config.yaml (read in its 0.19.0)."""

from __future__ import annotations

import json

from sparkgate.clients.hosts.entry import Host, Launch


def _snippet(launches: tuple[Launch, ...]) -> str:
    """YAML; strings are written as JSON, which YAML reads the same way."""
    lines = ["mcp_servers:"]
    for launch in launches:
        lines += [
            f"  {launch.server}:",
            f"    command: {json.dumps(launch.command)}",
            f"    args: {json.dumps(list(launch.arguments))}",
            "    timeout: 120",
            "    connect_timeout: 60",
            "    tools: {resources: false, prompts: false}",
        ]
    return "\n".join(lines) + "\n"


HERMES = Host(
    name="hermes",
    title="Hermes Agent",
    file="~/.hermes/config.yaml",
    snippet=_snippet,
    advice="Hermes searches by itself as well, without this policy, until you set `web.keyless_fallback: false` and "
    "turn its web toolset off. If platform_toolsets lists server names, add these to it.",
)
