"""The process-wide connection guard: no socket reaches an address that no open permit covers.

An audit hook cannot be removed once added (PEP 578), so not even a dependency can get past it from Python code.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

ADDRESSED = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
NAMED = frozenset(
    {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"}
)


class ConnectionRefusedByPolicy(PermissionError):
    """Somebody tried to reach an address that no permit covers. The address is not in the text."""


class Guard:
    """What is open now: names that may be looked up and (address, port) pairs that may be connected to."""

    def __init__(self) -> None:
        self._names: Counter[str] = Counter()
        self._addresses: Counter[tuple[str, int]] = Counter()
        self.installed = False

    def install(self) -> None:
        """Refuse everything else in this process from now on; cannot be undone."""
        if not self.installed:
            self.installed = True
            sys.addaudithook(self._hook)

    @contextmanager
    def name(self, host: str) -> Iterator[None]:
        """Allow looking up `host` while the context is open."""
        with _held(self._names, host):
            yield

    @contextmanager
    def addresses(self, pairs: frozenset[tuple[str, int]]) -> Iterator[None]:
        """Allow connecting to these (IP address, port) pairs while the context is open."""
        self._addresses.update(pairs)
        try:
            yield
        finally:
            self._addresses.subtract(pairs)

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if event in ADDRESSED and not self._covers(args[1]):
            raise ConnectionRefusedByPolicy("no permit covers this connection")
        if event in NAMED and self._names[_host(args[0])] <= 0:
            raise ConnectionRefusedByPolicy("no permit covers this name look-up")

    def _covers(self, address: Any) -> bool:
        if address is None:  # sendmsg on a socket that is connected already, and so was judged then
            return True
        return isinstance(address, tuple) and self._addresses[(_host(address[0]), address[1])] > 0


@contextmanager
def _held(counter: Counter[str], key: str) -> Iterator[None]:
    counter[key] += 1
    try:
        yield
    finally:
        counter[key] -= 1


def _host(value: Any) -> str:
    text = value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)
    return text.partition("%")[0].lower()
