"""A collector on loopback, OTLP/HTTP in protobuf: it can refuse, hold an answer back, die and come back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from box import PATIENCE_S
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse


@dataclass
class Told:
    """What one request held: the ids of its rows, and how it came."""

    ids: list[int]
    headers: dict[str, str]
    request: ExportLogsServiceRequest


@dataclass
class Receiver:
    """A collector on loopback. `answers` are given one after another, then 200 for ever."""

    answers: list[tuple[int, dict[str, str], bytes]] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)
    held: threading.Event = field(default_factory=threading.Event)
    hold_at: int = 0
    """The request of this number gets its answer only when `held` is set."""
    most_rows: int = 10**9
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def accepted(self) -> list[int]:
        return [number for one in self.told for number in one.ids]

    @property
    def records(self) -> list[Any]:
        return [one for told in self.told for one in told.request.resource_logs[0].scope_logs[0].log_records]

    def take(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        if path != "/v1/logs":
            return 404, {}, b""
        request = ExportLogsServiceRequest.FromString(body)
        ids = [row_of(one) for part in request.resource_logs for scope in part.scope_logs for one in scope.log_records]
        if len(ids) > self.most_rows:
            return 413, {}, b""
        if self.answers:
            answer = self.answers.pop(0)
            if answer[0] != 200:
                return answer
        else:
            answer = (200, {}, ExportLogsServiceResponse().SerializeToString())
        self.told.append(Told(ids, headers, request))
        if len(self.told) == self.hold_at:
            self.held.wait(PATIENCE_S)
        return answer


def row_of(record: Any) -> int:
    return int(next(one.value.int_value for one in record.attributes if one.key == "sparkgate.row"))


def text_of(record: Any, name: str) -> str:
    """An attribute of a log record that is text."""
    return str(next(one.value.string_value for one in record.attributes if one.key == name))


@contextmanager
def listening(receiver: Receiver) -> Iterator[Receiver]:
    """The receiver, reachable on its port; on the same one when it comes back."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            size = int(self.headers["Content-Length"])
            body = self.rfile.read(size)
            if len(body) < size:
                return  # the other side was killed
            told = {name.lower(): value for name, value in self.headers.items()}
            status, headers, answer = receiver.take(self.path, told, body)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

        def handle(self) -> None:
            with suppress(ConnectionError):
                super().handle()

    server = ThreadingHTTPServer(("127.0.0.1", receiver.port), Handler)
    server.daemon_threads = True
    receiver.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield receiver
    finally:
        receiver.held.set()
        server.shutdown()
        server.server_close()
        thread.join()
