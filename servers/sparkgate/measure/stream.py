"""A streamed answer: bytes with their times in, events out, wherever the bytes were cut."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from sparkgate.measure.chunk import READ, Chunk, Dialect, error_message, failed

_BOM = b"\xef\xbb\xbf"
_DONE = b"[DONE]"


class StreamParser:
    """Server-sent events, or JSON lines for the dialect "ollama".

    Attributes:
        keep_alives: comments, and events without data.
        malformed: events that are not a JSON object.
        done: the last event has come; what follows it is not looked at.
        whole_body: a JSON document came in place of a stream; it is an event when it has ended.
        first, last: the first and the last JSON object.
    """

    def __init__(self, dialect: Dialect = "openai") -> None:
        self.keep_alives = 0
        self.malformed = 0
        self.done = False
        self.whole_body = False
        self.first: Mapping[str, Any] = {}
        self.last: Mapping[str, Any] = {}
        self._read = READ[dialect]
        self._json_lines = dialect == "ollama"
        self._begun = False
        self._rest: list[bytes] = []
        self._rest_ns = 0
        self._cr_ended = False
        self._name = b""
        self._data: list[bytes] = []
        self._data_ns = 0

    def feed(self, data: bytes, at_ns: int) -> list[Chunk]:
        """The events that these bytes complete. An event has the time of its last line of data, not of its blank line.

        Args:
            data: of one read; work and memory grow with it only.
            at_ns: when they were read; never before those fed earlier.
        """
        self._rest_ns = at_ns
        found = [self._line(one, at_ns) for one in self._lines(data)]
        return [chunk for chunk in found if chunk is not None]

    def end(self) -> list[Chunk]:
        """The events that only the end completes: the last line, or the blank line after it, may be unfinished."""
        rest = b"".join(self._rest)
        self._rest.clear()
        found = [self._line(rest, self._rest_ns) if rest else None, self._dispatch()]
        return [chunk for chunk in found if chunk is not None]

    def _lines(self, data: bytes) -> Iterator[bytes]:
        """Lines that end here, by LF, CRLF or CR. A CR ends its line at once, and an LF after it is passed over."""
        if self._cr_ended and data:
            data = data[1:] if data[:1] == b"\n" else data
            self._cr_ended = False
        position, lf, cr = 0, data.find(b"\n"), data.find(b"\r")
        while lf >= 0 or cr >= 0:
            end = lf if cr < 0 or 0 <= lf < cr else cr
            yield self._joined(data[position:end])
            position = end + (2 if end == cr and lf == cr + 1 else 1)
            self._cr_ended = end == cr and position == len(data) and lf < 0
            lf = data.find(b"\n", position) if 0 <= lf < position else lf
            cr = data.find(b"\r", position) if 0 <= cr < position else cr
        if position < len(data):
            self._rest.append(data[position:])

    def _joined(self, one: bytes) -> bytes:
        if not self._rest:
            return one
        self._rest.append(one)
        whole = b"".join(self._rest)
        self._rest.clear()
        return whole

    def _line(self, one: bytes, at_ns: int) -> Chunk | None:
        if not self._begun:
            one = self._begin(one)
        if self.whole_body:
            self._take(one, at_ns)
            return None
        if self._json_lines:
            return self._event(one, at_ns) if one.strip() else None
        if not one:
            return self._dispatch()
        self._field(one, at_ns)
        return None

    def _begin(self, one: bytes) -> bytes:
        one = one.removeprefix(_BOM)
        self._begun = bool(one.strip())
        self.whole_body = not self._json_lines and one.lstrip()[:1] in (b"{", b"[")
        return one

    def _field(self, one: bytes, at_ns: int) -> None:
        name, _, value = one.partition(b":")
        value = value[1:] if value[:1] == b" " else value
        if name == b"data":
            self._take(value, at_ns)
        elif not name:
            self.keep_alives += 1
        elif name == b"event":
            self._name = value
        elif name == b"error":
            # Older builds of llama.cpp send an error as a field of its own.
            self._name = name
            self._take(value, at_ns)

    def _take(self, value: bytes, at_ns: int) -> None:
        self._data.append(value)
        self._data_ns = at_ns

    def _dispatch(self) -> Chunk | None:
        if not self._data:
            self._name = b""
            return None
        data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        self._data.clear()
        return self._event(data, self._data_ns)

    def _event(self, data: bytes, at_ns: int) -> Chunk | None:
        is_error, self._name = self._name == b"error", b""
        text = data.strip()
        if self.done:
            return None
        if not text:
            self.keep_alives += 1
            return None
        if text == _DONE:
            self.done = True
            return Chunk(at_ns, done=True)
        told = _json(text)
        if not isinstance(told, dict):
            return self._unreadable(text, at_ns, is_error)
        self.first, self.last = self.first or told, told
        chunk = self._read(told, at_ns)
        self.done = chunk.done
        return failed(at_ns, error_message(told)) if is_error and chunk.error is None else chunk

    def _unreadable(self, text: bytes, at_ns: int, is_error: bool) -> Chunk | None:
        if is_error:
            return failed(at_ns, text.decode("utf-8", "replace"))
        self.malformed += 1
        return None


def _json(data: bytes) -> Any:
    """None when it is no JSON."""
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
