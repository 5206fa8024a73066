"""A real systemd in namespaces of its own, over a copy-on-write view of this machine, with sparkgate at /opt/sparkgate.

Nothing it does reaches the machine: what it writes lies in a tmpfs that is gone with it, /sys (and /proc/sys while it
boots) is read-only, and it has its own processes, mounts, network, host name and control group.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from secrets import token_hex

import pytest
from box import PATIENCE_S, Host
from engine_box import until

TOP = Path(__file__).parent.parent
SYSTEMD = Path("/lib/systemd/systemd")
PYTHON = Path(f"/usr/bin/python3.{sys.version_info.minor}")
OURS = "/opt/sparkgate/bin/python"
SOURCE, PACKAGES = "/opt/source", "/opt/packages"
MASKED = tuple(f"systemd-{name}.service" for name in ("modules-load", "sysctl", "remount-fs", "udevd"))
MOUNTS = r"""
set -e
R=$1 N=$1/root
mount -t tmpfs -o mode=755 tmpfs "$R"
mkdir "$R/up" "$R/work" "$N"
mount -t overlay overlay -o "lowerdir=/,upperdir=$R/up,workdir=$R/work" "$N"
mkdir -p "$N@SOURCE@" "$N@PACKAGES@"
mount --bind "$2" "$N@SOURCE@"
mount --bind "$3" "$N@PACKAGES@"
mount -t proc -o nosuid,nodev,noexec proc "$N/proc"
mount --bind "$N/proc/sys" "$N/proc/sys"
mount -o remount,bind,ro "$N/proc/sys"
mount -t sysfs -o ro sysfs "$N/sys"
mount -t cgroup2 cgroup2 "$N/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$N/run"
mount -t tmpfs -o mode=1777 tmpfs "$N/tmp"
mount -t tmpfs -o mode=755 tmpfs "$N/dev"
for device in null zero full random urandom tty; do
  touch "$N/dev/$device"
  mount --bind "/dev/$device" "$N/dev/$device"
done
mkdir "$N/dev/pts" "$N/dev/shm"
mount -t devpts -o newinstance,ptmxmode=666 devpts "$N/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$N/dev/shm"
ln -s /proc/self/fd "$N/dev/fd"
"""
TRY = r"""
exec chroot "$N" setpriv --reuid=65534 --regid=65534 --clear-groups @PYTHON@ -I -c \
  'import sys; sys.path += sys.argv[1:]; import sparkgate.gate' \
  @PACKAGES@ @SOURCE@/servers @SOURCE@/policies @SOURCE@/clients
