"""The secret that keys the digests of withheld values."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from sparkgate.policy.audit import LogUnavailable


def load_key(path: Path) -> bytes:
    """The digest key at `path`, made (32 random bytes, 0600) when absent; never replaced.

    Raises:
        LogUnavailable: the file cannot be read or is too short to be a key.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            _create_key(path)
        key = path.read_bytes()
    except OSError as error:
        raise LogUnavailable(f"cannot read the key {path}: {error.strerror}") from error
    if len(key) < 32:
        raise LogUnavailable(f"the key {path} is damaged ({len(key)} bytes); restore it, or move it away for a new one")
    return key


def _create_key(path: Path) -> None:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        os.write(descriptor, secrets.token_bytes(32))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    try:
        os.link(draft, path)  # fails when another process was first: its key stands
    except FileExistsError:
        pass
    finally:
        draft.unlink()
