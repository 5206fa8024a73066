"""The stdio server a host starts: a pipe to the gate, standard library only.

    python -I -m sparkgate.stdio search [--config FILE] [--host NAME] [--env XDG_STATE_HOME=FOLDER] [--system|--own]

It connects to the gate's Unix socket (starting the gate when none runs), says in one line who asks, and copies
lines both ways. It reads the lines only to know which requests are open, so that a gate that ends or freezes in
mid-call becomes a JSON-RPC error and not silence, and so that the next request finds a new gate with the same session
set up again.
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
from sparkgate.arguments import parse_arguments
from sparkgate.link import Barred, connect, hello
from sparkgate.starter import starter_of

EOF_GRACE_S = 1.5
SILENCE_S, PING_WAIT_S = 30.0, 10.0
"""A gate that owes an answer and says nothing for so long is pinged, and given up when it does not answer that."""
LEAVE_S = 40.0
"""A gate that retires closes within 30 s."""
TICK_S, CONNECT_TICK_S, RETRY_S = 1.0, 0.01, 0.05
WAITING_LINES = 1000
CHUNK_BYTES = 65_536
PIPE_ATOMIC_BYTES = 4096
"""A pipe that is writable takes this much without blocking (pipe(7): PIPE_BUF)."""

GONE = "the gate ended during this call; `sparkgate audit list` tells whether a query had left"
FROZEN = "the gate does not answer any more; `sparkgate gate stop` ends it"
DRAINED = b'{"sparkgate": "drained"}\n'
PING_ID = "sparkgate-pipe"
PING = wire.request_line(PING_ID, "ping")


class Pipe:
    """One host on one side, the gate on the other.

    States of the gate side: `down` (no connection), `hello` (waiting for the gate's first line), `replay` (a new
    gate is being told the host's initialize again), `up`, and `leaving` (the gate retires: it gets no more lines, and
    answers those it has). Lines that cannot be forwarded yet wait.
    """

    def __init__(self, toolset: str, config: str, host: str = "", host_in: int = 0, host_out: int = 1) -> None:
        self.toolset, self.config, self.host = toolset, config, host
        self.host_in, self.host_out = host_in, host_out
        self.parent = os.getppid()
        self.starter = starter_of(config)
        self.link: socket.socket | None = None
        self.state = "down"
        self.from_host, self.from_gate = wire.LineSplitter(), wire.LineSplitter(limit_bytes=64 * 1024 * 1024)
        self.to_host, self.to_gate = bytearray(), bytearray()
        self.waiting: list[wire.Checked] = []
        self.waiting_bytes = 0
        self.open = wire.OpenRequests()
        self.handshake: list[bytes] = []
        self.greeted = False
        self.revive = False
        self.since = self.heard_at = time.monotonic()
        self.wanted_since: float | None = self.since
        self.retry_at = 0.0
        self.pinged_at: float | None = None
        self.eof_at: float | None = None

    def run(self) -> int:
        """Copy until the host closes its side or ends; exit code 0."""
        self._try_connect()
        while not self._finished():
            self._step()
        return 0

    # -- the loop

    def _finished(self) -> bool:
        if self.parent and os.getppid() != self.parent:
            return True
        if self.eof_at is None:
            return False
        answered = not (self.open.ids or self.waiting or self.to_host)
        return answered or time.monotonic() - self.eof_at > EOF_GRACE_S

    def _step(self) -> None:
        wanted = self.state == "down" and (bool(self.waiting) or not self.greeted or self.revive)
        if wanted and time.monotonic() >= self.retry_at:
            self._try_connect()
        self._watch_gate()
        readable, writable, _ = select.select(self._inputs(), self._outputs(), [], self._tick_s(wanted))
        if self.host_out in writable:
            self._write_host()
        if self.link and self.link in writable:
            self._write_gate()
        if self.link and self.link in readable:
            self._read_gate()
        if self.host_in in readable:
            self._read_host()

    def _inputs(self) -> list[Any]:
        held = len(self.to_gate) + len(self.to_host) + self.waiting_bytes
        full = held > wire.MAX_LINE_BYTES or len(self.waiting) > WAITING_LINES
        host = [] if self.eof_at is not None or full else [self.host_in]
        return host + ([self.link] if self.link and len(self.to_host) < wire.MAX_LINE_BYTES else [])

    def _outputs(self) -> list[Any]:
        return ([self.host_out] if self.to_host else []) + ([self.link] if self.link and self.to_gate else [])

    def _tick_s(self, wanted: bool) -> float:
        if wanted:
            return CONNECT_TICK_S
        return TICK_S if self.eof_at is None else 0.1

    def _watch_gate(self) -> None:
        """Give up a gate that should say something and does not."""
        now, patience_s = time.monotonic(), self.starter.patience_s
        if self.wanted_since is not None and self.state != "leaving" and now - self.wanted_since > patience_s:
            silence = f"no gate answered within {patience_s:.0f} s"
            reason = FROZEN if self.state in ("hello", "replay") else silence
            self._drop_link()
            self._give_up(f"{reason}; see {paths.where_it_tells(self.config)}")
        elif self._leaves_too_long(now) or (self.pinged_at is not None and now - self.pinged_at > PING_WAIT_S):
            self._drop_link()
            self._fail_open(FROZEN)
        elif self.state == "up" and self.open.ids and self.pinged_at is None and now - self.heard_at > SILENCE_S:
            self.pinged_at = now
            self.to_gate += PING

    def _leaves_too_long(self, now: float) -> bool:
        return self.state == "leaving" and now - self.since > LEAVE_S

    # -- the host's side

    def _read_host(self) -> None:
        data = os.read(self.host_in, CHUNK_BYTES)
        lines = self.from_host.feed(data)
        if not data:
            self.eof_at = time.monotonic()
            lines = self.from_host.rest()
        for line in lines:
            self._host_line(wire.check(line))

    def _host_line(self, checked: wire.Checked) -> None:
        self.to_host += checked.error
        if checked.message is None:
            return
        request = wire.request_id_of(checked.message)
        if request is not None and (request in self.open.ids or request in self._waiting_ids()):
            self.to_host += wire.error_line(request, wire.INVALID_REQUEST, "a request with this id is open")
            return
        self._note_handshake(checked.message, checked.line + b"\n")
        if self.state == "up":
            self._forward(checked)
            return
        if self.wanted_since is None:
            self.wanted_since = time.monotonic()
        self.waiting.append(checked)
        self.waiting_bytes += len(checked.line)

    def _waiting_ids(self) -> set[int | str | None]:
        return {wire.request_id_of(checked.message or {}) for checked in self.waiting}

    def _forward(self, checked: wire.Checked) -> None:
        if not self.open.ids:
            self.heard_at = time.monotonic()
        self.open.asked(checked.message or {})
        self.to_gate += checked.line + b"\n"

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
        except BlockingIOError:  # somebody listens and is too busy to accept
            return
        except OSError:
            self._start_gate()
            return
        except Barred as error:
            self._give_up(str(error))
            return
        self.starter.release()
        self.state, self.since = "hello", time.monotonic()
        self.to_gate += hello(self.toolset, config=self.config, again=self.greeted, host=self.host)

    def _start_gate(self) -> None:
        problem = self.starter.tick()
        if problem:
            self._give_up(f"the gate cannot be reached: {problem}; see {paths.where_it_tells(self.config)}")

    def _give_up(self, reason: str) -> None:
        self.greeted, self.wanted_since, self.revive = True, None, False
        self.starter.release()
        for checked in self._taken_out():
            self.open.asked(checked.message or {})
        self._fail_open(reason)

    def _taken_out(self) -> list[wire.Checked]:
        waiting, self.waiting, self.waiting_bytes = self.waiting, [], 0
        return waiting

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
        self.heard_at, self.pinged_at = time.monotonic(), None
        for line in self.from_gate.feed(data):
            message = _parsed(line)
            if message is None:
                self._gate_gone()
                return
            self._gate_line(line if isinstance(line, bytes) else b"", message)

    def _gate_line(self, line: bytes, message: dict[str, Any]) -> None:
        if self.state == "hello":
            self._gate_greets(message)
        elif message.get("gate") == "retiring":
            self.state, self.since = "leaving", time.monotonic()
            self.to_gate += DRAINED
        elif self.state == "replay":
            self._gate_replays(message)
        elif "method" in message or message.get("id") is None or message["id"] in self.open.ids:
            self.open.answered(message)  # anything else answers a question of the pipe itself
            self.to_host += line + b"\n"

    def _gate_greets(self, greeting: dict[str, Any]) -> None:
        if greeting.get("gate") == "retiring":
            self._drop_link()
            self.retry_at = 0.0
        elif greeting.get("gate") != "ready":
            self._drop_link()
            self._give_up(f"the gate refused this connection: {greeting.get('reason', '')}")
        elif self.greeted and self.handshake and not self._handshake_waits():
            self.state = "replay"
            self.to_gate += self.handshake[0]
        else:
            self._up()

    def _handshake_waits(self) -> bool:
        return any(checked.line + b"\n" == self.handshake[0] for checked in self.waiting)

    def _gate_replays(self, message: dict[str, Any]) -> None:
        if "result" in message:  # of initialize: the host had it long ago
            self.to_gate += b"".join(self.handshake[1:])
            self._up()
        elif "error" in message:
            self._drop_link()
            self._give_up("the new gate refused the session of the old one; start the server again")

    def _up(self) -> None:
        self.state, self.greeted, self.wanted_since, self.revive = "up", True, None, False
        for checked in self._taken_out():
            self._forward(checked)

    def _drop_link(self) -> None:
        if self.link:
            self.link.close()
        now = time.monotonic()
        if self.state != "leaving":
            self.retry_at = now + RETRY_S
        elif self.waiting:
            self.wanted_since = now
        self.link, self.state, self.pinged_at = None, "down", None
        self.to_gate.clear()
        self.from_gate = wire.LineSplitter(self.from_gate.limit_bytes)

    def _gate_gone(self) -> None:
        """A gate that ended by itself is not missed; one that was killed may have left a job that must go on."""
        self.revive = self.state == "up"
        if self.revive and self.wanted_since is None:
            self.wanted_since = time.monotonic()
        self._drop_link()
        self._fail_open(GONE)


def _parsed(line: bytes | wire.Overlong) -> dict[str, Any] | None:
    try:
        message = json.loads(line) if isinstance(line, bytes) else None
    except ValueError:
        return None
    return message if isinstance(message, dict) else None


def main(arguments: list[str] | None = None) -> int:
    """Entry point of `python -I -m sparkgate.stdio`."""
    toolset, config, host = parse_arguments(sys.argv[1:] if arguments is None else arguments)
    if sys.platform != "linux":
        sys.stderr.write("sparkgate needs Linux: it asks the kernel who is on the other side of its socket\n")
        return 1
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return Pipe(toolset, config, host).run()


def search() -> int:
    """Entry point of `sparkgate-search`, for `uvx` and `pipx`; a host that can start an interpreter is faster."""
    return main(["search", *sys.argv[1:]])


def engine() -> int:
    """Entry point of `sparkgate-engine`."""
    return main(["engine", *sys.argv[1:]])


def bench() -> int:
    """Entry point of `sparkgate-bench`."""
    return main(["bench", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
