"""Who is answered: this machine's own pages at this address, which read and do nothing else.

A page of the web that a browser shows can send requests to loopback, under a name of its own when it controls the DNS.
So the name that was asked for, and what a browser says about where a request comes from, are looked at first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any
from urllib.parse import parse_qs

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]
"""An ASGI application: (scope, receive, send)."""
Header = tuple[bytes, bytes]

NAMES = ("127.0.0.1", "localhost", "[::1]")
METHODS = ("GET", "HEAD")
OWN_SITES = ("none", "same-origin")
"""Values of `Sec-Fetch-Site`: typed or opened by the user, and from a page of ours."""
POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
ANSWERED: dict[bytes, bytes] = {
    b"content-security-policy": POLICY.encode(),
    b"x-frame-options": b"DENY",
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
    b"cache-control": b"no-store",
}
"""Headers of every answer. `no-store`: the log does not stay in the cache of a browser."""
DROPPED_ASKED = (b"cookie", b"authorization")
DROPPED_ANSWERED = (*ANSWERED, b"set-cookie")
CSV = "csv"
"""A spreadsheet runs cells that begin like a formula, and what left may begin like one."""
INTERNAL = "/-/"
"""Pages of Datasette about itself: paths, plugins, versions, threads, permissions, messages. None is needed here."""


def guarded(app: App) -> App:
    """The application behind the checks of `refusal`, with the headers of `ANSWERED` and without cookies."""

    async def answer(scope: Message, receive: Receive, send: Send) -> None:
        async def shut(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": list(_kept(message.get("headers", ()), DROPPED_ANSWERED))}
                message["headers"] += ANSWERED.items()
            await send(message)

        if scope["type"] == "lifespan":
            await app(scope, receive, send)
        elif scope["type"] == "http":
            if refused := refusal(scope):
                await say(shut, *refused)
            else:
                await app({**scope, "headers": list(_kept(scope["headers"], DROPPED_ASKED))}, receive, shut)

    return answer


def refusal(scope: Message) -> tuple[int, str] | None:
    """Status and reason when a request is not answered."""
    port = (scope.get("server") or ("", None))[1]
    hosts = {f"{name}:{port}" for name in NAMES} | (set(NAMES) if port in (80, None) else set())
    asked = _values(scope, b"host")
    if len(asked) != 1 or asked[0].lower() not in hosts:
        return 403, f"This is answered only as http://127.0.0.1:{port}/ or http://localhost:{port}/."
    origins = {f"http://{host}" for host in hosts}
    sites = _values(scope, b"sec-fetch-site")
    if any(one not in origins for one in _values(scope, b"origin")) or any(one not in OWN_SITES for one in sites):
        return 403, "A page of another site asked for this. Type the address instead."
    if scope["method"] not in METHODS:
        return 405, "Nothing here can be changed."
    raw: bytes = scope.get("raw_path") or b""
    if scope["path"].startswith(INTERNAL) or raw.startswith(INTERNAL.encode()):
        return 404, "There is no such page."
    asked_for = parse_qs((scope.get("query_string") or b"").decode("latin-1")).get("_format", [])
    if scope["path"].endswith(f".{CSV}") or CSV in asked_for:
        return 404, "`sparkgate audit export --format csv` makes one in which no cell is a formula."
    return None


async def say(send: Send, status: int, text: str) -> None:
    """A whole answer of plain text."""
    body = f"{text}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _values(scope: Message, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]


def _kept(headers: Any, dropped: tuple[bytes, ...]) -> Iterator[Header]:
    return ((bytes(key), bytes(value)) for key, value in headers if key.lower() not in dropped)
