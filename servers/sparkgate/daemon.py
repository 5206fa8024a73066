"""Being the one resident process: the lock, the socket, and letting go of the host that started us."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import sys
from typing import Any

from sparkgate import paths, version

ALREADY_RUNNING = 3
BACKLOG = 128
FIRST_FD = 3
"""SD_LISTEN_FDS_START of sd_listen_fds(3)."""
LOG_MAX_BYTES = 1_000_000
# Since 3.13 asyncio would remove the file by itself, under the name it was bound with.
KEEP_SOCKET_FILE: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}


class CannotStart(Exception):
    """No gate can be had; the message says why and what to do. `code` is the exit code."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


def take_lock(config: str) -> int:
    """Become the gate of this configuration; the lock lasts as long as the returned descriptor.

    Raises:
        CannotStart: another gate is running, or the folder cannot be used.
    """
    if paths.means_system() and os.getuid() != paths.system_uid():
        raise CannotStart(f"the gate of the machine runs as its account {paths.SYSTEM.account} and as nobody else")
    try:
        folder = paths.private_dir(paths.lock_dir())
        lock = os.open(os.path.join(folder, f"{paths.gate_name(config)}.lock"), os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as error:
        raise CannotStart(str(error)) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(lock)
        raise CannotStart("a gate is running already", ALREADY_RUNNING) from error
    os.ftruncate(lock, 0)
    os.write(lock, str(os.getpid()).encode())
    return lock


def last_gate(config: str) -> int | None:
    """Process id of the gate that last held the lock, if it still runs."""
    try:
        with open(os.path.join(paths.lock_dir(), f"{paths.gate_name(config)}.lock")) as lock:
            pid = int(lock.read())
        with open(f"/proc/{pid}/cmdline", "rb") as command:
            return pid if b"\0sparkgate.gate\0" in b"\0" + command.read() else None
    except (OSError, ValueError):
        return None


def inherited(path: str) -> socket.socket | None:
    """The listening socket that systemd holds for this process (sd_listen_fds(3)); None when it holds none.

    Raises:
        CannotStart: what it handed over is not the socket of this gate.
    """
    count, of = os.environ.pop("LISTEN_FDS", ""), os.environ.pop("LISTEN_PID", "")
    os.environ.pop("LISTEN_FDNAMES", None)
    if not count or of != str(os.getpid()):
        return None
    refusal = CannotStart(f"systemd must hand over the listening socket {path} and nothing else")
    try:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=FIRST_FD)
    except OSError as error:
        raise refusal from error
    listens = listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    if count != "1" or not listens or listener.getsockname() != path:
        listener.close()
        raise refusal
    listener.set_inheritable(False)
    listener.setblocking(False)
    return listener


def listen(path: str) -> socket.socket:
    """Bind the socket (0600; 0660 for the machine's gate). Only the holder of the lock may, so one in the way is stale.

    Raises:
        CannotStart: what lies at `path` is not a socket of ours, or the path cannot be used.
    """
    folder = _open_folder(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        remove_stale(path)
        listener.bind(paths.short_socket_path(path, folder))
        if paths.means_system():
            os.chown(path, -1, os.fstat(folder).st_gid)
            os.chmod(path, 0o660)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise CannotStart(f"cannot listen at {path}: {error.strerror}") from error
    except CannotStart:
        listener.close()
        raise
    finally:
        os.umask(mask)
        os.close(folder)
    listener.setblocking(False)
    return listener


def _open_folder(path: str) -> int:
    """The folder of a socket, which nobody else can put another in the place of."""
    place = os.path.dirname(path)
    try:
        folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        way_out = "; `sparkgate gate install --system` makes it" if paths.means_system() else ""
        raise CannotStart(f"{place} cannot be used: {error.strerror}{way_out}") from error
    found = os.fstat(folder)
    if found.st_uid not in (paths.ROOT, os.getuid()) or found.st_mode & 0o022:
        os.close(folder)
        raise CannotStart(f"{place} can be written by others; `chown root {place}; chmod 755 {place}` closes it")
    return folder


def remove_stale(path: str) -> None:
    """Remove a socket that an earlier gate left behind.

    Raises:
        CannotStart: it is something else, or somebody else's.
    """
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.getuid():
        raise CannotStart(f"{path} is not a socket of yours; move it away")
    os.unlink(path)


def installed_version() -> str:
    """The version that a gate would have which is started now: an upgrade exchanges files below a running one."""
    try:
        with open(version.__file__, encoding="utf-8") as file:
            return file.read().partition('__version__ = "')[2].partition('"')[0]
    except OSError:
        return version.__version__


class Launcher:
    """Tells the process that started us how it went; a gate in the foreground has nobody to tell."""

    def __init__(self, pipe: int | None = None) -> None:
        self._pipe = pipe

    def ready(self) -> None:
        """The gate listens."""
        self._tell(b"\n")

    def failed(self, error: CannotStart) -> None:
        """No gate; to the launcher, one that runs already is as good as a new one."""
        if self._pipe is None:
            sys.stderr.write(f"{error}\n")
        self._tell(b"\n" if error.code == ALREADY_RUNNING else f"{error}\n".encode())

    def _tell(self, line: bytes) -> None:
        if self._pipe is not None:
            os.write(self._pipe, line)
            os.close(self._pipe)
        self._pipe = None


def detach(log_path: str) -> Launcher:
    """Go on in a grandchild that no host owns, with its output in the log.

    In the process that was started this does not return: it waits until the gate listens or has failed, prints
    the reason of a failure, and ends with 0 or 1.
    """
    outcome, tell = os.pipe()
    if os.fork():
        os.close(tell)
        _wait_for(outcome)
    os.close(outcome)
    os.setsid()
    if os.fork():
        os._exit(0)
    os.umask(0o077)
    os.makedirs(os.path.dirname(log_path), exist_ok=True)
    put_aside(log_path)
    output = os.open(log_path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    return Launcher(tell)


def put_aside(log_path: str) -> None:
    """Keep one earlier log when this one has grown long."""
    if os.path.exists(log_path) and os.path.getsize(log_path) > LOG_MAX_BYTES:
        os.replace(log_path, f"{log_path}.1")


def _wait_for(outcome: int) -> None:
    with os.fdopen(outcome, "rb") as told:
        reason = told.read()
    if reason.strip():
        sys.stdout.buffer.write(reason)
        sys.stdout.flush()
    os._exit(0 if reason == b"\n" else 1)
