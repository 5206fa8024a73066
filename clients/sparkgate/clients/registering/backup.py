"""Copies of a host's file from before each change of ours, beside it."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from pathlib import Path

KEPT = 5
STAMP = "%Y%m%dT%H%M%SZ"


def save(file: Path, data: bytes, now: datetime | None = None) -> Path:
    """Write `data` as the newest copy of `file` (0600), never over another one."""
    stamp = (now or datetime.now(UTC)).strftime(STAMP)
    number = 1
    while True:
        more = "" if number == 1 else f"-{number}"
        copy = file.with_name(f"{file.name}.sparkgate-{stamp}{more}.bak")
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


def copies(file: Path) -> list[Path]:
    """Copies of `file`, newest first."""
    name = re.compile(re.escape(file.name) + r"\.sparkgate-(\d{8}T\d{6}Z)(?:-(\d+))?\.bak")
    found = [
        (match[1], int(match[2] or 1), path)
        for path in file.parent.iterdir()
        if (match := name.fullmatch(path.name)) and path.is_file() and not path.is_symlink()
    ]
    return [path for _, _, path in sorted(found, reverse=True)]


def prune(file: Path) -> None:
    """Keep the newest copies."""
    for old in copies(file)[KEPT:]:
        old.unlink(missing_ok=True)
