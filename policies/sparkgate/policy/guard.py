"""The process-wide connection guard: no socket reaches an address that no open permit covers.

An audit hook cannot be removed once added (PEP 578), so not even a dependency gets past it from Python code. It is no
wall against code that means harm inside this process (ctypes aside, which is refused too, there is native code): that
wall is the confinement of the whole process.
"""

from __future__ import annotations

import ipaddress
import sys
import threading
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

LOCAL_FAMILIES = frozenset({1})
"""AF_UNIX: the only sockets that may be made while no permit is open (socket(2))."""
ADDRESSED = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
NAMED = frozenset({"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"})
BYPASSES = frozenset(
    {"cpython.PyInterpreterState_New", "ctypes.dlopen", "ctypes.dlsym", "ctypes.call_function"}
    | {"os.exec", "os.posix_spawn", "os.spawn", "os.system", "os.fork", "os.forkpty"}
)
"""A new interpreter has no hooks, foreign functions raise no events, and a child process is not guarded.

`subprocess.Popen`, the one way to a child that a permit can open, is not among them.
"""
INTERPRETERS = frozenset({"_interpreters", "_xxsubinterpreters", "_testcapi", "_testinternalcapi"})
"""Modules that make interpreters; from 3.13 on they do so without an event."""


class ConnectionRefusedByPolicy(PermissionError):
    """Somebody tried to reach an address that no permit covers. The address is not in the text."""


class Guard:
    """What is open now: names that may be looked up and (address, port) pairs that may be connected to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[Hashable, int] = {}
        self._leads_out = False
        self.installed = False

    def install(self) -> None:
        """Refuse everything else in this process from now on; cannot be undone."""
        if not self.installed:
            self.installed = True
            sys.addaudithook(self._hook)

    @contextmanager
    def name(self, host: str) -> Iterator[None]:
        """Allow looking up `host` while the context is open."""
        with self._held([host.lower()]):
            yield

    @contextmanager
    def addresses(self, pairs: Iterable[tuple[str, int]]) -> Iterator[None]:
        """Allow connecting to these (IP address, port) pairs while the context is open.

        Raises:
            ValueError: not an IP address.
        """
        with self._held([(canonical(address), port) for address, port in pairs]):
            yield

    @contextmanager
    def child(self, argv: Sequence[str]) -> Iterator[None]:
        """Allow starting exactly this command, its program as an absolute path, while the context is open.

        The child is not guarded: it must be one that the operator has named.
        """
        with self._held([("child", *argv)]):
            yield

    @contextmanager
    def _held(self, keys: list[Hashable]) -> Iterator[None]:
        self._count(keys, 1)
        try:
            yield
        finally:
            self._count(keys, -1)

    def _count(self, keys: list[Hashable], step: int) -> None:
        with self._lock:
            for key in keys:
                self._open[key] = self._open.get(key, 0) + step
                if not self._open[key]:
                    del self._open[key]
            # A permit for a child opens no socket.
            self._leads_out = any(not isinstance(key, tuple) or key[0] != "child" for key in self._open)

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if event in ADDRESSED:
            self._refuse_unless(args[1] is None or self._covers_address(args[1]))
        elif event in NAMED:
            self._refuse_unless(self._covers_name(args[0]))
        elif event == "socket.__new__":
            # Connecting to a name looks it up in C before any event, so there is no socket without a permit.
            self._refuse_unless(args[1] in LOCAL_FAMILIES or self._leads_out)
        elif event == "subprocess.Popen":
            self._refuse_unless(self._covers_child(args[0], args[1]))
        elif event in BYPASSES or (event == "import" and args[0] in INTERPRETERS):
            self._refuse_unless(False)

    def _covers_address(self, address: Any) -> bool:
        """`None` is not asked here: it is sendmsg on a socket that is connected, and so was judged, already."""
        if type(address) is not tuple or len(address) < 2 or type(address[0]) is not str or type(address[1]) is not int:
            return False
        if (address[0], address[1]) in self._open:  # spelt as it is kept, which is most of the time
            return True
        try:
            return (canonical(address[0]), address[1]) in self._open
        except ValueError:
            return False

    def _covers_child(self, program: Any, argv: Any) -> bool:
        if type(argv) not in (list, tuple) or not argv or not all(type(word) is str for word in argv):
            return False
        return program in (None, argv[0]) and ("child", *argv) in self._open

    def _covers_name(self, name: Any) -> bool:
        if type(name) is bytes:
            name = name.decode("ascii", "replace")
        return type(name) is str and name.lower() in self._open

    @staticmethod
    def _refuse_unless(allowed: bool) -> None:
        if not allowed:
            raise ConnectionRefusedByPolicy("no permit covers this connection")


def canonical(address: str) -> str:
    """One spelling for every IP address, without its zone.

    Raises:
        ValueError: not an IP address.
    """
    return str(ipaddress.ip_address(address.partition("%")[0]))
