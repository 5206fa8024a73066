"""OpenCode: `mcp` in opencode.json or opencode.jsonc (run as 1.18.33): the command is one list, the environment whole.

A model is shown the text of an answer only, and nothing of a single line that is huge.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from sparkgate.clients.hosts.doors import SHELL, Switched, doors
from sparkgate.clients.hosts.filters import everything
from sparkgate.clients.hosts.gates import SwitchedOff, gates
from sparkgate.clients.hosts.host import Data, Gate, Host, Target, Where
from sparkgate.clients.hosts.names import Named
from sparkgate.clients.hosts.places import dot_config, moved
from sparkgate.clients.hosts.reading import at, table
from sparkgate.clients.hosts.shapes import CALL_S, Shape

KEY = ("mcp",)
ENTRY = Shape(before={"type": "local"}, after={"timeout": CALL_S * 1000}, arguments="")
HIDING = (("permission", "deny"), ("tools", False))
FILES = ("opencode.json", "opencode.jsonc")


def _targets(where: Where) -> list[Target]:
    """The user's file, whichever of the two names it has, and the one that OPENCODE_CONFIG adds to it."""
    folder = dot_config(where) / "opencode"
    there = _named(folder)
    files = {there: "", moved(where, "OPENCODE_CONFIG", there): "OPENCODE_CONFIG"} | {there: ""}
    if where.project:
        files[_named(where.project)] = "project"
    return [Target(file, "jsonc", KEY, file.parent, profile) for file, profile in files.items()]


def _named(folder: Path) -> Path:
    """The file in a folder by the name that it has there."""
    return next((folder / name for name in FILES if (folder / name).exists()), folder / FILES[0])


def _permissions(data: Data, names: Sequence[str]) -> Iterable[Gate]:
    """Patterns of tool names that are denied, or in the older table switched off."""
    denied = [(key, word) for key, no in HIDING for word, value in table(at(data, key)).items() if value == no]
    for name in names:
        for key, word in denied:
            if fnmatchcase(f"{name}_any", str(word)):
                yield Gate("denied", f"`{key}` hides {name} by {word!r}.", f"remove {word!r} from `{key}`")


OPENCODE = Host(
    name="opencode",
    title="OpenCode",
    targets=_targets,
    entry=ENTRY,
    owned=ENTRY.owned,
    tool_name=Named("{server}_{tool}"),
    environment=everything,
    gates=gates(SwitchedOff(KEY), _permissions),
    doors=doors(
        Switched("webfetch", "Its own webfetch goes past the policy and the log.", ("permission", "webfetch"), "deny"),
        Switched(
            "websearch", "Its own websearch goes past the policy and the log.", ("permission", "websearch"), "deny"
        ),
        SHELL,
    ),
    call_s=CALL_S,
    after="Start OpenCode again.",
    seen="run",
    binaries=("opencode",),
)
