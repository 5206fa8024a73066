"""The system call filter of a confined process: a table of rules, its classic BPF program, and how it is put on.

    listener = install(supervised=True)      in the process that then runs the command

The filter is inherited by everything that process starts and cannot be taken off. It closes what namespaces leave open:
socket families that no network namespace isolates, ways around the filter itself, and kernel interfaces that an agent
has no use for. Numbers are from linux/seccomp.h, linux/filter.h, linux/sched.h, linux/socket.h, linux/stat.h and
asm-generic/fcntl.h.

ptrace(2) is left open on purpose: debuggers need it, and whoever may trace a process may also write its memory
through /proc, so closing it would close nothing. It leads nowhere as long as every process inside is under this
filter: the kernel looks at a call *after* a tracer has changed it (Linux 4.8), and a supervised connect works on
copies. Process 1 of the pid namespace must therefore be under the filter too, or not be dumpable.
"""

from __future__ import annotations

import ctypes
import errno
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from sparkgate.confine.syscalls import LIBC, Machine, checked, syscall, this_machine

KILL_PROCESS, ERRNO, USER_NOTIF, ALLOW = 0x80000000, 0x00050000, 0x7FC00000, 0x7FFF0000
PR_SET_NO_NEW_PRIVS = 38
SET_MODE_FILTER = 1
NEW_LISTENER, WAIT_KILLABLE_RECV = 1 << 3, 1 << 5

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
STREAM, DGRAM, RAW, SEQPACKET = 1, 2, 3, 5
KIND = 0xF
"""SOCK_TYPE_MASK: what is left of a socket's type without SOCK_NONBLOCK and SOCK_CLOEXEC."""
ANY_PROTOCOL, TCP, UDP, NETLINK_ROUTE = 0, 6, 17, 0
NEW_NAMESPACES = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET."""
NEW_TIME = 0x80
"""CLONE_NEWTIME; in clone(2) these bits are the signal at exit."""
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
S_ISUID = 0o4000
MAKES_A_FILE = 0o20000100
"""O_CREAT and __O_TMPFILE: without either, open(2) has no mode, and what lies in its place is chance."""


class SeccompError(OSError):
    """The filter could not be put on; the process is as it was but for PR_SET_NO_NEW_PRIVS."""


@dataclass(frozen=True)
class Condition:
    """A condition on the low 32 bits of one argument (0 to 5): masked, they are one of `values`.

    `any_bit` turns the question round: is any bit of the mask set?
    """

    argument: int
    values: tuple[int, ...] = ()
    mask: int = 0xFFFFFFFF
    any_bit: bool = False

    @property
    def offset(self) -> int:
        """Where the argument lies in struct seccomp_data, in bytes; both machines are little-endian."""
        return 16 + 8 * self.argument


@dataclass(frozen=True)
class Rule:
    """What becomes of `calls` for which every condition holds: the first rule that fits decides, none means allowed.

    `number` is the errno the caller gets, 0 lets the call through.
    """

    calls: tuple[str, ...]
    number: int
    why: str
    conditions: tuple[Condition, ...] = ()

    @property
    def action(self) -> int:
        return ERRNO | self.number if self.number else ALLOW


SOCKETS = (
    Rule(("socket",), 0, "local streams", (Condition(0, (AF_UNIX,)), Condition(1, (STREAM, SEQPACKET), KIND))),
    Rule(
        ("socket",),
        0,
        "TCP, which ends at the loopback device",
        (Condition(0, (AF_INET, AF_INET6)), Condition(1, (STREAM,), KIND), Condition(2, (ANY_PROTOCOL, TCP))),
    ),
    Rule(
        ("socket",),
        0,
        "UDP, which ends at the loopback device",
        (Condition(0, (AF_INET, AF_INET6)), Condition(1, (DGRAM,), KIND), Condition(2, (ANY_PROTOCOL, UDP))),
    ),
    Rule(
        ("socket",),
        0,
        "getaddrinfo(3) and getifaddrs(3) ask for the addresses of this network namespace",
        (Condition(0, (AF_NETLINK,)), Condition(1, (RAW, DGRAM), KIND), Condition(2, (NETLINK_ROUTE,))),
    ),
    Rule(
        ("socket",),
        errno.EACCES,
        "a Unix datagram names its receiver in sendto(2), past connect(2); raw, ICMP, MPTCP and SCTP sockets and the "
        "other netlink families talk to parts of the kernel that an agent has no use for",
        (Condition(0, (AF_UNIX, AF_INET, AF_INET6, AF_NETLINK)),),
    ),
    Rule(
        ("socket",),
        errno.EAFNOSUPPORT,
        "AF_VSOCK and others are not isolated by a network namespace; AF_PACKET, AF_ALG, AF_XDP, AF_BLUETOOTH, AF_TIPC "
        "and the rest are only surface",
    ),
    Rule(("socketpair",), 0, "local streams", (Condition(0, (AF_UNIX,)), Condition(1, (STREAM, SEQPACKET), KIND))),
    Rule(("socketpair",), errno.EACCES, "either end of a datagram pair can send to any other by its path"),
)

IO_URING = ("io_uring_setup", "io_uring_enter", "io_uring_register")
MOUNTS = (
    "mount",
    "umount2",
    "pivot_root",
    "move_mount",
    "open_tree",
    "open_tree_attr",
    "fsopen",
    "fsmount",
    "fsconfig",
    "fspick",
    "mount_setattr",
)
MODULES = ("init_module", "finit_module", "create_module", "delete_module", "kexec_load", "kexec_file_load")
OPERATOR = ("acct", "swapon", "swapoff", "reboot", "quotactl", "quotactl_fd", "syslog", "iopl", "ioperm")

OTHERS = (
    Rule(IO_URING, errno.ENOSYS, "opens and connects sockets without a system call that a filter sees"),
    Rule(("clone3",), errno.ENOSYS, "its flags lie in memory, out of a filter's sight; C libraries fall back to clone"),
    Rule(
        ("clone",),
        errno.EPERM,
        "a new user namespace gives capabilities, and with them the kernel's less tried half",
        (Condition(0, mask=NEW_NAMESPACES, any_bit=True),),
    ),
    Rule(
        ("unshare",),
        errno.EPERM,
        "a new user namespace gives capabilities, and with them the kernel's less tried half",
        (Condition(0, mask=NEW_NAMESPACES | NEW_TIME, any_bit=True),),
    ),
    Rule(("setns",), errno.EPERM, "enters another namespace, such as one with a network"),
    Rule((*MOUNTS, "chroot"), errno.EPERM, "changes the view of the file system"),
    Rule(
        ("seccomp",),
        errno.EBUSY,
        "of two filters that notify, the newer one is asked, and its holder could let a connect go on; today's kernels "
        "allow one listener and say EBUSY themselves",
        (Condition(1, mask=NEW_LISTENER, any_bit=True),),
    ),
    Rule(
        ("ioctl",),
        errno.EPERM,
        "types into the terminal of the shell that started the command",
        (Condition(1, (TIOCSTI, TIOCLINUX)),),
    ),
    Rule(("pidfd_getfd",), errno.EPERM, "takes a descriptor out of another process"),
    Rule(("process_vm_readv", "process_vm_writev", "kcmp"), errno.EPERM, "looks into another process"),
    Rule(("bpf", "perf_event_open", "userfaultfd"), errno.EPERM, "the usual first step of kernel exploits"),
    Rule(("add_key", "request_key", "keyctl"), errno.EPERM, "keyrings are the user's, not the namespace's"),
    Rule(
        ("name_to_handle_at", "open_by_handle_at", "lookup_dcookie"),
        errno.EPERM,
        "opens files by number, past the view of the file system",
    ),
    Rule(MODULES, errno.EPERM, "changes the kernel"),
    Rule(OPERATOR, errno.EPERM, "is the machine's operator's"),
    Rule(("modify_ldt",), errno.EPERM, "segments of 16-bit programs"),
)

SET_USER_ID = "a program that outside runs with the rights of whoever was confined, even of root, and unconfined"


def _set_user_id(calls: tuple[str, ...], mode: int, flags: int | None = None) -> Rule:
    """Refuses S_ISUID in the argument `mode`; with the argument `flags`, only where they make a file."""
    making = () if flags is None else (Condition(flags, mask=MAKES_A_FILE, any_bit=True),)
    return Rule(calls, errno.EPERM, SET_USER_ID, (*making, Condition(mode, mask=S_ISUID, any_bit=True)))


FILES = (
    _set_user_id(("chmod", "fchmod", "creat", "mknod"), mode=1),
    _set_user_id(("fchmodat", "fchmodat2", "mknodat"), mode=2),
    _set_user_id(("open",), mode=2, flags=1),
    _set_user_id(("openat",), mode=3, flags=2),
    Rule(("openat2",), errno.ENOSYS, "its mode lies in memory, out of a filter's sight; programs fall back to openat"),
)
"""Set-group-id stays: folders have it to hand their group on, and a filter cannot tell a folder from a program."""

RULES = SOCKETS + OTHERS + FILES
CONNECT = "connect"
"""The call that a supervisor answers; which socket it would reach, a filter cannot see."""


class Instruction(NamedTuple):
    """struct sock_filter of linux/filter.h: `jt` and `jf` count instructions to skip."""

    code: int
    jt: int
    jf: int
    k: int


LOAD, AND, EQUAL, ANY_BIT, RETURN = 0x20, 0x54, 0x15, 0x45, 0x06
"""BPF_LD|W|ABS, BPF_ALU|AND|K, BPF_JMP|JEQ|K, BPF_JMP|JSET|K and BPF_RET|K."""
NR, ARCH = 0, 4
"""Offsets in struct seccomp_data, in bytes."""


def program(machine: Machine, supervised: bool, rules: Iterable[Rule] = RULES) -> list[Instruction]:
    """The rules as a classic BPF program over struct seccomp_data; `supervised` makes connect(2) ask a listener."""
    made = [Instruction(LOAD, 0, 0, ARCH), Instruction(EQUAL, 1, 0, machine.audit), _answer(KILL_PROCESS)]
    if machine.foreign_bit:
        made += _when(NR, (machine.foreign_bit,), 0, True, [_answer(ERRNO | errno.ENOSYS)])
    if supervised:
        made += _compiled((CONNECT,), (), USER_NOTIF, machine)
    for rule in rules:
        made += _compiled(rule.calls, rule.conditions, rule.action, machine)
    return [*made, _answer(ALLOW)]


def _compiled(
    calls: Iterable[str], conditions: tuple[Condition, ...], action: int, machine: Machine
) -> list[Instruction]:
    """One rule, put together from its end, so that every jump knows how much it skips."""
    numbers = tuple(number for name in calls if (number := machine.number(name)) is not None)
    if not numbers:
        return []
    body = [_answer(action)]
    for condition in reversed(conditions):
        body = _when(
            condition.offset,
            (condition.mask,) if condition.any_bit else condition.values,
            condition.mask,
            condition.any_bit,
            body,
        )
    return _when(NR, numbers, 0xFFFFFFFF, False, body)


def _when(offset: int, values: tuple[int, ...], mask: int, any_bit: bool, body: list[Instruction]) -> list[Instruction]:
    """`body` runs when the word at `offset` is one of `values` (or has a bit of them); else it is skipped."""
    load = [Instruction(LOAD, 0, 0, offset)]
    if any_bit:
        return [*load, *(Instruction(ANY_BIT, 0, len(body), value) for value in values), *body]
    if mask != 0xFFFFFFFF:
        load.append(Instruction(AND, 0, 0, mask))
    last = len(values) - 1
    jumps = [Instruction(EQUAL, last - at, len(body) if at == last else 0, value) for at, value in enumerate(values)]
    return [*load, *jumps, *body]


def _answer(action: int) -> Instruction:
    return Instruction(RETURN, 0, 0, action)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def install(supervised: bool) -> int | None:
    """Put the filter on this process, which must have one thread; also sets PR_SET_NO_NEW_PRIVS.

    With `supervised`, returns the listener, a descriptor that closes at exec: each later connect(2) of this process and
    of its children waits until the holder answers (`connects.ConnectSupervisor`), and fails with ENOSYS when nobody
    holds it any more. Without, returns None.

    Raises:
        SeccompError: the kernel cannot (it has no seccomp, or no notifications, which came with Linux 5.0), or a filter
            of somebody else refuses.
    """
    try:
        checked(LIBC.prctl(PR_SET_NO_NEW_PRIVS, *(ctypes.c_ulong(value) for value in (1, 0, 0, 0))))
        packed = b"".join(struct.pack("=HBBI", *instruction) for instruction in program(this_machine(), supervised))
        given = _Program(len(packed) // 8, packed)
        if not supervised:
            syscall("seccomp", SET_MODE_FILTER, 0, ctypes.byref(given))
            return None
        return _with_listener(given)
    except OSError as error:
        raise SeccompError(error.errno, f"the system call filter cannot be put on: {error.strerror}") from error


def _with_listener(given: _Program) -> int:
    """With WAIT_KILLABLE_RECV (Linux 5.19) no signal but a fatal one interrupts a connect that is being answered."""
    try:
        return syscall("seccomp", SET_MODE_FILTER, NEW_LISTENER | WAIT_KILLABLE_RECV, ctypes.byref(given))
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return syscall("seccomp", SET_MODE_FILTER, NEW_LISTENER, ctypes.byref(given))
