"""The other door reaches the configured services, and nothing else."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import SimpleNamespace

import pytest

from sparkgate.policy.local import Answer, LocalDoor, LocalDoorError, _Deadline, free_port, is_free


class _Service(BaseHTTPRequestHandler):
    """Echoes a form; has an endless body, a redirect and a compressed answer."""

    def do_GET(self) -> None:
        if self.path == "/moved":
            return self._send(302, b"", Location="/elsewhere")
        if self.path == "/packed":
            return self._send(200, b"x", **{"Content-Encoding": "gzip"})
        self._send(200, b"y" * 5000 if self.path == "/long" else "grüß".encode())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self._send(400, body, **{"Content-Type": "Application/JSON; charset=utf-8"})

    def _send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Service)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_it_gets_and_posts_to_a_listed_origin(service: str) -> None:
    with LocalDoor([service]) as door:
        assert door.get(f"{service}/any") == Answer(200, "", "grüß")
        assert door.post_form(f"{service}/", {"a": "b c"}) == Answer(400, "application/json", "a=b+c")


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1/",
        "https://127.0.0.1:8888/",
        "http://localhost:8888/",
        "http://127.0.0.1:8888@example.org/",
        "http://user@127.0.0.1:8888/",
        "http://127.0.0.1.example.org:8888/",
        "ftp://127.0.0.1:8888/",
        "//127.0.0.1:8888/",
        "http://127.0.0.1:88888/",
        "",
    ],
)
def test_every_other_origin_is_refused_before_anything_is_sent(url: str) -> None:
    with LocalDoor(["http://127.0.0.1:8888"]) as door, pytest.raises(LocalDoorError) as refusal:
        door.get(url)
    assert refusal.value.reason == "refused"


def test_the_usual_port_may_be_left_out() -> None:
    with LocalDoor(["http://[::1]", "https://searx.example"], timeout_s=0.5) as door:
        for url in ("http://[::1]:80/", "https://searx.example:443/"):
            with pytest.raises(LocalDoorError) as unreachable:
                door.get(url)
            assert unreachable.value.reason != "refused"


def test_redirects_are_answers_and_are_not_followed(service: str) -> None:
    with LocalDoor([service]) as door:
        assert door.get(f"{service}/moved").status == 302


def test_a_body_over_the_cap_is_refused(service: str) -> None:
    with LocalDoor([service], cap_bytes=4999) as door, pytest.raises(LocalDoorError, match="4999 bytes"):
        door.get(f"{service}/long")


def test_a_compressed_answer_nobody_asked_for_is_refused(service: str) -> None:
    with LocalDoor([service]) as door, pytest.raises(LocalDoorError, match="compressed"):
        door.get(f"{service}/packed")


def test_proxies_of_the_environment_are_ignored(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with LocalDoor([service]) as door:
        assert door.get(service).status == 200


def test_a_service_that_never_answers_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/secret/path"
        with LocalDoor([url], timeout_s=0.1) as door, pytest.raises(LocalDoorError) as late:
            door.get(url)
    assert late.value.reason == "timeout"
    assert "secret" not in str(late.value)


def test_a_service_that_trickles_its_answer_times_out_as_a_whole() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        Thread(target=_trickle, args=(listener,), daemon=True).start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with LocalDoor([url], timeout_s=0.2) as door, pytest.raises(LocalDoorError) as late:
            door.get(url)
    assert late.value.reason == "timeout"


def test_a_deadline_that_passed_before_there_was_a_connection_cuts_it_when_it_comes() -> None:
    ours, peer = socket.socketpair()
    with ours, peer, _Deadline(3600) as deadline:
        deadline.passed = True
        stream = SimpleNamespace(get_extra_info=lambda _name: ours)
        deadline.trace("connection.connect_tcp.complete", {"return_value": stream})
        assert peer.recv(1) == b""


def test_a_service_that_trickles_its_headers_times_out_as_a_whole() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        Thread(target=_trickle_headers, args=(listener,), daemon=True).start()
        origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with LocalDoor([origin], timeout_s=0.3) as door, pytest.raises(LocalDoorError) as caught:
            door.get(f"{origin}/")
    assert caught.value.reason == "timeout"


def _trickle_headers(listener: socket.socket) -> None:
    """One byte of an endless header at a time, each within the patience of a single read."""
    connection, _ = listener.accept()
    with connection:
        connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        connection.settimeout(0.05)
        while True:
            try:
                if not connection.recv(1024):
                    return
            except TimeoutError:
                pass
            except OSError:
                return
            try:
                connection.sendall(b"x")
            except OSError:
                return


def _trickle(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        connection.settimeout(0.05)
        while True:
            try:
                connection.sendall(b"x")
                if not connection.recv(1):
                    return
            except TimeoutError:
                continue
            except OSError:
                return


def test_a_service_that_is_not_there_is_unreachable() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with LocalDoor([url]) as door, pytest.raises(LocalDoorError) as gone:
        door.get(url)
    assert gone.value.reason == "unreachable"


def test_a_port_is_free_until_somebody_listens() -> None:
    port = free_port()
    assert is_free(port)
    with socket.create_server(("127.0.0.1", port)):
        assert not is_free(port)
    assert is_free(port)
