"""The gate: the one process with the network, the policy and the log. One per configuration, under a lock."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import stat
import sys
import time
from typing import TYPE_CHECKING, Any

from sparkgate import paths
from sparkgate.version import __version__

if TYPE_CHECKING:
    import asyncio

    from sparkgate.services import Services
    from sparkgate.session import Hello, Session

ALREADY_RUNNING = 3
WATCH_S = 1.0
HELLO_TIMEOUT_S = 5.0


class CannotStart(Exception):
    """No gate can be had; the message says why and what to do. `code` is the exit code."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


# -- the lock and the socket


def take_lock(config: str) -> int:
    """Become the gate of this configuration; the lock lasts as long as the returned descriptor.

    Raises:
        CannotStart: another gate is running, or the folder cannot be used.
    """
    try:
        folder = paths.private_dir(paths.runtime_dir())
        lock = os.open(os.path.join(folder, f"{paths.gate_name(config)}.lock"), os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as error:
        raise CannotStart(str(error)) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(lock)
        raise CannotStart("a gate is running already", ALREADY_RUNNING) from error
    return lock


def listen(path: str) -> socket.socket:
    """Bind the socket (0600). Only the holder of the lock may call this, so a file in the way is stale.

    Raises:
        CannotStart: what lies at `path` is not a socket of ours.
    """
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        remove_stale(path)
        listener.bind(paths.short_socket_path(path, folder))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise CannotStart(f"cannot listen at {path}: {error.strerror}") from error
    finally:
        os.umask(mask)
        os.close(folder)
    listener.setblocking(False)
    return listener


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


# -- serving


class Gate:
    """Accepts connections and lives while there is something to live for.

    Args:
        config: absolute path of config.toml.
        services: what the toolsets need.
        lock: descriptor from `take_lock`; closed when the gate retires, so that a successor can start.
        idle_s: seconds without session and job after which it ends.
    """

    def __init__(self, config: str, services: Services, lock: int, idle_s: float) -> None:
        self.config, self.services, self.idle_s = config, services, idle_s
        self.lock: int | None = lock
        self.path = paths.socket_path(config)
        self.started_at = time.time()
        self.sessions: set[Session] = set()
        self.jobs: set[str] = set()
        self.retiring = False
        self._quiet_since = time.monotonic()
        self._listener: asyncio.Server | None = None
        self._inode = 0

    async def run(self, listener: socket.socket) -> None:
        """Serve until told to end, or idle for `idle_s`."""
        import asyncio

        self._inode = os.stat(self.path).st_ino
        self._listener = await asyncio.start_unix_server(self._connected, sock=listener)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self.retire)
        while not self._may_end():
            await asyncio.sleep(WATCH_S if not self.retiring else 0.05)
            self._watch()

    def _may_end(self) -> bool:
        return self.retiring and not self.sessions and not self.jobs

    def _watch(self) -> None:
        if self.sessions or self.jobs:
            self._quiet_since = time.monotonic()
        if time.monotonic() - self._quiet_since > self.idle_s or not self._still_reachable():
            self.retire()

    def _still_reachable(self) -> bool:
        try:
            return os.stat(self.path).st_ino == self._inode
        except OSError:
            return False

    def retire(self) -> None:
        """Stop listening and let a successor start; running calls and jobs end first, then this process."""
        import asyncio

        if self.retiring:
            return
        self.retiring = True
        if self._still_reachable():
            os.unlink(self.path)
        if self._listener:
            self._listener.close()
        if self.lock is not None:
            os.close(self.lock)
        self.lock = None
        self._closing = [asyncio.ensure_future(session.close_when_quiet()) for session in self.sessions]

    def status(self) -> dict[str, Any]:
        """What `sparkgate gate status --json` prints."""
        return {
            "running": True,
            "pid": os.getpid(),
            "version": __version__,
            "sessions": len(self.sessions),
            "calls": sum(session.calls for session in self.sessions),
            "jobs": len(self.jobs),
            "uptime_s": round(time.time() - self.started_at, 1),
            "socket": self.path,
            "config": self.config,
            "log": paths.log_path(self.config),
        }

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from sparkgate import log

        try:
            await self._greet(reader, writer)
        except Exception as error:
            log.error("session_fault", **log.describe(error))
        finally:
            writer.close()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        import asyncio

        from sparkgate.session import BadHello, peer_of, read_first_line, read_hello

        pid, uid = peer_of(writer)
        if uid != os.getuid():
            await _say(writer, gate="refused", reason="this gate belongs to another user")
            return
        try:
            async with asyncio.timeout(HELLO_TIMEOUT_S):
                line, rest = await read_first_line(reader)
            hello = read_hello(line)
        except (BadHello, TimeoutError) as error:
            await _say(writer, gate="refused", reason=str(error) or "no hello came in time")
            return
        if hello.toolset == "control":
            await self._control(hello, writer)
        elif self.retiring or (hello.version != __version__ and not hello.again):
            self.retire()
            await _say(writer, gate="retiring", version=__version__)
        else:
            await self._serve(hello, pid, uid, reader, writer, rest)

    async def _control(self, hello: Hello, writer: asyncio.StreamWriter) -> None:
        if hello.do == "stop":
            self.retire()
        await _say(writer, **self.status())

    async def _serve(
        self,
        hello: Hello,
        pid: int,
        uid: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        rest: bytes,
    ) -> None:
        import secrets

        from sparkgate.policy.audit import Caller
        from sparkgate.session import HostLines, Session

        build = toolsets().get(hello.toolset)
        if build is None:
            await _say(writer, gate="refused", reason=f"there is no toolset {hello.toolset[:20]!r}")
            return
        caller = Caller(session=secrets.token_hex(6), pid=pid, uid=uid, cwd=hello.cwd)
        session = Session(caller, hello, writer)
        await _say(writer, gate="ready", version=__version__)
        self.sessions.add(session)
        try:
            await session.serve(build(self.services, caller), HostLines(reader, writer, rest))
        finally:
            self.sessions.discard(session)


