"""How an entry is written, as data: most hosts differ in the names of a few keys."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from sparkgate.clients.hosts.entry import Launch

CALL_S, START_S = 120, 30
"""What an entry asks a host to wait for a call and for a start; a call of ours answers in less than 20 s."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The entry of a launch.

    Attributes:
        before: keys that hosts write first, such as the transport.
        after: time-outs, tool filters and the like.
        arguments: key of the arguments; "" where they follow the command in one list.
        name: key that repeats the server's name; "" for none.
    """

    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)
    command: str = "command"
    arguments: str = "args"
    name: str = ""

    def __call__(self, launch: Launch) -> dict[str, Any]:
        named = {self.name: launch.server} if self.name else {}
        if self.arguments:
            program = {self.command: launch.command, self.arguments: list(launch.arguments)}
        else:
            program = {self.command: [launch.command, *launch.arguments]}
        return deepcopy({**self.before, **named, **program, **self.after})

    @property
    def owned(self) -> frozenset[str]:
        """All of it: a value that a user has changed since is told by its hash, and stays."""
        return frozenset(self(Launch("", "", ())))


PLAIN = Shape()
