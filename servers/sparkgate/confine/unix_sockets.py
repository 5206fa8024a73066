"""Which Unix sockets of a network namespace are bound to which files: sock_diag(7) over netlink.

Numbers are from linux/netlink.h, linux/sock_diag.h, linux/unix_diag.h and net/tcp_states.h.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterator

from sparkgate.confine.syscalls import LIBC, checked

AF_UNIX, AF_NETLINK = 1, 16
SOCK_RAW, SOCK_CLOEXEC = 3, 0o2000000
NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
NLMSG_ERROR, NLMSG_DONE = 2, 3
NLM_F_REQUEST, NLM_F_DUMP = 0x1, 0x300
UDIAG_SHOW_VFS = 0x2
UNIX_DIAG_VFS = 1
CLOSED, LISTENING = 7, 10
"""States of a socket that can be connected to: bound datagrams and listeners (an accepted one shares their file)."""
HEADER, REQUEST, REPLY, ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=BBHIII8x"), 16, struct.Struct("=HH")
READ_BYTES = 65536
MINOR_BITS = 20
"""The kernel's own device number is major << 20 | minor, not the user's (linux/kdev_t.h)."""

BoundTo = tuple[int, int]
"""A file as sock_diag names it: the low 32 bits of its inode number, and the kernel's device number."""


def open_diag() -> int:
    """A descriptor that tells about the Unix sockets of this process's network namespace, wherever it is used.

    Closes at exec; asking needs no privilege.

    Raises:
        OSError: the kernel has no sock_diag, or a system call filter refuses.
    """
    return checked(LIBC.socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG))


def bound_to(device: int, inode: int) -> BoundTo:
    """The name of a file in sock_diag; `device` is the user's number (st_dev), `inode` st_ino."""
    return inode & 0xFFFFFFFF, os.major(device) << MINOR_BITS | os.minor(device)


def bound(diag: int) -> set[BoundTo]:
    """The files that Unix sockets of the namespace of `diag` are bound to; one thread at a time may ask.

    Raises:
        OSError: the kernel does not tell: ENOENT where it was built without CONFIG_UNIX_DIAG.
    """
    states = 1 << CLOSED | 1 << LISTENING
    length = HEADER.size + REQUEST.size
    head = HEADER.pack(length, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, 0, 0)
    os.write(diag, head + REQUEST.pack(AF_UNIX, 0, 0, states, 0, UDIAG_SHOW_VFS))
    return {name for body in _replies(diag) if (name := _name(body)) is not None}


def _replies(diag: int) -> Iterator[memoryview]:
    """The bodies of all messages up to the end of the dump."""
    while True:
        block = memoryview(os.read(diag, READ_BYTES))
        while block:
            length, kind, *_ = HEADER.unpack_from(block)
            if kind in (NLMSG_DONE, NLMSG_ERROR):
                _raise_unless_done(block[HEADER.size : length])
                return
            yield block[HEADER.size : length]
            block = block[length + 3 & ~3 :]


def _raise_unless_done(body: memoryview) -> None:
    number = -ctypes.c_int32.from_buffer_copy(body).value if len(body) >= 4 else errno.EPROTO
    if number:
        raise OSError(number, f"the kernel does not tell which Unix sockets are bound: {os.strerror(number)}")


def _name(body: memoryview) -> BoundTo | None:
    at = REPLY
    while at + ATTRIBUTE.size <= len(body):
        length, kind = ATTRIBUTE.unpack_from(body, at)
        if kind == UNIX_DIAG_VFS:
            inode, device = struct.unpack_from("=II", body, at + ATTRIBUTE.size)
            return inode, device
        at += max(length + 3 & ~3, ATTRIBUTE.size)
    return None
