"""Being the host of a server for a moment: start it, shake hands, list its tools, call one, close its input."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import IO, Any

from sparkgate.clients.doctoring.child import Child
from sparkgate.failures.diagnosis import without_secrets
from sparkgate.version import __version__

CLIENT = {"name": "sparkgate-doctor", "version": __version__}
MODERN = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}
SELF_TESTS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "sparksearch": ("outbound_log", {"limit": 1}),
    "sparkengine": ("engine_status", {}),
    "sparkbench": ("bench_history", {}),
}
"""A tool of each server that only reads, and sends nothing beyond the configured engines."""
INITIALIZE, DISCOVER = "initialize", "server/discover"
STEPS = {INITIALIZE: "initialize", DISCOVER: "discover"}
AGAIN = "second_greeting"
"""What goes wrong when a host asks for both."""
CHUNK_BYTES = 65_536
ANSWER_MAX_BYTES = 32_000_000
STDERR_MAX_BYTES = 1_000_000
SAID_MAX_CHARS = 200
ENDED = "it has ended"
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds to wait for an answer, and for the end after the input was closed."""

    answer_s: float = 30.0
    end_s: float = 2.0


@dataclass(frozen=True, slots=True)
class Visit:
    """What was seen.

    Attributes:
        failed: the step that went wrong; "" when all went well.
        why: of that, without what the server wrote.
        revision: of the protocol that it answered with.
        tools: as it lists them.
        tested: the tool that was called; "" when there was none to call.
        noise: lines on standard output that are no JSON-RPC messages.
        leaked: whether a secret of the host's environment stood in what it printed.
        ended: by itself, within the patience.
        listed_ms: from the start to the list of tools.
        list_ms: from the question for that list to its answer.
    """

    failed: str = ""
    why: str = ""
    revision: str = ""
    tools: tuple[Mapping[str, Any], ...] = ()
    tested: str = ""
    noise: int = 0
    leaked: bool = False
    ended: bool = True
    listed_ms: float | None = None
    list_ms: float | None = None


class Unanswered(Exception):
    """A step went wrong."""


@dataclass(slots=True)
class Talk:
    """One conversation, line by line."""

    process: subprocess.Popen[bytes]
    patience: Patience
    printed: bytearray = field(default_factory=bytearray)
    noise: int = 0
    _buffer: bytes = b""
    _id: int = 0

    def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """One request and its result.

        Raises:
            Unanswered: an error came back, or nothing in time, or the server has ended.
        """
        self._id += 1
        self.send({"jsonrpc": "2.0", "id": self._id, "method": method, "params": dict(params)})
        end = time.monotonic() + self.patience.answer_s
        while (answer := self._message(end)).get("id") != self._id or "method" in answer:
            pass
        if "error" in answer:
            raise Unanswered(f"it answered with {_told(answer['error'])}")
        return dict(answer["result"]) if isinstance(answer.get("result"), dict) else {}

    def send(self, message: Mapping[str, Any]) -> None:
        assert self.process.stdin
        try:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()
        except OSError as error:
            raise Unanswered(ENDED) from error

    def _message(self, end: float) -> dict[str, Any]:
        """The next line that is one."""
        while True:
            message = parsed(self._line(end))
            if message is not None:
                return message
            self.noise += 1

    def _line(self, end: float) -> bytes:
        while b"\n" not in self._buffer:
            self._buffer += self._more(end)
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _more(self, end: float) -> bytes:
        assert self.process.stdout
        ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            raise Unanswered(f"no answer within {self.patience.answer_s:g} s")
        data = os.read(self.process.stdout.fileno(), CHUNK_BYTES)
        self.printed += data
        if not data:
            raise Unanswered(ENDED)
        if len(self.printed) > ANSWER_MAX_BYTES:
            raise Unanswered("it does not stop to print")
        return data

    def finish(self) -> bool:
        """Close its input; whether it ends by itself in time. What it still prints is read."""
        assert self.process.stdin
        try:
            rest, _ = self.process.communicate(timeout=self.patience.end_s)
            self.noise += sum(parsed(line) is None for line in (self._buffer + rest).splitlines())
            self.printed += rest
        except subprocess.TimeoutExpired:
            _kill(self.process)
            return False
        return True


