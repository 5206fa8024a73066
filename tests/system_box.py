"""A machine with a gate of its own, in a mount namespace: /etc, /run and /var/lib of the real one stay as they are."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from box import PATIENCE_S, Host
from engine_box import until

GATE, ALICE, MALLORY, BOB = 40_990, 41_001, 41_666, 41_002
GATE_GROUP, USERS = 40_991, 40_992
"""Numbers of accounts that exist in this namespace alone."""
PASSWD = "\n".join(
    [
        f"sparkgate:x:{GATE}:{GATE_GROUP}::/var/lib/sparkgate:/usr/sbin/nologin",
        f"alice:x:{ALICE}:{ALICE}::/home/alice:/bin/sh",
        f"bob:x:{BOB}:{BOB}::/home/bob:/bin/sh",
        f"mallory:x:{MALLORY}:{MALLORY}::/home/mallory:/bin/sh",
        "",
    ]
)
GROUP = f"sparkgate:x:{GATE_GROUP}:\nsparkgate-users:x:{USERS}:alice,bob\n"
SETUP = """
set -e
for place in etc var/lib; do
  mkdir -p "$1/$place.up" "$1/$place.work"
  mount -t overlay overlay -o "lowerdir=/$place,upperdir=$1/$place.up,workdir=$1/$place.work" "/$place"
done
mount -t tmpfs -o mode=755 tmpfs /run
if [ -n "$2" ]; then
  mkdir -p "$1/kept"
  mount --bind "$3" "$1/kept"
  mount -t tmpfs -o mode=755 tmpfs "$2"
  mkdir -p "$3"
  mount --move "$1/kept" "$3"
