"""python without_call.py CALL COMMAND...: run a command as on a kernel that does not have this system call."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

from sparkgate.confine.seccomp import Rule, _Program, program
from sparkgate.confine.syscalls import LIBC, checked, this_machine

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
"""linux/prctl.h"""


def main() -> None:
    name, *command = sys.argv[1:]
    rules = [Rule((name,), errno.ENOSYS, "a kernel without it")]
    packed = b"".join(struct.pack("=HBBI", *one) for one in program(this_machine(), False, rules))
    given = _Program(len(packed) // 8, packed)
    checked(LIBC.prctl(PR_SET_NO_NEW_PRIVS, *(ctypes.c_ulong(value) for value in (1, 0, 0, 0))))
    checked(LIBC.prctl(PR_SET_SECCOMP, ctypes.c_ulong(SECCOMP_MODE_FILTER), ctypes.byref(given)))
    os.execv(command[0], command)


main()
