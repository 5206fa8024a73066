"""Whose program asks: loopback is open to every user of a machine, and the log belongs to one."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from sparkgate.clients.audit_web.guard import App, Message, Receive, Send, say

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
"""The kernel's tables of connections, each with the user who made it."""
ESTABLISHED = "01"
LOCAL, REMOTE, STATE, UID = 1, 2, 3, 7
"""Columns of a line."""
ROOT = 0
Address = tuple[str, int]
"""An IPv4 address and a port."""


def for_user(app: App, uid: int, tables: Sequence[Path] = TABLES) -> App:
    """The application for the programs of one user, and of root, who can read the log anyway."""

    async def answer(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not _is_from(scope, uid, tables):
            await say(send, 403, "This log belongs to another user of this machine.")
        else:
            await app(scope, receive, send)

    return answer


def _is_from(scope: Message, uid: int, tables: Sequence[Path]) -> bool:
    client, server = scope.get("client"), scope.get("server")
    if not client or not server:
        return False
    return owner(client, server, tables) in (uid, ROOT)


def owner(client: Address, server: Address, tables: Sequence[Path] = TABLES) -> int | None:
    """The user whose socket is at the client's end of an open connection; None when the kernel tells of none."""
    ends = set(zip(_forms(client), _forms(server), strict=True))
    for fields in _lines(tables):
        if (fields[LOCAL], fields[REMOTE]) in ends and fields[STATE] == ESTABLISHED:
            return int(fields[UID])
    return None


def _forms(address: Address) -> tuple[str, str]:
    """An address as the tables for IPv4 and IPv6 write it: words of 32 bits in the byte order of the machine."""
    host, port = address
    word = f"{int.from_bytes(bytes(map(int, host.split('.'))), sys.byteorder):08X}"
    mapped = f"{int.from_bytes(bytes.fromhex('0000FFFF'), sys.byteorder):08X}"
    return f"{word}:{port:04X}", f"{'0' * 16}{mapped}{word}:{port:04X}"


def _lines(tables: Sequence[Path]) -> Iterator[list[str]]:
    for table in tables:
        try:
            lines = table.read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        yield from (fields for line in lines if len(fields := line.split()) > UID)