fi
cat "$1/passwd" >> /etc/passwd
cat "$1/group" >> /etc/group
echo ready
exec cat
"""
FOLDERS = f"""
set -e
install -d -m 700 -o {GATE} -g {GATE_GROUP} /var/lib/sparkgate
install -d -m 755 -o 0 -g {GATE_GROUP} /etc/sparkgate
install -d -m 755 -o {GATE} -g {USERS} /run/sparkgate
"""
START = 'cd "$0" && exec "$1" -I -c "import sparkgate.gate"'
"""What any other user has to be able to do."""


def closed_part(path: Path) -> Path | None:
    """The topmost folder on the way to a path that others cannot go through."""
    for folder in reversed([path, *path.parents]):
        if not folder.stat().st_mode & stat.S_IXOTH:
            return folder
    return None


class NoBox(Exception):
    """This machine does not let us make one; the text is what it said."""


class SystemBox:
    """Its namespace, and processes in it as this or that user."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.chmod(0o755)
        (root / "passwd").write_text(PASSWD)
        (root / "group").write_text(GROUP)
        prefix = Path(sys.base_prefix)
        closed = closed_part(prefix)
        self._holder = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", SETUP, "sh", root, closed or "", prefix],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._started: list[subprocess.Popen[bytes]] = []

    def set_up(self) -> None:
        """Wait for the namespace and make the folders of the gate.

        Raises:
            NoBox: This machine does not let us.
        """
        assert self._holder.stdout and self._holder.stderr
        if self._holder.stdout.readline() != b"ready\n":
            raise NoBox(self._holder.stderr.read().decode().strip().partition("\n")[0] or "unshare said nothing")
        self.try_out(0, FOLDERS)
        self.configure("")

    def try_out(self, uid: int, script: str, *words: str) -> None:
        """Raises NoBox when that fails."""
        code, said = self.run(uid, (uid,), "sh", "-c", script, *words)
        if code != 0:
            raise NoBox(said.strip().rpartition("\n")[2] or f"{script} ended with {code}")

    def configure(self, text: str) -> None:
        (self.root / "config.toml").write_text(text)
        self.shell(f"install -m 640 -o 0 -g {GATE_GROUP} {self.root}/config.toml /etc/sparkgate/config.toml")

    def argv(self, uid: int, gids: Sequence[int], command: Sequence[str | os.PathLike[str]]) -> list[str]:
        who = [f"--reuid={uid}", f"--regid={gids[0]}"]
        who += [f"--groups={','.join(map(str, gids[1:]))}"] if len(gids) > 1 else ["--clear-groups"]
        return ["nsenter", f"--mount=/proc/{self._holder.pid}/ns/mnt", "setpriv", *who, *map(str, command)]

    def start(self, uid: int, gids: Sequence[int], *command: str, **environment: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            self.argv(uid, gids, command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"} | environment,
            cwd="/",
        )
        self._started.append(process)
        return process

    def run(self, uid: int, gids: Sequence[int], *command: str, **environment: str) -> tuple[int, str]:
        """(exit code, everything it printed)."""
        process = self.start(uid, gids, *command, **environment)
        out, err = process.communicate(timeout=PATIENCE_S * 2)
        return process.returncode, (out + err).decode()

    def shell(self, script: str, uid: int = 0, gids: Sequence[int] = (0,)) -> tuple[int, str]:
        code, said = self.run(uid, gids, "sh", "-c", script)
        assert uid or code == 0, said
        return code, said

    def gate(self, *more: str) -> subprocess.Popen[bytes]:
        """Start the gate as its account, and wait until it listens."""
        gate = self.start(GATE, (GATE_GROUP, USERS), sys.executable, "-I", "-m", "sparkgate.gate", "--system", *more)
        until(lambda: gate.poll() is not None or self.listens(), "the gate listens")
        return gate

    def listens(self) -> bool:
        table = Path(f"/proc/{self._holder.pid}/root/run/sparkgate/gate.sock")
        return table.exists() and "/run/sparkgate/gate.sock" in Path("/proc/net/unix").read_text()

    def pipe(
        self, uid: int, *gids: int, toolset: str = "search", flags: Sequence[str] = (), **environment: str
    ) -> Host:
        """A stdio server that a host of this user has started."""
        command = (sys.executable, "-I", "-m", "sparkgate.stdio", toolset, *flags)
        return Host(self.start(uid, gids or (uid, USERS), *command, **environment))

    def command(self, uid: int, *arguments: str, gids: Sequence[int] = (), **environment: str) -> tuple[int, str]:
        command = (sys.executable, "-I", "-m", "sparkgate.clients.cli", *arguments)
        return self.run(uid, gids or (uid,), *command, **environment)

    def rows(self) -> list[dict[str, Any]]:
        """The log, oldest first, as root reads it."""
        code, said = self.command(0, "--system", "audit", "export", "--format", "jsonl")
        assert code == 0, said
        return [json.loads(line) for line in said.splitlines()]

    def end(self) -> None:
        for process in [*reversed(self._started), self._holder]:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    stream.close()


NEEDED = ("unshare", "nsenter", "setpriv", "mount")


@cache
def why_not() -> str:
    """What this machine lacks for such a box; "" when one was made, and other users could start our Python in it."""
    if os.getuid() != 0:
        return "it needs root"
    if missing := [name for name in NEEDED if not shutil.which(name)]:
        return f"{', '.join(missing)} of util-linux is not here"
    try:
        with _made() as box:
            box.try_out(ALICE, START, str(box.root), sys.executable)
    except NoBox as error:
        return str(error)
    return ""


@contextmanager
def a_system_box() -> Iterator[SystemBox]:
    """A box; skips the test where none can be made."""
    if reason := why_not():
        pytest.skip(f"no machine with a gate of its own here: {reason}")
    with _made() as box:
        yield box


@contextmanager
def _made() -> Iterator[SystemBox]:
    root = Path(tempfile.mkdtemp(prefix="sgs-"))
    try:
        made = SystemBox(root)
        try:
            made.set_up()
            yield made
        finally:
            made.end()
    finally:
        shutil.rmtree(root, ignore_errors=True)


def refused(host: Host) -> str:
    """What a host is told instead of the result of initialize."""
    client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    return str(host.ask("initialize", client)["error"]["message"])
