"""A file of a host as it is found: its bytes, where they really are, and whether they may be replaced."""

from __future__ import annotations

import codecs
import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path

from sparkgate.clients.registering.refusal import Refused

LINKS_MAX = 40
"""As many as Linux follows (path_resolution(7))."""
BOM = "\ufeff"


@dataclass(frozen=True, slots=True)
class Found:
    """What stands at a path.

    Attributes:
        real: the file itself, behind symbolic links.
        data: its bytes; None when there is no file.
    """

    real: Path
    data: bytes | None

    @property
    def text(self) -> str | None:
        """Without a byte order mark, with the line ends that are there.

        Raises:
            Refused: it is not UTF-8.
        """
        if self.data is None:
            return None
        try:
            return self.data.decode("utf-8").removeprefix(BOM)
        except UnicodeDecodeError as error:
            before = self.data[: error.start]
            line, column = before.count(b"\n") + 1, error.start - (before.rfind(b"\n") + 1) + 1
            raise Refused(f"{self.real}:{line}:{column}: not UTF-8; save the file as UTF-8") from error

    def encoded(self, text: str) -> bytes:
        """`text` as bytes of this file."""
        mark = codecs.BOM_UTF8 if self.data is not None and self.data.startswith(codecs.BOM_UTF8) else b""
        return mark + text.encode("utf-8")


def find(path: Path, folder: Path) -> Found:
    """Read the file at `path` of a host whose folder is `folder`.

    Raises:
        Refused: the host is not installed, or the file cannot be read, or is not ours to write.
    """
    try:
        if not folder.is_dir():
            raise Refused(f"not installed: there is no folder {folder}")
        real = real_file(path)
        if not real.parent.is_dir():
            raise Refused(f"there is no folder {real.parent}; start the host once, which makes it")
        return _read(real)
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}") from error


def _read(real: Path) -> Found:
    try:
        _check(real, real.lstat())
        return Found(real, real.read_bytes())
    except FileNotFoundError:
        return Found(real, None)


def real_file(path: Path) -> Path:
    """The file behind symbolic links; each must lie where nobody else can point it elsewhere.

    Raises:
        Refused: others can write to a folder on the way, or the links go in a circle.
    """
    real = Path(os.path.abspath(path))  # noqa: PTH100
    for _ in range(LINKS_MAX):
        if not real.is_symlink():
            folder = real.parent.resolve()
            if real.name != path.name or folder != path.parent.absolute():
                _check_folder(folder)
            return folder / real.name
        _check_folder(real.parent.resolve())
        real = Path(os.path.abspath(real.parent / real.readlink()))  # noqa: PTH100
    raise Refused(f"{path} is a circle of symbolic links")


def _check_folder(folder: Path) -> None:
    if _others_write(folder.stat()):
        raise Refused(f"a symbolic link leads through {folder}, where others can write")


def private(found: Found) -> None:
    """Refuse what others can put another file in the place of, or write: they would say what the host starts.

    Raises:
        Refused: they can; the message says what to do.
    """
    try:
        if _others_write(found.real.parent.stat()):
            raise Refused(f"others can write in {found.real.parent}; chmod go-w it first")
        if found.data is not None and _others_write(found.real.stat()):
            raise Refused(f"others can write {found.real}; chmod go-w it first")
    except OSError as error:
        raise Refused(f"{found.real} cannot be read: {error.strerror}") from error


def _others_write(state: os.stat_result) -> bool:
    """A group of the user's own counts as the user."""
    group = state.st_mode & stat.S_IWGRP and state.st_gid != os.getgid()
    return bool(state.st_mode & stat.S_IWOTH or group or state.st_uid not in (0, os.geteuid()))


def _check(real: Path, state: os.stat_result) -> None:
    if stat.S_ISDIR(state.st_mode):
        raise Refused(f"{real} is a folder, not a file")
    if not stat.S_ISREG(state.st_mode):
        raise Refused(f"{real} is not a regular file")
    if state.st_uid != os.geteuid():
        raise Refused(f"{real} belongs to {_user(state.st_uid)}; run this as that user")


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"
