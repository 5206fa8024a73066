"""Starting the gate from a pipe: one winner under a lock, everybody else waits. Standard library only."""

from __future__ import annotations

import fcntl
import os
import sys
import time
from typing import TYPE_CHECKING

from sparkgate import paths

if TYPE_CHECKING:
    import subprocess

KEPT_ENVIRONMENT = ("HOME", "USER", "LOGNAME", "PATH", "LANG", "TZ", "TMPDIR", "SPARKGATE_CONFIG")
"""What the gate gets of a host's environment, beside XDG_*: no proxy, no key, nothing a host may set by accident."""


SOCKET_BACK_S = 3.0
"""Longest wait for the socket of the machine's gate, which is away only while it is installed anew."""


def starter_of(config: str) -> Starter | Waiter:
    """What brings the gate that this process means."""
    return Waiter() if paths.means_system() else Starter(config)


class Waiter:
    """Waits for the gate of the machine, which systemd starts; this process never does.

    Attributes:
        patience_s: systemd keeps connections while a gate ends its calls (30 s at most) and the next one starts.
    """

    patience_s = 45.0

    def __init__(self) -> None:
        self._since: float | None = None

    def tick(self) -> str:
        """ "" while the socket may come back, else why it will not."""
        now = time.monotonic()
        if self._since is None:
            self._since = now
        return "" if now - self._since < SOCKET_BACK_S else "the gate of this machine does not listen"

    def release(self) -> None:
        self._since = None


class Starter:
    """Tries to become the one that starts the gate for `config`."""

    patience_s = 15.0

    def __init__(self, config: str) -> None:
        self.config = config
        self._lock: int | None = None
        self._child: subprocess.Popen[bytes] | None = None

    def tick(self) -> str:
        """Take one step; "" while there is hope, else the reason why no gate will come.

        The winner holds the lock until its gate is reachable or has failed.
        """
        if self._child is not None:
            return self._look_at_child()
        try:
            if self._lock is None and not self._win():
                return ""
            self._child = self._spawn()
        except OSError as error:
            self.release()
            return str(error)
        return ""

    def release(self) -> None:
        """Let others try: the gate is reachable, or this attempt is over."""
        if self._lock is not None:
            os.close(self._lock)
        self._lock = None
        if self._child is not None and self._child.poll() is not None:
            self._child = None

    def _win(self) -> bool:
        folder = paths.private_dir(paths.runtime_dir())
        lock = os.open(os.path.join(folder, f"{paths.gate_name(self.config)}.start"), os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return False
        self._lock = lock
        return True

    def _spawn(self) -> subprocess.Popen[bytes]:
        import subprocess

        return subprocess.Popen(
            [sys.executable, "-I", "-m", "sparkgate.gate", "--detach", "--config", self.config],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=gate_environment(),
            cwd="/",
            start_new_session=True,
        )

    def _look_at_child(self) -> str:
        """The launched process ends as soon as its gate listens (code 0) or has failed (its output says why)."""
        assert self._child is not None
        code = self._child.poll()
        if code is None:
            return ""
        output = self._child.stdout.read() if self._child.stdout else b""
        self._child = None
        return "" if code == 0 else output.decode("utf-8", "replace").strip() or f"it ended with code {code}"


def gate_environment() -> dict[str, str]:
    """The environment a gate is started with, from this process's own."""
    kept = {name: value for name, value in os.environ.items() if name in KEPT_ENVIRONMENT or name.startswith("XDG_")}
    if "PATH" in kept:  # what is found by way of the current folder is found elsewhere by the next who looks
        kept["PATH"] = os.pathsep.join(filter(os.path.isabs, kept["PATH"].split(os.pathsep)))
    return kept
