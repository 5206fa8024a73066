"""Things of the outside that a confined process must not reach, so that trying to is possible and harms nobody."""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import asdict, dataclass
from typing import Any

from sparkgate import paths

FOREIGN, FIFO = "foreign.sock", "canary.fifo"


@dataclass(frozen=True, slots=True)
class Targets:
    """Where the canaries sit.

    Attributes:
        pid: a process outside, as it is numbered there.
        tcp, udp, tcp6: ports on 127.0.0.1, and on ::1, outside; 0 where there is no IPv6.
        abstract: name of an abstract Unix socket outside.
        path: a Unix socket that is in sight and belongs to somebody else.
    """

    pid: int
    tcp: int
    udp: int
    tcp6: int
    abstract: str
    path: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Canaries:
    """Listening sockets of every kind; whoever connects is never answered.

    Args:
        folder: where the one with a path is put.
    """

    def __init__(self, folder: str) -> None:
        abstract, path = f"sparkgate-canary-{secrets.token_hex(8)}", os.path.join(folder, FOREIGN)
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", 0))
        self._tcp6 = socket.create_server(("::1", 0), family=socket.AF_INET6) if has_ipv6() else None
        os.mkfifo(os.path.join(folder, FIFO), 0o600)
        self._fifo = os.open(os.path.join(folder, FIFO), os.O_RDWR | os.O_CLOEXEC)
        self._unix = [_listening(f"\0{abstract}"), _listening(path)]
        self.targets = Targets(os.getpid(), _port(self.tcp), _port(self.udp), _port(self._tcp6), abstract, path)

    def close(self) -> None:
        os.close(self._fifo)
        for one in (self.tcp, self.udp, self._tcp6, *self._unix):
            if one:
                one.close()


def has_ipv6() -> bool:
    """Whether this machine has an address of its own by IPv6."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as any_socket:
            any_socket.bind(("::1", 0))
    except OSError:
        return False
    return True


def _listening(name: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    if name.startswith("\0"):
        listener.bind(name)
    else:
        folder = os.open(os.path.dirname(name), os.O_RDONLY | os.O_DIRECTORY)
        listener.bind(paths.short_socket_path(name, folder))
        os.close(folder)
    listener.listen()
    return listener


def _port(bound: socket.socket | None) -> int:
    return int(bound.getsockname()[1]) if bound else 0
