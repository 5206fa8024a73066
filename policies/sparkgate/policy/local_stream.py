"""Streamed requests to one configured origin, with the time of every read: the door that the benchmarks use.

Like the local door it reaches what the machine's owner configured and nothing else: no proxies, no redirects, no
compression. What it sends is made by us; text of an agent or a page must never go through it.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from time import perf_counter_ns
from types import TracebackType
from typing import Literal, Self
from urllib.parse import urlsplit

from sparkgate.policy.guard import Guard, canonical
from sparkgate.policy.http_framing import Framing
from sparkgate.policy.kill_switch import LOOK_S, KillSwitch, LockedNow, is_loopback

CONNECT_S = 5.0
LINGER_S = 0.1
"""How long after its last event a stream may leave its end open."""
_PORTS = {"http": 80, "https": 443}
_DONE = re.compile(rb"(?:\A|[\r\n])data: ?\[DONE\]")
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VALUE = re.compile(r"[\x20-\x7e\t]*")

_CLOSED = "the engine closed the connection before its answer had ended"
_LATE = "the engine did not finish within {seconds:g} s"
_NO_HTTP = "what answers does not speak HTTP/1.1 as expected"
_UNREACHABLE = "{origin} cannot be reached ({why})"
_LOCKED = "{origin} is not on this machine's loopback, and nothing leaves while sparkgate is locked"


class StreamDoorError(Exception):
    """No usable answer; the message names scheme, host and port at most."""


@dataclass(slots=True)
class Exchange:
    """One request and what has come back so far. All times are ns of the monotonic clock.

    Attributes:
        t0_ns: just before it was sent; of the second try when a kept connection had gone.
        headers_ns: the read that completed the headers.
        pieces: (when it was read, bytes of the body without framing), one a read.
        eof_ns: the read that ended the answer; None when it did not end.
        error: why it failed; "" when it did not. An answer with an error status is no failure here.
        reconnects: times it was sent again.
    """

    t0_ns: int = 0
    headers_ns: int | None = None
    status: int | None = None
    pieces: list[tuple[int, bytes]] = field(default_factory=list)
    eof_ns: int | None = None
    error: str = ""
    reconnects: int = 0

    @property
    def body(self) -> bytes:
        return b"".join(piece for _, piece in self.pieces)


class StreamDoor:
    """A client for one origin; use it in an `async with` statement. `headers` go with every request.

    Connections are kept and used again. While it is open, the guard of this process lets the origin's addresses pass.
    An origin that is not on this machine's loopback is not asked while the switch is locked; what is under way is cut.

    Raises:
        StreamDoorError: not an http(s) URL with a host and without a user name, a header that is none, or a host whose
            name cannot be looked up.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        guard: Guard | None = None,
        switch: KillSwitch | None = None,
    ) -> None:
        self._scheme, self._host, self._port, self._base = _parts(url)
        self._switch = None if is_loopback(self._host) else switch or KillSwitch()
        self._watch: asyncio.Task[None] | None = None
        self._head = _head(self._authority, headers or {})
        self._guard = guard
        self._permits = ExitStack()
        self._addresses: list[str] = []
        self._tls = ssl.create_default_context() if self._scheme == "https" else None
        self._idle: list[_Connection] = []
        self._open: set[_Connection] = set()

    @property
    def origin(self) -> str:
        return f"{self._scheme}://{self._authority}"

    @property
    def _authority(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return host if self._port == _PORTS[self._scheme] else f"{host}:{self._port}"

    async def __aenter__(self) -> Self:
        self._refuse_locked()
        with ExitStack() as naming:
            if self._guard:
                naming.enter_context(self._guard.name(self._host))
            try:
                found = await asyncio.get_running_loop().getaddrinfo(self._host, self._port, type=1)
            except OSError as error:
                raise StreamDoorError(_UNREACHABLE.format(origin=self.origin, why="unknown name")) from error
        self._addresses = list(dict.fromkeys(canonical(str(entry[4][0])) for entry in found))
        if self._guard:
            self._permits.enter_context(self._guard.addresses([(one, self._port) for one in self._addresses]))
        if self._switch:
            self._watch = asyncio.create_task(self._cut_when_locked(self._switch))
        return self

    def _refuse_locked(self) -> None:
        try:
            if self._switch:
                self._switch.check()
        except LockedNow as error:
            raise StreamDoorError(_LOCKED.format(origin=self.origin)) from error

    async def _cut_when_locked(self, switch: KillSwitch) -> None:
        while True:
            if switch.told():
                self.close()
            await asyncio.sleep(LOOK_S)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if self._watch:
            self._watch.cancel()
        self.close()
        # A transport closes its socket in the next turn of the loop.
        await asyncio.sleep(0)
        self._permits.close()

    def close(self) -> None:
        """Close every connection at once, also those with a request on its way."""
        for connection in list(self._open):
            connection.abort()
        self._idle.clear()

    async def connect(self, count: int) -> None:
        """Open connections until that many are idle. Raises StreamDoorError."""
        missing = count - len(self._idle)
        self._idle += await asyncio.gather(*(self._dial() for _ in range(missing)))

    async def post(self, path: str, body: bytes, into: Exchange, deadline_s: float) -> None:
        """Send a JSON body, and fill `into` until the answer has ended. Failures end up in `into.error`.

        A caller that is cancelled closes the connection, and keeps what has come.
        """
        head = f"POST {self._base}{path} HTTP/1.1\r\n{self._head}Content-Type: application/json\r\n"
        await self._exchange(_request(head, body), into, deadline_s)

    async def ask(
        self, method: Literal["GET", "POST"], path: str, body: bytes = b"", deadline_s: float = 5.0
    ) -> tuple[int, bytes]:
        """Status and body of a short answer. Raises StreamDoorError."""
        into = Exchange()
        kind = "Content-Type: application/json\r\n" if body else ""
        head = f"{method} {self._base}{path} HTTP/1.1\r\n{self._head}{kind}"
        await self._exchange(_request(head, body), into, deadline_s)
        if into.error or into.status is None:
            raise StreamDoorError(f"{self.origin}: {into.error}")
        return into.status, into.body

    async def _exchange(self, request: bytes, into: Exchange, deadline_s: float) -> None:
        try:
            self._refuse_locked()
            async with asyncio.timeout(deadline_s):
                if await self._try(request, into, kept=True):
                    return
                into.error, into.reconnects = "", into.reconnects + 1
                await self._try(request, into, kept=False)
        except TimeoutError:
            into.error = _LATE.format(seconds=deadline_s)
        except StreamDoorError as error:
            into.error = str(error)

    async def _try(self, request: bytes, into: Exchange, *, kept: bool) -> bool:
        """False when it may be sent again: the connection was lost before a byte came back."""
        connection = self._idle.pop() if kept and self._idle else await self._dial()
        try:
            await connection.send(request, into)
        except asyncio.CancelledError:
            connection.abort()
            raise
        if connection.usable:
            self._idle.append(connection)
        else:
            connection.abort()
        return not connection.answered_nothing

    async def _dial(self) -> _Connection:
        self._refuse_locked()
        why = "no address"
        for address in self._addresses:
            try:
                async with asyncio.timeout(CONNECT_S):
                    _, connection = await asyncio.get_running_loop().create_connection(
                        lambda: _Connection(self._lost),
                        address,
                        self._port,
                        ssl=self._tls,
                        server_hostname=self._host if self._tls else None,
                    )
            except (OSError, TimeoutError) as error:
                why = type(error).__name__
                continue
            self._addresses.sort(key=address.__ne__)
            self._open.add(connection)
            return connection
        raise StreamDoorError(_UNREACHABLE.format(origin=self.origin, why=why))

    def _lost(self, connection: _Connection) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)


