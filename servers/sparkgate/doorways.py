"""The gate's side of a confinement: it gets the listening sockets that were made inside, and serves them.

After its hello a supervisor is told which doors there are; it sends one message with the descriptors of the listeners
(SCM_RIGHTS), and then lines about what was tried inside and refused. What comes in by the listener called `gate` is
known to be confined: no word of the other side says so.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sparkgate import log
from sparkgate.confine.wire import BACKLOG, GATE
from sparkgate.daemon import KEEP_SOCKET_FILE
from sparkgate.model_doors import ModelDoors, Offered
from sparkgate.policy.audit import Caller
from sparkgate.refusal_rows import About, LimitedRows
from sparkgate.services import Services
from sparkgate.used_here import used_here

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Connected = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

HAND_S = 15.0
MAX_BYTES = 65_536
MAX_LISTENERS = 64
REFUSAL = re.compile(r"[a-z_]{1,40}")
"""Name of what a supervisor says was refused, which becomes a row."""


class NoListeners(Exception):
    """What was handed over cannot be served; the message says why."""


class Doorway:
    """One confinement, for as long as its supervisor is connected.

    Args:
        services: configuration and log.
        caller: who started it, with the name of the confinement.
        connected: serves a connection that came from inside.
        no_models: why its user is offered no engine; "" when it is. Listeners of engines are closed then.
    """

    def __init__(self, services: Services, caller: Caller, connected: Connected, no_models: str = "") -> None:
        self._services, self._caller, self._connected = services, caller, connected
        self._no_models = no_models
        self._doors = ModelDoors(services, caller)
        self._names: tuple[str, ...] = ()
        self._server: asyncio.Server | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._rows = LimitedRows(services, About("confine", "confinement", ""))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Until the other side closes. Raises NoListeners."""
        self._writer = writer
        handed = await self._handed(writer)
        try:
            await self._open(handed)
            await self._say(gate="open")
            log.info(
                "confinement_opened",
                name=self._caller.confined,
                pid=self._caller.pid,
                doors=[one.name for one in self._offered()],
            )
            while line := await reader.readline():
                await self._noted(line)
        finally:
            for descriptor in handed.values():
                with suppress(OSError):
                    os.close(descriptor)
            await self._close()
            log.info("confinement_closed", name=self._caller.confined)

    @property
    def uid(self) -> int:
        """The user that started it."""
        return self._caller.uid

    def status(self) -> dict[str, Any]:
        """Who it is, and what its doors have carried and refused."""
        who, counts = self._caller, self._doors.counts
        doors = {name: dict(counts.get(name, {})) for name in self._names}
        return {"name": who.confined, "pid": who.pid, "uid": who.uid, "doors": doors}

    async def retire(self) -> None:
        """Serve no new connection, and have the supervisor give its listeners to the next gate."""
        if self._server:
            self._server.close()
        with suppress(ConnectionError):
            await self._say(gate="retiring")

    def _offered(self) -> tuple[Offered, ...]:
        return () if self._no_models else self._doors.offered()

    async def _handed(self, writer: asyncio.StreamWriter) -> dict[str, int]:
        """Name → descriptor, ours from now on. The stream would drop descriptors, so they are read past it."""
        transport = writer.transport
        assert isinstance(transport, asyncio.ReadTransport)
        transport.pause_reading()
        offered = [{"name": one.name, "port": one.port, "engine": one.engine} for one in self._offered()]
        refused = (self._no_models,) if self._no_models else self._doors.refused()
        uses = await asyncio.to_thread(used_here, self._services.config)
        await self._say(gate="ready", doors=offered, refused=refused, uses=uses)
        with writer.get_extra_info("socket").dup() as link:
            told = await _received(link)
        transport.resume_reading()
        return told

    async def _open(self, handed: dict[str, int]) -> None:
        if GATE not in handed:
            raise NoListeners("the listener of the gate is missing")
        listener = _unix_listener(handed.pop(GATE))
        self._server = await asyncio.start_unix_server(
            self._connected, sock=listener, backlog=BACKLOG, **KEEP_SOCKET_FILE
        )
        doors = dict(handed)
        handed.clear()
        if self._no_models:
            doors = await self._without(doors)
        self._names = tuple(doors)
        await self._doors.open(doors)

    async def _without(self, doors: dict[str, int]) -> dict[str, int]:
        """Nothing; these listeners take no connection from now on, also where the other side holds them.

        This process may make no sockets of their family; to shut them down, another does as well.
        """
        for descriptor in doors.values():
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=descriptor) as listener, suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
        if doors:
            await self._rows.add(self._caller, "models")
        return {}

    async def _noted(self, line: bytes) -> None:
        try:
            what = str(json.loads(line)["refused"])
        except (ValueError, KeyError, TypeError):
            return
        if REFUSAL.fullmatch(what):
            await self._rows.add(self._caller, what)

    async def _close(self) -> None:
        if self._server:
            self._server.close()
        await self._rows.flush()
        await self._doors.close()

    async def _say(self, **message: Any) -> None:
        assert self._writer
        self._writer.write(json.dumps(message).encode() + b"\n")
        await self._writer.drain()


async def _received(link: socket.socket) -> dict[str, int]:
    """Waits beside the loop's work, in no thread: there are few, and who sends nothing would hold one."""
    loop, came = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(link, came.set)
    try:
        async with asyncio.timeout(HAND_S):
            await came.wait()
    except TimeoutError as error:
        raise NoListeners("no listeners came in time") from error
    finally:
        loop.remove_reader(link)
    data, descriptors, _, _ = socket.recv_fds(link, MAX_BYTES, MAX_LISTENERS)
    try:
        names: Sequence[str] = json.loads(data)["listeners"]
        return dict(zip(names, descriptors, strict=True))
    except (ValueError, KeyError, TypeError) as error:
        for descriptor in descriptors:
            os.close(descriptor)
        raise NoListeners("this is no list of listeners") from error


def _unix_listener(descriptor: int) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=descriptor)
    is_one = listener.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN) == socket.AF_UNIX
    if not is_one or not listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        listener.close()
        raise NoListeners("the listener of the gate is no listening Unix socket")
    return listener
