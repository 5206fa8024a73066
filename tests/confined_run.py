"""Runs a command under the system call filter in namespaces of its own; refusals are lines on standard error.

python confined_run.py [--uid N] [--open] [--bind SOURCE TARGET] [--allow PATH] -- COMMAND...

`--uid` gives up root first, for good; `--open` leaves connect(2) unsupervised; `--bind` shows SOURCE at TARGET as well;
`--allow` lets connect to a socket of the outside.
Standard library and sparkgate.confine only, for any Python of the machine.
"""

from __future__ import annotations

import argparse
import os
import select
import signal
import socket
import sys
from pathlib import Path

from sparkgate.confine import kernel, namespaces, seccomp, unix_sockets
from sparkgate.confine.connects import ConnectSupervisor

SPACES = kernel.CLONE_NEWUSER | kernel.CLONE_NEWNET | kernel.CLONE_NEWPID | kernel.CLONE_NEWNS | kernel.CLONE_NEWIPC


def become(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)


def enter(binds: list[tuple[str, str]]) -> int:
    """In new namespaces from here on; returns in process 1 of them, the process before only waits for it."""
    uid, gid = os.geteuid(), os.getegid()
    kernel.unshare(SPACES)
    for file, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        Path(f"/proc/self/{file}").write_text(text)
    pid = os.fork()
    if pid:
        os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 0xFF)
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    namespaces.raise_loopback()
    kernel.mount("", "/", "", kernel.MS_REC | kernel.MS_SLAVE)
    kernel.mount("proc", "/proc", "proc", 0)
    for source, target in binds:
        kernel.mount(source, target, "", kernel.MS_BIND)
    kernel.drop_capabilities()
    return unix_sockets.open_diag()


def inside(options: argparse.Namespace, channel: socket.socket) -> None:
    diag = enter(options.bind)
    listener = seccomp.install(not options.open)
    socket.send_fds(channel, [b"x"], [diag] if listener is None else [diag, listener])
    os.execvp(options.command[0], options.command)


def serve(channel: socket.socket, allowed: list[str]) -> None:
    _, descriptors, _, _ = socket.recv_fds(channel, 1, 2)
    if len(descriptors) < 2:
        return
    diag, listener = descriptors
    supervisor = ConnectSupervisor(listener, diag, lambda reason: print("refused:", reason, file=sys.stderr), allowed)
    poll = select.poll()
    poll.register(supervisor, select.POLLIN)
    while supervisor.step():
        poll.poll()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--uid", type=int)
    parser.add_argument("--open", action="store_true")
    parser.add_argument("--bind", nargs=2, action="append", default=[])
    parser.add_argument("--allow", action="append", default=[])
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    if options.uid is not None:
        become(options.uid)
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if not pid:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        ours.close()
        inside(options, theirs)
    theirs.close()
    serve(ours, options.allow)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    sys.exit(main())
