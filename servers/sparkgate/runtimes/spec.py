"""What a runtime is: the owner of an engine's process, which alone starts and stops it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from sparkgate.engine_settings import EngineSettings
from sparkgate.machine.commands import Run, Spawn
from sparkgate.policy.local import LocalDoor

Owned = Literal["stopped", "starting", "running", "failed", "unknown"]


class RuntimeFault(Exception):
    """The owner could not do what it was told. `code` is stable; the message says what to do, and holds no secret."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Look:
    """What the owner of a process says of it now; None or empty for what it does not tell.

    Attributes:
        pids: processes on this machine, the main one first.
        since_s: start of the main process, in seconds since the epoch.
        exit_code: how it ended; above 128 it was a signal.
        killed_for_memory: the owner says that the kernel or a limit ended it for its memory.
        restarts: how often the owner has started it anew by itself.
        revived_by: who will start it again after a stop, in words ("restart policy always", "Argo CD"); "" nobody.
        environment: variables it was started with. Never printed: they may hold keys.
        detail: one line in the owner's own words.
        traits: further facts that doctor rules ask for, by name ("shm_size": "64M", "strategy": "Recreate").
    """

    state: Owned
    pids: tuple[int, ...] = ()
    since_s: float | None = None
    exit_code: int | None = None
    killed_for_memory: bool | None = None
    restarts: int | None = None
    revived_by: str = ""
    image: str = ""
    argv: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    detail: str = ""
    traits: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Place:
    """What a runtime is made from: one engine of the catalogue and the ways to reach it.

    Attributes:
        run: runs a command of the owner (docker, systemctl, …) to its end.
        spawn: starts a process that goes on by itself.
        state: the state folder of sparkgate.
        door: reaches the engine's URL and nothing else.
        beside: models of a daemon that may stay loaded beside another.
        patient_door: the same, with the patience that a load needs; None: `door` has it.
    """

    name: str
    entry: EngineSettings
    run: Run
    spawn: Spawn
    state: Path
    door: LocalDoor
    patient_door: LocalDoor | None = None
    beside: frozenset[str] = frozenset()


class Runtime(Protocol):
    """One engine under its owner. Every method may be called again: what is done already is not done twice."""

    def look(self) -> Look:
        """The state of the process. Never raises for a process that is gone or an owner that is absent."""
        ...

    def start(self) -> None:
        """Begin to start it; returns before it is ready. Raises RuntimeFault."""
        ...

    def stop(self, grace_s: float) -> None:
        """Stop it through its owner, by force after `grace_s` seconds; returns when the owner says it is gone.

        Raises RuntimeFault.
        """
        ...

    def log(self, lines: int) -> Sequence[str]:
        """The last lines it has printed, oldest first, also those of a run that has crashed; [] when there are none."""
        ...

    def steps(self) -> Sequence[str]:
        """What `start` would run, one line a command, for a plan that a person reads."""
        ...
