"""A detached process that can be found again later without being mistaken for another one.

A process id is used again once its process is gone, so the boot and the start time in clock ticks go with it
(`/proc/PID/stat`, field 22; Linux only).
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from sparkgate.embedded_files import EmbeddedError, open_private


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

    def stop(self, grace_s: float = 5.0) -> bool:
        """Ask it to end, kill its process group after `grace_s` seconds; False when it was gone already."""
        with _handle(self.pid) as handle:
            # The handle is taken before the look at the birth, so nobody else can get the id in between.
            if handle is None or not self.alive():
                return False
            signal.pidfd_send_signal(handle, signal.SIGTERM)
            if not _ended(handle, grace_s):
                os.killpg(self.pid, signal.SIGKILL)
                _ended(handle, grace_s)
            return True


def start(argv: Sequence[str], env: Mapping[str, str], folder: Path, log: Path) -> Process:
    """Start `argv` in `folder`, leader of its own session, output appended to `log`, with exactly `env`.

    Raises:
        EmbeddedError: the program is not there or may not be run.
    """
    try:
        with open_private(log, "a") as output:
            child = subprocess.Popen(
                argv,
                env=env,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                umask=0o077,
            )
    except OSError as error:
        raise EmbeddedError(f"{argv[0]} cannot be started: {error.strerror}") from error
    Thread(target=child.wait, daemon=True, name="searxng-reaper").start()
    return Process(child.pid, birth(child.pid))


def birth(pid: int) -> str:
    """Boot id and start time of a running process; empty when it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return "" if fields[0] in "ZX" else f"{boot}/{fields[19]}"


@contextmanager
def _handle(pid: int) -> Iterator[int | None]:
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        yield None
        return
    try:
        yield handle
    finally:
        os.close(handle)


def _ended(handle: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
