"""Landlock (landlock(7)): a second wall around the file system, which holds for every process that is started later.

The view of the mounts says what is there; this says once more what may be written, and it also closes named pipes,
which a read-only mount does not, and signals and abstract sockets of processes outside.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable

from sparkgate.confine.kernel import PR_SET_NO_NEW_PRIVS, KernelError, prctl
from sparkgate.confine.syscalls import syscall

CREATE_RULESET_VERSION = 1
RULE_PATH_BENEATH = 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
TRUNCATE, IOCTL_DEV = 1 << 14, 1 << 15
FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
"""What can be said of a file; the rest is of folders."""
FIRST_RIGHTS = (1 << 13) - 1
LATER_RIGHTS = {2: 1 << 13, 3: TRUNCATE, 5: IOCTL_DEV}
"""Version → what came with it."""
SCOPE_ABSTRACT_SOCKET, SCOPE_SIGNAL = 1 << 0, 1 << 1
SCOPES_SINCE = 6
ATTRIBUTE_BYTES = {1: 8, 4: 16, 6: 24}
"""Version → size of `landlock_ruleset_attr`."""
READ = EXECUTE | READ_FILE | READ_DIR
DEVICES = "/dev"


class _Ruleset(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def version() -> int:
    """Of the running kernel's Landlock; 0 where it has none or it is switched off."""
    try:
        return syscall("landlock_create_ruleset", None, 0, CREATE_RULESET_VERSION)
    except OSError:
        return 0


def rights(known: int) -> int:
    """Every right to files that this version knows, as bits."""
    return FIRST_RIGHTS | sum(bit for since, bit in LATER_RIGHTS.items() if since <= known)


def restrict(writable: Iterable[str]) -> None:
    """Let this process, and all that it starts, write below `writable` alone. It cannot be undone.

    Raises:
        KernelError: the kernel has no Landlock, or refused a rule.
    """
    known = version()
    if not known:
        raise KernelError(38, "this kernel has no Landlock (it needs 5.13, and landlock in lsm=)")
    every = rights(known)
    scopes = SCOPE_ABSTRACT_SOCKET | SCOPE_SIGNAL if known >= SCOPES_SINCE else 0
    told = _Ruleset(every, 0, scopes)
    size = max(size for since, size in ATTRIBUTE_BYTES.items() if since <= known)
    ruleset = _call("landlock_create_ruleset", ctypes.byref(told), size, 0)
    try:
        _allow(ruleset, "/", READ & every)
        _allow(ruleset, DEVICES, (READ | WRITE_FILE | TRUNCATE | IOCTL_DEV) & every)
        for path in (*writable, f"{DEVICES}/shm"):
            _allow(ruleset, path, every)
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        _call("landlock_restrict_self", ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, allowed: int) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            allowed &= FILE
        rule = _Beneath(allowed, place)
        _call("landlock_add_rule", ruleset, RULE_PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(place)


def _call(name: str, *arguments: object) -> int:
    try:
        return syscall(name, *arguments)
    except OSError as error:
        raise KernelError(error.errno, f"Landlock: {error.strerror}") from error
