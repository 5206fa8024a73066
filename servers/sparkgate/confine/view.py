"""What a confined command sees of the files: all of them, read-only, without sockets, secrets and our own."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from sparkgate.confine.plan import Kind, Mount
from sparkgate.confine.secrets import OF_THE_MACHINE, SECRETS, SECRETS_OF_ROOT, STARTED
from sparkgate.confine.trail import entries, holds
from sparkgate.paths import SOCKET_PATH_MAX_BYTES

RUN = "/run"
"""Where services leave their sockets: D-Bus, docker, systemd, the agents of ssh and gpg. Nobody writes there inside."""
FRESH = ("/tmp", "/var/tmp")
"""Where programs leave what they make, and their sockets: tmux, X11, agents of ssh."""
MOST_ENTRIES = 5000
"""Of a folder that is put together anew from its entries."""
BELOW = "choose a folder below"
SHIELDED = "{place} cannot be changed inside: programs are started from it outside (it is on PATH, or has our code)"


class BadView(ValueError):
    """A wish that cannot be granted; the message names the path and the way out."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a confinement is asked to show.

    Attributes:
        homes: folders of the user; the first is HOME.
        folder: where the command starts.
        write: folders and files that it may change.
        read: what it may read although it would be hidden.
        used: what runs or is read outside as well: interpreter, modules, programs, configuration.
        ours: folders and files of the gate that are to be absent.
        socket: path of the gate's socket.
        socket_folder: what lies where the socket's folder was.
        best_effort: show a folder that is too large to be put together, with the secrets of now mounted over.
    """

    homes: Sequence[str]
    folder: str
    write: Sequence[str]
    read: Sequence[str]
    used: Sequence[str]
    ours: Sequence[str]
    socket: str
    socket_folder: str
    best_effort: bool = False


def view(wish: Wish) -> tuple[Mount, ...]:
    """The places from the bottom to the top.

    Raises:
        BadView: something to be shown is missing, or something to be written would let out too much.
    """
    if len(os.fsencode(wish.socket)) > SOCKET_PATH_MAX_BYTES:
        raise BadView(
            f"{wish.socket}, the gate's socket, is longer than {SOCKET_PATH_MAX_BYTES} bytes; "
            "set XDG_RUNTIME_DIR to a shorter folder"
        )
    if any(holds(kept, wish.folder) for kept in ("/dev", "/proc", RUN, "/sys")):
        raise BadView(f"{wish.folder} is not there inside; start it in a folder of files")
    for path in wish.write:
        refuse_over(path, wish)
    write = [_mount("write", path) for path in wish.write]
    return (
        Mount("show", "/", "/"),
        Mount("hide", RUN),
        *(Mount("fresh", path) for path in FRESH if os.path.isdir(path)),
        Mount("dev", "/dev"),
        Mount("proc", "/proc"),
        *(_mount("show", path) for path in _buried([*wish.homes, wish.folder, *wish.used])),
        *_without(wish),
        *_hidden([*SECRETS_OF_ROOT, *filter(os.path.islink, _secrets(wish))]),
        *(_mount("show", path) for path in wish.read),
        *write,
        *shields([mount.target for mount in write], wish.used),
        *_hidden(wish.ours),
        Mount("show", os.path.dirname(wish.socket), wish.socket_folder),
    )


def with_folder(wish: Wish) -> tuple[Wish, str]:
    """The wish with its starting folder to be written; as it was, and why, where that would let out too much."""
    try:
        refuse_over(wish.folder, wish)
    except BadView as error:
        return wish, f"the folder it starts in is read-only: {error}"
    return replace(wish, write=[*wish.write, wish.folder]), ""


def refuse_over(path: str, wish: Wish) -> None:
    """Look whether a path may be written.

    Raises:
        BadView: it is missing, a link, or holds (or lies in) something that others start or that is to be kept.
    """
    if not os.path.lexists(path):
        raise BadView(f"{path} is not there, so it cannot be written; make it first")
    real = os.path.realpath(path)
    if real != os.path.abspath(path):
        raise BadView(f"{path} leads to {real} by a link, which may have been put there for this; name {real} itself")
    kept = [*wish.ours, os.path.dirname(wish.socket), *OF_THE_MACHINE]
    kept += [f"{home}/{name}" for home in wish.homes for name in (*SECRETS, *STARTED)]
    for one in kept:
        if (one not in OF_THE_MACHINE and holds(real, os.path.realpath(one))) or holds(os.path.realpath(one), real):
            raise BadView(f"{path} cannot be written inside: {one} is in the way; {BELOW}")
    for one in (*wish.homes, *OF_THE_MACHINE):
        if holds(real, os.path.realpath(one)):
            raise BadView(f"{path} cannot be written as a whole, it holds what other programs start; {BELOW}")
    shields([real], wish.used)


def shields(writable: Sequence[str], used: Iterable[str]) -> list[Mount]:
    """Read-only mounts over what is used outside and lies in something writable.

    Who may write a folder may put another in the place of any below it, but not of a mount. So what is shielded is the
    entry right below the writable folder: above it, nothing can be moved away.

    Raises:
        BadView: something that is used cannot be shielded.
    """
    found = {
        mount.target: mount
        for path, trail in [(path, list(entries(path))) for path in used]
        for folder in writable
        for mount in _shields_of(folder, path, trail)
    }
    return list(found.values())


def _shields_of(folder: str, path: str, trail: Sequence[str]) -> Iterator[Mount]:
    """What keeps one path, which goes through `trail`, from being led elsewhere by who may write `folder`."""
    if holds(os.path.realpath(path), folder):
        raise BadView(f"{folder} cannot be written inside: {path} runs outside as well; {BELOW}")
    for entry in trail:
        if entry == folder or not holds(folder, entry):
            continue
        first = os.path.join(folder, os.path.relpath(entry, folder).partition("/")[0])
        if os.path.islink(entry):
            raise BadView(f"{folder} cannot be written inside: {path}, which runs outside, leads through it")
        if not os.path.lexists(first):
            raise BadView(
                f"{folder} cannot be written inside: {path}, which programs are started from outside, is missing "
                "there; make it, or take it off PATH"
            )
        yield Mount("show", first, first, not os.path.isdir(first))


def _secrets(wish: Wish) -> list[str]:
    return [f"{home}/{name}" for home in wish.homes for name in SECRETS]


def _without(wish: Wish) -> Iterator[Mount]:
    """The folders of what is to be absent put together from all their other entries.

    So what comes later, or is renamed into place, is absent as well: of a file that is mounted over, that would end the
    mount.
    """
    absent = [*_secrets(wish), *(path for path in wish.ours if any(holds(home, path) for home in wish.homes))]
    folders: dict[str, set[str]] = {}
    for path in absent:
        folders.setdefault(os.path.realpath(os.path.dirname(path)), set()).add(os.path.basename(path))
    for folder in sorted(folders):
        yield from _put_together(folder, folders[folder], wish.best_effort)


def _put_together(folder: str, absent: set[str], best_effort: bool) -> Iterator[Mount]:
    try:
        shown = [entry for entry in os.scandir(folder) if entry.name not in absent]
    except OSError:  # it is not there, or not for this user
        return
    if len(shown) > MOST_ENTRIES:
        if not best_effort:
            raise BadView(
                f"{folder} has {len(shown)} entries, too many to leave out what is secret and comes later; tidy it up, "
                "or take --best-effort, which mounts over the secrets that are there now"
            )
        yield from _hidden(f"{folder}/{name}" for name in absent)
        return
    yield Mount("hide", folder)
    yield from (mount for entry in shown for mount in _shown(entry))


def _shown(entry: os.DirEntry[str]) -> Iterator[Mount]:
    """A link stays what it is, wherever it leads; sockets and pipes of others are left out."""
    if entry.is_symlink():
        yield Mount("link", entry.path, os.readlink(entry.path))
    elif entry.is_dir() or entry.is_file():
        yield Mount("show", entry.path, entry.path, entry.is_file(), optional=True)


def _hidden(paths: Iterable[str]) -> Iterator[Mount]:
    """Those that are there; of a link, what it leads to."""
    for path in dict.fromkeys(os.path.realpath(path) for path in paths if os.path.exists(path)):
        yield Mount("hide", path, is_file=not os.path.isdir(path))


def _buried(paths: Iterable[str]) -> list[str]:
    """Those that lie where everything else is gone."""
    real = [os.path.realpath(path) for path in dict.fromkeys(paths) if os.path.exists(path)]
    return [path for path in real if any(holds(emptied, path) for emptied in (RUN, *FRESH))]


def _mount(kind: Kind, path: str) -> Mount:
    if not os.path.exists(path):
        raise BadView(f"{path} is not there, so it cannot be shown")
    real = os.path.realpath(path)
    return Mount(kind, real, real, not os.path.isdir(real))
