"""An engine as a plain process: started detached, found again after a crash of ours, stopped with all it started.

What was started is written down before it is started, with a mark that all its children inherit; so a crash between
start and record loses nothing, and a child that left its session is found as well.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO

from sparkgate import paths
from sparkgate.machine.files import private_folder, write_private
from sparkgate.machine.listeners import listening_pids
from sparkgate.machine.origins import local_port
from sparkgate.machine.processes import (
    Process,
    all_end_within,
    birth,
    command_of,
    has_variable,
    members,
    signal_all,
    started_at_s,
    tree,
)
from sparkgate.runtimes.owner import step
from sparkgate.runtimes.spec import Look, Place, RuntimeFault

MARK = "SPARKGATE_LAUNCH"
KILL_PATIENCE_S = 10.0
KILL_ROUNDS = 3
_records = threading.Lock()


@dataclass(frozen=True, slots=True)
class Launch:
    """One start: `mark` is in the environment of all its processes; pid 0 until it is known, `stopped` by us."""

    mark: str = ""
    pid: int = 0
    birth: str = ""
    exit_code: int | None = None
    stopped: bool = False

    @property
    def leader(self) -> Process:
        return Process(self.pid, self.birth)


class ProcessRuntime:
    """Owns the processes that `entry.command` starts."""

    def __init__(self, place: Place) -> None:
        self._place = place
        folder = place.state / "engines"
        self._record, self._log = folder / f"{place.name}.json", folder / f"{place.name}.log"

    def look(self) -> Look:
        launch = self._launch()
        found = self._found(launch)
        base = Look("stopped", argv=self._place.entry.command, environment=self._environment())
        if found:
            pids, since_s = tuple(one.pid for one in found), started_at_s(found[0].pid)
            if self._is_headless(launch, found):
                detail = f"its main process {launch.pid} has ended, and processes of it are left"
                return replace(base, state="failed", pids=pids, exit_code=launch.exit_code, detail=detail)
            return replace(base, state="running", pids=pids, since_s=since_s)
        if launch.exit_code is not None and not launch.stopped:
            return replace(base, state="failed", exit_code=launch.exit_code)
        return base

    def start(self) -> None:
        if not self._place.entry.command:
            raise RuntimeFault("not_configured", f"engines.{self._place.name} needs a command to be started")
        before = self._launch()
        found = self._found(before)
        if found and not self._is_headless(before, found):
            return
        self._end(before, found, 0.0)
        launch = Launch(mark=f"{self._place.name}:{secrets.token_hex(8)}")
        self._write(launch)
        try:
            with self._new_log() as output:
                child = self._place.spawn(
                    self._place.entry.command,
                    self._environment() | {MARK: launch.mark},
                    str(Path(self._place.entry.folder or paths.home()).expanduser()),
                    output,
                )
        except OSError as error:
            raise RuntimeFault(
                "cannot_start", f"{self._place.entry.command[0]} cannot be started: {error.strerror}"
            ) from error
        launch = replace(launch, pid=child.pid, birth=birth(child.pid))
        self._write(launch)
        threading.Thread(
            target=self._reap, args=(child, launch), daemon=True, name=f"reaper-{self._place.name}"
        ).start()

    def stop(self, grace_s: float) -> None:
        with _records:
            launch = self._launch()
            self._write(replace(launch, stopped=True))
        self._end(launch, self._found(launch), grace_s)

    def _end(self, launch: Launch, found: list[Process], grace_s: float) -> None:
        """Ask processes to end, and kill those that have not after `grace_s` seconds. Raises RuntimeFault."""
        signal_all(found, signal.SIGTERM)
        all_end_within(found, grace_s)
        for _ in range(KILL_ROUNDS):
            left = [one for one in found if one.alive()] or self._found(launch)
            if not left:
                return
            signal_all(left, signal.SIGKILL)
            all_end_within(left, KILL_PATIENCE_S)
        raise RuntimeFault("not_stopped", f"process {left[0].pid} of {self._place.name} cannot be ended")

    def log(self, lines: int) -> Sequence[str]:
        try:
            with self._log.open(encoding="utf-8", errors="replace") as text:
                return [line.rstrip("\n") for line in deque(text, maxlen=lines)]
        except OSError:
            return []

    def steps(self) -> Sequence[str]:
        return [step(self._place.entry.command, self._place)]

    def _environment(self) -> dict[str, str]:
        given = dict(word.split("=", 1) for word in self._place.entry.environment)
        return {name: value for name, value in os.environ.items() if name != MARK} | given

    def _launch(self) -> Launch:
        try:
            return Launch(**json.loads(self._record.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return Launch()

    def _write(self, launch: Launch) -> None:
        try:
            private_folder(self._record.parent)
            write_private(self._record, json.dumps(asdict(launch)))
        except OSError as error:
            raise RuntimeFault("cannot_start", f"{self._record} cannot be written: {error.strerror}") from error

    def _found(self, launch: Launch) -> list[Process]:
        return (members(launch.leader, f"{MARK}={launch.mark}") if launch.mark else []) or self._adopted()

    def _is_headless(self, launch: Launch, found: list[Process]) -> bool:
        """Whether these are what a main process has left that did not end by itself, and none of them serves."""
        if not launch.pid or launch.exit_code == 0 or any(one == launch.leader for one in found):
            return False
        port = local_port(self._place.entry.url)
        return not (port and {one.pid for one in found} & set(listening_pids(port)))

    def _adopted(self) -> list[Process]:
        """What somebody started by hand with the command of the catalogue; not what we started for another entry."""
        port, command = local_port(self._place.entry.url), self._place.entry.command
        for pid in listening_pids(port) if port and command else ():
            if _is_same(command_of(pid), command) and not has_variable(pid, MARK):
                return tree(pid)
        return []

    def _new_log(self) -> IO[bytes]:
        if self._log.exists():
            self._log.replace(self._log.with_suffix(".log.1"))
        return os.fdopen(os.open(self._log, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600), "wb")

    def _reap(self, child: subprocess.Popen[bytes], launch: Launch) -> None:
        code = child.wait()
        with _records:
            now = self._launch()
            if now.mark == launch.mark:
                self._write(replace(now, exit_code=code if code >= 0 else 128 - code))


def _is_same(found: Sequence[str], command: Sequence[str]) -> bool:
    """Whether a process was started with `command`; a script stands behind its interpreter in its own words."""
    return any(
        words and Path(words[0]).name == Path(command[0]).name and words[1:] == tuple(command[1:])
        for words in (tuple(found), tuple(found[1:]))
    )
