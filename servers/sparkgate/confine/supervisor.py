"""Outside a confinement: makes the namespaces, hands the doors to the gate, answers for connect(2), waits for the end.

    python -I -m sparkgate.confine.supervisor FD      with FD a file that holds a plan

It holds what the gate may lose: when a gate ends, the next one gets the same listeners, and nobody inside notices
more than a call that failed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import selectors
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from typing import Any

from sparkgate import paths
from sparkgate.confine import inside, kernel, namespaces
from sparkgate.confine.bubblewrap import PROGRAM, bwrap_argv
from sparkgate.confine.canaries import Canaries
from sparkgate.confine.connects import ConnectSupervisor
from sparkgate.confine.gate_link import GateLink, GateRefused
from sparkgate.confine.plan import Plan, loaded
from sparkgate.confine.record import Record
from sparkgate.confine.view import SHIELDED, BadView, shields
from sparkgate.confine.wire import BACKLOG, CANNOT_START, GATE, Ended, Line

TICK_S = 0.5
FIRST_PORT = 1024
"""Below it, whoever listens needs a capability (ip(7))."""
PROBE_S = 5.0
MANY_MOUNTS = 300
ANOTHER_PATH = "A gate that was started with another PATH is ended by `sparkgate gate stop`"
PROGRAM_FOLDERS = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin")
NO_NAMESPACES = (
    "this machine lets you make no namespaces ({reason}), and without them nothing can be closed. Install bubblewrap "
    "where there is none, or have the operator allow them: sysctl kernel.apparmor_restrict_unprivileged_userns=0 "
    "(Ubuntu), kernel.unprivileged_userns_clone=1 (Debian), user.max_user_namespaces above 0"
)


class CannotConfine(Exception):
    """The command was not started; the message says what is missing and what to do."""


class Supervisor:
    """One confinement, from its doors to its end.

    Args:
        plan: what it is to be.
        folder: of its sockets; lies where the gate's folder of sockets was, and cannot be changed inside.
    """

    def __init__(self, plan: Plan, folder: str) -> None:
        self.plan, self.folder = plan, folder
        self.name = secrets.token_hex(4)
        self.gate = GateLink(plan.config, self.name)
        self._doors: list[dict[str, Any]] = []
        self._listeners: dict[str, int] = {}
        self._child, self._first = 0, -1
        self._connects: ConnectSupervisor | None = None
        self._missing: dict[str, str] = {}

    def run(self) -> int:
        """Exit code of the command: its own, or 128 and the number of the signal that ended it (as shells say it).

        Raises:
            CannotConfine: it was not started.
        """
        self._listeners[GATE] = _listen(self.folder, os.path.basename(self.plan.socket))
        canaries = Canaries(self.folder)
        try:
            self._take(self.gate.greet())
            ours, theirs = socket.socketpair()
            wall = self._start(theirs)
            theirs.close()
            self._prepare(Line(ours), wall, canaries)
            return self._watch()
        except GateRefused as error:
            raise CannotConfine(str(error)) from error
        finally:
            canaries.close()
            self._end_child()
            self.gate.finish()

    def _take(self, greeting: dict[str, Any]) -> None:
        """Which doors there are, and what of the gate's own must not be writable inside."""
        self._doors = greeting["doors"]
        for reason in greeting["refused"]:
            sys.stderr.write(f"sparkgate: no door: {reason}\n")
        try:
            more = shields([mount.target for mount in self.plan.mounts if mount.kind == "write"], greeting["uses"])
        except BadView as error:
            raise CannotConfine(f"{error}. {ANOTHER_PATH}") from error
        known = {mount.target for mount in self.plan.mounts}
        for mount in more:
            if mount.target not in known:
                sys.stderr.write(f"sparkgate: {SHIELDED.format(place=mount.target)}\n")
        self.plan = replace(self.plan, mounts=(*self.plan.mounts, *more))

    def _start(self, pair: socket.socket) -> str:
        """Start process 1 inside; the name of who made the namespaces."""
        os.set_inheritable(pair.fileno(), True)
        reason = "no bubblewrap, and no namespaces without it"
        program = bubblewrap() if self._by_bubblewrap() else ""
        if program:
            reason = probed(program)
            if not reason:
                stage = [sys.executable, "-I", "-m", "sparkgate.confine.inside", str(pair.fileno())]
                self._child = subprocess.Popen(
                    bwrap_argv(program, self.plan, stage, self._low_ports),
                    env=_bare_environment(),
                    pass_fds=[pair.fileno()],
                ).pid
                return "bubblewrap"
        if self.plan.wall != "bubblewrap":
            try:
                self._child = namespaces.start(self.plan, lambda: inside.run(pair.fileno()))
                return "unshare"
            except OSError as error:
                reason = f"bubblewrap: {reason}; without it: {error.strerror}" if program else f"{error.strerror}"
        raise CannotConfine(NO_NAMESPACES.format(reason=reason))

    def _by_bubblewrap(self) -> bool:
        """Unless another is asked for; of many mounts, each takes it longer than the one before."""
        if self.plan.wall:
            return self.plan.wall == "bubblewrap"
        return len(self.plan.mounts) <= MANY_MOUNTS or bool(namespaces.objection())

    def _prepare(self, line: Line, wall: str, canaries: Canaries) -> None:
        plan = self.plan
        told = {"argv": plan.argv, "environment": plan.environment, "writable": plan.writable}
        try:
            line.say({**told, "doors": self._doors, "best_effort": plan.best_effort})
            _, (self._first, diag, *listeners) = self._heard(line)
            self._listeners |= dict(zip([door["name"] for door in self._doors], listeners, strict=True))
            self._hand()
            line.say({"go": True})
            answer, listener = self._heard(line)
            self._missing = answer["missing"]
            if listener:
                self._connects = ConnectSupervisor(listener[0], diag, self._note, self._allowed())
            self._tell_missing()
            record = Record(self.name, wall, self._missing, self._doors, canaries.targets, plan.writable)
            record.write(self.folder)
            line.say({"go": True})
        except Ended as error:
            raise CannotConfine("what was to be inside ended before it had begun") from error
        line.close()

    def _heard(self, line: Line) -> tuple[dict[str, Any], list[int]]:
        answer, descriptors = line.hear()
        if "failed" in answer:
            raise CannotConfine(answer["failed"])
        return answer, descriptors

    def _note(self, refused: str) -> None:
        self.gate.tell(refused.replace(" ", "_"))

    def _allowed(self) -> list[str]:
        """Unix sockets of the outside that may be connected to: the gate's, and what the operator named."""
        return [os.path.join(self.folder, os.path.basename(self.plan.socket)), *self.plan.shared]

    def _tell_missing(self) -> None:
        for piece, reason in self._missing.items():
            sys.stderr.write(f"sparkgate: NOT CLOSED: {piece}: {reason}\n")

    @property
    def _low_ports(self) -> bool:
        return any(door["port"] < FIRST_PORT for door in self._doors)

    def _hand(self) -> None:
        self.gate.hand(list(self._listeners), list(self._listeners.values()))

    # -- until the end

    def _watch(self) -> int:
        for number in (signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._pass_on)
        child = os.pidfd_open(self._child)
        waiting = selectors.DefaultSelector()
        waiting.register(child, selectors.EVENT_READ, "child")
        if self._connects:
            waiting.register(self._connects, selectors.EVENT_READ, "connect")
        waiting.register(self.gate, selectors.EVENT_READ, "gate")
        regained = os.eventfd(0, os.EFD_CLOEXEC)
        waiting.register(regained, selectors.EVENT_READ, "regained")
        while True:
            for key, _ in waiting.select():
                if key.data == "child":
                    if self._connects:
                        self._connects.step()  # or what was refused last would be told to nobody
                    return self._ended()
                if key.data == "connect" and self._connects:
                    self._connects.step()
                elif key.data == "gate" and self.gate.is_gone():
                    waiting.unregister(self.gate)
                    self.gate.close()
                    threading.Thread(target=self._regain, args=(regained,), daemon=True).start()
                elif key.data == "regained":
                    os.eventfd_read(regained)
                    waiting.register(self.gate, selectors.EVENT_READ, "gate")

    def _regain(self, regained: int) -> None:
        """Give the listeners to the next gate; beside the loop, as what is inside goes on connecting meanwhile."""
        while True:
            try:
                self.gate.greet()
                self._hand()
                break
            except GateRefused:
                self.gate.close()
                time.sleep(TICK_S)
        os.eventfd_write(regained, 1)

    def _pass_on(self, number: int, _frame: object) -> None:
        """To the first process inside, not to the bubblewrap before it, which would only die of it."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._first, number)

    def _ended(self) -> int:
        child, self._child = self._child, 0
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return code if code >= 0 else 128 - code

    def _end_child(self) -> None:
        if self._child:
            os.kill(self._child, signal.SIGKILL)
            self._ended()


def bubblewrap() -> str:
    """Path of the machine's bubblewrap, "" when there is none. One of anybody else would run outside."""
    for folder in PROGRAM_FOLDERS:
        path = os.path.join(folder, PROGRAM)
        with suppress(OSError):
            if os.access(path, os.X_OK) and all(_is_of_root(one) for one in (folder, os.path.realpath(path))):
                return path
    return ""


