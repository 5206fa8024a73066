"""Lines of JSON-RPC as bytes: split with a limit, and judged. Standard library only."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

MAX_LINE_BYTES = 4 * 1024 * 1024
PARSE_ERROR, INVALID_REQUEST, GATE_ERROR = -32700, -32600, -32000
_EDGE_BYTES = 4096

# A top-level id stands before the first nested object, or last before the closing brace of the line.
_ID_FIRST = re.compile(rb'\s*\{[^{}\[\]]*?"id"\s*:\s*(\d{1,15}|"[^"\\]{1,100}")\s*[,}]')
_ID_LAST = re.compile(rb'[,{]\s*"id"\s*:\s*(\d{1,15}|"[^"\\]{1,100}")\s*\}\s*$')
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Overlong:
    """A line past the limit: only its two ends were kept."""

    head: bytes
    tail: bytes


class LineSplitter:
    """Bytes in, whole lines out (without the newline); memory stays within the limit whatever comes."""

    def __init__(self, limit_bytes: int = MAX_LINE_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self._buffer = bytearray()
        self._head: bytes | None = None

    def feed(self, data: bytes) -> list[bytes | Overlong]:
        """Lines that `data` completes, in order."""
        *ends, rest = data.split(b"\n")
        lines = [self._complete(end) for end in ends]
        self._append(rest)
        return [line for line in lines if isinstance(line, Overlong) or line.strip()]

    def rest(self) -> list[bytes | Overlong]:
        """What came after the last newline, once no more will come."""
        return self.feed(b"\n")

    def _append(self, data: bytes) -> None:
        self._buffer += data
        if len(self._buffer) > self.limit_bytes and self._head is None:
            self._head = bytes(self._buffer[:_EDGE_BYTES])
        if self._head is not None:
            del self._buffer[:-_EDGE_BYTES]

    def _complete(self, end: bytes) -> bytes | Overlong:
        self._append(end)
        line, head = bytes(self._buffer), self._head
        self._buffer.clear()
        self._head = None
        return line.rstrip(b"\r") if head is None else Overlong(head, line)


@dataclass(frozen=True)
class Checked:
    """A line that may be forwarded, or the error to answer instead. `message` is the parsed object."""

    line: bytes = b""
    message: dict[str, Any] | None = None
    error: bytes = b""


def check(line: bytes | Overlong) -> Checked:
    """Judge one line: it is forwarded, with lone surrogates replaced, or answered with an error."""
    if isinstance(line, Overlong):
        return Checked(error=error_line(id_at_the_edges(line), INVALID_REQUEST, _TOO_LONG))
    try:
        message = json.loads(line.decode("utf-8"), parse_constant=_no_constant, parse_float=_finite)
    except UnicodeDecodeError:
        return Checked(error=error_line(id_at_the_edges(Overlong(line, line)), PARSE_ERROR, _NOT_UTF8))
    except (ValueError, RecursionError):
        return Checked(error=error_line(id_at_the_edges(Overlong(line, line)), PARSE_ERROR, _NOT_JSON))
    if not isinstance(message, dict):
        return Checked(error=error_line(None, INVALID_REQUEST, _NOT_AN_OBJECT))
    if "method" in message and "id" in message and request_id_of(message) is None:
        return Checked(error=error_line(None, INVALID_REQUEST, _BAD_ID))
    return Checked(line=_without_lone_surrogates(line, message), message=message)


_TOO_LONG = f"the line is longer than {MAX_LINE_BYTES // 1024 // 1024} MB; send less in one message"
_NOT_UTF8 = "the line is not UTF-8"
_NOT_JSON = "the line is not valid JSON"
_BAD_ID = "the id of a request is a whole number or text"
_NOT_AN_OBJECT = "a message is one JSON object; batches are not supported"


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(text)
    return value


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _without_lone_surrogates(line: bytes, message: dict[str, Any]) -> bytes:
    if b"\\ud" not in line and b"\\uD" not in line:
        return line
    return _SURROGATE.sub("\ufffd", json.dumps(message, ensure_ascii=False)).encode()


def id_at_the_edges(line: Overlong) -> int | str | None:
    """The request id of a line that cannot be parsed, when it stands where it cannot be anything else."""
    found = _ID_FIRST.match(line.head) or _ID_LAST.search(line.tail)
    if not found:
        return None
    try:
        value = json.loads(found[1])
    except ValueError:
        return None
    return value if isinstance(value, (int, str)) else None


def error_line(request_id: int | str | None, code: int, message: str) -> bytes:
    """A JSON-RPC error answer as one line with its newline."""
    body = {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}
    return json.dumps(body).encode() + b"\n"


class OpenRequests:
    """Which requests of one side still wait for an answer, in the order they were asked."""

    def __init__(self) -> None:
        self.ids: dict[int | str, None] = {}

    def asked(self, message: dict[str, Any]) -> None:
        """Note a message of the asking side; one that cancels a request closes it, as no answer will come."""
        request = request_id_of(message)
        if request is not None:
            self.ids[request] = None
        elif message.get("method") == "notifications/cancelled" and isinstance(message.get("params"), dict):
            self._close(message["params"].get("requestId"))

    def answered(self, message: dict[str, Any]) -> None:
        """Note a message of the answering side."""
        if "method" not in message:
            self._close(message.get("id"))

    def _close(self, request: Any) -> None:
        if isinstance(request, (int, str)):
            self.ids.pop(request, None)


def request_line(request_id: int | str, method: str) -> bytes:
    """A JSON-RPC request without parameters as one line with its newline."""
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method}).encode() + b"\n"


def request_id_of(message: dict[str, Any]) -> int | str | None:
    """The id of a request (not of a notification, nor of an answer)."""
    found = message.get("id") if "method" in message else None
    return found if isinstance(found, (int, str)) and not isinstance(found, bool) else None
