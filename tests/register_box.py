"""Hosts' folders in a box, and `sparkgate register` on them."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

from box import Box

from sparkgate.clients.registering import backup

HERMES = """# my agent
base: &base
  model: local   # stays
agent:
    disabled_toolsets: [ memory ]  # mine

mcp_servers:
  other:   # a foreign server
    command: other
    env: {OTHER_API_KEY: "abcd-efgh-1234-5678"}
copy: *base
"""
OPENCLAW = """// my agent
{
  gateway: { mode: 'local' }, // stays
  "tools": { deny: [ "memory" ] },
  mcp: {
    servers: {
      // a foreign server
      other: { command: "other", env: { OTHER_API_KEY: "abcd-efgh-1234-5678" } },
    },
  },
}
"""
CURSOR = '{"mcpServers": {"other": {"command": "other"}}}'
CODEX = """# my agent
model = "local"  # stays

[mcp_servers.other]
command = "other"  # a foreign server

[tui]
theme = "dark"
"""
FILES = {
    "hermes": (".hermes/config.yaml", HERMES),
    "openclaw": (".openclaw/openclaw.json", OPENCLAW),
    "cursor": (".cursor/mcp.json", CURSOR),
    "codex": (".codex/config.toml", CODEX),
}
"""Name of a host → its file, and what a user has in it."""

Run = subprocess.CompletedProcess[str]


def put(box: Box, host: str, data: str | bytes | None = None) -> Path:
    """The file of a host, with its usual text or another."""
    name, usual = FILES[host]
    file = box.root / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(data if isinstance(data, bytes) else (usual if data is None else data).encode())
    return file


def register(box: Box, host: str, *options: str, yes: bool = True) -> Run:
    """Tests run from interpreters in temporary folders as well."""
    return box.command("register", "--host", host, *(["--yes"] if yes else []), "--any-interpreter", *options)


def unregister(box: Box, host: str, *options: str) -> Run:
    return box.command("unregister", "--host", host, "--yes", *options)


def report(run: Run) -> dict[str, Any]:
    """The report of one host."""
    found: list[dict[str, Any]] = json.loads(run.stdout)
    assert len(found) == 1
    return found[0]


def copies(state: Path, file: Path) -> list[Path]:
    return backup.copies(backup.folder(state / "registrations.json", file.resolve()))


def start(box: Box, *arguments: str) -> subprocess.Popen[str]:
    """`python …` in the box, not waited for."""
    return subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=box.environment,
        cwd=box.root,
    )


def on_a_terminal(box: Box, answers: str, *arguments: str) -> tuple[int, str]:
    """Run `sparkgate …` on a terminal, one answer to each question: (exit code, what it has shown)."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-I", "-m", "sparkgate.clients.cli", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=box.environment,
        cwd=box.root,
    )
    os.close(theirs)
    shown, asked = b"", 0
    with contextlib.suppress(OSError):  # a terminal without a program on it is an error to read (Linux)
        while data := os.read(ours, 65_536):
            shown += data
            while shown.count(b"]: ") > asked and asked < len(answers):
                os.write(ours, f"{answers[asked]}\n".encode())
                asked += 1
    os.close(ours)
    return process.wait(), shown.decode()
