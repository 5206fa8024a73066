"""Small text files: read without a fault, and written for their owner alone, whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Literal


def text_of(path: Path, most_chars: int = -1) -> str:
    """The text of a file, or its first `most_chars` characters; "" when it cannot be read."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(most_chars)
    except OSError:
        return ""


def tail(path: Path, lines: int) -> list[str]:
    """The last `lines` lines of a log; [] when there is none."""
    return text_of(path).splitlines()[-lines:] if lines > 0 else []


def private_folder(path: Path) -> Path:
    """Make `path` (mode 0700) with its parents. Raises OSError."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.chmod(0o700)
    return path


def open_private(path: Path, mode: Literal["w", "a"]) -> IO[str]:
    """Open a text file to write; a new one gets mode 0600. Raises OSError."""
    return open(path, mode, encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600))


def write_private(path: Path, text: str) -> None:
    """Replace `path` by `text` in one step, mode 0600, and see that it is on disk. Raises OSError."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    fresh.unlink(missing_ok=True)
    with open_private(fresh, "w") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(path)


def rotate(path: Path, limit_bytes: int = 1_000_000) -> None:
    """Put a log longer than `limit_bytes` aside as `NAME.1`, over an older one."""
    if path.exists() and path.stat().st_size > limit_bytes:
        path.replace(path.with_name(path.name + ".1"))
