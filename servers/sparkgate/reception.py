"""Who comes in, and to what: one connection of the gate from its hello to its end."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import secrets
from typing import TYPE_CHECKING, Any

from sparkgate import log
from sparkgate.access_settings import MODELS
from sparkgate.admission import Admission
from sparkgate.daemon import installed_version
from sparkgate.link import Peer, peer, peer_groups
from sparkgate.policy.audit import Caller
from sparkgate.refusal_rows import About, LimitedRows
from sparkgate.session import BadHello, Hello, HostLines, Session, read_first_line, read_hello
from sparkgate.version import __version__

if TYPE_CHECKING:
    from sparkgate.gate import Gate

MAX_SESSIONS = 256
MAX_OF_ONE_USER = 64
"""Connections of one user who is not the gate's own: nobody takes the places of all."""
MAX_OF_ONE_CONFINEMENT = 64
"""The same for what is confined, whoever started it."""
MAX_CONFINEMENTS_OF_ONE_USER = 8
"""The same for its confinements, as each may have a process of its own for its doors."""
HELLO_TIMEOUT_S = 5.0
CONFINE = "confine"
"""Asked for by a supervisor, not by a host."""
TOOLSETS = {"search": "sparkgate.search", "engine": "sparkgate.engine", "bench": "sparkgate.bench"}
"""Name of a toolset → its module, which is read when a host first asks for it: it is memory the model can use."""


def builder_of(toolset: str) -> Any:
    """The function that builds the server of a toolset for one connection."""
    return importlib.import_module(TOOLSETS[toolset]).build


