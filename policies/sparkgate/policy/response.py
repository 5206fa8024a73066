"""Reading the body of an answer without trusting it: a small one may unpack to a huge one."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator

PACKED = ("gzip", "x-gzip", "deflate")
GZIP_OR_ZLIB, RAW_DEFLATE = zlib.MAX_WBITS | 32, -zlib.MAX_WBITS


class TooLarge(Exception):
    """The answer is longer than the permit allows, packed or unpacked."""


async def read_body(chunks: AsyncIterator[bytes], encoding: str, max_bytes: int) -> bytes:
    """The decoded body; never more than `max_bytes` of it, nor of what arrived, is held.

    Args:
        chunks: the body as it arrived.
        encoding: its Content-Encoding; one that is not gzip or deflate leaves it as it is.

    Raises:
        TooLarge: past `max_bytes`.
        zlib.error: the body is not what `encoding` says, or is cut short.
    """
    unpacker = Unpacker() if encoding.strip().lower() in PACKED else None
    body = bytearray()
    arrived = 0
    async for chunk in chunks:
        arrived += len(chunk)
        body += unpacker.feed(chunk, max_bytes + 1 - len(body)) if unpacker else chunk
        if len(body) > max_bytes or arrived > max_bytes:
            raise TooLarge
    if unpacker and arrived:
        unpacker.finish()
    return bytes(body)


class Unpacker:
    """gzip with any number of members, zlib, or the raw deflate that some servers send."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(GZIP_OR_ZLIB)
        self._first = True

    def feed(self, chunk: bytes, room: int) -> bytes:
        """Decoded bytes, a few more than `room` at most."""
        out = bytearray()
        while chunk and len(out) < room:
            if self._stream.eof:
                self._stream = zlib.decompressobj(GZIP_OR_ZLIB)
            out += self._decompress(chunk, room - len(out))
            chunk = self._stream.unused_data if self._stream.eof else self._stream.unconsumed_tail
        return bytes(out)

    def _decompress(self, chunk: bytes, room: int) -> bytes:
        first, self._first = self._first, False
        try:
            return self._stream.decompress(chunk, room)
        except zlib.error:
            if not first:
                raise
            self._stream = zlib.decompressobj(RAW_DEFLATE)
            return self._stream.decompress(chunk, room)

    def finish(self) -> None:
        """The body has ended.

        Raises:
            zlib.error: it was cut short.
        """
        if not self._stream.eof:
            raise zlib.error("cut short")
