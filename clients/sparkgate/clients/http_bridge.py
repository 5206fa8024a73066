"""`sparkgate serve --http`: MCP by Streamable HTTP on loopback, one pipe to the gate for each HTTP session.

The SDK's transport speaks HTTP, the pipe of `sparkgate.stdio` (in a thread) finds, starts and greets the gate; this
file carries messages between the two. Policy, log and access stay where they are: in the gate.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import anyio
import mcp_types as types
import uvicorn
from anyio.abc import TaskGroup, TaskStatus
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER, StreamableHTTPServerTransport
from mcp.server.transport_security import (
    RequestBodyLimitMiddleware,
    TransportSecurityMiddleware,
    TransportSecuritySettings,
)
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from sparkgate.log import capture_libraries, describe, error
from sparkgate.stdio import Pipe

ADDRESS, PATH = "127.0.0.1", "/mcp"
MAX_BODY_BYTES = 1024 * 1024
MAX_SESSIONS = 32
MAX_CONNECTIONS = 512
IDLE_S = 30 * 60.0
MAX_ANSWER_BYTES = 64 * 1024 * 1024
LEAVE_S = 3
"""How long connections may take to close once the sessions have ended."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What is served, under which name in the log, and to whom."""

    toolset: str
    config: str
    host: str
    token: str
    allowed_hosts: tuple[str, ...] = ()


class OpenCalls:
    """Requests of one session without an answer, so that what belongs to a call is sent on that call's stream."""

    def __init__(self) -> None:
        self._calls: dict[types.RequestId, tuple[Any, Callable[[], Awaitable[None]] | None]] = {}

    def asked(self, said: SessionMessage) -> Callable[[], Awaitable[None]] | None:
        """Note a message of the client; of one that cancels a call, what ends that call's stream."""
        message, about = said.message, said.metadata
        if isinstance(message, types.JSONRPCRequest):
            ends = about.on_request_unanswered if isinstance(about, ServerMessageMetadata) else None
            meta = (message.params or {}).get("_meta")
            self._calls[message.id] = (meta.get("progressToken") if isinstance(meta, dict) else None, ends)
        elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            cancelled = (message.params or {}).get("requestId")
            return self._calls.pop(cancelled, (None, None))[1] if isinstance(cancelled, (int, str)) else None
        return None

    def related(self, message: types.JSONRPCMessage) -> types.RequestId | None:
        """The call a message of the gate belongs to; by its progress token, else the newest."""
        if isinstance(message, (types.JSONRPCResponse, types.JSONRPCError)):
            if message.id is not None:
                self._calls.pop(message.id, None)
            return None
        token = (message.params or {}).get("progressToken")
        named = (call for call, (its, _) in self._calls.items() if token is not None and its == token)
        return next(named, next(reversed(self._calls), None))


