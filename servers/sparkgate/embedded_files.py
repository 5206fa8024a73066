"""Files and locks of the embedded SearXNG: readable by their owner only, written whole or not at all."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal

Progress = Callable[[str], None]


class EmbeddedError(Exception):
    """The embedded SearXNG cannot do what was asked; the message names the thing and the way out."""


def silent(_: str) -> None:
    """A `Progress` that says nothing."""


def private_folder(path: Path) -> Path:
    """Make `path` (mode 0700) with its parents."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.chmod(0o700)
    return path


def open_private(path: Path, mode: Literal["w", "a"]) -> IO[str]:
    """Open a text file to write; a new one gets mode 0600."""
    return open(path, mode, encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600))


def write_private(path: Path, text: str) -> None:
    """Replace `path` by `text` in one step, mode 0600."""
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    with open_private(fresh, "w") as out:
        out.write(text)
    fresh.replace(path)


def read(path: Path) -> str:
    """The text of a file; empty when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def tail(path: Path, lines: int) -> list[str]:
    """The last `lines` lines of a log; empty when there is none."""
    return read(path).splitlines()[-lines:] if lines > 0 else []


def rotate(path: Path, limit_bytes: int = 1_000_000) -> None:
    """Put a log longer than `limit_bytes` aside as `NAME.1`, over an older one."""
    if path.exists() and path.stat().st_size > limit_bytes:
        path.replace(path.with_name(path.name + ".1"))


@contextmanager
def exclusive(path: Path, progress: Progress) -> Iterator[None]:
    """Hold the lock file `path`; says so when another holder makes it wait."""
    private_folder(path.parent)
    with open_private(path, "w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("Waiting: another process is at work on the private SearXNG")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
