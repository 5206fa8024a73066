"""System calls by name: their numbers on each machine, and a call that raises OSError.

Numbers are from arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h of Linux 6.18.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass

LIBC = ctypes.CDLL(None, use_errno=True)

NUMBERS: Mapping[str, tuple[int | None, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "capset": (126, 91),
    "chmod": (90, None),
    "chroot": (161, 51),
    "clone": (56, 220),
    "clone3": (435, 435),
    "connect": (42, 203),
    "creat": (85, None),
    "create_module": (174, None),
    "delete_module": (176, 106),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioctl": (16, 29),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "landlock_add_rule": (445, 445),
    "landlock_create_ruleset": (444, 444),
    "landlock_restrict_self": (446, 446),
    "lookup_dcookie": (212, 18),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "name_to_handle_at": (303, 264),
    "open": (2, None),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "openat": (257, 56),
    "openat2": (437, 437),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "seccomp": (317, 277),
    "setns": (308, 268),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}
"""Name → number on x86_64, number on aarch64; None where the machine has no such call."""


@dataclass(frozen=True)
class Machine:
    """What a machine calls itself: `audit` is its AUDIT_ARCH_* of linux/audit.h, `column` its place in `NUMBERS`."""

    name: str
    audit: int
    column: int
    foreign_bit: int = 0
    """The bit that marks a number of another table under the same `audit`: __X32_SYSCALL_BIT of asm/unistd.h."""

    def number(self, name: str) -> int | None:
        """The number of the system call `name`, None where this machine has none."""
        return NUMBERS[name][self.column]


MACHINES = {
    "x86_64": Machine("x86_64", 0xC000003E, 0, 0x40000000),
    "aarch64": Machine("aarch64", 0xC00000B7, 1),
}


def this_machine() -> Machine:
    """The machine this process runs on.

    Raises:
        OSError: (ENOSYS) its numbers are not in the table.
    """
    name = platform.machine()
    if name not in MACHINES:
        raise OSError(errno.ENOSYS, f"no system call numbers for {name}: confinement runs on {' and '.join(MACHINES)}")
    return MACHINES[name]


def checked(result: int) -> int:
    """`result` of a function of the C library, unless it is -1.

    Raises:
        OSError: with the errno of this thread's last call.
    """
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def syscall(name: str, *arguments: object) -> int:
    """syscall(2) by name; an int is passed as a long, everything else as ctypes does.

    Raises:
        OSError: the kernel refused, or (ENOSYS) this machine has no such call.
    """
    number = this_machine().number(name)
    if number is None:
        raise OSError(errno.ENOSYS, f"{name}: no such system call on {platform.machine()}")
    passed = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return checked(LIBC.syscall(ctypes.c_long(number), *passed))
