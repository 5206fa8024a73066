"""The stage inside the new namespaces: makes the doors, closes what is left to close, and becomes the command.

python -I -m sparkgate.confine.inside FD      with FD a socket pair to the supervisor
"""

from __future__ import annotations

import os
import resource
import shutil
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from sparkgate.confine import first, landlock, seccomp, unix_sockets
from sparkgate.confine.wire import BACKLOG, CANNOT_START, Ended, Line

LANDLOCK, SECCOMP = "landlock", "seccomp"
CORE_BYTES = (1, 1)
"""No core is kept, and none is given to a program of the machine, as it would be with 0 (core(5))."""
STDERR = 2
NOT_FOUND = "{program}: not found inside; what lies below /tmp, /var/tmp or /run outside is shown by --read"


def run(descriptor: int) -> int:
    """Do what the supervisor says on `descriptor`; returns an exit code only when no command was started."""
    _close_others(descriptor)
    line = Line(socket.socket(fileno=descriptor))
    try:
        told, _ = line.hear()
        argv, environment = told["argv"], told["environment"]
        program = shutil.which(argv[0], path=environment.get("PATH", os.defpath))
        if program is None:
            return _refuse(line, NOT_FOUND.format(program=argv[0]))
        _make_doors(line, told["doors"])
        line.hear()
        _close_the_rest(line, told["writable"], told["best_effort"])
        line.hear()
    except Ended:
        return CANNOT_START
    except OSError as error:
        return _refuse(line, f"{error.strerror}")
    try:
        os.execve(program, argv, environment)
    except OSError as error:  # nobody listens on the line any more
        sys.stderr.write(f"sparkgate: not started: {argv[0]}: {error.strerror}\n")
    return CANNOT_START


def _close_others(kept: int) -> None:
    """What whoever started this had open: a connection among it would be a way out that no namespace closes."""
    os.set_inheritable(kept, False)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > STDERR and int(name) != kept:
            with suppress(OSError):
                os.close(int(name))


def _refuse(line: Line, reason: str) -> int:
    line.say({"failed": reason})
    return CANNOT_START


def _make_doors(line: Line, doors: list[dict[str, Any]]) -> None:
    """A handle on process 1, a socket that tells which Unix sockets were bound in here, and the model endpoints."""
    made = [os.pidfd_open(1), unix_sockets.open_diag(), *(_listener(door["port"]) for door in doors)]
    line.say({"made": len(made)}, made)
    for one in made:
        os.close(one)


def _listener(port: int) -> int:
    try:
        return socket.create_server(("127.0.0.1", port), backlog=BACKLOG).detach()
    except OSError as error:
        raise OSError(error.errno, f"the model endpoint at port {port} cannot be made: {error.strerror}") from error


def _close_the_rest(line: Line, writable: list[str], best_effort: bool) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, CORE_BYTES)
    missing: dict[str, str] = {}
    _closed(LANDLOCK, lambda: landlock.restrict(writable), missing, best_effort)
    listener: list[int] = []

    def filtered() -> None:
        found = seccomp.install(supervised=True)
        listener.extend([found] if found is not None else [])

    _closed(SECCOMP, filtered, missing, best_effort)
    line.say({"missing": missing, "listener": bool(listener)}, listener)
    for one in listener:
        os.close(one)


def _closed(name: str, close: Callable[[], None], missing: dict[str, str], best_effort: bool) -> None:
    try:
        close()
    except OSError as error:
        if not best_effort:
            reason = f"{error.strerror}; --best-effort goes on without what this machine cannot close"
            raise OSError(error.errno, reason) from error
        missing[name] = error.strerror or type(error).__name__


if __name__ == "__main__":
    sys.exit(first.run(lambda: run(int(sys.argv[1]))))
