"""Zed: `context_servers` in settings.json, JSON with comments (told by its documentation).

Its agent has profiles, each of which can show some servers only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sparkgate.clients.hosts.doors import SHELL, ByPerson, doors
from sparkgate.clients.hosts.filters import everything
from sparkgate.clients.hosts.gates import SwitchedOff, gates
from sparkgate.clients.hosts.host import Data, Gate, Host, Target, Where
from sparkgate.clients.hosts.names import PLAIN
from sparkgate.clients.hosts.places import dot_config, roaming
from sparkgate.clients.hosts.reading import at, table
from sparkgate.clients.hosts.shapes import Shape

KEY = ("context_servers",)
ENTRY = Shape(before={"source": "custom"})


def _targets(where: Where) -> list[Target]:
    folder = roaming(where) / "Zed" if where.system == "windows" else dot_config(where) / "zed"
    targets = [Target(folder / "settings.json", "jsonc", KEY, folder)]
    if where.project:
        own = where.project / ".zed"
        targets.append(Target(own / "settings.json", "jsonc", KEY, own, "project"))
    return targets


def _profiles(data: Data, names: Sequence[str]) -> Iterable[Gate]:
    """A profile without all servers shows the tools that it names."""
    for profile, settings in table(at(data, "agent", "profiles")).items():
        for name in names:
            named = table(at(settings, "context_servers", name, "tools"))
            if at(settings, "enable_all_context_servers") is False and True not in named.values():
                what = f"The profile {profile} shows no tool of {name}."
                yield Gate("profile", what, "switch its tools on in that profile", certain=False)


ZED = Host(
    name="zed",
    title="Zed",
    targets=_targets,
    entry=ENTRY,
    owned=ENTRY.owned,
    tool_name=PLAIN,
    environment=everything,
    gates=gates(SwitchedOff(KEY), _profiles),
    doors=doors(
        ByPerson(
            "web_tools",
            "Its own fetch and web_search go past the policy and the log.",
            "switch both off in each profile of its agent",
        ),
        SHELL,
    ),
    after="Zed takes it by itself.",
    seen="told",
    binaries=("zed",),
)
