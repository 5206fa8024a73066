"""Who comes in, and to what: one connection of the gate from its hello to its end."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import secrets
from typing import TYPE_CHECKING, Any

from sparkgate import log
from sparkgate.link import peer
from sparkgate.policy.audit import Caller
from sparkgate.session import BadHello, Hello, HostLines, Session, read_first_line, read_hello
from sparkgate.version import __version__

if TYPE_CHECKING:
    from sparkgate.gate import Gate

MAX_SESSIONS = 256
HELLO_TIMEOUT_S = 5.0
TOOLSETS = {"search": "sparkgate.search", "engine": "sparkgate.engine", "bench": "sparkgate.bench"}
"""Name of a toolset → its module, which is read when a host first asks for it: it is memory the model can use."""


def builder_of(toolset: str) -> Any:
    """The function that builds the server of a toolset for one connection."""
    return importlib.import_module(TOOLSETS[toolset]).build


class Reception:
    """Lets in who may come in.

    Args:
        gate: whose connections these are.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._greet(reader, writer)
        except Exception as error:
            log.error("session_fault", **log.describe(error))
        finally:
            writer.close()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pid, uid = peer(writer.get_extra_info("socket"))
        if uid != os.getuid():
            await _say(writer, gate="refused", reason="this gate belongs to another user")
            return
        try:
            async with asyncio.timeout(HELLO_TIMEOUT_S):
                line, rest = await read_first_line(reader)
            hello = read_hello(line)
        except (BadHello, TimeoutError) as error:
            await _say(writer, gate="refused", reason=str(error) or "no hello came in time")
            return
        if hello.toolset == "control":
            await self._control(hello, writer)
        elif hello.config not in ("", self._gate.config):
            await _say(writer, gate="refused", reason="this gate serves another configuration")
        elif len(self._gate.sessions) >= MAX_SESSIONS:
            await _say(writer, gate="refused", reason=f"{MAX_SESSIONS} sessions are open already")
        elif self._gate.retiring or (hello.version != __version__ and not hello.again):
            self._gate.retire()
            await _say(writer, gate="retiring", version=__version__)
        else:
            await self._serve(hello, pid, uid, reader, writer, rest)

    async def _control(self, hello: Hello, writer: asyncio.StreamWriter) -> None:
        if hello.do == "stop":
            self._gate.retire()
        await _say(writer, **self._gate.status())

    async def _serve(
        self,
        hello: Hello,
        pid: int,
        uid: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        rest: bytes,
    ) -> None:
        if hello.toolset not in TOOLSETS:
            await _say(writer, gate="refused", reason=f"there is no toolset {hello.toolset[:20]!r}")
            return
        build = await asyncio.to_thread(builder_of, hello.toolset)
        caller = Caller(session=secrets.token_hex(6), host=hello.host, pid=pid, uid=uid, cwd=hello.cwd)
        session = Session(HostLines(reader, writer, rest), writer)
        await _say(writer, gate="ready", version=__version__)
        self._gate.sessions.add(session)
        try:
            await session.serve(build(self._gate.services, caller))
        finally:
            self._gate.sessions.discard(session)
            self._gate.stir()


async def _say(writer: asyncio.StreamWriter, **message: Any) -> None:
    writer.write(json.dumps(message).encode() + b"\n")
    await writer.drain()
