"""A loopback server that stands where web sites stand; `pages.inner` lets read_page reach it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from fake_searxng import PATIENCE_S, Reply

Write = Callable[[Callable[[bytes], Any]], None]
"""Gets a function that sends bytes as they are, from the status line on."""


def html(text: str, title: str = "A page", status: int = 200) -> Reply:
    body = f"<html lang=en><head><title>{title}</title></head><body><main>{text}</main></body></html>"
    return Reply(status, "text/html; charset=utf-8", body.encode())


def moved(to: str, status: int = 302) -> Reply:
    return Reply(status, "text/html", b"moved", {"Location": to})


class FakeWeb:
    """Answers what `pages` holds for a path, else 404. `requests` are the (path, headers) that came."""

    def __init__(self) -> None:
        self.hold = threading.Event()
        self.reset()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def reset(self) -> None:
        """Be an empty site again, and forget what came."""
        self.pages: dict[str, Reply | Write] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.hold.set()
        self.arrived = threading.Semaphore(0)
        self.hung_up = threading.Semaphore(0)

    def paths(self) -> list[str]:
        """The paths that were asked for, in order, without robots.txt."""
        return [path for path, _ in self.requests if path != "/robots.txt"]

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


def _handler(web: FakeWeb) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.hung_up = web.hung_up  # of this test, though another may have begun when the client goes
            web.requests.append((self.path, dict(self.headers)))
            if self.path != "/robots.txt":
                web.arrived.release()
                self._wait()
            reply = web.pages.get(self.path) or web.pages.get(self.path.partition("?")[0]) or Reply(404, "text/html")
            try:
                reply(self.wfile.write) if callable(reply) else self._send(reply)
            except OSError:
                self.hung_up.release()

        def _wait(self) -> None:
            """Hold the answer back until told, or until the client has gone."""
            self.connection.settimeout(0.02)
            while not web.hold.is_set():
                try:
                    gone = not self.connection.recv(1)
                except TimeoutError:
                    continue
                except OSError:
                    gone = True
                if gone:
                    self.hung_up.release()
                    return
            self.connection.settimeout(None)

        def _send(self, reply: Reply) -> None:
            self.send_response(reply.status)
            for name, value in {"Content-Type": reply.content_type, **reply.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, format: str, *args: Any) -> None:
            return

    return Handler
