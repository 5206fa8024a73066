"""The Unix socket between pipe and gate: how to reach it, how to say hello, who is there. Standard library only."""

from __future__ import annotations

import json
import os
import socket
import struct
from typing import Any

from sparkgate import paths
from sparkgate.version import __version__

HELLO_FORMAT = 1
_UCRED = struct.Struct("iII")
"""pid, uid, gid: `struct ucred` of unix(7)."""


def connect(path: str) -> socket.socket:
    """Connect to a gate's socket, without waiting; the socket returned does not block either.

    Raises:
        BlockingIOError: somebody listens there and does not accept.
        OSError: nothing listens there.
    """
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.setblocking(False)
    try:
        link.connect(paths.short_socket_path(path, folder))
    except OSError:
        link.close()
        raise
    finally:
        os.close(folder)
    return link


def hello(toolset: str, **extra: Any) -> bytes:
    """The one line a connection starts with."""
    about = {"sparkgate": HELLO_FORMAT, "toolset": toolset, "version": __version__}
    about |= {"pid": os.getpid(), "uid": os.getuid(), "cwd": _cwd(), **extra}
    return json.dumps(about).encode() + b"\n"


def peer(link: socket.socket) -> tuple[int, int]:
    """(pid, uid) of the process on the other side, from the kernel (SO_PEERCRED)."""
    pid, uid, _gid = _UCRED.unpack(link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    return pid, uid


def _cwd() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""
