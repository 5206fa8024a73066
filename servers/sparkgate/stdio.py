"""The stdio server a host starts: a pipe to the gate, standard library only.

    python -I -m sparkgate.stdio search [--config FILE] [--host NAME] [--env XDG_STATE_HOME=FOLDER]

It connects to the gate's Unix socket (starting the gate when none runs), says in one line who asks, and copies
lines both ways. It reads the lines only to know which requests are open, so that a gate that ends in mid-call becomes
a JSON-RPC error and not silence, and so that the next request finds a new gate with the same session set up again.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time
from typing import Any

from sparkgate import paths, wire
from sparkgate.starter import Starter
from sparkgate.version import __version__

XDG_FOLDERS = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR")
TOOLSETS = ("search", "engine", "bench")
HELLO_FORMAT = 1
EOF_GRACE_S = 1.5
GATE_WAIT_S = 15.0
TICK_S = 1.0
CONNECT_TICK_S = 0.01
CHUNK_BYTES = 65_536
PIPE_ATOMIC_BYTES = 4096
"""A pipe that is writable takes this much without blocking (pipe(7): PIPE_BUF)."""

GONE = "the gate ended during this call; `sparkgate audit list` tells whether a query had left"


def hello(toolset: str, **extra: Any) -> bytes:
    """The one line a connection starts with."""
    about = {"sparkgate": HELLO_FORMAT, "toolset": toolset, "version": __version__}
    about |= {"pid": os.getpid(), "uid": os.getuid(), "cwd": _cwd(), **extra}
    return json.dumps(about).encode() + b"\n"


def _cwd() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""


def connect(path: str) -> socket.socket:
    """Connect to the gate's socket.

    Raises:
        OSError: nothing listens there.
    """
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        link.connect(paths.short_socket_path(path, folder))
    except OSError:
        link.close()
        raise
    finally:
        os.close(folder)
    return link


class Pipe:
    """One host on one side, the gate on the other.

    States of the gate side: `down` (no connection), `hello` (waiting for the gate's first line), `replay` (a new
    gate is being told the host's initialize again), `up`.
    """

    def __init__(self, toolset: str, config: str, host: str = "", host_in: int = 0, host_out: int = 1) -> None:
        self.toolset, self.config, self.host = toolset, config, host
        self.host_in, self.host_out = host_in, host_out
        self.parent = os.getppid()
        self.starter = Starter(config)
        self.link: socket.socket | None = None
        self.state = "down"
        self.from_host, self.from_gate = wire.LineSplitter(), wire.LineSplitter(limit_bytes=64 * 1024 * 1024)
        self.to_host, self.to_gate = bytearray(), bytearray()
        self.waiting: list[bytes] = []
        self.open = wire.OpenRequests()
        self.handshake: list[bytes] = []
        self.greeted = False
        self.wanted_since = time.monotonic()
        self.eof_at: float | None = None

    def run(self) -> int:
        """Copy until the host closes its side or ends; exit code 0."""
        self._try_connect()
        while not self._finished():
            self._step()
        return 0

    # -- the loop

    def _finished(self) -> bool:
        if os.getppid() != self.parent:
            return True
        if self.eof_at is None:
            return False
        answered = not (self.open.ids or self.waiting or self.to_host)
        return answered or time.monotonic() - self.eof_at > EOF_GRACE_S

    def _step(self) -> None:
        wanted = self.state == "down" and (bool(self.waiting) or not self.greeted)
        if wanted:
            self._try_connect()
        elif self.state in ("hello", "replay") and self._waited_too_long():
            self._drop_link()
            self._give_up("the gate does not answer; `sparkgate gate stop` ends it")
        readable, writable, _ = select.select(self._inputs(), self._outputs(), [], self._tick_s(wanted))
        if self.host_out in writable:
            self._write_host()
        if self.link and self.link in writable:
            self._write_gate()
        if self.host_in in readable:
            self._read_host()
        if self.link and self.link in readable:
            self._read_gate()

    def _inputs(self) -> list[Any]:
        host = [] if self.eof_at is not None or len(self.to_gate) > wire.MAX_LINE_BYTES else [self.host_in]
        return host + ([self.link] if self.link and len(self.to_host) < wire.MAX_LINE_BYTES else [])

    def _outputs(self) -> list[Any]:
        return ([self.host_out] if self.to_host else []) + ([self.link] if self.link and self.to_gate else [])

    def _tick_s(self, wanted: bool) -> float:
        if wanted:
            return CONNECT_TICK_S
        return TICK_S if self.eof_at is None else 0.1

    # -- the host's side

    def _read_host(self) -> None:
        data = os.read(self.host_in, CHUNK_BYTES)
        if not data:
            self.eof_at = time.monotonic()
        for line in self.from_host.feed(data):
            self._host_line(wire.check(line))

    def _host_line(self, checked: wire.Checked) -> None:
        self.to_host += checked.error
        message = checked.message
        if message is None:
            return
        line = checked.line + b"\n"
        self.open.asked(message)
        self._note_handshake(message, line)
        if self.state == "up":
            self.to_gate += line
        else:
            if not self.waiting and self.state == "down":
                self.wanted_since = time.monotonic()
            self.waiting.append(line)

    def _note_handshake(self, message: dict[str, Any], line: bytes) -> None:
        method = message.get("method")
        if method == "initialize":
            self.handshake = [line]
        elif method == "notifications/initialized":
            self.handshake = [*self.handshake[:1], line]

    def _write_host(self) -> None:
        try:
            done = os.write(self.host_out, self.to_host[:PIPE_ATOMIC_BYTES])
        except OSError:
            raise SystemExit(0) from None  # the host no longer reads
        del self.to_host[:done]

    # -- the gate's side

    def _try_connect(self) -> None:
        try:
            self.link = connect(paths.socket_path(self.config))
        except OSError:
            self._start_gate()
            return
        self.link.setblocking(False)
        self.starter.release()
        self.state = "hello"
        self.to_gate += hello(self.toolset, again=self.greeted, host=self.host)

    def _start_gate(self) -> None:
        problem = self.starter.tick()
        if not problem and self._waited_too_long():
            problem = f"no gate answered within {GATE_WAIT_S:.0f} s"
        if problem:
            self._give_up(f"the gate cannot be reached: {problem}; see {paths.log_path(self.config)}")

    def _waited_too_long(self) -> bool:
        return time.monotonic() - self.wanted_since > GATE_WAIT_S

    def _give_up(self, reason: str) -> None:
        self.greeted = True
        self.waiting.clear()
        self.starter.release()
        self._fail_open(reason)

    def _fail_open(self, reason: str) -> None:
        for request in self.open.ids:
            self.to_host += wire.error_line(request, wire.GATE_ERROR, reason)
        self.open.ids.clear()

    def _write_gate(self) -> None:
        assert self.link
        try:
            del self.to_gate[: self.link.send(self.to_gate[:CHUNK_BYTES])]
        except OSError:
            self._gate_gone()

    def _read_gate(self) -> None:
        assert self.link
        try:
            data = self.link.recv(CHUNK_BYTES)
        except OSError:
            data = b""
        if not data:
            self._gate_gone()
            return
        for line in self.from_gate.feed(data):
            if isinstance(line, bytes):
                self._gate_line(line)

    def _gate_line(self, line: bytes) -> None:
        if self.state == "hello":
            self._gate_greets(json.loads(line))
        elif self.state == "replay":
            self._gate_replays(line)
        else:
            self.open.answered(json.loads(line))
            self.to_host += line + b"\n"

    def _gate_greets(self, greeting: dict[str, Any]) -> None:
        if greeting.get("gate") == "retiring":
            self._drop_link()
        elif greeting.get("gate") == "refused":
            self._drop_link()
            self._give_up(f"the gate refused this connection: {greeting.get('reason', '')}")
        elif self.greeted and self.handshake and self.handshake[0] not in self.waiting:
            self.state = "replay"
            self.to_gate += self.handshake[0]
        else:
            self._up()

    def _gate_replays(self, line: bytes) -> None:
        if "method" not in json.loads(line):  # the answer to initialize: the host had it long ago
            self.to_gate += b"".join(self.handshake[1:])
            self._up()

    def _up(self) -> None:
        self.state, self.greeted = "up", True
        self.to_gate += b"".join(self.waiting)
        self.waiting.clear()

    def _drop_link(self) -> None:
        if self.link:
            self.link.close()
        self.link, self.state = None, "down"
        self.to_gate.clear()
        self.from_gate = wire.LineSplitter(self.from_gate.limit_bytes)

    def _gate_gone(self) -> None:
        was_up = self.state == "up"
        self._drop_link()
        if was_up:
            self._fail_open(GONE)


def parse_arguments(arguments: list[str]) -> tuple[str, str, str]:
    """`[search, --config, FILE, --host, NAME, --env, NAME=VALUE]` → (toolset, absolute config path, host).

    `--env` sets an XDG folder in this process, for hosts that do not pass it on.

    Raises:
        SystemExit: 2 with a usage line on stderr.
    """
    toolset, names, values = (arguments[0] if arguments else ""), arguments[1::2], arguments[2::2]
    if toolset not in TOOLSETS or len(names) != len(values) or set(names) - {"--config", "--host", "--env"}:
        raise _usage()
    given = dict(zip(names, values, strict=True))
    for name, value in zip(names, values, strict=True):
        variable, _, folder = value.partition("=")
        if name == "--env":
            if variable not in XDG_FOLDERS or not folder:
                raise _usage()
            os.environ[variable] = folder
    return toolset, paths.config_path(given.get("--config")), given.get("--host", "")


def _usage() -> SystemExit:
    options = "[--config FILE] [--host NAME] [--env XDG_…=FOLDER]"
    sys.stderr.write(f"usage: python -I -m sparkgate.stdio {'|'.join(TOOLSETS)} {options}\n")
    return SystemExit(2)


def main(arguments: list[str] | None = None) -> int:
    """Entry point of `python -I -m sparkgate.stdio`."""
    toolset, config, host = parse_arguments(sys.argv[1:] if arguments is None else arguments)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return Pipe(toolset, config, host).run()


if __name__ == "__main__":
    sys.exit(main())
