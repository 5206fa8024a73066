"""What a host program is to us, as data: where its servers stand, what our entry says there, and what hides it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from sparkgate.clients.hosts.entry import Launch

Format = Literal["json", "jsonc", "json5", "yaml", "toml"]
System = Literal["linux", "darwin", "windows"]
How = Literal["file", "command", "print"]
Data = Mapping[str, Any]
"""A configuration file as it parses."""


@dataclass(frozen=True, slots=True)
class Where:
    """The machine as a host finds it; tests make their own."""

    home: Path
    environment: Mapping[str, str]
    system: System = "linux"
    project: Path | None = None
    """A folder of work, for hosts that also read a file there."""


@dataclass(frozen=True, slots=True)
class Target:
    """One configuration file of a host.

    Attributes:
        file: where it is or would be; it may be missing where its folder is there.
        key: names that lead to the table of servers in it, from the outside in; empty where it has none.
        folder: of the host; one that is missing means that the host is not installed, and it is never made.
        profile: name of a profile or scope; "" for the usual one.
        how: to change this one; "" as its host says.
    """

    file: Path
    format: Format
    key: tuple[str, ...]
    folder: Path
    profile: str = ""
    how: How | Literal[""] = ""


@dataclass(frozen=True, slots=True)
class Change:
    """One value elsewhere in the same file."""

    key: tuple[str, ...]
    value: Any


@dataclass(frozen=True, slots=True)
class Gate:
    """Something in the host's configuration that keeps our tools from its model.

    Attributes:
        certain: False where it does so only at times.
    """

    code: str
    what: str
    way_out: str
    certain: bool = True


@dataclass(frozen=True, slots=True)
class Door:
    """A way of the host's own to the network that goes past our policy.

    Attributes:
        changes: what closes it in the same file; empty where only a person or confinement can.
        confine: nothing but confinement of the whole host closes it, as with a shell.
    """

    code: str
    what: str
    way_out: str
    changes: tuple[Change, ...] = ()
    confine: bool = False


@dataclass(frozen=True, slots=True)
class Commands:
    """The host's own program for its list of servers, as argument vectors."""

    add: Callable[[Launch], tuple[str, ...]]
    remove: Callable[[str], tuple[str, ...]]
    show: Callable[[str], tuple[str, ...]]


def nothing(*_: object) -> Sequence[Any]:
    """No gate, no door that is known."""
    return ()


@dataclass(frozen=True, slots=True)
class Beside:
    """Another file of a host, without our entry, that hides our tools or holds its doors. Changes go to that file."""

    targets: Callable[[Where], Sequence[Target]]
    gates: Callable[[Data, Sequence[str]], Sequence[Gate]] = nothing
    doors: Callable[[Data], Sequence[Door]] = nothing


@dataclass(frozen=True, slots=True)
class Ways:
    """How a host starts what an entry says, as far as hosts differ.

    Attributes:
        expands: `${NAME}` in texts.
        folder: keys of the entry that name the working directory.
        drops: pattern of variables that it does not set even when the entry says so.
        finds_beside: the folder of the command goes to the front of PATH, and `~` in the command is the home folder.
        adds: variables of its own.
    """

    expands: bool = False
    folder: tuple[str, ...] = ()
    drops: str = ""
    finds_beside: bool = False
    adds: tuple[tuple[str, str], ...] = ()


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
        opens: requests that it begins with, one after the other; empty for the one that `protocol` tells.
        grace_s: how long it waits for tools before its model goes on without them; None when it waits.
        list_s: how long it waits for the answer to tools/list alone; None when no longer is known than for a call.
        call_s: how long it waits for one call; None when for ever.
        max_tool_name: characters of a whole tool name; None when nothing is known.
        max_description: characters of what a tool says of itself; None when nothing is known.
        after: what to do so that it takes a new entry.
        how: whether we edit its file, tell a command of its own, or print only, with `why` we do not edit.
        seen: how we know all this: "run" it, "read" its code, or "told" by its documentation and reports.
        around: environment of the host → what hides our tools there.
        beside: its other files that count.
        commands: its own program, where `how` is "command".
        minds: what a person should know before, one sentence each.
        instead: text to print for a host that cannot start our servers.
        ways: how it starts what an entry says.
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
    opens: tuple[str, ...] = ()
    grace_s: float | None = None
    list_s: float | None = None
    call_s: float | None = 60.0
    max_tool_name: int | None = 64
    max_description: int | None = None
    how: How = "file"
    why: str = ""
    binaries: tuple[str, ...] = field(default=())
    around: Callable[[Mapping[str, str]], Sequence[Gate]] = nothing
    beside: tuple[Beside, ...] = ()
    commands: Commands | None = None
    minds: tuple[str, ...] = ()
    instead: str = ""
    ways: Ways = Ways()
