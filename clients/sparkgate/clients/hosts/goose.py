"""Goose: `extensions` in config.yaml (told by its documentation); time-outs are in seconds."""

from __future__ import annotations

from pathlib import Path

from sparkgate.clients.hosts.doors import Confined, Switched, doors
from sparkgate.clients.hosts.filters import everything
from sparkgate.clients.hosts.gates import SwitchedOff, gates
from sparkgate.clients.hosts.host import Host, Target, Where
from sparkgate.clients.hosts.names import Named
from sparkgate.clients.hosts.places import dot_config, moved, roaming
from sparkgate.clients.hosts.shapes import CALL_S, Shape

KEY = ("extensions",)
ENTRY = Shape(
    before={"enabled": True, "type": "stdio"},
    name="name",
    command="cmd",
    after={"timeout": CALL_S, "description": "A server of sparkgate"},
)


def _folder(where: Where) -> Path:
    windows = where.system == "windows"
    usual = roaming(where) / "Block" / "goose" / "config" if windows else dot_config(where) / "goose"
    root = moved(where, "GOOSE_PATH_ROOT", usual)
    return root if root == usual else root / "config"


def _targets(where: Where) -> list[Target]:
    folder = _folder(where)
    return [Target(folder / "config.yaml", "yaml", KEY, folder)]


GOOSE = Host(
    name="goose",
    title="Goose",
    targets=_targets,
    entry=ENTRY,
    owned=ENTRY.owned,
    tool_name=Named("{server}__{tool}"),
    environment=everything,
    gates=gates(SwitchedOff(KEY)),
    doors=doors(
        Switched(
            "computercontroller",
            "Its extension computercontroller fetches pages past the policy and the log.",
            ("extensions", "computercontroller", "enabled"),
            shut=False,
            only_if_there=True,
        ),
        Confined("shell", "Its extension developer is a shell.", ("extensions", "developer", "enabled")),
    ),
    call_s=CALL_S,
    after="New sessions have it.",
    seen="told",
    binaries=("goose",),
)