class _Connection(asyncio.Protocol):
    """One kept connection; at most one request is on its way."""

    def __init__(self, lost: Callable[[_Connection], None]) -> None:
        self._tell_lost = lost
        self._transport: asyncio.Transport | None = None
        self._framing = Framing()
        self._into = Exchange()
        self._ended: asyncio.Future[None] | None = None
        self._linger: asyncio.TimerHandle | None = None

    @property
    def usable(self) -> bool:
        """Whether another request may be sent."""
        return self._framing.reusable and self._transport is not None and not self._transport.is_closing()

    @property
    def answered_nothing(self) -> bool:
        return self._into.error == _CLOSED and not self._framing.began

    async def send(self, request: bytes, into: Exchange) -> None:
        """Send it, and fill `into` until the answer has ended."""
        self._framing, self._into = Framing(), into
        self._ended = asyncio.get_running_loop().create_future()
        if self._transport is None or self._transport.is_closing():
            self._finish(_CLOSED)
        else:
            into.t0_ns = perf_counter_ns()
            self._transport.write(request)
        await self._ended

    def abort(self) -> None:
        if self._transport:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        at_ns = perf_counter_ns()
        if self._ended is None or self._ended.done():
            self.abort()
            return
        try:
            piece = self._framing.feed(data)
        except ValueError:
            self._finish(_NO_HTTP)
            return
        self._take(piece, at_ns)
        if self._framing.ended:
            self._into.eof_ns = at_ns
            self._finish()
        elif piece and self._linger is None and _DONE.search(piece):
            self._linger = asyncio.get_running_loop().call_later(LINGER_S, self._finish_lingering, at_ns)

    def _take(self, piece: bytes, at_ns: int) -> None:
        if self._into.headers_ns is None and self._framing.status:
            self._into.headers_ns, self._into.status = at_ns, self._framing.status
        if piece:
            self._into.pieces.append((at_ns, piece))

    def connection_lost(self, exc: Exception | None) -> None:
        self._tell_lost(self)
        if self._framing.until_eof and exc is None:
            self._into.eof_ns = perf_counter_ns()
            self._finish()
        else:
            self._finish(_CLOSED)

    def _finish_lingering(self, at_ns: int) -> None:
        if self._ended and not self._ended.done():
            self._into.eof_ns = at_ns
            self._finish()

    def _finish(self, error: str = "") -> None:
        if self._linger:
            self._linger.cancel()
            self._linger = None
        if self._ended and not self._ended.done():
            self._into.error = error
            self._ended.set_result(None)


def _request(head: str, body: bytes) -> bytes:
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode("ascii") + body


def _parts(url: str) -> tuple[str, str, int, str]:
    """Scheme, host, port and path of an origin's URL."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError as error:
        raise StreamDoorError("not a URL") from error
    bare = parts.username is None and not parts.query and not parts.fragment and url.isascii() and url.isprintable()
    if not port or not parts.hostname or not bare or " " in url:
        raise StreamDoorError("only http and https URLs with a host and without a user name are served")
    return parts.scheme, parts.hostname, port, parts.path.rstrip("/")


def _head(authority: str, headers: Mapping[str, str]) -> str:
    """The headers of every request. A bad one is told by its name, never by its value."""
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise StreamDoorError("a header for this engine is no HTTP header: look at its name and value")
    lines = {"Host": authority, "Accept-Encoding": "identity", "Accept": "*/*"} | dict(headers)
    return "".join(f"{name}: {value}\r\n" for name, value in lines.items())