def toolsets() -> dict[str, Any]:
    """Name of a toolset → function that builds its server for one connection."""
    from sparkgate import search

    return {"search": search.build}


async def _say(writer: asyncio.StreamWriter, **message: Any) -> None:
    writer.write(json.dumps(message).encode() + b"\n")
    await writer.drain()


# -- the process


def serve(config: str, lock: int) -> None:
    """Run the gate in this process until it ends; returns when it has ended.

    Raises:
        CannotStart: the socket cannot be had.
    """
    import asyncio
    from pathlib import Path

    from sparkgate import log
    from sparkgate.policy.guard import Guard
    from sparkgate.services import Services

    toolsets()
    log.capture_libraries()
    guard = Guard()
    guard.install()
    services = Services(Path(config), Path(paths.state_dir()), guard)
    gate = Gate(config, services, lock, _idle_s(Path(config)))
    listener = listen(gate.path)
    log.info("gate_started", pid=os.getpid(), version=__version__)
    _ready()
    asyncio.run(gate.run(listener))
    log.info("gate_ended", pid=os.getpid())


def serve_in_process(toolset: str, config: str) -> None:
    """Serve one toolset over this process's own standard streams, without a gate; returns when the host closes."""
    import asyncio
    from pathlib import Path

    from mcp.server.stdio import stdio_server

    from sparkgate import log
    from sparkgate.policy.audit import Caller
    from sparkgate.policy.guard import Guard
    from sparkgate.services import Services

    log.capture_libraries()
    guard = Guard()
    guard.install()
    services = Services(Path(config), Path(paths.state_dir()), guard)
    caller = Caller(session=f"pid-{os.getpid()}", pid=os.getppid(), uid=os.getuid(), cwd=os.getcwd())
    server = toolsets()[toolset](services, caller)

    async def run() -> None:
        async with stdio_server() as (reader, writer):
            await server.run(reader, writer, server.create_initialization_options())

    asyncio.run(run())


def _idle_s(config: Any) -> float:
    from sparkgate.settings import GateSettings, SettingsError, load

    try:
        return load(config).gate.idle_minutes * 60
    except SettingsError:
        return GateSettings().idle_minutes * 60


_waiting_launcher: int | None = None


def _ready() -> None:
    global _waiting_launcher
    if _waiting_launcher is not None:
        os.write(_waiting_launcher, b"\n")
        os.close(_waiting_launcher)
        _waiting_launcher = None


def detach(log_path: str) -> None:
    """Go on in a grandchild of this process that no host owns; the launcher waits until it listens or has failed.

    In the launcher this does not return: it prints the reason of a failure and exits 0 or 1.
    """
    global _waiting_launcher
    outcome, tell = os.pipe()
    if os.fork():
        os.close(tell)
        with os.fdopen(outcome, "rb") as told:
            reason = told.read()
        if reason.strip():
            sys.stdout.buffer.write(reason)
        sys.stdout.flush()
        os._exit(0 if reason == b"\n" else 1)
    os.close(outcome)
    os.setsid()
    if os.fork():
        os._exit(0)
    os.makedirs(os.path.dirname(log_path), mode=0o700, exist_ok=True)
    output = os.open(log_path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    _waiting_launcher = tell


def main(arguments: list[str] | None = None) -> int:
    """`python -I -m sparkgate.gate [--detach] [--config FILE]`; exit code 3 when a gate runs already."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    config = paths.config_path(given[given.index("--config") + 1] if "--config" in given else None)
    if "--detach" in given:
        detach(paths.log_path(config))
    try:
        serve(config, take_lock(config))
    except CannotStart as error:
        return _failed(str(error), error.code)
    return 0


def _failed(reason: str, code: int) -> int:
    if _waiting_launcher is not None:
        os.write(_waiting_launcher, b"\n" if code == ALREADY_RUNNING else reason.encode() + b"\n")
        os.close(_waiting_launcher)
    else:
        sys.stderr.write(f"{reason}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
