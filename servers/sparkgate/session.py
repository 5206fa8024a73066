"""One connection of the gate: the hello line, then an MCP session of the toolset asked for."""

from __future__ import annotations

import asyncio
import json
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
from sparkgate.link import HELLO_FORMAT
from sparkgate.toolset import NO_OBJECT

HELLO_MAX_BYTES = 16_384
READ_BYTES = 65_536
OPEN_REQUESTS = 32
"""Requests of one session at a time; a host that asks for more, or reads no answers, gets errors for the rest."""
DRAIN_S = 30.0
"""Longest wait for the calls of a session when the gate retires."""
BUSY = f"{OPEN_REQUESTS} requests are open already; wait for an answer"


class BadHello(Exception):
    """A connection that does not say who it is."""


@dataclass(frozen=True, slots=True)
class Hello:
    """The first line of a connection. `again` marks a pipe that had a session with an earlier gate."""

    toolset: str
    version: str
    config: str = ""
    cwd: str = ""
    host: str = ""
    again: bool = False
    do: str = ""
    confinement: str = ""


def read_hello(line: bytes) -> Hello:
    """Parse the first line.

    Raises:
        BadHello: it is not the hello of this format.
    """
    try:
        data = json.loads(line)
        format_of, toolset, version = data["sparkgate"], str(data["toolset"]), str(data["version"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadHello("the first line must be a sparkgate hello") from error
    if format_of != HELLO_FORMAT:
        raise BadHello(f"this gate speaks hello format {HELLO_FORMAT}")
    return Hello(
        toolset=toolset,
        version=version,
        config=str(data.get("config", "")),
        cwd=str(data.get("cwd", ""))[:4096],
        host=str(data.get("host", ""))[:80],
        again=bool(data.get("again")),
        do=str(data.get("do", "")),
        confinement=str(data.get("confinement", ""))[:16],
    )


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


class HostLines:
    """The connection as the two text files the SDK's stdio transport takes.

    A line that the SDK would drop in silence (too long, not UTF-8, not JSON, not JSON-RPC) is answered here, and so
    are requests past `OPEN_REQUESTS`.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rest: bytes = b"") -> None:
        self._reader, self._writer = reader, writer
        self._splitter = wire.LineSplitter()
        self._lines = deque(self._splitter.feed(rest))
        self.open = wire.OpenRequests()
        self.quiet, self.drained = asyncio.Event(), asyncio.Event()
        self.quiet.set()

    async def __aiter__(self) -> AsyncIterator[str]:
        while True:
            while self._lines:
                line = await self._accepted(wire.check(self._lines.popleft()))
                if line:
                    yield line
            data = await self._reader.read(READ_BYTES)
            if not data:
                return
            self._lines.extend(self._splitter.feed(data))

    async def _accepted(self, checked: wire.Checked) -> str:
        """The line as the SDK gets it; "" when it was answered here."""
        message = checked.message
        if message is not None and message.get("sparkgate") == "drained":
            self.drained.set()
            return ""
        error = checked.error or _protocol_error(checked)
        request = wire.request_id_of(message or {})
        if not error and request is not None and len(self.open.ids) >= OPEN_REQUESTS:
            error = wire.error_line(request, wire.GATE_ERROR, BUSY)
        if error or message is None:
            await self.send(error)
            return ""
        self.open.asked(message)
        self._tell_quiet()
        return _with_object_arguments(checked.line, message)

    async def write(self, text: str) -> None:
        await self.send(text.encode("utf-8", "replace"))
        self.open.answered(json.loads(text))
        self._tell_quiet()

    async def flush(self) -> None:
        """Nothing is held back: `write` has drained already."""

    async def send(self, data: bytes) -> None:
        try:
            self._writer.write(data)
            await self._writer.drain()
        except ConnectionError:
            return  # the reading side sees the end and closes the session

    def _tell_quiet(self) -> None:
        if self.open.ids:
            self.quiet.clear()
        else:
            self.quiet.set()


def _protocol_error(checked: wire.Checked) -> bytes:
    try:
        types.jsonrpc_message_adapter.validate_json(checked.line, by_name=False)
    except ValidationError:
        request = wire.request_id_of(checked.message or {})
        return wire.error_line(request, wire.INVALID_REQUEST, "this is not a JSON-RPC 2.0 message")
    return b""


def _with_object_arguments(line: bytes, message: dict[str, Any]) -> str:
    """Small models pass the arguments of a tool as text or as a list; the SDK answers that with a bare error.

    Text that holds a JSON object becomes that object, anything else `NO_OBJECT`, which the tool answers in words.
    """
    params = message.get("params")
    if message.get("method") != "tools/call" or not isinstance(params, dict):
        return line.decode()
    given = params.get("arguments")
    if given is None or isinstance(given, dict):
        return line.decode()
    try:
        parsed = json.loads(given) if isinstance(given, str) else None
    except ValueError:
        parsed = None
    arguments = parsed if isinstance(parsed, dict) else {NO_OBJECT: None}
    return json.dumps(message | {"params": params | {"arguments": arguments}})


class Session:
    """A served connection that can be told to end once its calls have."""

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

    async def retire(self) -> None:
        """Ask the pipe for no more lines, answer those that came, and close; within `DRAIN_S` in any case."""
        try:
            async with asyncio.timeout(DRAIN_S):
                await self._lines.send(b'{"gate": "retiring"}\n')
                await self._lines.drained.wait()
                await self._lines.quiet.wait()
        except TimeoutError:
            self.abort()
        self._writer.close()

    def abort(self) -> None:
        """Close at once; what is running is cancelled."""
        self._writer.transport.abort()
