"""A model door in a process of its own, with an engine behind it that does what a test says."""

from __future__ import annotations

import asyncio
import json
import os
import select
import socket
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from sparkgate.model_doors import ModelDoors
from sparkgate.policy.audit import Caller, LogUnavailable
from sparkgate.policy.guard import Guard
from sparkgate.policy.kill_switch import KillSwitch
from sparkgate.policy.trail.read import read_rows
from sparkgate.services import Services

PATIENCE_S = 30.0
CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
_tick = threading.Event()


def until(condition: Callable[[], Any], what: str) -> Any:
    """Look until something holds."""
    for _ in range(int(PATIENCE_S / 0.02)):
        if found := condition():
            return found
        _tick.wait(0.02)
    raise AssertionError(f"it never came about: {what}")


def post(body: Any, path: str = "/v1/chat/completions", *headers: str) -> bytes:
    """A whole request; `body` is JSON, or the bytes of it."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", *headers]
    return "\r\n".join([*lines, f"Content-Length: {len(data)}", "", ""]).encode() + data


def part(**content: Any) -> dict[str, Any]:
    """A chat with one part of content."""
    return {"model": "m", "messages": [{"role": "user", "content": [content]}]}


def get(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: 127.0.0.1", *headers, "", ""]).encode()


def answer(body: Any, status: str = "200 OK", *headers: str) -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {len(data)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + data


OK = answer({"choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}}]})
MODELS = answer({"object": "list", "data": [{"id": "m", "object": "model", "owned_by": "test"}]})
Handle = Callable[["Heard", socket.socket], None]


@dataclass(frozen=True, slots=True)
class Heard:
    """One request as an engine got it."""

    first: str
    headers: Mapping[str, str]
    body: bytes
    raw: bytes


def says(data: bytes) -> Handle:
    return lambda _heard, link: link.sendall(data)


class Engine:
    """A server at `url` within `with`: `handle` answers what is posted, GETs are answered with a list of models."""

    def __init__(self, handle: Handle | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.handle = handle or says(OK)
        self.heard: list[Heard] = []
        self.silent = 0  # connections on which not one byte came
        self.models = MODELS
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._links: set[socket.socket] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def posted(self) -> list[Heard]:
        return [one for one in self.heard if one.first.startswith("POST")]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Answer nobody any more; once is enough."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for link in list(self._links):
            with suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)

    def _serve(self) -> None:
        while True:
            try:
                link, _ = self._listener.accept()
            except OSError:
                return
            self._links.add(link)
            threading.Thread(target=self._one, args=(link,), daemon=True).start()

    def _one(self, plain: socket.socket) -> None:
        with plain, suppress(OSError):
            self.silent += not plain.recv(1, socket.MSG_PEEK)
            with self._secured(plain) as link:
                if heard := read_request(link):
                    self.heard.append(heard)
                    (says(self.models) if heard.first.startswith("GET") else self.handle)(heard, link)
        self._links.discard(plain)

    def _secured(self, link: socket.socket) -> socket.socket:
        return self._tls.wrap_socket(link, server_side=True) if self._tls else link


def read_request(link: socket.socket) -> Heard | None:
    data = b""
    while b"\r\n\r\n" not in data:
        if not (piece := link.recv(65_536)):
            return None
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        if not (piece := link.recv(65_536)):
            return None
        body += piece
    return Heard(first, headers, body, head + b"\r\n\r\n" + body)


@dataclass(frozen=True, slots=True)
class Answered:
    """One answer as the agent got it, until the end of the connection."""

    raw: bytes

    @property
    def status(self) -> int:
        return int(self.raw.split()[1]) if self.raw else 0

    @property
    def head(self) -> str:
        return self.raw.partition(b"\r\n\r\n")[0].decode("latin-1")

    @property
    def body(self) -> bytes:
        return self.raw.partition(b"\r\n\r\n")[2]

    @property
    def code(self) -> str:
        """The rule that refused, in any of the shapes of an error; "" for none."""
        try:
            told = json.loads(self.body)
        except ValueError:
            return ""
        error = told.get("error", {}) if isinstance(told, dict) else {}
        code = error.get("code") if isinstance(error, dict) else told.get("code")
        return str(code or "").removeprefix("sparkgate_")


class DoorBox:
    """Doors to engines by name: `tables` are the texts of `[engines.NAME]`, without the header."""

    def __init__(self, root: Path, tables: Mapping[str, str], more: str = "") -> None:
        self.root, self.state = root, root / "state"
        self.config = root / "config.toml"
        self.configure(tables, more)
        self.switch = KillSwitch(self.state / "locked", root / "operator-locked")
        self.services = Services(self.config, self.state, Guard(), self.switch)
        self.caller = Caller(session="of-a-test", confined="c1")
        self.ports: dict[str, int] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def configure(self, tables: Mapping[str, str], more: str = "") -> None:
        text = "\n".join(f"[engines.{name}]\n{table}" for name, table in tables.items())
        new = self.config.with_suffix(".new")
        new.write_text(f"{text}\n{more}\n")
        new.replace(self.config)

    def run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    def open(self) -> None:
        self.state.mkdir(mode=0o700, exist_ok=True)
        self._thread.start()

        async def made() -> ModelDoors:
            return ModelDoors(self.services, self.caller)

        self.doors: ModelDoors = self.run(made())
        listeners = {}
        for one in self.doors.offered():
            listener = socket.create_server(("127.0.0.1", 0), backlog=512)
            self.ports[one.name] = listener.getsockname()[1]
            listeners[one.name] = listener.detach()
        self.run(self.doors.open(listeners))

    def close(self) -> None:
        """Once is enough."""
        if self._loop.is_closed():
            return
        self.run(self.doors.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self.services.close_log()

    @property
    def pid(self) -> int:
        """The door process."""
        return int(until(lambda: self.doors._process and self.doors._process.pid, "a door process"))

    def connect(self, name: str = "") -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.ports[name or next(iter(self.ports))]), timeout=PATIENCE_S)

    def ask(self, request: bytes, name: str = "") -> Answered:
        """Send the bytes of a request, and read until the door hangs up."""
        with self.connect(name) as link:
            with suppress(OSError):
                link.sendall(request)
            return Answered(read_all(link))

    def rows(self) -> list[dict[str, Any]]:
        """Rows of the doors whose end is written too, oldest first; it follows the row of what left in a moment."""
        rows: list[dict[str, Any]] = []
        with suppress(LogUnavailable):  # it is being made
            rows = read_rows(self.state / "audit.db", limit=1000)[::-1]
        return [row for row in rows if row["tool"] == "model_door" and row["outcome"] not in (None, "unknown")]


def read_all(link: socket.socket) -> bytes:
    data = bytearray()
    with suppress(ConnectionResetError):
        while piece := link.recv(65_536):
            data += piece
    return bytes(data)


def read_some(link: socket.socket) -> bytes:
    ready, _, _ = select.select([link], [], [], PATIENCE_S)
    assert ready, "nothing came"
    return link.recv(65_536)


@contextmanager
def doors(tables: Mapping[str, str], more: str = "") -> Iterator[DoorBox]:
    """Open doors to these engines; closed afterwards."""
    with tempfile.TemporaryDirectory(prefix="sg-door-") as folder:
        box = DoorBox(Path(folder), tables, more)
        box.open()
        try:
            yield box
        finally:
            box.close()


@contextmanager
def door_to(engine: Engine, table: str = 'engine = "vllm"\n', more: str = "") -> Iterator[DoorBox]:
    """One door, called `main`, to an engine."""
    with engine, doors({"main": f'url = "{engine.url}"\n{table}'}, more) as box:
        yield box


def pss_kib(pid: int) -> int:
    """Proportional set size of a process, KiB."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))


def environment_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes() + Path(f"/proc/{pid}/cmdline").read_bytes()


def is_child_of_ours(pid: int) -> bool:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) == os.getpid()