def _is_of_root(path: str) -> bool:
    found = os.stat(path)
    return found.st_uid == 0 and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def probed(program: str) -> str:
    """Why this bubblewrap makes no namespaces here; "" when it does."""
    try:
        argv = [program, "--unshare-user", "--unshare-net", "--unshare-pid", "--ro-bind", "/", "/", "--", "/bin/true"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=PROBE_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return type(error).__name__
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["bubblewrap failed"])[0][:200]


def _bare_environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"}


def _listen(folder: str, name: str) -> int:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(paths.short_socket_path(os.path.join(folder, name), handle))
    finally:
        os.close(handle)
    listener.listen(BACKLOG)
    return listener.detach()


def folder_of(pid: int) -> str:
    """Where the sockets of a confinement lie outside; the number is that of its supervisor."""
    return os.path.join(paths.own_runtime_dir(), "confined", str(pid))


def made_folder(pid: int) -> tuple[str, int]:
    """A new folder and the lock that keeps it; those of supervisors that were killed are taken away."""
    above = paths.private_dir(os.path.join(paths.private_dir(paths.own_runtime_dir()), "confined"))
    for name in os.listdir(above):
        _remove_unless_held(os.path.join(above, name))
    folder = paths.private_dir(folder_of(pid))
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return folder, lock


def _remove_unless_held(folder: str) -> None:
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise
    finally:
        os.close(lock)


def main() -> int:
    with os.fdopen(int(sys.argv[1]), "rb") as told:
        plan = loaded(told.read())
    if plan.system:
        paths.use_system()
    for note in plan.notes:
        sys.stderr.write(f"sparkgate: {note}\n")
    try:
        folder, _lock = made_folder(os.getpid())
        try:
            return Supervisor(plan, folder).run()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    except CannotConfine as error:
        sys.stderr.write(f"sparkgate: not started: {error}\n")
    except (OSError, kernel.KernelError) as error:
        sys.stderr.write(f"sparkgate: not started: {error.strerror or error}\n")
    return CANNOT_START


if __name__ == "__main__":
    sys.exit(main())
