"""The engines of the catalogue, each with its owner and its door. Only what `runtime` gives can change one."""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from sparkgate.engine_settings import EngineSettings
from sparkgate.engine_state import Status, status_of
from sparkgate.engines import ENGINES
from sparkgate.engines.spec import Engine
from sparkgate.machine.commands import Run, Spawn
from sparkgate.machine.memory import Held, Memory, available_gib, held, pressure, read_memory
from sparkgate.machine.origins import origin
from sparkgate.policy.guard import Guard
from sparkgate.policy.kill_switch import KillSwitch, is_loopback, kill_switch_of
from sparkgate.policy.local import LocalDoor, LocalDoorError
from sparkgate.routes import ANSWER_BYTES_MAX, RoutedModel, Whereabouts, read_routes
from sparkgate.runtimes import RUNTIMES
from sparkgate.runtimes.spec import Look, Place, Runtime

PROOF_S = 60.0
"""Longest wait for one token: the first request of some engines compiles."""
LOAD_REQUEST_S = 7200.0
"""Longest wait for the answer of a daemon that is told to load."""
LOG_LINES = 2000
KERNEL_LOG = ("journalctl", "-k", "-b", "-n", "200", "-o", "cat", "--no-pager")
KERNEL_LOG_S = 5.0
SHORTEST_SECRET_CHARS = 8


class Fleet:
    """The engines an operator has named; used in a `with` statement, which closes its doors.

    Args:
        catalogue: entries by name.
        state: the state folder.
        run, spawn: how owners are asked and processes started.
        guard: the connection guard of this process, None where it has none.
        off_box: origins that lie off this box although their address does not show it.
        switch: the kill switch; that of the state folder when left out.
    """

    def __init__(
        self,
        catalogue: Mapping[str, EngineSettings],
        state: Path,
        run: Run,
        spawn: Spawn,
        guard: Guard | None = None,
        off_box: Sequence[str] = (),
        switch: KillSwitch | None = None,
    ) -> None:
        self.catalogue, self._state = catalogue, state
        self.switch = switch or kill_switch_of(state)
        self._places: Whereabouts = dict.fromkeys(off_box, "off")
        self._run, self._spawn, self._guard = run, spawn, guard
        self._doors = ExitStack()
        self._open: dict[tuple[object, ...], LocalDoor] = {}
        self._opening = threading.Lock()
        self._runtimes: dict[str, Runtime] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._doors.close()

    def runtime(self, name: str) -> Runtime | None:
        """The owner of an engine; None for one that is only watched."""
        entry = self.catalogue[name]
        if name not in self._runtimes and entry.runtime:
            place = Place(
                name=name,
                entry=entry,
                run=self._run,
                spawn=self._spawn,
                state=self._state,
                door=self.door(name),
                patient_door=self.door(name, LOAD_REQUEST_S),
                beside=self._beside(entry),
            )
            self._runtimes[name] = RUNTIMES[entry.runtime](place)
        return self._runtimes.get(name)

    def _beside(self, entry: EngineSettings) -> frozenset[str]:
        """Models of the same daemon that may be loaded beside others."""
        same = (other for other in self.catalogue.values() if origin(other.url) == origin(entry.url))
        return frozenset(other.model for other in same if other.beside and other.model)

    def door(self, name: str, timeout_s: float | None = None, cap_bytes: int = 1_000_000) -> LocalDoor:
        """A door to one engine, the same each time; closed with the fleet."""
        entry = self.catalogue[name]
        headers = authorization(entry)
        key = (name, timeout_s or entry.timeout_s, cap_bytes, *headers.values())
        with self._opening:
            if key not in self._open:
                patience_s = timeout_s or entry.timeout_s
                door = LocalDoor([entry.url], patience_s, cap_bytes, self._guard, headers, self.switch)
                self._open[key] = self._doors.enter_context(door)
            return self._open[key]

    def look(self, name: str) -> Look | None:
        """What the owner of an engine says; None when it has none."""
        runtime = self.runtime(name)
        return runtime.look() if runtime else None

    def status(self, name: str, *, prove: bool = False, proof_s: float = PROOF_S) -> Status:
        """What the engine itself says, with `prove` after one token, for which it has `proof_s` seconds."""
        return status_of(name, self.catalogue[name], self.door(name), self.door(name, proof_s) if prove else None)

    def statuses(self) -> dict[str, Status]:
        """What every engine says of itself, asked at the same time."""
        with ThreadPoolExecutor(8) as pool:
            return dict(zip(self.catalogue, pool.map(self.status, self.catalogue), strict=True))

    def leaves(self, name: str, status: Status) -> bool:
        """Whether a prompt to this engine may leave the box: it is on another machine, or a router."""
        here = is_loopback(urlsplit(self.catalogue[name].url).hostname or "")
        return not here or status.front or self.kind(name).front

    def locked(self, name: str, status: Status) -> str:
        """Why no prompt may go to this engine now, "" when one may."""
        return self.switch.words if self.leaves(name, status) else ""

    def routes(self, name: str, engine: str) -> tuple[RoutedModel, ...] | None:
        """Where the router `name`, of the kind `engine`, sends requests; None when it does not tell."""
        url = self.catalogue[name].base
        door = self.door(name, cap_bytes=ANSWER_BYTES_MAX)
        try:
            return read_routes(lambda path: door.get(url + path), engine, self._places)
        except LocalDoorError:
            return None

    def finds(self, program: str) -> bool:
        """Whether a program can be started: by its path, or by the PATH of this process."""
        return shutil.which(program) is not None

    def kernel_log(self) -> list[str]:
        """What the kernel has printed lately, where this user may read it: it names the processes it has killed."""
        told = self._run(KERNEL_LOG, KERNEL_LOG_S)
        return told.stdout.splitlines() if told.ok else self._run(("dmesg",), KERNEL_LOG_S).stdout.splitlines()

    def available_gib(self) -> float | None:
        """Memory of the machine that is free now; cheap enough to be asked all the time."""
        return available_gib()

    def log(self, name: str, lines: int = LOG_LINES) -> list[str]:
        """The last lines an engine has printed, oldest first, without values that the catalogue hands to it."""
        runtime = self.runtime(name)
        words = self.catalogue[name].environment
        values = [value for word in words if len(value := word.partition("=")[2]) >= SHORTEST_SECRET_CHARS]
        found = list(runtime.log(lines)) if runtime else []
        return [_without(values, text) for text in found] if values else found

    def memory(self) -> Memory:
        return read_memory(self._run)

    def pressure(self) -> float | None:
        """Share of the last 10 s in which everything waited for memory, in percent."""
        return pressure()

    def held(self, look: Look | None, memory: Memory) -> Held:
        """What the processes of an engine hold."""
        return held(look.pids if look else (), memory)

    def kind(self, name: str) -> Engine:
        """What the catalogue says an engine is; the generic one when it says nothing."""
        return ENGINES[self.catalogue[name].engine or "openai"]


def authorization(entry: EngineSettings) -> dict[str, str]:
    """The header with the key of an engine; {} when it has none, or its file holds nothing that can be one."""
    if not entry.key_file:
        return {}
    try:
        key = Path(entry.key_file).expanduser().read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return {}
    return {"Authorization": f"Bearer {key}"} if key.isprintable() and " " not in key and key else {}


def _without(values: Sequence[str], text: str) -> str:
    for value in values:
        text = text.replace(value, "[withheld]")
    return text


def launch_digest(entry: EngineSettings) -> str:
    """Tells one way of starting an engine from another."""
    return hashlib.sha256(json.dumps(asdict(entry), sort_keys=True).encode()).hexdigest()[:16]
