"""The head of an engine's answer, and what of it the agent sees. The body is copied as it comes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

MAX_HEAD_BYTES = 65_536
HOP = frozenset(
    {"connection", "keep-alive", "proxy-connection", "proxy-authenticate", "te", "trailer", "upgrade", "alt-svc"}
)
"""Headers of one connection, which belong to the door."""
_FIRST = re.compile(rb"HTTP/1\.[01] ([1-5]\d\d)(?: ([\x20-\x7e\x80-\xff]*))?")
_HEADERS = re.compile(rb"(?:\r\n[A-Za-z0-9!#$%&'*+.^_`|~-]+:[\x20-\x7e\x80-\xff\t]*)*")


class BadAnswer(Exception):
    """It is no HTTP answer."""


@dataclass(frozen=True, slots=True)
class AnswerHead:
    """Status and headers of the answer; `raw` as they came, without what follows the last line end."""

    status: int
    pairs: tuple[tuple[str, str], ...]
    raw: bytes

    @property
    def headers(self) -> Mapping[str, str]:
        """Values by name in lower case; those of one name with commas between them."""
        found: dict[str, str] = {}
        for name, value in self.pairs:
            found[name.lower()] = f"{found[name.lower()]}, {value}" if name.lower() in found else value
        return found

    def shown(self, secret: str = "") -> bytes:
        """The head that the agent gets; a header with `secret` in it is left out."""
        first = self.raw.partition(b"\r\n")[0]
        lines = [
            f"{name}: {value}".encode("latin-1")
            for name, value in self.pairs
            if name.lower() not in HOP and not (secret and secret in value)
        ]
        return b"\r\n".join([first, *lines, b"Connection: close", b"", b""])


@dataclass(slots=True)
class HeadReader:
    """Reads to the end of the head, past interim answers."""

    _held: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> tuple[AnswerHead, bytes] | None:
        """The head and what follows it; None until it is there. Raises BadAnswer."""
        self._held += data
        while (end := self._held.find(b"\r\n\r\n")) >= 0:
            found = _read(bytes(self._held[:end]))
            del self._held[: end + 4]
            if found.status >= 200:
                return found, bytes(self._held)
            if found.status == 101:
                raise BadAnswer
        if len(self._held) > MAX_HEAD_BYTES:
            raise BadAnswer
        return None


def _read(raw: bytes) -> AnswerHead:
    first, *lines = raw.decode("latin-1").split("\r\n")
    found = _FIRST.match(raw)
    if not found or found.end() != len(first) or not _HEADERS.fullmatch(raw, len(first)):
        raise BadAnswer
    parts = [line.partition(":") for line in lines]
    return AnswerHead(int(found[1]), tuple((name, value.strip(" \t")) for name, _, value in parts), raw)
