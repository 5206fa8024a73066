"""Serves a recording of an engine on loopback, and remembers what it was asked."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

FOLDER = Path(__file__).parent / "recordings"
Answers = dict[str, list[Any]]


def recording(name: str) -> dict[str, Any]:
    return dict(json.loads((FOLDER / f"{name}.json").read_text()))


class RecordedEngine:
    """`answers` by path: [status, content type, body]; `*` answers what has no other, else it is a 404."""

    def __init__(self, answers: Answers) -> None:
        self.answers = dict(answers)
        self.asked: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _handler(engine: RecordedEngine) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer("GET")

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self._answer("POST")

        def _answer(self, method: str) -> None:
            engine.asked.append(self.path if method == "GET" else f"{method} {self.path}")
            missing = engine.answers.get("*", [404, "application/json", {"detail": "Not Found"}])
            status, kind, body = engine.answers.get(self.path, missing)
            data = (body if isinstance(body, str) else json.dumps(body)).encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            return

    return Handler
