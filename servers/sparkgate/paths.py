"""Where things are on disk. Imports next to nothing, as the stdio pipe has to start in milliseconds."""

from __future__ import annotations

import binascii
import os
import pwd

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
    given, made_by_systemd = os.environ.get("XDG_RUNTIME_DIR"), systemd_runtime_dir()
    if given:
        return os.path.join(given, "sparkgate")
    if os.path.isdir(made_by_systemd) and os.stat(made_by_systemd).st_uid == os.getuid():
        return os.path.join(made_by_systemd, "sparkgate")
    return os.path.join(state_dir(), "run")


def systemd_runtime_dir() -> str:
    return f"/run/user/{os.getuid()}"


def moved_places() -> dict[str, str]:
    """XDG variables of this process that move our files away from where a bare environment finds them.

    Hosts pass on different parts of the environment, so an entry for a host has to carry these.
    """
    defaults = {
        "XDG_CONFIG_HOME": f"{home()}/.config",
        "XDG_STATE_HOME": f"{home()}/.local/state",
        "XDG_RUNTIME_DIR": systemd_runtime_dir(),
    }
    return {name: os.environ[name] for name, usual in defaults.items() if os.environ.get(name, usual) != usual}


def gate_name(config: str, state: str | None = None) -> str:
    """Base name of the files of a gate: every pair of configuration and state folder has a gate of its own.

    Only the account's own default places make it `gate`, so that a changed HOME does not meet the gate of another.
    """
    state = state or state_dir()
    try:
        account = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        account = ""
    if (config, state) == (f"{account}/.config/sparkgate/config.toml", f"{account}/.local/state/sparkgate"):
        return "gate"
    return f"gate-{binascii.crc32(os.fsencode(config) + bytes(1) + os.fsencode(state)):08x}"


def socket_path(config: str) -> str:
    return os.path.join(runtime_dir(), f"{gate_name(config)}.sock")


def log_path(config: str) -> str:
    return os.path.join(state_dir(), "logs", f"{gate_name(config)}.log")


def private_dir(path: str) -> str:
    """Make `path` when absent, close it to others (0700), and return it.

    Raises:
        OSError: it is not a folder, or not ours; the message says what to do.
    """
    os.makedirs(path, mode=0o700, exist_ok=True)
    if os.path.islink(path):
        raise PermissionError(f"{path} is a symbolic link; use a folder")
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(folder).st_uid != os.getuid():
            raise PermissionError(f"{path} belongs to another user; remove it, or use a folder of yours")
        os.fchmod(folder, 0o700)
    finally:
        os.close(folder)
    return path


def short_socket_path(path: str, folder_fd: int) -> str:
    """`path` as the kernel takes it: by way of the open folder when it is longer than sun_path holds (Linux)."""
    if len(os.fsencode(path)) <= SOCKET_PATH_MAX_BYTES:
        return path
    return f"/proc/self/fd/{folder_fd}/{os.path.basename(path)}"
