"""One HTTP/1.1 request out of the bytes of its connection. Whatever two readers could read in two ways is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from sparkgate.policy.model_door.refusal import Refused

MAX_HEAD_BYTES = 65_536
MAX_HEADERS = 100
MAX_BODY_BYTES = 64_000_000
"""A prompt of a million tokens is 4 MB; pictures in it are longer."""
BODILESS = ("GET", "HEAD")
_MAX_SIZE_LINE = 256
_FIRST = re.compile(rb"([A-Z]{1,16}) (\S{1,8000}) HTTP/1\.1")
_HEADERS = re.compile(rb"(?:\r\n[A-Za-z0-9!#$%&'*+.^_`|~-]+:[\x20-\x7e\x80-\xff\t]*)*")
_TARGET = re.compile(rb"(/[A-Za-z0-9._/-]*)(?:\?([A-Za-z0-9._=&~-]*))?")
_LENGTH = re.compile(rb"0|[1-9]\d{0,9}")
_SIZE = re.compile(rb"[0-9A-Fa-f]{1,8}")
ONCE = ("host", "content-length", "transfer-encoding", "content-type", "content-encoding", "expect", "authorization")
"""Headers that may stand in a request once at most."""


@dataclass(frozen=True, slots=True)
class Head:
    """The request line and headers; names in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]


@dataclass(slots=True)
class RequestReader:
    """Reads one request.

    Attributes:
        head: None until it is complete.
        body: what has come of it, without framing.
        complete: all of it is there.
    """

    head: Head | None = None
    body: bytearray = field(default_factory=bytearray)
    complete: bool = False
    _rest: bytearray = field(default_factory=bytearray)
    _chunked: bool = False
    _left: int = 0
    _in_trailer: bool = False

    @property
    def expects_continue(self) -> bool:
        """Whether the client waits for a word before it sends the body."""
        return bool(self.head and "expect" in self.head.headers and not self.complete and not self.body)

    def feed(self, data: bytes | bytearray) -> None:
        """Take what has come.

        Raises:
            Refused: it is no request that can be carried.
        """
        if self.complete:
            raise Refused("bad_framing")  # one request a connection: more bytes are another one, hidden behind it
        if self.head is None:
            self._rest += data
            self._take_head()
            data, self._rest = (self._rest, bytearray()) if self.head else (b"", self._rest)
        if self.head is not None:
            self._take_body(data)

    def _take_head(self) -> None:
        end = self._rest.find(b"\r\n\r\n")
        if end > MAX_HEAD_BYTES or (end < 0 and len(self._rest) > MAX_HEAD_BYTES):
            raise Refused("head_too_large")
        if end >= 0:
            self.head = read_head(bytes(self._rest[:end]))
            del self._rest[: end + 4]
            self._chunked, self._left = _framing(self.head)

    def _take_body(self, data: bytes | bytearray) -> None:
        if self._chunked:
            self._rest += data
            self._dechunk()
            return
        self.body += data
        if len(self.body) > self._left:
            raise Refused("bad_framing")
        self.complete = len(self.body) == self._left

    def _dechunk(self) -> None:
        """`_left` counts the chunk with the line end after it."""
        position = 0
        while not self.complete:
            if self._left:
                piece = self._rest[position : position + self._left]
                self._take_piece(piece)
                position += len(piece)
                if self._left:
                    break
                continue
            end = self._rest.find(b"\r\n", position)
            if end < 0:
                break
            self._take_line(bytes(self._rest[position:end]))
            position = end + 2
        del self._rest[:position]
        if len(self._rest) > _MAX_SIZE_LINE or (self.complete and self._rest):
            raise Refused("bad_framing")

    def _take_piece(self, piece: bytearray) -> None:
        """Bytes of a chunk, its line end among them when they are its last."""
        text = piece[: max(0, self._left - 2)]
        tail = piece[len(text) :]
        if tail and not b"\r\n"[2 - min(self._left, 2) :].startswith(tail):
            raise Refused("bad_framing")
        self.body += text
        self._left -= len(piece)

    def _take_line(self, line: bytes) -> None:
        if self._in_trailer:
            if line:
                raise Refused("bad_framing")
            self.complete = True
            return
        if not _SIZE.fullmatch(line):
            raise Refused("bad_framing")
        size = int(line, 16)
        if len(self.body) + size > MAX_BODY_BYTES:
            raise Refused("body_too_large")
        self._left, self._in_trailer = (size + 2, False) if size else (0, True)


def read_head(head: bytes) -> Head:
    """The parts of a head without its last line end. Raises Refused."""
    first, *lines = head.split(b"\r\n")
    found = _FIRST.fullmatch(first)
    if not found or not _HEADERS.fullmatch(head, len(first)):
        raise Refused("bad_framing")
    target = _TARGET.fullmatch(found[2])
    if not target or b"//" in target[1] or b"/." in target[1]:
        raise Refused("upgrade" if found[1] == b"CONNECT" else "bad_target")
    headers = _headers(lines)
    if "upgrade" in headers or "upgrade" in headers.get("connection", "").lower():
        raise Refused("upgrade")
    if headers.get("expect", "100-continue").lower() != "100-continue":
        raise Refused("expectation")
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise Refused("encoded")
    return Head(found[1].decode(), target[1].decode(), (target[2] or b"").decode(), headers)


def _headers(lines: list[bytes]) -> dict[str, str]:
    """Values by name; a header that may stand once must not stand twice, of others the first counts."""
    headers: dict[str, str] = {}
    if len(lines) > MAX_HEADERS:
        raise Refused("head_too_large")
    for line in lines:
        told, _, value = line.decode("latin-1").partition(":")
        name = told.lower()
        if name in headers and name in ONCE:
            raise Refused("bad_framing")
        headers.setdefault(name, value.strip(" \t"))
    if not headers.get("host"):
        raise Refused("bad_framing")
    return headers


def _framing(head: Head) -> tuple[bool, int]:
    """(chunked, bytes of the body)."""
    length, coding = head.headers.get("content-length"), head.headers.get("transfer-encoding")
    if coding is not None:
        if length is not None or coding.lower() != "chunked" or head.method in BODILESS:
            raise Refused("bad_framing")
        return True, 0
    if length is None:
        return False, 0
    if not _LENGTH.fullmatch(length.encode("latin-1")) or (head.method in BODILESS and length != "0"):
        raise Refused("bad_framing")
    if int(length) > MAX_BODY_BYTES:
        raise Refused("body_too_large")
    return False, int(length)
