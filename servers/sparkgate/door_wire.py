"""The connection of a door to its engine: to the one configured origin, with TLS where its URL says so."""

from __future__ import annotations

import errno
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sparkgate.policy.model_door.plan import Door

if TYPE_CHECKING:
    import ssl

READ_BYTES = 65_536
_contexts: list[ssl.SSLContext] = []
_spares: list[socket.socket] = []
_FOUR, _SIX, _STREAM = int(socket.AF_INET), int(socket.AF_INET6), int(socket.SOCK_STREAM)
_SHAKING = (errno.EINPROGRESS, errno.EAGAIN)


def refill() -> None:
    """Have a socket ready for the next request: making it then would be time to its first token."""
    if not _spares:
        _spares.append(_made(_FOUR))


def _made(family: int) -> socket.socket:
    made = socket.socket(family, _STREAM)
    made.setblocking(False)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def end_writing(descriptor: int) -> None:
    """Say that no more comes. A close would make the kernel take back what has not been read when more was sent."""
    link = socket.socket(fileno=descriptor)
    try:
        with suppress(OSError):
            link.shutdown(socket.SHUT_WR)
    finally:
        link.detach()


class Lost(Exception):
    """The connection cannot be made, or is gone."""


class Wire:
    """One connection to one address of a door's origin; nothing of it waits.

    `is_open` once requests may be sent; until then `waits_to_read` tells what it waits for.

    Raises:
        Lost: the address refuses at once.
    """

    def __init__(self, door: Door, address: str) -> None:
        self._door, self._tls = door, False
        self.is_open = self.waits_to_read = False
        self._socket: Any = (
            _spares.pop() if _spares and ":" not in address else _made(_SIX if ":" in address else _FOUR)
        )
        self._again: tuple[type[Exception], ...] = (BlockingIOError,)
        try:
            if not address.startswith("127."):
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if self._socket.connect_ex((address, door.port)) not in (0, *_SHAKING):
                raise Lost
        except OSError as error:
            self.close()
            raise Lost from error
        except Lost:
            self.close()
            raise

    @property
    def descriptor(self) -> int:
        return int(self._socket.fileno())

    def connected(self) -> bool:
        """Go on connecting when it can be written; whether requests may be sent now. Raises Lost."""
        if not self._tls:
            if self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise Lost
            if self._door.scheme == "https":
                self._begin_tls()
        if self._tls and not self._shaken():
            return False
        self.is_open = True
        return True

    def _begin_tls(self) -> None:
        import ssl

        if not _contexts:
            _contexts.append(ssl.create_default_context())
        self._again = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
        self._tls = True
        try:
            self._socket = _contexts[0].wrap_socket(
                self._socket, server_hostname=self._door.host, do_handshake_on_connect=False
            )
        except (OSError, ValueError) as error:
            raise Lost from error

    def _shaken(self) -> bool:
        try:
            self._socket.do_handshake()
        except self._again as error:
            self.waits_to_read = type(error).__name__ == "SSLWantReadError"
            return False
        except OSError as error:
            raise Lost from error
        return True

    def begin(self, data: memoryview) -> int:
        """How much was taken at once, without waiting to be told that the connection stands; on one machine it does.

        Raises:
            Lost: it does not come about.
        """
        if self._door.scheme != "http":
            return 0
        sent = self.send(data)
        self.is_open = sent > 0
        return sent

    @property
    def holds_back(self) -> bool:
        """Whether bytes that have come are held where no event tells of them."""
        return self._tls and self._socket.pending() > 0

    def receive(self) -> bytes | None:
        """What has come: None for nothing yet, b"" for its end. Raises Lost."""
        try:
            return bytes(self._socket.recv(READ_BYTES))
        except self._again:
            return None
        except OSError as error:
            raise Lost from error

    def send(self, data: memoryview) -> int:
        """How much was taken. Raises Lost."""
        try:
            return int(self._socket.send(data))
        except self._again:
            return 0
        except OSError as error:
            raise Lost from error

    def close(self) -> None:
        with suppress(OSError):
            self._socket.close()
