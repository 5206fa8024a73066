"""The body of an HTTP/1.1 answer out of the bytes of its connection, wherever they were cut."""

from __future__ import annotations

import re

MAX_HEAD_BYTES = 65_536
_MAX_SIZE_LINE = 256
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})(?: |\r|\Z)")
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;.*)?", re.DOTALL)
_LENGTH = re.compile(rb"\d{1,15}")
_BODILESS = (204, 304)


class Framing:
    """One answer.

    Attributes:
        status: 0 until the headers are complete.
        began: a byte has come.
        ended: the body is complete.
        until_eof: the end of the connection is its end.
    """

    def __init__(self) -> None:
        self.status = 0
        self.began = self.ended = self.until_eof = False
        self._keeps = True
        self._rest = b""
        self._chunked = False
        self._left = 0
        self._in_trailer = False

    @property
    def reusable(self) -> bool:
        """Whether the connection may carry another request."""
        return self.ended and self._keeps

    def feed(self, data: bytes) -> bytes:
        """The bytes of the body in those of one read.

        Raises:
            ValueError: it is not HTTP/1.1, or goes on after its end.
        """
        self.began = True
        if not self.status:
            data = self._take_head(data)
        if not self.status:
            return b""
        if self._chunked:
            return self._dechunk(data)
        return data if self.until_eof else self._counted(data)

    def _take_head(self, data: bytes) -> bytes:
        """What follows the headers, which are in `status` from then on."""
        self._rest += data
        while (end := self._rest.find(b"\r\n\r\n")) >= 0:
            head, self._rest = self._rest[:end], self._rest[end + 4 :]
            if self._read_head(head):
                rest, self._rest = self._rest, b""
                return rest
        if len(self._rest) > MAX_HEAD_BYTES:
            raise ValueError("headers without end")
        return b""

    def _read_head(self, head: bytes) -> bool:
        """False for an interim answer, which another follows."""
        first, *lines = head.split(b"\r\n")
        found = _STATUS.match(first)
        if not found:
            raise ValueError("no status")
        status = int(found[1])
        if status < 200:
            return False
        pairs = [line.partition(b":") for line in lines]
        headers = {name.strip().lower(): value.strip().lower() for name, _, value in pairs}
        if headers.get(b"content-encoding", b"identity") != b"identity":
            raise ValueError("compressed unasked")
        self.status = status
        self._keeps = b"close" not in headers.get(b"connection", b"") and first.startswith(b"HTTP/1.1")
        self._read_length(headers)
        return True

    def _read_length(self, headers: dict[bytes, bytes]) -> None:
        length = headers.get(b"content-length")
        self._chunked = headers.get(b"transfer-encoding", b"").endswith(b"chunked")
        if self._chunked:
            return
        if self.status in _BODILESS:
            length = b"0"
        self.until_eof = length is None
        if length is not None:
            if not _LENGTH.fullmatch(length):
                raise ValueError("no length")
            self._left = int(length)
            self.ended = not self._left

    def _counted(self, data: bytes) -> bytes:
        if len(data) > self._left:
            raise ValueError("more than its length")
        self._left -= len(data)
        self.ended = not self._left
        return data

    def _dechunk(self, data: bytes) -> bytes:
        """`_left` counts the chunk with the line end after it."""
        buffer = self._rest + data if self._rest else data
        found, position = [], 0
        while position < len(buffer) and not self.ended:
            if self._left:
                end = position + self._left
                found.append(buffer[position : min(end - 2, len(buffer))] if self._left > 2 else b"")
                self._left = max(0, end - len(buffer))
                position = min(end, len(buffer))
                continue
            end = buffer.find(b"\r\n", position)
            if end < 0:
                break
            self._line(buffer[position:end])
            position = end + 2
        self._rest = b"" if self._left else buffer[position:]
        if len(self._rest) > _MAX_SIZE_LINE or (self.ended and self._rest):
            raise ValueError("a chunk without size, or bytes after the end")
        return found[0] if len(found) == 1 else b"".join(found)

    def _line(self, line: bytes) -> None:
        """A line between chunks: a size, or one of the trailer, which an empty line ends."""
        if self._in_trailer:
            self.ended = not line
            return
        size = _SIZE.fullmatch(line)
        if not size:
            raise ValueError("no size")
        self._left = int(size[1], 16) + 2
        if self._left == 2:
            self._left, self._in_trailer = 0, True