def visit(
    child: Child,
    server: str,
    protocol: str,
    opens: tuple[str, ...] = (),
    patience: Patience = Patience(),
    clock: Clock = time.monotonic,
) -> Visit:
    """Be the host of `child`, as far as lists its tools, and one call of a tool that only reads.

    Args:
        protocol: revision for initialize; "" to begin with server/discover.
        opens: requests to begin with, one after the other, where `protocol` does not tell them.
    """
    with tempfile.TemporaryFile() as errors:
        begin = clock()
        try:
            process = _started(child, errors)
        except OSError as error:
            return Visit(failed="start", why=f"it cannot be started in {child.folder}: {error.strerror}")
        talk = Talk(process, patience)
        seen = _spoken(talk, server, protocol, opens, lambda: (clock() - begin) * 1000)
        ended = talk.finish()
        errors.seek(0)
        printed = bytes(talk.printed) + errors.read(STDERR_MAX_BYTES)
    why = f"{seen.why} with {process.returncode}" if seen.why == ENDED and ended else seen.why
    return replace(seen, why=why, noise=talk.noise, ended=ended, leaked=_has_any(printed, child.secrets))


def _started(child: Child, errors: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        child.argv,
        executable=child.program,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        env=dict(child.environment),
        cwd=child.folder,
        start_new_session=True,
    )


def _kill(process: subprocess.Popen[bytes]) -> None:
    """With what it has started, which may hold its output open."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream:
            with contextlib.suppress(OSError):
                stream.close()


def _spoken(talk: Talk, server: str, protocol: str, opens: tuple[str, ...], ms: Callable[[], float]) -> Visit:
    """Each step that went well is in what is returned."""
    seen, step, meta = Visit(), "", {} if protocol else {"_meta": META}
    try:
        for method in opens or (INITIALIZE if protocol else DISCOVER,):
            step = AGAIN if step else STEPS[method]
            seen = replace(seen, revision=_greeted(talk, method, protocol))
        step, begin = "tools_list", ms()
        tools = talk.ask("tools/list", meta).get("tools")
        seen = replace(seen, tools=tuple(one for one in tools or () if isinstance(one, dict)), listed_ms=ms())
        seen = replace(seen, list_ms=(seen.listed_ms or 0.0) - begin)
        step = "self_test"
        return replace(seen, tested=_tested(talk, server, seen.tools, meta))
    except Unanswered as error:
        return replace(seen, failed=step, why=str(error))


def _greeted(talk: Talk, method: str, protocol: str) -> str:
    """The revision that the server takes."""
    if method == DISCOVER:
        offered = talk.ask(DISCOVER, {"_meta": META}).get("supportedVersions") or ()
        return MODERN if MODERN in offered else " ".join(map(str, offered))
    told = talk.ask(INITIALIZE, {"protocolVersion": protocol, "capabilities": {}, "clientInfo": CLIENT})
    talk.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    return str(told.get("protocolVersion", ""))


def _tested(talk: Talk, server: str, tools: tuple[Mapping[str, Any], ...], meta: Mapping[str, Any]) -> str:
    """Call what is said to only read; the name of it, "" when it is not there."""
    name, arguments = SELF_TESTS[server]
    if not any(tool.get("name") == name and _reads_only(tool) for tool in tools):
        return ""
    result = talk.ask("tools/call", {"name": name, "arguments": arguments, **meta})
    if result.get("isError") or not result.get("content"):
        raise Unanswered(f"{name} failed")
    return name


def _reads_only(tool: Mapping[str, Any]) -> bool:
    hints = tool.get("annotations")
    return isinstance(hints, dict) and hints.get("readOnlyHint") is True and hints.get("openWorldHint") is False


def parsed(line: bytes) -> dict[str, Any] | None:
    """A message of JSON-RPC."""
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) and message.get("jsonrpc") == "2.0" else None


def _told(error: Any) -> str:
    """An error of JSON-RPC in words."""
    told = error if isinstance(error, dict) else {}
    return f"error {told.get('code')} ({without_secrets(str(told.get('message')))[:SAID_MAX_CHARS]})"


def _has_any(printed: bytes, secrets: frozenset[str]) -> bool:
    return any(secret.encode() in printed for secret in secrets)
