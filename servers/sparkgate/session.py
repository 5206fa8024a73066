"""One connection of the gate: the hello line, then an MCP session of the toolset asked for."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, cast

import anyio
import mcp_types as types
from mcp.server import Server
from mcp.server.stdio import stdio_server
from pydantic import ValidationError

from sparkgate import wire

HELLO_MAX_BYTES = 16_384
READ_BYTES = 65_536
_UCRED = struct.Struct("iII")
"""pid, uid, gid: `struct ucred` of unix(7)."""


class BadHello(ValueError):
    """A connection that does not say who it is."""


@dataclass(frozen=True, slots=True)
class Hello:
    """The first line of a connection. `again` marks a pipe that had a session with an earlier gate."""

    toolset: str
    version: str
    cwd: str = ""
    host: str = ""
    again: bool = False
    do: str = ""


def read_hello(line: bytes) -> Hello:
    """Parse the first line.

    Raises:
        BadHello: it is not the hello of this format.
    """
    try:
        data = json.loads(line)
        if data["sparkgate"] != 1:
            raise BadHello("this gate speaks hello format 1")
        return Hello(
            toolset=str(data["toolset"]),
            version=str(data["version"]),
            cwd=str(data.get("cwd", ""))[:4096],
            host=str(data.get("host", ""))[:80],
            again=bool(data.get("again")),
            do=str(data.get("do", "")),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise BadHello("the first line must be a sparkgate hello") from error


def peer_of(writer: asyncio.StreamWriter) -> tuple[int, int]:
    """(pid, uid) of the process on the other side, from the kernel (SO_PEERCRED)."""
    link = writer.get_extra_info("socket")
    pid, uid, _gid = _UCRED.unpack(link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    return pid, uid


class HostLines:
    """The connection as the two text files the SDK's stdio transport takes.

    A line that the SDK would drop in silence (too long, not UTF-8, not JSON, not JSON-RPC) is answered here.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rest: bytes = b"") -> None:
        self._reader, self._writer = reader, writer
        self._splitter = wire.LineSplitter()
        self.open = wire.OpenRequests()
        self.quiet = asyncio.Event()
        self.quiet.set()
        self._lines = deque(self._splitter.feed(rest))

    async def __aiter__(self) -> AsyncIterator[str]:
        while True:
            while self._lines:
                checked = wire.check(self._lines.popleft())
                error = checked.error or _protocol_error(checked)
                if error:
                    await self._answer(error)
                else:
                    self.open.asked(checked.message or {})
                    self._tell_quiet()
                    yield checked.line.decode()
            data = await self._reader.read(READ_BYTES)
            if not data:
                return
            self._lines.extend(self._splitter.feed(data))

    async def write(self, text: str) -> None:
        await self._answer(text.encode("utf-8", "replace"))
        self.open.answered(json.loads(text))
        self._tell_quiet()

    def _tell_quiet(self) -> None:
        if self.open.ids:
            self.quiet.clear()
        else:
            self.quiet.set()

    async def flush(self) -> None:
        """Nothing is held back: `write` has drained already."""

    async def _answer(self, data: bytes) -> None:
        try:
            self._writer.write(data)
            await self._writer.drain()
        except ConnectionError:
            return  # the reading side sees the end and closes the session


def _protocol_error(checked: wire.Checked) -> bytes:
    try:
        types.jsonrpc_message_adapter.validate_json(checked.line, by_name=False)
    except ValidationError:
        request = wire.request_id_of(checked.message or {})
        return wire.error_line(request, wire.INVALID_REQUEST, "this is not a JSON-RPC 2.0 message")
    return b""


async def read_first_line(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """(first line, what came after it).

    Raises:
        BadHello: the connection ended or the line is too long.
    """
    data = b""
    while b"\n" not in data:
        chunk = await reader.read(READ_BYTES)
        if not chunk or len(data) > HELLO_MAX_BYTES:
            raise BadHello("no hello came")
        data += chunk
    line, _, rest = data.partition(b"\n")
    return line, rest


class Session:
    """A served connection; knows how many requests are open, so that a retiring gate can let them end."""

    def __init__(self, lines: HostLines, writer: asyncio.StreamWriter) -> None:
        self._lines, self._writer = lines, writer

    @property
    def calls(self) -> int:
        return len(self._lines.open.ids)

    async def serve(self, server: Server[Any]) -> None:
        """Run the MCP session until the other side closes."""
        stream = cast("anyio.AsyncFile[str]", self._lines)
        async with stdio_server(stream, stream) as (reader, writer):
            await server.run(reader, writer, server.create_initialization_options())

    async def close_when_quiet(self) -> None:
        """Close the connection once every request has its answer."""
        await self._lines.quiet.wait()
        self._writer.close()
