"""What a confined command sees of the files: all of them, read-only, without sockets, secrets and our own."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sparkgate.confine.plan import Mount
from sparkgate.paths import SOCKET_PATH_MAX_BYTES

RUN = "/run"
"""Where services leave their sockets: D-Bus, docker, systemd, the agents of ssh and gpg. Nobody writes there inside."""
FRESH = ("/tmp", "/var/tmp")
"""Where programs leave what they make, and their sockets: tmux, X11, agents of ssh."""
SECRETS = (
    *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".oci", ".password-store", ".vault-token", ".netrc"),
    *(".git-credentials", ".pypirc", ".npmrc", ".pgpass", ".my.cnf", ".cargo/credentials.toml", ".terraform.d"),
    *(".config/gcloud", ".config/gh", ".config/hub", ".config/op", ".config/rclone", ".config/doctl", ".config/sops"),
    *(".config/google-chrome", ".config/chromium", ".config/BraveSoftware", ".mozilla", ".thunderbird"),
    *(".local/share/keyrings", ".cache/huggingface/token", ".huggingface/token", ".bash_history", ".zsh_history"),
    *(".python_history", ".psql_history", ".node_repl_history"),
)
"""Below the home folder. An agent needs none of them: it has no network to use them on."""


class BadView(ValueError):
    """A wish that cannot be granted; the message names the path and the way out."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a confinement is asked to show.

    Attributes:
        home: folder of the user.
        folder: where the command starts.
        write: folders and files that it may change.
        read: what it may read although it would be hidden.
        needed: interpreter and modules, which run inside as well as outside, and in the gate.
        ours: configuration and state of the gate, and whatever else of it is to be absent.
        socket: path of the gate's socket.
        socket_folder: what lies where the socket's folder was.
    """

    home: str
    folder: str
    write: Sequence[str]
    read: Sequence[str]
    needed: Sequence[str]
    ours: Sequence[str]
    socket: str
    socket_folder: str


def view(wish: Wish) -> tuple[Mount, ...]:
    """The places from the bottom to the top.

    Raises:
        BadView: something to be shown is missing, or something to be written would let it change our files.
    """
    if len(os.fsencode(wish.socket)) > SOCKET_PATH_MAX_BYTES:
        raise BadView(
            f"{wish.socket}, the gate's socket, is longer than {SOCKET_PATH_MAX_BYTES} bytes; "
            "set XDG_RUNTIME_DIR to a shorter folder"
        )
    for path in wish.write:
        _refuse_over(path, wish)
    write = [_mount("write", path) for path in wish.write]
    hidden = [os.path.join(wish.home, path) for path in SECRETS]
    return (
        Mount("show", "/", "/"),
        Mount("hide", RUN),
        *(Mount("fresh", path) for path in FRESH if os.path.isdir(path)),
        Mount("dev", "/dev"),
        Mount("proc", "/proc"),
        *(_mount("show", path) for path in _buried([wish.home, wish.folder, *wish.needed])),
        *_hidden(hidden),
        *write,
        *(_mount("show", path) for path in wish.read),
        *_hidden(wish.ours),
        Mount("show", os.path.dirname(wish.socket), wish.socket_folder),
    )


def with_folder(wish: Wish) -> tuple[Wish, str]:
    """The wish with its starting folder to be written; as it was, and why, where that would let out too much."""
    try:
        _refuse_over(wish.folder, wish)
    except BadView as error:
        return wish, f"the folder it starts in is read-only: {error}"
    return replace(wish, write=[*wish.write, wish.folder]), ""


def _refuse_over(path: str, wish: Wish) -> None:
    """Who may write a folder may put another in the place of any folder below it, mounted over or not."""
    if not os.path.exists(path):
        raise BadView(f"{path} is not there, so it cannot be written; make it first")
    for kept in (*wish.ours, *wish.needed, os.path.dirname(wish.socket)):
        if _holds(path, kept) or _holds(kept, path):
            raise BadView(
                f"{path} cannot be written inside: sparkgate's own {kept} is in the way; choose a folder below"
            )
    for kept in (wish.home, "/"):
        if _holds(path, kept):
            raise BadView(
                f"{path} cannot be written as a whole, it holds what other programs start; choose a folder below"
            )


def _buried(paths: Iterable[str]) -> list[str]:
    """Those that lie where everything else is gone."""
    return [path for path in dict.fromkeys(paths) if any(_holds(emptied, path) for emptied in (RUN, *FRESH))]


def _mount(kind: str, path: str) -> Mount:
    if not os.path.exists(path):
        raise BadView(f"{path} is not there, so it cannot be shown")
    real = os.path.realpath(path)
    return Mount("write" if kind == "write" else "show", real, real, not os.path.isdir(real))


def _hidden(paths: Iterable[str]) -> list[Mount]:
    """Those that are there; of a link, what it leads to."""
    real = dict.fromkeys(os.path.realpath(path) for path in paths if os.path.exists(path))
    return [Mount("hide", path, is_file=not os.path.isdir(path)) for path in real]


def _holds(folder: str, path: str) -> bool:
    """Whether `path` is `folder` or lies below it; links on the way are followed."""
    folder, path = os.path.realpath(folder), os.path.realpath(path)
    return os.path.commonpath([folder, path]) == folder
