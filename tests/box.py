"""One user's sparkgate in a temporary folder: configuration, state, runtime folder, and hosts that talk to it."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sparkgate.paths import gate_name
from sparkgate.policy.trail.read import read_rows

PATIENCE_S = 30.0
"""Longest wait for something that must happen; a test never waits for something that must not."""


class Box:
    """Paths and processes under `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.config = root / "config" / "sparkgate" / "config.toml"
        self.state = root / "state" / "sparkgate"
        self.runtime = root / "run" / "sparkgate"
        name = gate_name(str(self.config), str(self.state))
        self.socket = self.runtime / f"{name}.sock"
        self.log_file = self.state / "logs" / f"{name}.log"
        self.environment = {
            "HOME": str(root),
            "PATH": os.environ["PATH"],
            "XDG_CONFIG_HOME": str(root / "config"),
            "XDG_STATE_HOME": str(root / "state"),
            "XDG_RUNTIME_DIR": str(root / "run"),
        }
        self.config.parent.mkdir(parents=True)
        (root / "run").mkdir(mode=0o700)
        self._forgotten = 0
        self._processes: list[subprocess.Popen[bytes]] = []

    def configure(self, text: str) -> None:
        """Write it; a decision has the longest time it may have, as it may wait for a processor here."""
        patient = "" if "policy" in text else "\n[policy]\ndeadline_ms = 5000\n"
        self.config.write_text(text + patient, encoding="utf-8")

    def use(self, searxng_url: str) -> None:
        """Point the configuration at a SearXNG."""
        self.configure(f'[searxng]\nurl = "{searxng_url}"\nper_minute = 0\n[search]\ncache_s = 0\n')

    def host(self, *command: str, **environment: str) -> Host:
        """A host that starts the stdio server (or another command) and has not sent anything yet."""
        argv = command or (sys.executable, "-I", "-m", "sparkgate.stdio", "search")
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment | environment,
            cwd=self.root,
        )
        self._processes.append(process)
        return Host(process)

    def command(self, *arguments: str, text: str = "", folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run `sparkgate …` to its end."""
        return subprocess.run(
            [sys.executable, "-I", "-m", "sparkgate.clients.cli", *arguments],
            input=text,
            capture_output=True,
            text=True,
            env=self.environment,
            cwd=folder or self.root,
            timeout=PATIENCE_S * 4,
            check=False,
        )

    def gate_status(self) -> dict[str, Any]:
        return dict(json.loads(self.command("gate", "status", "--json").stdout))

    def rows(self) -> list[dict[str, Any]]:
        """The log, oldest first, without rows that were there at the last `forget_rows`."""
        return read_rows(self.state / "audit.db", limit=1000)[::-1][self._forgotten :]

    def forget_rows(self) -> None:
        self._forgotten = 0
        self._forgotten = len(self.rows())

    def events(self, name: str) -> list[dict[str, Any]]:
        """Lines of the gate's log with this event."""
        lines = self.log_file.read_text().splitlines() if self.log_file.exists() else []
        return [found for line in lines if (found := json.loads(line))["event"] == name]

    def gate_of(self, config: Path) -> list[int]:
        """The gate of another configuration in this box."""
        log = self.log_file.with_name(f"{gate_name(str(config), str(self.state))}.log")
        return [json.loads(log.read_text().splitlines()[0])["pid"]]

    def gate_pids(self) -> list[int]:
        """Gates that were started here and still run."""
        return [pid for event in self.events("gate_started") if is_running(pid := event["pid"])]

    def end(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    stream.close()
        while pids := self._detached():
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            wait_until_ended(pids)

    def _detached(self) -> list[int]:
        """Processes with this box's home in their environment: gates, also those about to start."""
        mark = f"HOME={self.root}\0".encode()
        return [int(found.name) for found in Path("/proc").glob("[0-9]*") if mark in _environment(found)]


@contextmanager
def a_box(above: Path | None = None) -> Iterator[Box]:
    """Folders for one user of sparkgate, below `above`; the gates they start are ended afterwards."""
    root = Path(tempfile.mkdtemp(prefix="sg-", dir=above))  # short, as a socket path has 107 bytes
    made = Box(root)
    try:
        yield made
    finally:
        # A gate that is being started has no readable environment for a moment, and makes folders after it.
        while root.exists():
            made.end()
            shutil.rmtree(root, ignore_errors=True)


class Host:
    """What a host program does with a stdio server, one JSON line at a time."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        assert process.stdin and process.stdout
        self.stdin, self.stdout = process.stdin, process.stdout
        self._buffer = b""
        self._id = 0

    def send_bytes(self, data: bytes) -> None:
        self.stdin.write(data)
        self.stdin.flush()

    def send(self, method: str, params: dict[str, Any] | None = None, *, notify: bool = False) -> int:
        """Send a request (or a notification) and return its id."""
        self._id += 0 if notify else 1
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        message |= {} if params is None else {"params": params}
        message |= {} if notify else {"id": self._id}
        self.send_bytes(json.dumps(message).encode() + b"\n")
        return self._id

    def line(self) -> bytes:
        """The next line on standard output, without its end."""
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self.stdout], [], [], PATIENCE_S)
            data = os.read(self.stdout.fileno(), 65_536) if ready else b""
            assert data, f"no line came; stderr: {self._stderr()!r}"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def read(self) -> dict[str, Any]:
        """The next line, which must be a JSON object, as every one of a stdio server."""
        return dict(json.loads(self.line()))

    def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """One request and the whole answer with its id."""
        wanted = self.send(method, params)
        while (answer := self.read()).get("id") != wanted:
            pass
        return answer

    def initialize(self, version: str = "2025-11-25", name: str = "testhost") -> dict[str, Any]:
        """Shake hands and return the result of initialize."""
        client = {"name": name, "version": "1.2.3"}
        answer = self.ask("initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": client})
        self.send("notifications/initialized", notify=True)
        return dict(answer["result"])

    def call(self, tool: str, arguments: Any) -> dict[str, Any]:
        """The structured answer of a tool; also checks that the text says the same."""
        answer = self.ask("tools/call", {"name": tool, "arguments": arguments})
        result = answer["result"]
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
        assert not result.get("isError")
        return dict(result["structuredContent"])

    def search(self, query: str, **more: Any) -> dict[str, Any]:
        return self.call("web_search", {"query": query, **more})

    def close(self) -> int:
        """Close the server's input and wait for it to end."""
        self.stdin.close()
        return self.process.wait(PATIENCE_S)

    def _stderr(self) -> bytes:
        assert self.process.stderr
        ready, _, _ = select.select([self.process.stderr], [], [], 0)
        return os.read(self.process.stderr.fileno(), 65_536) if ready else b""


def _environment(process: Path) -> bytes:
    try:
        return (process / "environ").read_bytes()
    except OSError:
        return b""


def is_running(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def held_mb(pid: int) -> float:
    """Memory that is no file's (RssAnon): libraries that other processes map or let go of do not change it."""
    return int(Path(f"/proc/{pid}/status").read_text().partition("RssAnon:")[2].split()[0]) / 1024


def wait_until_ended(pids: Sequence[int]) -> None:
    """Wait for processes that are not our children (pidfd becomes readable when its process ends)."""
    for pid in pids:
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        ready, _, _ = select.select([handle], [], [], PATIENCE_S)
        os.close(handle)
        assert ready, f"process {pid} did not end"
