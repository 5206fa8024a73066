"""Looks at a process that waits in connect(2): copies of its socket and address, and the file that its path leads to.

Every look is at the thread that has a number *now*; what was seen counts only when the call is found to wait still
(`connects.ConnectSupervisor` asks), for then it was the same thread all along.

Numbers are from linux/openat2.h, linux/pidfd.h and sys/socket.h.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from sparkgate.confine.syscalls import syscall
from sparkgate.confine.unix_sockets import AF_UNIX

PIDFD_THREAD = os.O_EXCL
"""A pidfd of one thread, whose descriptors may be its own (Linux 6.9)."""
NO_MAGICLINKS, BENEATH, IN_ROOT = 0x02, 0x08, 0x10
MOST_ADDRESS = 128
"""sizeof(struct sockaddr_storage)"""
PATH_AT, MOST_UNIX = 2, 110
"""Where the path starts in struct sockaddr_un, and its size."""
RESOLVE_TRIES = 32
"""openat2(2) gives up with EAGAIN when anything was renamed or mounted meanwhile."""

FOREIGN, UNOWNED = "foreign unix socket", "unix socket bound by nobody here"
MAGIC, OTHER_NETWORK = "unix socket behind a magic link", "socket of another network namespace"
OPAQUE = "process that cannot be looked at"
REFUSALS = {
    FOREIGN: errno.EACCES,
    UNOWNED: errno.ECONNREFUSED,
    MAGIC: errno.EACCES,
    OTHER_NETWORK: errno.EACCES,
    OPAQUE: errno.EACCES,
}
"""What `on_refused` is told → what the caller gets.

A file that nobody is bound to was most often left behind: programs that get ECONNREFUSED remove it and start anew.
"""
OWN_MISTAKES = {errno.EBADF, errno.EFAULT}
"""What a look at the caller fails with when the caller named nothing; every other error is ours."""


class Refused(Exception):
    """The connect is not made; the argument is a key of `REFUSALS`."""


class Call(NamedTuple):
    """One connect(2) that waits for an answer: `id` of the notification, and what the thread `tid` passed."""

    id: int
    tid: int
    descriptor: int
    address: int
    length: int


def path_of(address: bytes) -> bytes | None:
    """The path in an address for a Unix socket; None where connect(2) looks at no file, whatever else it does."""
    if not PATH_AT < len(address) <= MOST_UNIX or address[:PATH_AT] != struct.pack("=H", AF_UNIX):
        return None
    return address[PATH_AT:].split(b"\0", 1)[0] or None


@contextmanager
def duplicate(call: Call) -> Iterator[int]:
    """The caller's socket under a number of ours. Raises OSError (EBADF), Refused."""
    with _look():
        pidfd = _pidfd(call.tid)
        try:
            copy = syscall("pidfd_getfd", pidfd, call.descriptor, 0)
        finally:
            os.close(pidfd)
    try:
        yield copy
    finally:
        os.close(copy)


def _pidfd(tid: int) -> int:
    try:
        return os.pidfd_open(tid, PIDFD_THREAD)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        status = Path(f"/proc/{tid}/status").read_text(errors="replace")
        return os.pidfd_open(int(status.partition("\nTgid:")[2].split()[0]))


@contextmanager
def _look() -> Iterator[None]:
    """Errors of a look at the caller: its own mistakes stay as they are, everything else is a refusal."""
    try:
        yield
    except OSError as error:
        if error.errno in OWN_MISTAKES:
            raise
        raise Refused(OPAQUE) from error


def address_of(call: Call) -> bytes:
    """A copy of the address, whole. Raises OSError (EINVAL, EFAULT), Refused."""
    if not 0 <= call.length <= MOST_ADDRESS:
        raise OSError(errno.EINVAL, "address length")
    if not call.length:
        return b""
    copy = ctypes.create_string_buffer(call.length)
    here = (ctypes.c_size_t * 2)(ctypes.addressof(copy), call.length)
    there = (ctypes.c_size_t * 2)(call.address, call.length)
    with _look():
        if syscall("process_vm_readv", call.tid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0) < call.length:
            raise OSError(errno.EFAULT, "address")
    return copy.raw


@contextmanager
def opened(tid: int, path: bytes) -> Iterator[int]:
    """What `path` is to the thread `tid`, opened with O_PATH. Raises OSError, Refused."""
    file = _open(tid, path)
    try:
        yield file
    finally:
        os.close(file)


def _open(tid: int, path: bytes) -> int:
    root, folder = f"/proc/{tid}/root", f"/proc/{tid}/cwd"
    if path.startswith(b"/"):
        return _resolved(root, path, IN_ROOT)
    try:
        return _resolved(folder, path, BENEATH)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    with _look():
        leading = bytes(Path(folder).readlink())
    return _resolved(root, leading + b"/" + path, IN_ROOT)


def _resolved(start: str, path: bytes, scope: int) -> int:
    with _look():
        folder = os.open(start, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    how = struct.pack("=QQQ", os.O_PATH | os.O_CLOEXEC, 0, scope | NO_MAGICLINKS)
    try:
        for _ in range(RESOLVE_TRIES):
            try:
                return syscall("openat2", folder, path, how, len(how))
            except OSError as error:
                if error.errno == errno.ELOOP:
                    raise Refused(MAGIC) from error
                if error.errno != errno.EAGAIN:
                    raise
        raise OSError(errno.EAGAIN, "the file system changes too fast")
    finally:
        os.close(folder)


def mounted_device(file: int, tid: int) -> int:
    """The device of the file system as its mount tells it; Btrfs and overlays tell another one in st_dev."""
    with _look():
        mount = Path(f"/proc/self/fdinfo/{file}").read_text().partition("mnt_id:")[2].split()[0]
        mounts = Path(f"/proc/{tid}/mountinfo").read_text(errors="replace").splitlines()
    devices = [fields[2] for line in mounts if (fields := line.split())[0] == mount]
    major, _, minor = (devices or ["0:0"])[0].partition(":")
    return os.makedev(int(major), int(minor))
