"""A plan carried out by our own system calls, where there is no bubblewrap or it may not (Linux 5.12 and later).

    child = start(plan, stage)       in the supervisor: process 1 of the new namespaces

The first process of the new namespaces prepares the view, and then is what `first` says.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import stat
import struct
import sys
from collections.abc import Callable, Sequence

from sparkgate.confine import first, kernel
from sparkgate.confine.plan import CLOSED_PROC, Mount, Plan, to_close
from sparkgate.confine.wire import CANNOT_START

NAMESPACES = (
    kernel.CLONE_NEWUSER
    | kernel.CLONE_NEWNS
    | kernel.CLONE_NEWPID
    | kernel.CLONE_NEWNET
    | kernel.CLONE_NEWIPC
    | kernel.CLONE_NEWUTS
    | kernel.CLONE_NEWCGROUP
)
BASE = "/tmp"
"""A folder that every machine has; the new root is put together over it, where nobody else sees it."""
OLD, NEW = "/old", "/new"
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
}
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
"""netdevice(7)"""
LOW_PORTS = "/proc/sys/net/ipv4/ip_unprivileged_port_start"


def start(plan: Plan, stage: Callable[[], int]) -> int:
    """Process id of process 1 of the new namespaces, a child of this process.

    It ends with what `stage` returned or its process ended with, and is killed when this process ends.

    Raises:
        KernelError: no namespaces can be had; the message says which call was refused.
    """
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    told, tell = os.pipe()
    begin, start_it = os.pipe()
    between = os.fork()
    if not between:
        os.close(told)
        os.close(start_it)
        _unshared(plan, stage, tell, begin)
    os.close(tell)
    os.close(begin)
    os.waitpid(between, 0)
    os.close(start_it)
    with os.fdopen(told, "rb") as pipe:
        pid, _, reason = pipe.read().decode().partition(" ")
    if reason or not pid:
        number, _, words = (reason or "1 no namespaces").partition(" ")
        raise kernel.KernelError(int(number), words)
    return int(pid)


def objection() -> str:
    """Why this user can make no namespaces here; "" when it can."""
    child = os.fork()
    if not child:
        try:
            kernel.unshare(NAMESPACES)
        except OSError:
            os._exit(1)
        os._exit(0)
    return "the kernel refuses" if os.waitpid(child, 0)[1] else ""


def _unshared(plan: Plan, stage: Callable[[], int], tell: int, begin: int) -> None:
    """Never returns: ends when process 1 has been started, which its parent then inherits."""
    try:
        uid, gid = os.geteuid(), os.getegid()
        kernel.unshare(NAMESPACES)
        for file, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{file}", "w") as table:
                table.write(text)
        pid = os.fork()
    except OSError as error:
        os.write(tell, f"0 {error.errno or 1} {error.strerror}".encode())
        os._exit(CANNOT_START)
    if pid:
        os.write(tell, f"{pid} ".encode())
        os._exit(0)
    os.close(tell)
    # Until the one between has ended and been reaped, its death is the one that would end this process.
    os.read(begin, 1)
    os.close(begin)
    os._exit(_first_process(plan, stage))


def _first_process(plan: Plan, stage: Callable[[], int]) -> int:
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    try:
        raise_loopback()
        _open_low_ports()
        _enter(plan.mounts)
        os.chdir(plan.folder)
        kernel.drop_capabilities()
    except OSError as error:
        sys.stderr.write(f"sparkgate: the view cannot be made: {error.strerror}\n")
        return CANNOT_START
    return first.run(stage)


def raise_loopback() -> None:
    """Switch the loopback device of a new network namespace on."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh22x", b"lo", 0)
        flags = struct.unpack("16sh22x", fcntl.ioctl(any_socket, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", flags | IFF_UP))


def _open_low_ports() -> None:
    """In the new network, an engine may listen at port 80 or 443 as it does outside (ip(7))."""
    with open(LOW_PORTS, "w") as file:
        file.write("0")


def _enter(mounts: Sequence[Mount]) -> None:
    """Put the view together from the old root, make it the root, and leave the old one behind."""
    kernel.mount("", "/", "", kernel.MS_REC | kernel.MS_SLAVE)
    kernel.mount("tmpfs", BASE, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=0755")
    os.mkdir(BASE + OLD)
    os.mkdir(BASE + NEW)
    kernel.pivot_root(BASE, BASE + OLD)
    os.chdir("/")
    for mount in mounts:
        _put(mount)
    for mount in to_close(mounts):
        kernel.set_mount(_inside(mount.target), kernel.MOUNT_ATTR_RDONLY)
    kernel.mount("", NEW, "", kernel.MS_REC | kernel.MS_PRIVATE)
    os.chdir(NEW)
    kernel.pivot_root(".", ".")
    kernel.unmount(".")
    os.chdir("/")


def _inside(target: str) -> str:
    return NEW + (target if target != "/" else "")


def _put(mount: Mount) -> None:
    place = _inside(mount.target)
    if mount.optional and not os.path.exists(OLD + mount.source):
        return
    if mount.kind in ("show", "write", "hide") and mount.target != "/":
        _make_place(place, mount.is_file)
    match mount.kind:
        case "show" | "write":
            _bind(OLD + mount.source, place, mount.kind == "show")
        case "link":
            os.symlink(mount.source, place)
        case "hide" if mount.is_file:
            _bind(f"{OLD}/dev/null", place, True)
        case "hide" | "fresh":
            mode = "0755" if mount.kind == "hide" or mount.target == "/run" else "1777"
            kernel.mount("tmpfs", place, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, f"mode={mode}")
        case "dev":
            _make_devices(place)
        case "proc":
            _make_proc(place)


def _make_place(place: str, is_file: bool) -> None:
    """What is mounted over must be there; only in something fresh can it be missing."""
    if os.path.lexists(place):
        return
    os.makedirs(os.path.dirname(place), exist_ok=True)
    if is_file:
        os.close(os.open(place, os.O_CREAT | os.O_WRONLY, 0o600))
    else:
        os.mkdir(place, 0o700)


def _bind(source: str, place: str, closed: bool) -> None:
    kernel.mount(source, place, "", kernel.MS_BIND | kernel.MS_REC)
    devices = 0 if stat.S_ISCHR(os.stat(place).st_mode) else kernel.MOUNT_ATTR_NODEV
    kernel.set_mount(place, kernel.MOUNT_ATTR_NOSUID | devices | (kernel.MOUNT_ATTR_RDONLY if closed else 0))


def _make_devices(place: str) -> None:
    kernel.mount("tmpfs", place, "tmpfs", kernel.MS_NOSUID, "mode=0755")
    for name in DEVICES:
        _make_place(f"{place}/{name}", True)
        if os.path.exists(f"{OLD}/dev/{name}"):
            kernel.mount(f"{OLD}/dev/{name}", f"{place}/{name}", "", kernel.MS_BIND)
    for name, target in DEVICE_LINKS.items():
        os.symlink(target, f"{place}/{name}")
    for name, kind, data in (("pts", "devpts", "newinstance,ptmxmode=0666,mode=620"), ("shm", "tmpfs", "mode=1777")):
        os.mkdir(f"{place}/{name}")
        kernel.mount(kind, f"{place}/{name}", kind, kernel.MS_NOSUID | kernel.MS_NOEXEC, data)
    os.symlink("pts/ptmx", f"{place}/ptmx")


def _make_proc(place: str) -> None:
    kernel.mount("proc", place, "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
    for name in CLOSED_PROC:
        if os.path.exists(f"{place}/{name}"):
            _bind(f"{place}/{name}", f"{place}/{name}", True)
