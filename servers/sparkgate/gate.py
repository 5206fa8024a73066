"""The gate: the one process with the network, the policy and the log. One per configuration, under a lock."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from sparkgate import paths
from sparkgate.daemon import BACKLOG, KEEP_SOCKET_FILE, CannotStart, Launcher, detach, inherited, listen, take_lock
from sparkgate.version import __version__

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Callable

    from sparkgate.doorways import Doorway
    from sparkgate.policy.kill_switch import Locked
    from sparkgate.services import Services
    from sparkgate.session import Session

WATCH_S = 1.0
LOOK_TO_PRUNE_S, PRUNE_S = 30.0, 3600.0
RECOVER_S = 10.0
FILES_WANTED = 4096


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
        self.guests: Counter[int] = Counter()
        self.doorways: set[Doorway] = set()
        self.retiring = self._left = self.managed = False
        self._locked: Locked | None = None
        self._quiet_since = time.monotonic()
        self._listener: asyncio.Server | None = None
        self._inode = 0
        self._stirred: asyncio.Event | None = None
        self._closing: list[asyncio.Future[None]] = []

    async def run(self, listener: socket.socket, ready: Callable[[], None]) -> None:
        """Serve until told to end, or idle for `idle_s`; `ready` is called when the first connection may come."""
        import asyncio

        from sparkgate.reception import Reception

        stirred = self._stirred = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._signalled)
        self._inode = os.stat(self.path).st_ino
        self._listener = await asyncio.start_unix_server(
            Reception(self).connected, sock=listener, backlog=BACKLOG, **KEEP_SOCKET_FILE
        )
        ready()
        upkeep = [asyncio.create_task(work) for work in (self._keep_recovering(), self._keep_pruning())]
        while not self.retiring or self.sessions or self._jobs:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stirred.wait(), WATCH_S)
            stirred.clear()
            self._watch()
        for work in upkeep:
            work.cancel()
        await asyncio.to_thread(self._close_log)

    @property
    def _jobs(self) -> int:
        """Jobs that run here; a gate that lets go of them leaves them to its successor."""
        return 0 if self._left else self.services.running

    async def _keep_recovering(self) -> None:
        """Go on with jobs that nobody runs: of a gate that was killed, or of this one when it could not write."""
        import asyncio

        from sparkgate import log

        while not self.retiring:
            try:
                if (self.services.state / "jobs.db").exists():
                    await asyncio.to_thread(self.services.control.recover)
            except Exception as error:
                log.error("recovery_fault", **log.describe(error))
            await asyncio.sleep(RECOVER_S)

    async def _keep_pruning(self) -> None:
        """Take away what the log is to keep no longer, soon after it was opened and every hour."""
        import asyncio

        from sparkgate import log

        next_s = 0.0
        while not self.retiring:
            await asyncio.sleep(LOOK_TO_PRUNE_S)
            if time.monotonic() < next_s or not self.services.has_log:
                continue
            next_s = time.monotonic() + PRUNE_S
            try:
                rows = await asyncio.to_thread(self.services.prune_log, time.time_ns() // 1000)
                if rows:
                    log.info("log_pruned", rows=rows)
            except Exception as error:
                log.error("prune_fault", **log.describe(error))

    def _close_log(self) -> None:
        from sparkgate import log

        try:
            self.services.close_log()
        except Exception as error:
            log.error("log_not_closed", **log.describe(error))

    def _watch(self) -> None:
        self._look()
        if self.sessions or self.doorways or self._jobs:
            self._quiet_since = time.monotonic()
        if time.monotonic() - self._quiet_since > self.idle_s or not self._still_reachable():
            self.retire()

    def _look(self) -> None:
        """Cut what is under way once it is locked, and say in the log when that begins and ends."""
        import asyncio

        from sparkgate import log

        found = self.services.switch.look()
        before, self._locked = self._locked, found
        if (found and found.by) == (before and before.by):
            return
        log.info("locked" if found else "unlocked")
        if any(one and not one.is_ours for one in (found, before)):  # the other file's command writes a mark itself
            what, by = ("locked", found.by) if found else ("unlocked", before.by if before else "")
            asyncio.get_running_loop().run_in_executor(None, self.services.mark_locked, what, by)

    def _still_reachable(self) -> bool:
        try:
            return self.managed or os.stat(self.path).st_ino == self._inode
        except OSError:
            return False

    def retire(self) -> None:
        """Stop listening and let a successor start; running calls end first, then this process.

        What systemd holds goes on listening, and its next gate waits for the end of this one: jobs are left to it.
        """
        import asyncio

        if self.retiring:
            return
        self.retiring = True
        if self.managed:
            self._leave_jobs()
        elif self._still_reachable():
            os.unlink(self.path)
        if self._listener:
            self._listener.close()
        if self.lock is not None:
            os.close(self.lock)
        self.lock = None
        served: list[Session | Doorway] = [*self.sessions, *self.doorways]
        self._closing = [asyncio.ensure_future(one.retire()) for one in served]
        self.stir()

    def _signalled(self) -> None:
        """The first signal retires the gate, a second one cuts its calls off and leaves its jobs to the next gate."""
        if self.retiring:
            self._leave_jobs()
        for session in self.sessions if self.retiring else ():
            session.abort()
        self.retire()

    def _leave_jobs(self) -> None:
        self._left = True
        self.services.let_go()

    def stir(self) -> None:
        """Let `run` look at once whether it may end."""
        if self._stirred:
            self._stirred.set()

    def status(self) -> dict[str, Any]:
        """What `sparkgate gate status --json` prints."""
        return {
            "running": True,
            "pid": os.getpid(),
            "version": __version__,
            "sessions": len(self.sessions),
            "confinements": [one.status() for one in self.doorways],
            "calls": sum(session.calls for session in self.sessions),
            "jobs": self.services.running,
            "uptime_s": round(time.time() - self.started_at, 1),
            "socket": self.path,
            "config": self.config,
            "log": paths.log_path(self.config),
            "locked": found.as_json() if (found := self.services.switch.told()) else None,
        }


# -- the process


def serve(config: str, lock: int, launcher: Launcher) -> None:
    """Run the gate in this process until it ends; returns when it has ended.

    Raises:
        CannotStart: the socket cannot be had.
    """
    import asyncio
    from pathlib import Path

    from sparkgate import log

    gate = Gate(config, _services(config), lock, _idle_s(Path(config)))
    held = inherited(gate.path)
    gate.managed, listener = held is not None, held or listen(gate.path)
    log.info("gate_started", pid=os.getpid(), version=__version__)
    try:
        asyncio.run(gate.run(listener, launcher.ready))
    except Exception as error:
        log.error("gate_fault", **log.describe(error))
        raise CannotStart("the gate failed; its log says where") from error
    log.info("gate_ended", pid=os.getpid())


def serve_in_process(toolset: str, config: str, host: str) -> None:
    """Serve one toolset over this process's own standard streams, without a gate; returns when the host closes."""
    import asyncio

    from mcp.server.stdio import stdio_server

    from sparkgate.policy.audit import Caller
    from sparkgate.reception import builder_of

    who: Any = {"pid": os.getppid(), "uid": os.getuid(), "gid": os.getgid(), "cwd": os.getcwd()}
    caller = Caller(f"pid-{os.getpid()}", host, **who)
    services = _services(config)
    server = builder_of(toolset)(services, caller)

    async def run() -> None:
        watch = asyncio.create_task(services.switch.watch())
        async with stdio_server() as (reader, writer):
            await server.run(reader, writer, server.create_initialization_options())
        watch.cancel()

    asyncio.run(run())


