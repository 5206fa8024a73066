"""Processes of this machine, told apart from later ones with the same id (Linux, `/proc`).

A process id is used again once its process is gone, so the boot and the start time in clock ticks go with it
(`/proc/PID/stat`, field 22).
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Process:
    """A process id with the `birth` that tells it from a later process of the same id."""

    pid: int
    birth: str

    def alive(self) -> bool:
        """Whether this very process runs; a zombie does not."""
        return bool(self.birth) and birth(self.pid) == self.birth

    def ends_within(self, seconds: float) -> bool:
        """Wait up to `seconds` for the end; True when it has ended."""
        with _handle(self.pid) as handle:
            return handle is None or not self.alive() or _ended(handle, seconds)

    def signal(self, number: int) -> bool:
        """Send a signal to this very process; False when it is gone, or another user's."""
        with _handle(self.pid) as handle:
            # The handle is taken before the look at the birth, so nobody else can get the id in between.
            if handle is None or not self.alive():
                return False
            try:
                signal.pidfd_send_signal(handle, number)
            except (PermissionError, ProcessLookupError):
                return False
            return True

    def stop(self, grace_s: float = 5.0) -> bool:
        """Ask it to end, kill its process group after `grace_s` seconds; False when it was gone already."""
        if not self.signal(signal.SIGTERM):
            return False
        if not self.ends_within(grace_s) and self.alive():
            os.killpg(self.pid, signal.SIGKILL)
            self.ends_within(grace_s)
        return True


def process(pid: int) -> Process:
    """The process that has this id now; one that is not alive when there is none."""
    return Process(pid, birth(pid))


def birth(pid: int) -> str:
    """Boot id and start time of a running process; empty when it is gone or a zombie."""
    fields = _stat(pid)
    return "" if not fields or fields[0] in "ZX" else f"{_boot()}/{fields[19]}"


def started_at_s(pid: int) -> float | None:
    """Start of a process in seconds since the epoch; None when it is gone."""
    fields = _stat(pid)
    if not fields:
        return None
    uptime_s = float((PROC / "uptime").read_text().split()[0])
    return time.time() - uptime_s + int(fields[19]) / os.sysconf("SC_CLK_TCK")


def command_of(pid: int) -> tuple[str, ...]:
    """The words a process was started with; () when it is gone or not to be seen."""
    try:
        data = (PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return ()
    return tuple(os.fsdecode(word) for word in data.rstrip(b"\0").split(b"\0")) if data else ()


def members(leader: Process, mark: str) -> list[Process]:
    """Running processes of the session that `leader` began, and those with `mark` (NAME=VALUE) in their environment.

    The kernel gives a session's id to no new process while one of the session lives, so a foreign process of that
    id means that the session is over.
    """
    session_is_ours = leader.pid > 0 and (leader.alive() or not birth(leader.pid))
    wanted = os.fsencode(mark)
    found = []
    for pid in _pids():
        fields = _stat(pid)
        if not fields or fields[0] in "ZX":
            continue
        if (session_is_ours and fields[3] == str(leader.pid)) or wanted in _environment(pid):
            found.append(Process(pid, f"{_boot()}/{fields[19]}"))
    return sorted(found, key=lambda one: one.pid != leader.pid)


def has_variable(pid: int, name: str) -> bool:
    """Whether a process was started with an environment variable of this name; False when that is not to be seen."""
    return any(word.startswith(os.fsencode(f"{name}=")) for word in _environment(pid))


def tree(pid: int) -> list[Process]:
    """A running process and all that descend from it, itself first."""
    parents = {one: fields[1] for one in _pids() if (fields := _stat(one)) and fields[0] not in "ZX"}
    found = [pid] if pid in parents else []
    for parent in found:
        found += [one for one, of in parents.items() if of == str(parent)]
    return [process(one) for one in found]


def signal_all(found: Iterable[Process], number: int) -> None:
    for one in found:
        one.signal(number)


def all_end_within(found: Iterable[Process], seconds: float) -> bool:
    """Wait up to `seconds` in all for the end of every one of them."""
    deadline = time.monotonic() + seconds
    return all([one.ends_within(max(0.0, deadline - time.monotonic())) for one in found])


def _pids() -> Iterator[int]:
    return (int(entry.name) for entry in PROC.iterdir() if entry.name.isdecimal())


def _stat(pid: int) -> list[str]:
    """`/proc/PID/stat` from its third field on; [] when there is no such process."""
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _environment(pid: int) -> list[bytes]:
    try:
        return (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _boot() -> str:
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


@contextmanager
def _handle(pid: int) -> Iterator[int | None]:
    try:
        handle = os.pidfd_open(pid) if pid > 0 else None
    except OSError:
        handle = None
    try:
        yield handle
    finally:
        if handle is not None:
            os.close(handle)


def _ended(handle: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