class Bridge:
    """The ASGI application. `tasks` holds the sessions; `sessions` are the transports by their id."""

    def __init__(self, terms: Terms, port: int, tasks: TaskGroup) -> None:
        self._terms, self._tasks = terms, tasks
        self._door = TransportSecurityMiddleware(_allowed(terms.allowed_hosts, port))
        self._limited = RequestBodyLimitMiddleware(self._serve, MAX_BODY_BYTES)
        self.sessions: dict[str, StreamableHTTPServerTransport] = {}
        self.leaving = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        refusal = await self._door.validate_request(request) or self._refusal(request)
        await (refusal or self._limited)(scope, receive, send)

    def _refusal(self, request: Request) -> Response | None:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        known = secrets.compare_digest(token.strip().encode(), self._terms.token.encode())
        if scheme.lower() != "bearer" or not known:
            return Response("a bearer token is needed", 401, {"WWW-Authenticate": "Bearer"})
        if request.url.path != PATH:
            return Response(f"MCP is at {PATH}", 404)
        version = request.headers.get(MCP_PROTOCOL_VERSION_HEADER)
        if version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS:
            return _refused(400, f"this server speaks MCP {', '.join(HANDSHAKE_PROTOCOL_VERSIONS)}")
        return None

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        wanted = Request(scope).headers.get(MCP_SESSION_ID_HEADER)
        if wanted is None:
            await self._open(scope, receive, send)
            return
        transport = self.sessions.get(wanted)
        if transport is None:
            await _refused(404, "Session not found")(scope, receive, send)
            return
        await transport.handle_request(scope, receive, send)
        if transport.is_terminated:
            self.sessions.pop(wanted, None)

    async def _open(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request without a session: only `initialize` makes one that stays."""
        if self.leaving or len(self.sessions) >= MAX_SESSIONS:
            await _refused(503, f"{MAX_SESSIONS} sessions are open already")(scope, receive, send)
            return
        name, status = uuid4().hex, 500
        transport = StreamableHTTPServerTransport(name, idle_timeout=IDLE_S)

        async def watched(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        self.sessions[name] = transport
        try:
            await self._tasks.start(self._hold, name, transport)
            await transport.handle_request(scope, receive, watched)
        finally:
            if status >= 400:
                await self._discard(name, transport)

    async def _hold(
        self, name: str, transport: StreamableHTTPServerTransport, *, task_status: TaskStatus[None]
    ) -> None:
        """One session from its first message to its end; a fault ends this session and no other."""
        try:
            async with transport.connect() as (from_http, to_http):
                task_status.started()
                with transport.idle_scope or anyio.CancelScope():
                    await self._carry(from_http, to_http)
                await self._discard(name, transport)
        except Exception as fault:
            error("http_session_fault", **describe(fault))
        finally:
            await self._discard(name, transport)

    async def _carry(self, from_http: ReadStream[SessionMessage | Exception], to_http: WriteStream[Any]) -> None:
        """Messages both ways until either side ends. The gate hears of a session with its first message."""
        try:
            first = await from_http.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            return
        calls = OpenCalls()
        ours, theirs = socket.socketpair()
        threading.Thread(target=run_pipe, args=(self._terms, theirs), daemon=True).start()
        reader, writer = await asyncio.open_unix_connection(sock=ours, limit=MAX_ANSWER_BYTES)

        async def to_gate(said: SessionMessage | Exception) -> None:
            if isinstance(said, SessionMessage):
                ends = calls.asked(said)
                writer.write(said.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                await writer.drain()
                if ends:
                    await ends()

        async def to_client() -> None:
            async for line in reader:
                message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                about = ServerMessageMetadata(related_request_id=calls.related(message))
                await to_http.send(SessionMessage(message, metadata=about))
            both.cancel_scope.cancel()

        try:
            with _ends_quietly():
                async with anyio.create_task_group() as both:
                    both.start_soon(to_client)
                    await to_gate(first)
                    async for said in from_http:
                        await to_gate(said)
                    both.cancel_scope.cancel()
        finally:
            writer.close()

    async def _discard(self, name: str, transport: StreamableHTTPServerTransport) -> None:
        self.sessions.pop(name, None)
        if not transport.is_terminated:
            with anyio.CancelScope(shield=True):
                await transport.terminate()

    async def leave(self) -> None:
        """End every session, and take no more."""
        self.leaving = True
        for name, transport in list(self.sessions.items()):
            await self._discard(name, transport)


def run_pipe(terms: Terms, side: socket.socket) -> None:
    """The stdio pipe with a socket for a host, in a thread, until the other end of `side` is closed."""
    pipe = Pipe(terms.toolset, terms.config, terms.host, side.fileno(), side.fileno())
    pipe.parent = 0
    try:
        with contextlib.suppress(OSError, SystemExit):
            pipe.run()
    except Exception as fault:
        error("http_pipe_fault", **describe(fault))
    finally:
        pipe.starter.release()
        if pipe.link:
            pipe.link.close()
        side.close()


@contextlib.contextmanager
def _ends_quietly() -> Iterator[None]:
    """A side that is closed while a message is on its way to it is the end of a session, no fault."""
    try:
        yield
    except* (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, ConnectionError):
        pass


def _allowed(names: tuple[str, ...], port: int) -> TransportSecuritySettings:
    own = [f"{ADDRESS}:{port}", f"localhost:{port}"]
    hosts = [*own, *names, *(f"{name}:*" for name in names)]
    origins = [f"http://{host}" for host in own] + [f"https://{host}" for host in hosts[len(own) :]]
    return TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)


def _refused(status: int, words: str) -> Response:
    problem = types.ErrorData(code=types.INVALID_REQUEST, message=words)
    body = types.JSONRPCError(jsonrpc="2.0", id=None, error=problem).model_dump_json(by_alias=True)
    return Response(body, status, media_type="application/json")


class _Server(uvicorn.Server):
    """uvicorn that leaves signals to the loop: its own way ends the process by the signal, with no code of ours."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def listen(port: int) -> socket.socket:
    """A socket on loopback and nowhere else.

    Raises:
        OSError: the port is taken.
    """
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((ADDRESS, port))
        made.listen(128)
    except OSError:
        made.close()
        raise
    return made


async def serve(terms: Terms, listener: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM."""
    capture_libraries()
    port: int = listener.getsockname()[1]
    async with anyio.create_task_group() as tasks:
        bridge = Bridge(terms, port, tasks)
        server = _Server(
            uvicorn.Config(
                bridge,
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                limit_concurrency=MAX_CONNECTIONS,
                timeout_graceful_shutdown=LEAVE_S,
            )
        )

        def end() -> None:
            server.should_exit = True
            tasks.start_soon(bridge.leave)

        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, end)
        sys.stderr.write(f"MCP at http://{ADDRESS}:{port}{PATH}\n")
        await server.serve(sockets=[listener])
        await bridge.leave()
        tasks.cancel_scope.cancel()
