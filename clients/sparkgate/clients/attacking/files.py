"""Ways by files: ours, those that other programs start with, and those that are no files."""

from __future__ import annotations

import errno
import os
import secrets
import socket
import stat
from functools import partial
from pathlib import Path

from sparkgate.clients.attacking.attempt import Attack, Reach, first_open
from sparkgate.confine.canaries import FIFO

STARTED = (".bashrc", ".profile", ".zshrc", ".config/autostart/sparkgate.desktop", ".config/systemd/user/x.service")
"""What others start with: written to here, it would run outside."""
KERNEL_SETTINGS = (
    *("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/vm/overcommit_memory"),
    *("/sys/kernel/uevent_helper", "/dev/kmsg"),
)


def _append(path: str) -> None:
    """Open for writing without changing anything."""
    os.close(os.open(path, os.O_WRONLY | os.O_APPEND))


def _make(path: str) -> None:
    """Make a file, and take it away again."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    os.unlink(path)


def _read(path: str) -> None:
    os.close(os.open(path, os.O_RDONLY))


def _rules(reach: Reach) -> None:
    folder = os.path.dirname(reach.config)
    name = f"{secrets.token_hex(4)}.toml"
    first_open([lambda: _make(f"{folder}/rules/{name}"), lambda: _make(f"{folder}/{name}")])


def _log(reach: Reach) -> None:
    log = f"{reach.state}/audit.db"
    first_open([lambda: _append(log), lambda: _append(f"{log}-wal"), lambda: _make(f"{log}-journal")])


def _key(reach: Reach) -> None:
    _read(f"{reach.state}/keys/audit.key")


def _fake_gate(reach: Reach) -> None:
    """Take the gate's place: bind beside it, or put its folder away."""
    folder = os.path.dirname(reach.socket)
    other = f"{folder}/{secrets.token_hex(4)}"
    first_open([lambda: _bind(other), lambda: _moved(reach.socket), lambda: _moved(folder)])


def _bind(path: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        before = os.getcwd()
        os.chdir(os.path.dirname(path))
        try:
            listener.bind(os.path.basename(path))
        finally:
            os.chdir(before)
    os.unlink(path)


def _moved(path: str) -> None:
    os.rename(path, f"{path}.moved")
    os.rename(f"{path}.moved", path)


def _link(reach: Reach) -> None:
    """A link where the socket is, for a moment, so that who looks then ends up elsewhere."""
    link = f"{os.path.dirname(reach.socket)}/{secrets.token_hex(4)}"
    os.symlink("/tmp", link)
    os.unlink(link)


def _started(reach: Reach) -> None:
    new = f"{reach.home}/.{secrets.token_hex(4)}"
    first_open([partial(_make, new), *(partial(_append, f"{reach.home}/{name}") for name in STARTED)])


def _pipe(reach: Reach) -> None:
    """A named pipe takes text where the file system takes none."""
    path = Path(reach.targets.path).with_name(FIFO)
    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))


def _set_user_id(_: Reach) -> None:
    """A program that whoever starts it outside runs as the user who was confined."""
    folders = (os.getcwd(), "/tmp")
    first_open([partial(way, f"{folder}/{secrets.token_hex(4)}") for folder in folders for way in (_changed, _born)])


def _changed(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        os.chmod(path, 0o4755)
        _has_bit(path)
    finally:
        os.unlink(path)


def _born(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o4755))
    try:
        _has_bit(path)
    finally:
        os.unlink(path)


def _has_bit(path: str) -> None:
    if not os.stat(path).st_mode & stat.S_ISUID:
        raise PermissionError(errno.EPERM, "the bit was not kept")


def _kernel(_: Reach) -> None:
    first_open([partial(_append, path) for path in KERNEL_SETTINGS])


def _device(_: Reach) -> None:
    first_open([lambda: _read("/dev/mem"), lambda: _read("/dev/vda"), lambda: _read("/dev/sda"), _made_device])


def _made_device() -> None:
    path = f"/tmp/{secrets.token_hex(4)}"
    os.mknod(path, 0o600 | 0o020000, os.makedev(1, 1))
    try:
        _read(path)
    finally:
        os.unlink(path)


ATTACKS = (
    Attack("config", "changing the configuration of the gate", lambda at: _append(at.config)),
    Attack("rules", "adding a rule", _rules),
    Attack("log", "touching the log", _log),
    Attack("key", "reading the key of the log", _key),
    Attack("fake_gate", "a gate of its own where the gate's socket is", _fake_gate),
    Attack("socket_link", "a link on the way to the gate's socket", _link),
    Attack("startup_files", "files that other programs start with", _started),
    Attack("named_pipe", "a named pipe that a program outside reads", _pipe),
    Attack("set_user_id", "a program left behind that runs outside as its owner", _set_user_id),
    Attack("kernel_settings", "settings of the kernel that start programs", _kernel),
    Attack("devices", "disks and memory as devices", _device),
)
