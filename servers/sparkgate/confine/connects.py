"""Answers connect(2) of confined processes, from outside: only what lives in their network namespace can be reached.

    supervisor = ConnectSupervisor(listener, diag, on_refused)
    poll.register(supervisor, select.POLLIN)      and on each event, and once at the end: supervisor.step()

A network namespace closes everything but Unix sockets that have a path: whoever sees the file can connect, whichever
namespace listens. A filter cannot look at a path, and letting a call go on after a look would lose to a second thread
that changes the address or the descriptor in between. So the call of the confined process never goes on: its address
and its socket are copied, the *copies* are judged, and they are connected by this process in its stead. What was judged
is what is used, so there is nothing to win by changing the originals.

An address with a path is opened as the caller would open it, and the file that is found must be one that sock_diag
calls bound inside and not bound outside, or be one of those allowed; the connection then goes to that open file. So it
does not matter how the path was resolved, only what it led to. Where a file system has inode numbers of more than 32
bits, sock_diag shortens them: a socket of a *third* namespace with the same low bits as one inside would pass; one of
this process's namespace never.

What differs from a connect of one's own: the other side sees this process in SO_PEERCRED (the same user, process 0
seen from inside), folders and Landlock rules are this process's to pass and not the caller's, /proc/self/… in a path
leads nowhere, and no signal but a fatal one interrupts a connect that waits.

Numbers are from linux/seccomp.h and asm-generic/socket.h. Needs Linux 5.14.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import queue
import select
import signal
import stat
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from sparkgate.confine import unix_sockets
from sparkgate.confine.callers import (
    FOREIGN,
    OTHER_NETWORK,
    REFUSALS,
    UNOWNED,
    Call,
    Refused,
    address_of,
    duplicate,
    mounted_device,
    opened,
    path_of,
)
from sparkgate.confine.syscalls import LIBC, checked

NOTIF_RECV, NOTIF_SEND, NOTIF_ID_VALID = 0xC0502100, 0xC0182101, 0x40082102
NOTIFICATION, ANSWER = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")
"""struct seccomp_notif and struct seccomp_notif_resp."""
SOL_SOCKET, SO_DOMAIN, SO_NETNS_COOKIE = 1, 39, 71
FAMILIES = (unix_sockets.AF_UNIX, 2, 10)
"""AF_UNIX, AF_INET and AF_INET6: what they connect to needs no capability, which this process might lend."""
MOST_WAITING = 64
"""Connects that may wait at one time for a listener with a full backlog; one more gets EAGAIN."""


class ConnectSupervisor:
    """Serves the listener that `seccomp.install` returned inside.

    Args:
        listener_fd: belongs to this object from now on, which lives as long as its process.
        diag: `unix_sockets.open_diag()` of the confined network namespace; belongs to this object too.
        on_refused: gets a key of `callers.REFUSALS`, never text of the caller; is called by `step`.
        allowed: sockets of the outside that may be connected to, as paths outside. What stands at such a path counts,
            also when it comes later, but no symbolic link that is put there later: nobody inside may be able to
            rename in its folder.

    Raises:
        OSError: the kernel does not tell which sockets are bound (no sock_diag for Unix sockets) or to which network
            namespace a socket belongs (before Linux 5.14).
    """

    def __init__(
        self, listener_fd: int, diag: int, on_refused: Callable[[str], None], allowed: Iterable[str] = ()
    ) -> None:
        self._listener = listener_fd
        self._on_refused = on_refused
        self._refused: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._bindings = _Bindings(diag, allowed)
        self._network = _option(diag, SO_NETNS_COOKIE, ctypes.c_uint64())
        self._crew = _Crew(self._serve)
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll = select.epoll()
        self._poll.register(listener_fd, select.EPOLLIN)
        self._poll.register(self._bell, select.EPOLLIN)
        self._open = True

    def fileno(self) -> int:
        """Readable when there is something to do for `step`."""
        return self._poll.fileno()

    def step(self) -> bool:
        """Take one waiting call, if there is one, and tell of refusals, without waiting.

        False when no call can come any more, as the last confined process has ended.
        """
        events = dict(self._poll.poll(0))
        if self._bell in events:
            os.eventfd_read(self._bell)
        while not self._refused.empty():
            self._on_refused(self._refused.get())
        calling = events.get(self._listener, 0)
        if calling & select.EPOLLIN:
            self._take()
        elif calling and self._open:
            self._poll.unregister(self._listener)
            self._open = False
        return self._open

    def _take(self) -> None:
        try:
            notification = fcntl.ioctl(self._listener, NOTIF_RECV, bytes(NOTIFICATION.size))
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINTR):
                return
            raise
        number, tid, *_, descriptor, address, length, _, _, _ = NOTIFICATION.unpack(notification)
        call = Call(number, tid, ctypes.c_int(descriptor).value, address, ctypes.c_int(length).value)
        if not self._crew.take(call):
            self._answer(call, errno.EAGAIN)

    def _serve(self, call: Call) -> None:
        try:
            self._connect(call)
        except Refused as refusal:
            self._refuse(call, str(refusal))
        except OSError as error:
            self._answer(call, error.errno or errno.EACCES)
        except Exception:
            self._answer(call, errno.EACCES)
        else:
            self._answer(call, 0)

    def _connect(self, call: Call) -> None:
        with duplicate(call) as copy:
            address = address_of(call)
            if _option(copy, SO_NETNS_COOKIE, ctypes.c_uint64()) != self._network:
                raise Refused(OTHER_NETWORK)
            family = _option(copy, SO_DOMAIN, ctypes.c_int())
            if family not in FAMILIES:
                raise OSError(errno.EPERM, "this process may connect what the caller may not")
            path = path_of(address) if family == unix_sockets.AF_UNIX else None
            if path is None:
                self._check(call)
                _connect_to(copy, address)
                return
            with opened(call.tid, path) as file:
                self._bindings.check(file, call.tid)
                self._check(call)
                _connect_to(copy, struct.pack("=H", unix_sockets.AF_UNIX) + b"/proc/self/fd/%d\0" % file)

    def _refuse(self, call: Call, reason: str) -> None:
        """Told before it is answered, so that the caller cannot have ended by then; nothing if it had already."""
        with suppress(OSError):
            self._check(call)
            self._refused.put(reason)
            os.eventfd_write(self._bell, 1)
        self._answer(call, REFUSALS[reason])

    def _check(self, call: Call) -> None:
        """The call still waits, so that every look so far was at its thread and not at a later one of that number."""
        fcntl.ioctl(self._listener, NOTIF_ID_VALID, struct.pack("=Q", call.id))

    def _answer(self, call: Call, number: int) -> None:
        """Tell the caller the errno, 0 for done; nothing when it is gone."""
        with suppress(OSError):
            fcntl.ioctl(self._listener, NOTIF_SEND, ANSWER.pack(call.id, 0, -number, 0))


class _Crew:
    """Threads that do `work`, each started when all others are busy, at most `MOST_WAITING`."""

    def __init__(self, work: Callable[[Call], None]) -> None:
        self._work = work
        self._calls: queue.SimpleQueue[Call] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = self._started = 0

    def take(self, call: Call) -> bool:
        """Have `call` done; False when everybody is busy."""
        with self._lock:
            if not self._idle:
                if self._started == MOST_WAITING:
                    return False
                threading.Thread(target=self._loop, name="connect", daemon=True).start()
                self._started += 1
                self._idle += 1
            self._idle -= 1
        self._calls.put(call)
        return True

    def _loop(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while True:
            self._work(self._calls.get())
            with self._lock:
                self._idle += 1


class _Bindings:
    """Which files are sockets of the confined network namespace or allowed ones, asked anew for each connect."""

    def __init__(self, diag: int, allowed: Iterable[str]) -> None:
        self._allowed = [place for path in allowed for place in _places(path)]
        self._inside, self._outside = diag, unix_sockets.open_diag()
        self._lock = threading.Lock()
        self._ask()

    def check(self, file: int, tid: int) -> None:
        """`file` is no socket, an allowed one, or one bound inside and not outside. Raises Refused, OSError."""
        found = os.fstat(file)
        if not stat.S_ISSOCK(found.st_mode) or self._is_allowed(found):
            return
        inside, outside = self._ask()
        name = unix_sockets.bound_to(found.st_dev, found.st_ino)
        if name not in inside | outside:
            name = unix_sockets.bound_to(mounted_device(file, tid), found.st_ino)
        if name in outside:
            raise Refused(FOREIGN)
        if name not in inside:
            raise Refused(UNOWNED)

    def _is_allowed(self, found: os.stat_result) -> bool:
        for folder, name in self._allowed:
            with suppress(OSError):
                if os.path.samestat(found, os.stat(name, dir_fd=folder, follow_symlinks=False)):
                    return True
        return False

    def _ask(self) -> tuple[set[unix_sockets.BoundTo], set[unix_sockets.BoundTo]]:
        with self._lock:
            return unix_sockets.bound(self._inside), unix_sockets.bound(self._outside)


def _places(path: str) -> Iterator[tuple[int, str]]:
    """The folder where a path ends when all its links are followed, held open, and the name there; none without."""
    real = Path(path).resolve()
    with suppress(OSError):
        yield os.open(real.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC), real.name


def _option(descriptor: int, option: int, value: ctypes.c_int | ctypes.c_uint64) -> int:
    """A number that getsockopt(2) tells at SOL_SOCKET. Raises OSError (ENOTSOCK)."""
    size = ctypes.c_uint(ctypes.sizeof(value))
    checked(LIBC.getsockopt(descriptor, SOL_SOCKET, option, ctypes.byref(value), ctypes.byref(size)))
    return value.value


def _connect_to(descriptor: int, address: bytes) -> None:
    checked(LIBC.connect(descriptor, address, len(address)))
