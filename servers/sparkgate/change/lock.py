"""A lock that holds for the whole machine, across users and folders, and that the kernel drops with its holder.

It is an abstract Unix socket (unix(7)): bound by one process at a time, and closed with that process however it ends.
A network namespace has its own.
"""

from __future__ import annotations

import socket
from pathlib import Path

from sparkgate.machine.listeners import socket_owners


class Taken(Exception):
    """Somebody else holds the lock; `pid` tells who, 0 when that cannot be told."""

    def __init__(self, pid: int) -> None:
        super().__init__(f"process {pid}" if pid else "another user")
        self.pid = pid


class MachineLock:
    """Taken from the moment it is made until `release`, or until this process ends.

    Raises:
        Taken: another process, or another job of this one, holds it.
    """

    def __init__(self, name: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.bind(_address(name))
        except OSError:
            self._socket.close()
            raise Taken(holder(name)) from None

    def release(self) -> None:
        self._socket.close()


def holder(name: str) -> int:
    """Process id of the holder; 0 when nobody holds the lock, or another user does."""
    path = _address(name).replace(b"\0", b"@").decode()
    rows = (row.split() for row in Path("/proc/net/unix").read_text(errors="replace").splitlines())
    inodes = {row[6] for row in rows if row[7:] == [path]}
    return min((pid for pids in socket_owners(inodes).values() for pid in pids), default=0)


def _address(name: str) -> bytes:
    return b"\0sparkgate/" + name.encode()[:80]
