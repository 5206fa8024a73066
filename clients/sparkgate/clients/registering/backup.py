"""Copies of hosts' files from before each change of ours, in the state folder: nobody else can put one there."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from datetime import UTC, datetime
from pathlib import Path

from sparkgate import paths

KEPT = 5
STAMP = "%Y%m%dT%H%M%SZ"
NAME = re.compile(r"(\d{8}T\d{6}Z)(?:-(\d+))?-.*\.bak", re.DOTALL)
NAME_MAX = 100


def folder(record_file: Path, real: Path) -> Path:
    """Where the copies of the file at `real` are; it need not be there."""
    return record_file.parent / "backups" / hashlib.sha256(os.fsencode(real)).hexdigest()[:32]


def save(folder: Path, name: str, data: bytes, now: datetime | None = None) -> Path:
    """Write `data` as the newest copy of the file called `name` (0600), never over another one."""
    paths.private_dir(str(folder.parent))
    paths.private_dir(str(folder))
    stamp = (now or datetime.now(UTC)).strftime(STAMP)
    number = 1
    while True:
        more = "" if number == 1 else f"-{number}"
        copy = folder / f"{stamp}{more}-{name[-NAME_MAX:]}.bak"
        try:
            handle = os.open(copy, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
        except FileExistsError:
            number += 1
            continue
        with os.fdopen(handle, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        return copy


def copies(folder: Path) -> list[Path]:
    """Copies that are there, newest first."""
    if not folder.is_dir():
        return []
    found = [
        (match[1], int(match[2] or 1), path)
        for path in folder.iterdir()
        if (match := NAME.fullmatch(path.name)) and path.is_file() and not path.is_symlink()
    ]
    return [path for _, _, path in sorted(found, reverse=True)]


def load(copy: Path) -> bytes:
    """What it holds.

    Raises:
        OSError: it cannot be read, or is not as `save` leaves it: ours, and closed to everybody else.
    """
    handle = os.open(copy, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(handle, "rb") as data:
        state = os.fstat(handle)
        if state.st_uid != os.geteuid() or stat.S_IMODE(state.st_mode) != 0o600 or not stat.S_ISREG(state.st_mode):
            raise OSError(errno.EPERM, "others may have written it", str(copy))
        return data.read()


def prune(folder: Path) -> None:
    """Keep the newest copies."""
    for old in copies(folder)[KEPT:]:
        old.unlink(missing_ok=True)