def _services(config: str) -> Services:
    """What the toolsets need; from here on this process reaches nothing without a permit, and makes private files."""
    from pathlib import Path

    from sparkgate import log
    from sparkgate.policy.guard import Guard
    from sparkgate.reception import builder_of
    from sparkgate.services import Services

    builder_of("search")
    os.umask(0o077)
    paths.private_dir(os.path.realpath(paths.state_dir()))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # What a query held, and what was withheld from it, would stand in a core file.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, FILES_WANTED)), hard))
    log.capture_libraries()
    guard = Guard()
    guard.install()
    return Services(Path(config), Path(paths.state_dir()), guard)


def _idle_s(config: Any) -> float:
    from sparkgate.setting_tables import GateSettings
    from sparkgate.settings import SettingsError, load

    try:
        return load(config).gate.idle_minutes * 60
    except SettingsError:
        return GateSettings().idle_minutes * 60


def main(arguments: list[str] | None = None) -> int:
    """`python -I -m sparkgate.gate [--detach] [--config FILE | --system]`; exit code 3 when a gate runs already."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    named = given[given.index("--config") + 1] if "--config" in given else None
    paths.choose("system" if "--system" in given else "" if named else "own", named)
    config = paths.config_path(named)
    launcher = detach(paths.log_path(config)) if "--detach" in given else Launcher()
    try:
        serve(config, take_lock(config), launcher)
    except CannotStart as error:
        launcher.failed(error)
        return error.code
    except Exception as error:
        launcher.failed(CannotStart(f"{type(error).__name__} while starting the gate: {error}"))
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