class Reception:
    """Lets in who may come in.

    Args:
        gate: whose connections these are.
        confined: name of the confinement that they come from; "" outside.
    """

    def __init__(self, gate: Gate, confined: str = "") -> None:
        self._gate, self._confined = gate, confined
        self._admission = Admission(gate.services, confined)
        self._rows = LimitedRows(gate.services, About("connect", "gate", gate.config))
        self._open = 0

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        who = peer(writer.get_extra_info("socket"))
        self._gate.guests[who.uid] += 1
        self._open += 1
        try:
            await self._greet(who, reader, writer)
        except Exception as error:
            log.error("session_fault", **log.describe(error))
        finally:
            self._gate.guests[who.uid] -= 1
            self._open -= 1
            writer.close()

    async def close(self) -> None:
        """Write to the log what was refused and is not written yet."""
        await self._rows.flush()

    async def _greet(self, who: Peer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if crowd := self._crowd(who):
            await _say(writer, gate="refused", reason=f"{crowd} are open already; close one of them first")
            return
        try:
            async with asyncio.timeout(HELLO_TIMEOUT_S):
                line, rest = await read_first_line(reader)
            hello = read_hello(line)
        except (BadHello, TimeoutError) as error:
            await _say(writer, gate="refused", reason=str(error) or "no hello came in time")
            return
        if refusal := await self._refusal(who, writer.get_extra_info("socket"), hello):
            await _say(writer, gate="refused", reason=refusal)
        elif self._confined and (hello.toolset == CONFINE or hello.do == "stop"):
            await self._refuse_confined(hello, who, writer)
        elif hello.toolset == "control":
            await self._control(hello, writer)
        elif hello.config not in ("", self._gate.config):
            await _say(writer, gate="refused", reason="this gate serves another configuration")
        elif len(self._gate.sessions) >= MAX_SESSIONS:
            await _say(writer, gate="refused", reason=f"{MAX_SESSIONS} sessions are open already")
        elif self._gate.retiring or (hello.version != __version__ and not hello.again and self._may_replace(who)):
            self._gate.retire()
            await _say(writer, gate="retiring", version=__version__)
        else:
            await self._serve(hello, who, reader, writer, rest)

    def _crowd(self, who: Peer) -> str:
        """Which connections are too many with this one; "" when none are."""
        if self._confined and self._open > MAX_OF_ONE_CONFINEMENT:
            return f"{MAX_OF_ONE_CONFINEMENT} connections of this confinement"
        if who.uid != os.getuid() and self._gate.guests[who.uid] > MAX_OF_ONE_USER:
            return f"{MAX_OF_ONE_USER} connections of this user"
        return ""

    async def _refusal(self, who: Peer, link: Any, hello: Hello) -> str:
        """Why another user may not have what it asks for; "" when it may, and for the gate's own user."""
        if who.uid == os.getuid():
            return ""
        return await asyncio.to_thread(self._admission.refusal, who, peer_groups(link), hello.toolset, hello.do)

    def _may_replace(self, who: Peer) -> bool:
        """Whether a pipe of another version may have this gate end for one of its own.

        systemd would start this one again, unless another version lies in its place since.
        """
        if self._confined or self._gate.managed:
            return not self._confined and installed_version() != __version__
        return who.uid == os.getuid()

    async def _refuse_confined(self, hello: Hello, who: Peer, writer: asyncio.StreamWriter) -> None:
        what = "end the gate" if hello.do == "stop" else "confine another"
        await self._rows.add(_caller(who, hello, "-", "", self._confined), "confined", what)
        await _say(writer, gate="refused", reason=f"a confined command cannot {what}")

    async def _control(self, hello: Hello, writer: asyncio.StreamWriter) -> None:
        if hello.do == "stop":
            self._gate.retire()
        more: dict[str, Any] = {}
        if hello.do == "look":
            more["cut"], more["not_cut"] = await self._gate.services.switch.enforce()
        await _say(writer, **self._gate.status(), **more)

    async def _serve(
        self,
        hello: Hello,
        who: Peer,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        rest: bytes,
    ) -> None:
        if hello.toolset == CONFINE:
            await self._confine(hello, who, reader, writer)
            return
        if hello.toolset not in TOOLSETS:
            await _say(writer, gate="refused", reason=f"there is no toolset {hello.toolset[:20]!r}")
            return
        build = await asyncio.to_thread(builder_of, hello.toolset)
        session_id = secrets.token_hex(6)
        caller = _caller(who, hello, session_id, hello.host, self._confined)
        session = Session(HostLines(reader, writer, rest), writer)
        await _say(writer, gate="ready", version=__version__)
        self._gate.sessions.add(session)
        try:
            await session.serve(build(self._gate.services, caller))
        finally:
            self._gate.sessions.discard(session)
            self._gate.stir()

    async def _confine(
        self, hello: Hello, who: Peer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        from sparkgate.doorways import Doorway, NoListeners

        name = hello.confinement if hello.confinement.isalnum() else secrets.token_hex(4)
        caller = _caller(who, hello, hello.toolset, "", name)
        within = Reception(self._gate, name)
        groups = peer_groups(writer.get_extra_info("socket"))
        no_models = await asyncio.to_thread(self._admission.objection, who, groups, MODELS)
        if self._has_all_confinements(who):
            many = f"{MAX_CONFINEMENTS_OF_ONE_USER} confinements of this user"
            await _say(writer, gate="refused", reason=f"{many} run already; end one of them first")
            return
        doorway = Doorway(self._gate.services, caller, within.connected, no_models)
        self._gate.doorways.add(doorway)
        try:
            await doorway.serve(reader, writer)
        except NoListeners as error:
            await _say(writer, gate="refused", reason=str(error))
        finally:
            await within.close()
            self._gate.doorways.discard(doorway)
            self._gate.stir()

    def _has_all_confinements(self, who: Peer) -> bool:
        mine = sum(one.uid == who.uid for one in self._gate.doorways)
        return who.uid != os.getuid() and mine >= MAX_CONFINEMENTS_OF_ONE_USER


def _caller(who: Peer, hello: Hello, session: str, host: str, confined: str) -> Caller:
    return Caller(session, host, pid=who.pid, uid=who.uid, gid=who.gid, cwd=hello.cwd, confined=confined)


async def _say(writer: asyncio.StreamWriter, **message: Any) -> None:
    writer.write(json.dumps(message).encode() + b"\n")
    await writer.drain()