"""
"""Another user starts the gate's Python there."""
BOOT = r"""
rm -rf "$N/etc/systemd/system" "$N/etc/sparkgate" "$N/var/lib/sparkgate"
mkdir -p "$N/etc/systemd/system" "$N/home"
for unit in @MASKED@; do ln -s /dev/null "$N/etc/systemd/system/$unit"; done
printf '[Unit]\nDescription=enough for a socket\nRequires=sockets.target\n' > "$N/etc/systemd/system/enough.target"
: > "$N/etc/machine-id"
for name in alice mallory; do chroot "$N" useradd --create-home --shell /bin/sh "$name"; done
chroot "$N" @PYTHON@ -m venv --without-pip /opt/sparkgate
printf '%s\n' @PACKAGES@ @SOURCE@/servers @SOURCE@/policies @SOURCE@/clients \
  > "$N/opt/sparkgate/lib/$(basename @PYTHON@)/site-packages/tree.pth"
cd "$N"
mkdir old
pivot_root . old
umount -l /old
rmdir /old
exec env -i container=sparkgate PATH=/usr/sbin:/usr/bin:/sbin:/bin @SYSTEMD@ --system --unit=enough.target \
  --log-target=console --show-status=0
"""
SERVE = """
import fcntl, socket, struct, sys
with socket.socket() as any_socket:
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh", b"lo", 1))
sys.path.insert(0, sys.argv[1])
from fake_searxng import FakeSearxng
with FakeSearxng() as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""
"""0x8914 is SIOCSIFFLAGS and 1 IFF_UP: the loopback of a new network is down."""


@cache
def why_not() -> str:
    """What this machine lacks; "" when it let us mount what a systemd is booted in, and start our Python there."""
    if os.getuid() != 0:
        return "it needs root"
    if not SYSTEMD.exists() or not all(map(shutil.which, ("unshare", "nsenter", "setpriv", "pivot_root", "useradd"))):
        return "systemd, util-linux or useradd is not installed"
    if not PYTHON.exists():
        return f"{PYTHON} is not there, and another Python has other packages"
    try:
        with _a_group() as group, tempfile.TemporaryDirectory(prefix="sgd-") as root:
            command = _unshared(group, MOUNTS + TRY, root)
            tried = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S)
    except OSError as error:
        return f"no control group of ours: {error}"
    said = tried.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
    return said or f"ended with {tried.returncode}" if tried.returncode else ""


@contextmanager
def _a_group() -> Iterator[Path]:
    """A control group; OSError where none can be made."""
    places = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    base = next((Path(words[1]) for words in places if words[2] == "cgroup2"), None)
    if not base:
        raise FileNotFoundError("no cgroup2 is mounted")
    group = base / f"sparkgate-test-{token_hex(4)}"
    group.mkdir()
    try:
        yield group
    finally:
        until(lambda: _is_gone(group), "its control group is gone")


def _is_gone(group: Path) -> bool:
    """Its last processes may take a moment to end."""
    for folder in sorted([group, *group.rglob("*/")], key=lambda one: -len(one.parts)):
        with suppress(OSError):
            folder.rmdir()
    return not group.exists()


def _unshared(group: Path, script: str, root: str) -> list[str]:
    """The command that runs a script in namespaces and a control group of its own."""
    given = {"SOURCE": SOURCE, "PACKAGES": PACKAGES, "MASKED": " ".join(MASKED)}
    given |= {"PYTHON": str(PYTHON), "SYSTEMD": str(SYSTEMD)}
    for name, value in given.items():
        script = script.replace(f"@{name}@", value)
    names = ("--pid", "--mount", "--uts", "--ipc", "--net", "--cgroup", "--propagation", "private")
    enter = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
    inside = ["sh", "-c", script, "sh", root, str(TOP), sysconfig.get_paths()["purelib"]]
    return ["sh", "-c", enter, str(group), "unshare", "--fork", "--kill-child", *names, *inside]


class Systemd:
    """A booted machine, and commands in it."""

    def __init__(self, root: Path, group: Path) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        self._unshare = subprocess.Popen(
            _unshared(group, MOUNTS + BOOT, str(root)),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )
        self._started: list[subprocess.Popen[bytes]] = []
        self._init = 0
        try:
            until(self._runs, "systemd is up")
        except AssertionError as error:
            said = self._said()
            self.end()
            raise AssertionError(f"{error}: {said}") from error
        # Closed while systemd starts. A confinement mounts a /proc, which the kernel allows where all of one is seen.
        self.run("umount", "/proc/sys/fs/binfmt_misc")
        self.ok("umount", "--lazy", "/proc/sys")

    def _said(self) -> str:
        self._log.seek(0)
        return self._log.read().decode("utf-8", "replace")[-2000:]

    def _runs(self) -> bool:
        assert self._unshare.poll() is None, self._said()
        children = Path(f"/proc/{self._unshare.pid}/task/{self._unshare.pid}/children").read_text().split()
        self._init = int(children[0]) if children else 0
        if not self._init or Path(f"/proc/{self._init}/comm").read_text() != "systemd\n":
            return False
        return self.run("systemctl", "is-system-running")[1].strip() in ("running", "degraded")

    def start(self, *command: str, user: str = "root") -> subprocess.Popen[bytes]:
        enter = ["nsenter", f"--target={self._init}", "--mount", "--pid", "--uts", "--ipc", "--net", "--cgroup"]
        groups = ["--reuid", user, "--regid", user, "--init-groups"]
        process = subprocess.Popen(
            [*enter, "env", "--chdir=/", "setpriv", *groups, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root" if user == "root" else f"/home/{user}"},
        )
        self._started.append(process)
        return process

    def run(self, *command: str, user: str = "root") -> tuple[int, str]:
        """(exit code, everything it printed)."""
        process = self.start(*command, user=user)
        out, err = process.communicate(timeout=PATIENCE_S * 4)
        return process.returncode, (out + err).decode()

    def ok(self, *command: str, user: str = "root") -> str:
        code, said = self.run(*command, user=user)
        assert code == 0, said
        return said

    def sparkgate(self, *arguments: str, user: str = "root") -> tuple[int, str]:
        return self.run(OURS, "-I", "-m", "sparkgate.clients.cli", *arguments, user=user)

    def pipe(self, user: str, toolset: str = "search") -> Host:
        return Host(self.start(OURS, "-I", "-m", "sparkgate.stdio", toolset, user=user))

    def searxng(self) -> str:
        """Address of a SearXNG on the loopback of this machine."""
        process = self.start(OURS, "-c", SERVE, f"{SOURCE}/tests")
        assert process.stdout
        return process.stdout.readline().decode().strip()

    def end(self) -> None:
        self._unshare.kill()
        self._unshare.wait()
        for process in self._started:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    with suppress(BrokenPipeError):
                        stream.close()
        self._log.close()


@contextmanager
def a_systemd() -> Iterator[Systemd]:
    """A booted machine; skips the test where none can be booted."""
    if reason := why_not():
        pytest.skip(f"no systemd here: {reason}")
    with _a_group() as group, tempfile.TemporaryDirectory(prefix="sgd-") as root:
        made = Systemd(Path(root), group)
        try:
            yield made
        finally:
            made.end()


def all_of(machine: Systemd, commands: Sequence[str], user: str) -> list[str]:
    """Those of these shell commands that succeed."""
    return [command for command in commands if machine.run("sh", "-c", command, user=user)[0] == 0]
