"""Codex CLI: `[mcp_servers.NAME]` in config.toml (run as 0.171).

A server that is not `required` and has no tools within 1 s is left out of the turn without a word. One bad table of a
server stops Codex altogether. It passes on a handful of variables and those that name certificates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sparkgate.clients.hosts.doors import Confined, Switched, doors
from sparkgate.clients.hosts.filters import Kept, names
from sparkgate.clients.hosts.gates import SwitchedOff, gates
from sparkgate.clients.hosts.host import Data, Gate, Host, Target, Ways, Where
from sparkgate.clients.hosts.names import Named
from sparkgate.clients.hosts.places import moved
from sparkgate.clients.hosts.reading import at
from sparkgate.clients.hosts.shapes import CALL_S, START_S, Shape

KEY = ("mcp_servers",)
GRACE_S = 1.0
ENTRY = Shape(after={"startup_timeout_sec": START_S, "tool_timeout_sec": CALL_S})
FILTER = Kept(
    names(
        "HOME LANG LC_ALL LOGNAME PATH SHELL TERM TMPDIR TZ USER CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS REQUESTS_CA_BUNDLE "
        "SSL_CERT_DIR SSL_CERT_FILE"
    ),
    insensitive=names("APPDATA COMSPEC LOCALAPPDATA PATHEXT SYSTEMDRIVE SYSTEMROOT TEMP TMP USERPROFILE"),
)


def _targets(where: Where) -> list[Target]:
    folder = moved(where, "CODEX_HOME", where.home / ".codex")
    targets = [Target(folder / "config.toml", "toml", KEY, folder)]
    if where.project:
        own = where.project / ".codex"
        targets.append(Target(own / "config.toml", "toml", KEY, own, "project"))
    return targets


def _optional(data: Data, servers: Sequence[str]) -> Iterable[Gate]:
    for name in servers:
        entry = at(data, *KEY, name)
        if isinstance(entry, dict) and entry.get("required") is not True:
            what = (
                f"{name} is not required: a turn that begins within {GRACE_S:g} s of its start goes without its tools."
            )
            yield Gate("not_required", what, f"set `mcp_servers.{name}.required` to true", certain=False)


CODEX = Host(
    name="codex",
    title="Codex CLI",
    targets=_targets,
    entry=ENTRY,
    owned=ENTRY.owned,
    tool_name=Named("mcp__{server}__{tool}", allowed="A-Za-z0-9_"),
    environment=FILTER,
    gates=gates(SwitchedOff(KEY), _optional),
    doors=doors(
        Switched("web_search", "Its own web search runs at the model's provider.", ("web_search",), shut="disabled"),
        Confined("shell", "Its shell reaches the network wherever its sandbox lets it."),
    ),
    protocol="2025-06-18",
    grace_s=GRACE_S,
    call_s=CALL_S,
    after="New sessions have it.",
    ways=Ways(folder=("cwd",)),
    seen="run",
    binaries=("codex",),
    minds=("With `required = true` Codex waits for the server, and does not start without it.",),
)
