"""Where things are on disk. Imports nothing but `os`, as the stdio pipe has to start in milliseconds."""

from __future__ import annotations

import os

SOCKET_PATH_MAX_BYTES = 107
"""sun_path of Linux holds 108 bytes with the closing NUL (unix(7))."""


def home() -> str:
    """The user's home folder, also where a host has removed HOME from the environment."""
    return os.path.expanduser("~")


def default_config_path() -> str:
    return os.path.join(os.environ.get("XDG_CONFIG_HOME") or f"{home()}/.config", "sparkgate", "config.toml")


def config_path(given: str | None = None) -> str:
    """`--config` wins over SPARKGATE_CONFIG, which wins over the default place."""
    return os.path.abspath(given or os.environ.get("SPARKGATE_CONFIG") or default_config_path())


def state_dir() -> str:
    return os.path.join(os.environ.get("XDG_STATE_HOME") or f"{home()}/.local/state", "sparkgate")


def runtime_dir() -> str:
    """The folder of the socket. Hosts that drop XDG_RUNTIME_DIR still find the one systemd made."""
    given = os.environ.get("XDG_RUNTIME_DIR")
    made_by_systemd = f"/run/user/{os.getuid()}"
    if given:
        return os.path.join(given, "sparkgate")
    if os.path.isdir(made_by_systemd) and os.stat(made_by_systemd).st_uid == os.getuid():
        return os.path.join(made_by_systemd, "sparkgate")
    return os.path.join(state_dir(), "run")


def gate_name(config: str) -> str:
    """Base name of the files of the gate that serves `config`; each configuration has a gate of its own."""
    if config == default_config_path():
        return "gate"
    from hashlib import sha256

    return f"gate-{sha256(os.fsencode(config)).hexdigest()[:8]}"


def socket_path(config: str) -> str:
    return os.path.join(runtime_dir(), f"{gate_name(config)}.sock")


def log_path(config: str) -> str:
    return os.path.join(state_dir(), "logs", f"{gate_name(config)}.log")


def private_dir(path: str) -> str:
    """Make `path` (0700) when absent and return it.

    Raises:
        PermissionError: it exists and belongs to somebody else, or others may enter it.
    """
    os.makedirs(path, mode=0o700, exist_ok=True)
    found = os.stat(path)
    if found.st_uid != os.getuid():
        raise PermissionError(f"{path} belongs to another user; remove it or set XDG_RUNTIME_DIR to a folder of yours")
    if found.st_mode & 0o077:
        os.chmod(path, 0o700)
    return path


def short_socket_path(path: str, folder_fd: int) -> str:
    """`path` as the kernel takes it: by way of the open folder when it is longer than sun_path holds (Linux)."""
    if len(os.fsencode(path)) <= SOCKET_PATH_MAX_BYTES:
        return path
    return f"/proc/self/fd/{folder_fd}/{os.path.basename(path)}"
