"""OpenClaw: `mcp.servers` in openclaw.json (run as 2026.9.6; read in its docs/gateway/config-tools/tool-policy.md).

Names of tools are cut to 64 characters, with -2 for the next of the same; what it hands to servers is the default of
the MCP SDK.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from sparkgate.clients.hosts.doors import Confined, Listed, doors
from sparkgate.clients.hosts.filters import SDK
from sparkgate.clients.hosts.gates import Denied, NotAllowed, SwitchedOff, first_match, gates
from sparkgate.clients.hosts.host import Data, Gate, Host, Target, Ways, Where
from sparkgate.clients.hosts.names import Named
from sparkgate.clients.hosts.places import moved
from sparkgate.clients.hosts.reading import at, table, words
from sparkgate.clients.hosts.shapes import CALL_S, START_S, Shape

KEY = ("mcp", "servers")
DENY = ("tools", "deny")
SERVER_TOOLS = ("bundle-mcp", "group:plugins", "{server}__any")
"""Words of tool lists that mean the tools of a server; the last stands for any tool of one."""

ENTRY = Shape(
    after={
        "requestTimeoutMs": CALL_S * 1000,
        "connectionTimeoutMs": START_S * 1000,
        "toolFilter": {"exclude": ["resources_*", "prompts_*"]},
    },
)


def _targets(where: Where) -> list[Target]:
    """The file that OPENCLAW_CONFIG_PATH names, that of OPENCLAW_STATE_DIR, or the usual one and those of profiles."""
    home = moved(where, "OPENCLAW_HOME", where.home)
    usual = moved(where, "OPENCLAW_STATE_DIR", home / ".openclaw")
    file = moved(where, "OPENCLAW_CONFIG_PATH", usual / "openclaw.json")
    profiles = sorted(path for path in home.glob(".openclaw-*") if path.is_dir())
    named = [_target(path / "openclaw.json", path.name.removeprefix(".openclaw-")) for path in profiles]
    return [_target(file), *named]


def _target(file: Path, profile: str = "") -> Target:
    return Target(file, "json5", KEY, file.parent, profile)


def _minimal(data: Data, names: Sequence[str]) -> Iterable[Gate]:
    also = words(at(data, "tools", "alsoAllow"))
    for name in names:
        if at(data, "tools", "profile") == "minimal" and not first_match(also, SERVER_TOOLS, name):
            yield Gate(
                "profile", f"`tools.profile` is minimal, which hides {name}.", 'add "bundle-mcp" to tools.alsoAllow'
            )


def _sandbox(data: Data, names: Sequence[str]) -> Iterable[Gate]:
    """A sandboxed session has a list of its own, which shows no server unless it says so."""
    mode = at(data, "agents", "defaults", "sandbox", "mode")
    lists = [words(at(data, "tools", "sandbox", "tools", name)) for name in ("allow", "alsoAllow")]
    for name in names:
        if mode in ("all", "non-main") and not first_match([*lists[0], *lists[1]], SERVER_TOOLS, name):
            what = f"Sessions in the sandbox ({mode}) do not see {name}."
            yield Gate("sandbox", what, 'add "bundle-mcp" to tools.sandbox.tools.alsoAllow', certain=mode == "all")


TOOL_GATES = gates(
    _minimal, Denied(DENY, SERVER_TOOLS), NotAllowed(("tools", "allow"), SERVER_TOOLS, empty_shows_all=True)
)


def _agents(data: Data, names: Sequence[str]) -> Iterable[Gate]:
    """What an agent says of tools for itself."""
    for agent, settings in table(at(data, "agents", "entries")).items():
        for gate in TOOL_GATES({"tools": at(settings, "tools")}, names):
            what = f"The agent {agent} has tools of its own: {gate.what}"
            yield Gate(f"agent_{gate.code}", what, f"{gate.way_out} of that agent", certain=False)


OPENCLAW = Host(
    name="openclaw",
    title="OpenClaw",
    targets=_targets,
    entry=ENTRY,
    owned=ENTRY.owned,
    tool_name=Named("{server}__{tool}", instead="-", most=64),
    environment=SDK,
    gates=gates(
        SwitchedOff(KEY),
        TOOL_GATES,
        _agents,
        _sandbox,
        Denied(("tools", "sandbox", "tools", "deny"), SERVER_TOOLS, "sandbox_denied"),
    ),
    doors=doors(
        Listed(
            "web_tools",
            "Its own web_search, web_fetch and x_search go past the policy and the log.",
            DENY,
            ("group:web",),
            (("*",), ("group:openclaw",), ("web_search", "web_fetch", "x_search")),
        ),
        Confined("shell", "Its shell reaches whatever this machine reaches.", DENY, ("group:runtime", "*")),
        Confined("browser", "Its browser reaches the network.", DENY, ("group:ui", "browser", "*")),
    ),
    grace_s=START_S,
    list_s=1.5,
    call_s=CALL_S,
    max_description=1200,
    after="A running gateway takes it by itself; sessions that are open keep their tools.",
    ways=Ways(
        expands=True,
        folder=("cwd", "workingDirectory"),
        drops="^(?:LD_|DYLD_|NODE_OPTIONS$|PYTHONPATH$|PYTHONSTARTUP$|BASH_FUNC_)",
    ),
    seen="run",
    binaries=("openclaw",),
    minds=("It checks its whole file: a key elsewhere that it does not know makes the gateway refuse it.",),
)
