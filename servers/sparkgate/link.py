"""The Unix socket between pipe and gate: how to reach it, how to say hello, who is there. Standard library only."""

from __future__ import annotations

import json
import os
import socket
import struct
from typing import Any, NamedTuple

from sparkgate import paths
from sparkgate.version import __version__

HELLO_FORMAT = 1
_UCRED = struct.Struct("iII")
"""pid, uid, gid: `struct ucred` of unix(7)."""
SO_PEERGROUPS = 59
"""asm-generic/socket.h, Linux 4.13; Python has no name for it."""
MOST_GROUP_BYTES = 1024
"""What Python reads of an option at most: 256 groups. Who is in more counts as one whose groups cannot be read."""


class Barred(Exception):
    """This user may not come as far as the gate, or who listens there may not be it; the message says why."""


NOT_IN_GROUP = "this user may not use the gate of this machine: it is not in the group of {path}; its operator adds it"


class Peer(NamedTuple):
    """The process on the other side of a connection, and whose it is."""

    pid: int
    uid: int
    gid: int


def connect(path: str) -> socket.socket:
    """Connect to a gate's socket, without waiting; the socket returned does not block either.

    Raises:
        BlockingIOError: somebody listens there and does not accept.
        OSError: nothing listens there.
        Barred: this user may not, or whoever listens there may be anybody.
    """
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.setblocking(False)
    try:
        found = os.fstat(folder)
        if paths.means_system() and not paths.is_of_system(found):
            raise Barred(f"{os.path.dirname(path)} is not the folder of root or of {paths.SYSTEM.account} alone")
        link.connect(paths.short_socket_path(path, folder))
        uid = peer(link).uid
        if not paths.is_gate_user(uid) and not (paths.means_system() and paths.is_private(found)):
            raise Barred(f"{path} is served by another user ({uid})")
    except PermissionError as error:
        link.close()
        raise Barred(NOT_IN_GROUP.format(path=path)) if paths.means_system() else error from None
    except (OSError, Barred):
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


def peer(link: socket.socket) -> Peer:
    """Who is on the other side, from the kernel (SO_PEERCRED); of a listening socket it is who made it listen."""
    return Peer(*_UCRED.unpack(link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)))


def peer_groups(link: socket.socket) -> tuple[int, ...] | None:
    """Every group of who is on the other side, from the kernel, its own first; None when that cannot be read."""
    try:
        told = link.getsockopt(socket.SOL_SOCKET, SO_PEERGROUPS, MOST_GROUP_BYTES)
    except OSError:
        return None
    return peer(link).gid, *(one for (one,) in struct.iter_unpack("=I", told))


def _cwd() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""
