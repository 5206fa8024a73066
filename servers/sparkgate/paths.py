"""Where things are on disk. Imports next to nothing, as the stdio pipe has to start in milliseconds."""

from __future__ import annotations

import binascii
import os
import pwd
import stat
from typing import NamedTuple


class System(NamedTuple):
    """Where the gate of the machine keeps its things: the same places for everybody, whatever the environment says."""

    config: str = "/etc/sparkgate/config.toml"
    state: str = "/var/lib/sparkgate"
    runtime: str = "/run/sparkgate"
    account: str = "sparkgate"
    service: str = "sparkgate-gate"


SYSTEM = System()
ROOT = 0
_means_system = False
"""Whether this process means the gate of the machine, by `choose` or `use_system`."""

SOCKET_PATH_MAX_BYTES = 107
"""sun_path of Linux holds 108 bytes with the closing NUL (unix(7))."""


def home() -> str:
    """The user's home folder, also where a host has removed HOME from the environment."""
    return os.path.expanduser("~")


def use_system() -> None:
    """From here on this process means the gate of the machine, and not one of its user."""
    global _means_system
    _means_system = True


def means_system() -> bool:
    return _means_system


def choose(asked: str = "", config: str | None = None) -> None:
    """Settle which gate this process means: the one of the machine, or one of its user's own.

    What is asked for ("system" or "own") wins. Else a configuration that is named (`--config`, SPARKGATE_CONFIG), one
    at the user's usual place, or XDG folders that lie elsewhere mean the user's own; and where none of that is, a gate
    that root has installed is the one, and the user's own where there is none.
    """
    named = config or os.environ.get("SPARKGATE_CONFIG")
    asked = asked or ("" if not named else "system" if named == SYSTEM.config else "own")
    if asked == "system" or (not asked and not _has_own() and system_stands()):
        use_system()


def _has_own() -> bool:
    return bool({"XDG_CONFIG_HOME", "XDG_STATE_HOME"} & moved_places().keys()) or os.path.exists(default_config_path())


def system_stands() -> bool:
    """Whether the machine has a gate of its own: a folder for its socket that nobody else can have put there."""
    try:
        return is_of_system(os.lstat(SYSTEM.runtime))
    except OSError:
        return False


def is_of_system(folder: os.stat_result) -> bool:
    """Whether a folder is one of root or of the gate's account, and nobody else may write it.

    One of this user's own is as good: at that path root has put it there, or a confinement that this user is in.
    """
    closed = stat.S_ISDIR(folder.st_mode) and not folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return closed and folder.st_uid in (ROOT, system_uid(), os.getuid())


def is_private(folder: os.stat_result) -> bool:
    """Whether nobody else can have put anything into a folder: in a confinement the gate's account has no name."""
    return folder.st_uid == os.getuid() and not folder.st_mode & (stat.S_IRWXG | stat.S_IRWXO)


def is_gate_user(uid: int) -> bool:
    """Whether the gate that is meant may run as this user.

    systemd holds the socket of the machine's gate before the gate does, so the kernel may name root there.
    """
    return uid in (ROOT, system_uid()) if _means_system else uid == os.getuid()


def system_uid() -> int | None:
    """Number of the account of the machine's gate; None when there is none."""
    try:
        return pwd.getpwnam(SYSTEM.account).pw_uid
    except KeyError:
        return None


def default_config_path() -> str:
    if _means_system:
        return SYSTEM.config
    return os.path.join(own_config_home(), "sparkgate", "config.toml")


def own_config_home() -> str:
    return os.environ.get("XDG_CONFIG_HOME") or f"{home()}/.config"


def config_path(given: str | None = None) -> str:
    """`--config` wins over SPARKGATE_CONFIG, which wins over the default place; the machine's gate has one place."""
    if _means_system:
        return SYSTEM.config
    return os.path.abspath(given or os.environ.get("SPARKGATE_CONFIG") or default_config_path())


def state_dir() -> str:
    return SYSTEM.state if _means_system else own_state_dir()


def own_state_dir() -> str:
    """Of the user, also where the machine's gate is meant."""
    return os.path.join(os.environ.get("XDG_STATE_HOME") or f"{home()}/.local/state", "sparkgate")


def runtime_dir() -> str:
    """The folder of the socket."""
    return SYSTEM.runtime if _means_system else own_runtime_dir()


def own_runtime_dir() -> str:
    """Of the user. Hosts that drop XDG_RUNTIME_DIR still find the one systemd made."""
    given, made_by_systemd = os.environ.get("XDG_RUNTIME_DIR"), systemd_runtime_dir()
    if given:
        return os.path.join(given, "sparkgate")
    if os.path.isdir(made_by_systemd) and os.stat(made_by_systemd).st_uid == os.getuid():
        return os.path.join(made_by_systemd, "sparkgate")
    return os.path.join(own_state_dir(), "run")


def systemd_runtime_dir() -> str:
    return f"/run/user/{os.getuid()}"


def moved_places() -> dict[str, str]:
    """XDG variables of this process that move our files away from where a bare environment finds them.

    Hosts pass on different parts of the environment, so an entry for a host has to carry these.
    """
    if _means_system:
        return {}
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
    if (config, state) == (SYSTEM.config, SYSTEM.state):
        return "gate"
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
    """The file a gate logs to; the machine's logs to the journal, so that is what shows it."""
    if _means_system:
        return f"journalctl --unit={SYSTEM.service}"
    return os.path.join(state_dir(), "logs", f"{gate_name(config)}.log")


def lock_dir() -> str:
    """Where the locks of a gate lie: beside its socket, or where only its account may write."""
    return state_dir() if _means_system else runtime_dir()


def where_it_tells(config: str) -> str:
    """Where a gate says what is wrong with it."""
    return f"`systemctl status {SYSTEM.service}`" if _means_system else log_path(config)


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
