"""What supervisor and inside say to each other: JSON lines on a socket pair, some with descriptors."""

from __future__ import annotations

import json
import os
import socket
from typing import Any

MAX_DESCRIPTORS = 64
BACKLOG = 128
GATE = ".gate"
"""Name of the listener that is no engine's; no engine can be called so."""
CANNOT_START = 126
"""What shells end with when a command cannot be started (POSIX)."""
CHUNK_BYTES = 65_536


class Ended(Exception):
    """The other side closed before it had said what was awaited."""


class Line:
    """One side of the pair. A message with descriptors must be awaited before the next one is sent."""

    def __init__(self, pair: socket.socket) -> None:
        self._pair = pair
        self._rest = b""

    def say(self, message: dict[str, Any], descriptors: list[int] | None = None) -> None:
        data = json.dumps(message).encode() + b"\n"
        if not descriptors:
            self._pair.sendall(data)
            return
        sent = socket.send_fds(self._pair, [data], descriptors)
        if sent < len(data):  # the other side may have closed by now when it has all it waited for
            self._pair.sendall(data[sent:])

    def hear(self) -> tuple[dict[str, Any], list[int]]:
        """The next message and its descriptors, which belong to the caller from now on. Raises Ended."""
        descriptors: list[int] = []
        while b"\n" not in self._rest:
            try:
                data, found, _, _ = socket.recv_fds(self._pair, CHUNK_BYTES, MAX_DESCRIPTORS)
            except ConnectionResetError:
                data, found = b"", []
            descriptors += found
            if not data:
                for one in descriptors:
                    os.close(one)
                raise Ended
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return dict(json.loads(line)), descriptors

    def close(self) -> None:
        self._pair.close()
