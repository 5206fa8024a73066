"""Namespaces, mounts and capabilities: what the kernel is asked for, and why it refused."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

from sparkgate.confine.syscalls import LIBC, checked, syscall

CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
"""linux/sched.h"""
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC = 0x2, 0x4, 0x8, 0x1000, 0x4000
MS_PRIVATE, MS_SLAVE = 0x40000, 0x80000
"""linux/mount.h"""
MNT_DETACH = 2
MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID, MOUNT_ATTR_NODEV = 0x1, 0x2, 0x4
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
PR_SET_PDEATHSIG, PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_SET_CHILD_SUBREAPER = 1, 23, 24, 38, 36
PR_SET_DUMPABLE = 4
"""linux/prctl.h"""
LAST_CAPABILITY = 63
CAPABILITY_VERSION_3 = 0x20080522
"""linux/capability.h"""


class KernelError(OSError):
    """The kernel refused; what it was about is in the message."""


@contextmanager
def _about(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise KernelError(error.errno, f"{what}: {error.strerror}") from error


def unshare(flags: int) -> None:
    """Leave the namespaces of `flags` for new ones. Raises KernelError."""
    with _about("new namespaces"):
        syscall("unshare", flags)


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """mount(2). Raises KernelError."""
    with _about(f"mount {target}"):
        syscall("mount", *map(os.fsencode, (source, target, kind)), flags, os.fsencode(data))


def unmount(target: str) -> None:
    """umount2(2), at once for all who look a place up. Raises KernelError."""
    with _about(f"unmount {target}"):
        syscall("umount2", os.fsencode(target), MNT_DETACH)


def set_mount(target: str, attributes: int) -> None:
    """Set attributes of a mount and of all below it (mount_setattr(2), Linux 5.12). Raises KernelError."""
    wanted = (ctypes.c_uint64 * 4)(attributes, 0, 0, 0)
    with _about(f"close {target}"):
        syscall("mount_setattr", AT_FDCWD, os.fsencode(target), AT_RECURSIVE, wanted, ctypes.sizeof(wanted))


def pivot_root(new: str, old: str) -> None:
    """Make the mount `new` the root and put the old one at `old`, which may be the same (pivot_root(2)).

    Raises:
        KernelError: the kernel refused.
    """
    with _about("a root of its own"):
        syscall("pivot_root", os.fsencode(new), os.fsencode(old))


def prctl(option: int, value: int) -> int:
    """prctl(2) with one argument. Raises KernelError."""
    with _about(f"prctl {option}"):
        return checked(LIBC.prctl(option, *(ctypes.c_ulong(one) for one in (value, 0, 0, 0))))


def drop_capabilities() -> None:
    """Give up every capability, also those that a program started later would get. Raises KernelError."""
    for capability in range(LAST_CAPABILITY + 1):
        try:
            held = prctl(PR_CAPBSET_READ, capability)
        except KernelError:
            break
        if held:
            prctl(PR_CAPBSET_DROP, capability)
    with _about("giving up capabilities"):
        syscall("capset", (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)())
