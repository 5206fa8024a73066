"""One HTTP/1.1 request and its answer over a connection that is open. The protocol is h11's; nothing here connects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from urllib.parse import urlencode

import h11

from sparkgate.policy.answer_cache import Answer
from sparkgate.policy.response import read_body

READ_BYTES = 65_536
MAX_HEAD_BYTES = 100 * 1024


class Broken(Exception):
    """The connection ended in the middle."""


def written(
    method: str, target: bytes, host: str, headers: Mapping[str, str], form: Mapping[str, str]
) -> tuple[h11.Request, bytes]:
    """A request and its body; what `headers` say of the host does not count."""
    body = urlencode(form).encode()
    told = {"Host": host, "Connection": "keep-alive", "Accept-Encoding": "gzip, deflate", **headers}
    by_name = {name.lower(): (name, value) for name, value in told.items()}
    by_name["host"] = "Host", host
    if method == "POST" or body:
        by_name["content-length"] = "Content-Length", str(len(body))
    if body:
        by_name["content-type"] = "Content-Type", "application/x-www-form-urlencoded"
    return h11.Request(method=method, target=target, headers=list(by_name.values())), body


async def exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: h11.Request, body: bytes, max_bytes: int
) -> Answer:
    """Send the request and read the whole answer; the connection is good for nothing else afterwards.

    Raises:
        Broken, h11.ProtocolError: there was no whole answer.
        TooLarge, zlib.error: as `read_body` does.
    """
    link = h11.Connection(h11.CLIENT, MAX_HEAD_BYTES)
    parts = [link.send(part) for part in (request, h11.Data(body), h11.EndOfMessage())]
    try:
        writer.write(b"".join(filter(None, parts)))
        with suppress(ConnectionError):  # who answers before he has heard all may hang up; his answer is there
            await writer.drain()
        head = await _head(link, reader)
        headers = _by_name(head.headers)
        whole = await read_body(_chunks(link, reader), headers.get("content-encoding", ""), max_bytes)
    except OSError as error:
        raise Broken from error
    return Answer(head.status_code, headers, whole)


async def _head(link: h11.Connection, reader: asyncio.StreamReader) -> h11.Response:
    while True:
        event = await _next(link, reader)
        if isinstance(event, h11.Response):
            return event
        if not isinstance(event, h11.InformationalResponse):
            raise h11.RemoteProtocolError("no answer")


async def _chunks(link: h11.Connection, reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while isinstance(event := await _next(link, reader), h11.Data):
        yield bytes(event.data)


async def _next(link: h11.Connection, reader: asyncio.StreamReader) -> object:
    while (event := link.next_event()) is h11.NEED_DATA:
        link.receive_data(await reader.read(READ_BYTES))
    return event


def _by_name(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Values by name in lower case; those of one name with commas between them."""
    found: dict[str, str] = {}
    for name, value in pairs:
        key, text = name.decode("ascii"), _text(value)
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
