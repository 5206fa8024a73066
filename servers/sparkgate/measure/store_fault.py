"""What is wrong with a file of SQLite, and the way out of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path

DAMAGED = (
    "is damaged and was left as it is: move it away together with its -wal and -shm files, and a new one is begun; "
    "`sqlite3 FILE .recover` may save what it holds"
)
FULL = "cannot be written, the disk is full, faulty, or a limit of size is reached: make room, and ask again"
HELD = "is held by another program: wait for it or end it (`fuser FILE` names it), and ask again"
CLOSED = "cannot be opened or written: it and its folder must belong to the user of sparkgate"
WAYS_OUT: Mapping[str, str] = {
    "SQLITE_NOTADB": DAMAGED,
    "SQLITE_CORRUPT": DAMAGED,
    "SQLITE_FULL": FULL,
    "SQLITE_IOERR": FULL,
    "SQLITE_BUSY": HELD,
    "SQLITE_LOCKED": HELD,
    "SQLITE_CANTOPEN": CLOSED,
    "SQLITE_READONLY": CLOSED,
    "SQLITE_PERM": CLOSED,
    "PermissionError": CLOSED,
    "IsADirectoryError": CLOSED,
    "NotADirectoryError": CLOSED,
}
"""Beginning of an error's name → what to say of the file."""


def way_out(path: Path, error: Exception) -> str:
    """One line about a file that could not be used."""
    name = getattr(error, "sqlite_errorname", None) or type(error).__name__
    found = next((words for begin, words in WAYS_OUT.items() if name.startswith(begin)), "cannot be used")
    return f"{path} {found.replace('FILE', str(path))} ({name})"


def is_passing(error: BaseException | None) -> bool:
    """Whether it may go away by itself soon: another program holds the file."""
    name = str(getattr(error, "sqlite_errorname", ""))
    return isinstance(error, sqlite3.Error) and name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))
