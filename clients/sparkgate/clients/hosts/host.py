"""What a host program is to us, as data: where its servers stand, what our entry says there, and what hides it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from sparkgate.clients.hosts.entry import Launch

Format = Literal["json", "jsonc", "json5", "yaml", "toml"]
System = Literal["linux", "darwin", "windows"]
Data = Mapping[str, Any]
"""A configuration file as it parses."""


@dataclass(frozen=True, slots=True)
class Where:
    """The machine as a host finds it; tests make their own."""

    home: Path
    environment: Mapping[str, str]
    system: System = "linux"


@dataclass(frozen=True, slots=True)
class Target:
    """One configuration file of a host.

    Attributes:
        file: where it is or would be; it may be missing where its folder is there.
        key: names that lead to the table of servers in it, from the outside in.
        folder: of the host; one that is missing means that the host is not installed, and it is never made.
        profile: name of a profile or scope; "" for the usual one.
    """

    file: Path
    format: Format
    key: tuple[str, ...]
    folder: Path
    profile: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """One value elsewhere in the same file."""

    key: tuple[str, ...]
    value: Any


@dataclass(frozen=True, slots=True)
class Gate:
    """Something in the host's configuration that keeps our tools from its model."""

    code: str
    what: str
    way_out: str


@dataclass(frozen=True, slots=True)
class Door:
    """A way of the host's own to the network that goes past our policy.

    Attributes:
        changes: what closes it in the same file; empty where only a person or confinement can.
    """

    code: str
    what: str
    way_out: str
    changes: tuple[Change, ...] = ()


def nothing(*_: object) -> Sequence[Any]:
    """No gate, no door that is known."""
    return ()


@dataclass(frozen=True, slots=True)
class Host:
    """One host program.

    Attributes:
        targets: its configuration files on a machine, the usual one first.
        entry: what stands under the name of a server in the table; plain JSON values.
        owned: keys of the entry that are ours to update; whatever else a user adds there stays.
        tool_name: how a tool is named to its model: (server, tool) → name.
        gates: (parsed file, names of our servers) → what hides them.
        doors: parsed file → its own ways to the network that are open in it.
        environment: whole environment → the part that a server is started with.
        protocol: revision of MCP that it speaks at initialize; "" when it begins with server/discover.
        grace_s: how long it waits for tools before its model goes on without them; None when it waits.
        call_s: how long it waits for one call; None when for ever.
        max_tool_name: characters of a whole tool name; None when nothing is known.
        after: what to do so that it takes a new entry.
        how: whether we edit its file, tell a command of its own, or print only, with `why` we do not edit.
        seen: how we know all this: "run" or "read".
    """

    name: str
    title: str
    targets: Callable[[Where], Sequence[Target]]
    entry: Callable[[Launch], dict[str, Any]]
    owned: frozenset[str]
    tool_name: Callable[[str, str], str]
    environment: Callable[[Mapping[str, str]], dict[str, str]]
    after: str
    seen: str
    gates: Callable[[Data, Sequence[str]], Sequence[Gate]] = nothing
    doors: Callable[[Data], Sequence[Door]] = nothing
    protocol: str = "2025-11-25"
    grace_s: float | None = None
    call_s: float | None = 60.0
    max_tool_name: int | None = 64
    how: Literal["file", "command", "print"] = "file"
    why: str = ""
    binaries: tuple[str, ...] = field(default=())
