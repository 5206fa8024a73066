"""Ways through other processes, and through the kernel."""

from __future__ import annotations

import ctypes
import fcntl
import os
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

from sparkgate.clients.attacking.attempt import Attack, Reach
from sparkgate.confine import kernel
from sparkgate.confine.syscalls import LIBC, checked, syscall

PTRACE_SEIZE, PTRACE_DETACH = 0x4206, 17
"""sys/ptrace.h"""
OTHERS = ("sparkgate.gate", "sparkgate.confine.supervisor")
PATIENCE_S = 20.0
DIALS = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), timeout=2)"


def _traced(pid: int) -> None:
    nothing = ctypes.c_void_p(0)
    checked(LIBC.ptrace(ctypes.c_long(PTRACE_SEIZE), ctypes.c_int(pid), nothing, nothing))
    LIBC.ptrace(ctypes.c_long(PTRACE_DETACH), ctypes.c_int(pid), nothing, nothing)


def _first_memory(_: Reach) -> None:
    os.close(os.open("/proc/1/mem", os.O_RDWR))


def _signal(reach: Reach) -> None:
    os.kill(reach.targets.pid, 0)


def _memory(reach: Reach) -> None:
    Path(f"/proc/{reach.targets.pid}/mem").open("rb").close()


def _read_memory(reach: Reach) -> None:
    buffer = ctypes.create_string_buffer(8)
    place = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
    syscall("process_vm_readv", reach.targets.pid, place, 1, place, 1, 0)


def _seen(_: Reach) -> None:
    """The command line of somebody else's process in /proc; the first one is of the inside."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and folder.name != "1" and any(name in _command(folder) for name in OTHERS):
            return
    raise ProcessLookupError(0, "no process of the outside is in sight")


def _command(folder: Path) -> str:
    try:
        return (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _in_a_child(call: Callable[[], object]) -> None:
    """What would change this process for good is tried in one that ends at once."""
    told, tell = os.pipe()
    child = os.fork()
    if not child:
        number = 0
        try:
            call()
        except OSError as error:
            number = error.errno or 1
        os.write(tell, bytes([number]))
        os._exit(0)
    os.close(tell)
    with os.fdopen(told, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    if not answer:
        raise OSError(0, "the kernel ended it")
    if answer[0]:
        raise OSError(answer[0], os.strerror(answer[0]))


def _terminal(_: Reach) -> None:
    """Typing into the terminal that this was started from: as if a person had, after the confinement has ended."""
    main, other = os.openpty()

    def typed() -> None:
        os.setsid()
        fcntl.ioctl(other, termios.TIOCSCTTY, 0)
        fcntl.ioctl(other, termios.TIOCSTI, b"x")

    try:
        _in_a_child(typed)
    finally:
        os.close(main)
        os.close(other)


def _child_elsewhere(reach: Reach) -> None:
    """A child with an environment of its own choosing has no other way out than its parent."""
    environment = {"PATH": os.defpath, "LD_PRELOAD": "", "SPARKGATE_CONFIG": "/tmp/other.toml", "NO_PROXY": "*"}
    argv = [sys.executable, "-I", "-c", DIALS, str(reach.targets.tcp)]
    done = subprocess.run(argv, env=environment, capture_output=True, timeout=PATIENCE_S, check=False)
    if done.returncode:
        raise ConnectionError(0, "a child with another environment got nowhere either")


ATTACKS = (
    Attack("ptrace", "stepping into the process of the gate or the supervisor", lambda at: _traced(at.targets.pid)),
    Attack("first_process", "stepping into the first process of the inside, which has no filter", lambda _: _traced(1)),
    Attack("first_memory", "writing into the memory of that process", _first_memory),
    Attack("signal", "a signal to a process outside", _signal),
    Attack("memory", "reading the memory of a process outside by /proc", _memory),
    Attack("read_memory", "reading the memory of a process outside by system call", _read_memory),
    Attack("process_handle", "a handle on a process outside", lambda at: os.close(os.pidfd_open(at.targets.pid))),
    Attack("processes", "seeing what else runs", _seen),
    Attack(
        "namespaces",
        "namespaces of its own, with the rights of root in them",
        lambda at: _in_a_child(lambda: kernel.unshare(kernel.CLONE_NEWUSER)),
    ),
    Attack(
        "mount",
        "another view of the file system",
        lambda at: _in_a_child(lambda: kernel.mount("none", "/tmp", "tmpfs", 0)),
    ),
    Attack("io_uring", "sockets by io_uring, which no filter of system calls sees", lambda at: _io_uring()),
    Attack("terminal", "typing into the terminal it was started from", _terminal),
    Attack("environment", "a child with another environment", _child_elsewhere),
)


def _io_uring() -> None:
    os.close(syscall("io_uring_setup", 4, ctypes.create_string_buffer(120)))
