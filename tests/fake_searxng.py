"""A loopback server that stands where SearXNG stands, for the answers a healthy one never gives."""

from __future__ import annotations

import gzip
import json
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

PATIENCE_S = 30.0


@dataclass
class Reply:
    """What the server answers next."""

    status: int = 200
    content_type: str = "application/json"
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


def result(number: int, **more: Any) -> dict[str, Any]:
    """A result as SearXNG writes it, with the fields the tool reads."""
    base = {"url": f"https://example.org/{number}", "title": f"Result {number}", "content": f"Snippet {number}"}
    return base | {"engine": "alpha", "engines": ["alpha"], "publishedDate": None} | more


def answer(*results: dict[str, Any], **more: Any) -> Reply:
    """A search answer with all seven keys."""
    empty: dict[str, Any] = {"answers": [], "corrections": [], "infoboxes": [], "suggestions": []}
    body = {"query": "q", "results": list(results), **empty, "unresponsive_engines": []} | more
    return Reply(body=json.dumps(body).encode())


def zipped(reply: Reply, cut: int | None = None) -> Reply:
    return Reply(reply.status, reply.content_type, gzip.compress(reply.body)[:cut], {"Content-Encoding": "gzip"})


class FakeSearxng:
    """Answers `reply` to every search and keeps what came: method, path, form fields, headers.

    Args:
        tls: files of a certificate and its key, for https.
    """

    def __init__(self, tls: tuple[Path, Path] | None = None) -> None:
        self.hold = threading.Event()
        self.reset()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._scheme = "https" if tls else "http"
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_port}"

    def reset(self) -> None:
        """Be healthy again, and forget what came."""
        self.reply: Reply | Callable[[dict[str, str]], Reply] = answer(result(1), result(2), result(3))
        self.get_reply = Reply(405, "text/html")
        self.probe: Reply = Reply(400, body=b'{"error":"No query"}')
        self.page: Reply | None = None
        self.wanted_headers: dict[str, str] = {}
        self.config_reply: Reply | None = None
        self.config: dict[str, list[Any]] = {
            "engines": [{"name": "alpha"}, {"name": "Beta News"}],
            "categories": ["general", "it"],
        }
        self.requests: list[dict[str, Any]] = []
        self.hold.set()
        self.arrived = threading.Semaphore(0)
        self.hung_up = threading.Semaphore(0)

    def queries(self) -> list[str]:
        """The query texts that arrived, in order."""
        return [request["form"]["q"] for request in self.requests if "q" in request["form"]]

    def wait_for_request(self) -> None:
        assert self.arrived.acquire(timeout=PATIENCE_S), "no request came"

    def wait_for_hang_up(self) -> None:
        assert self.hung_up.acquire(timeout=PATIENCE_S), "the client kept the connection"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.hold.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _handler(fake: FakeSearxng) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            form = dict(parse_qsl(body, keep_blank_values=True))
            self._note(form)
            if not fake.hold.is_set():
                self._wait()
            self._send(self._reply(form))

        def do_GET(self) -> None:
            self._note(dict(parse_qsl(urlsplit(self.path).query)))
            config = fake.config_reply or Reply(body=json.dumps(fake.config).encode())
            self._send(config if self.path.endswith("/config") else fake.get_reply)

        def _reply(self, form: dict[str, str]) -> Reply:
            """`probe` to a search without a query, `page` to one that asks for no JSON."""
            if any(self.headers.get(name) != value for name, value in fake.wanted_headers.items()):
                return Reply(401, "text/html")
            if "q" not in form:
                return fake.probe
            if fake.page and "format" not in form:
                return fake.page
            return fake.reply(form) if callable(fake.reply) else fake.reply

        def _note(self, form: dict[str, str]) -> None:
            fake.requests.append(
                {"method": self.command, "path": self.path, "form": form, "headers": dict(self.headers)}
            )
            fake.arrived.release()

        def _wait(self) -> None:
            """Hold the answer back until told, or until the client has gone."""
            self.connection.settimeout(0.02)
            while not fake.hold.is_set():
                try:
                    if not self.connection.recv(1):
                        fake.hung_up.release()
                        return
                except TimeoutError:
                    continue
                except OSError:
                    fake.hung_up.release()
                    return

        def _send(self, reply: Reply) -> None:
            try:
                self.send_response(reply.status)
                for name, value in {"Content-Type": reply.content_type, **reply.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(reply.body)))
                self.end_headers()
                self.wfile.write(reply.body)
            except OSError:
                return

        def log_message(self, format: str, *args: Any) -> None:
            return

    return Handler
