"""The bearer token of `sparkgate serve --http`: one line in a private file."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
from pathlib import Path

MIN_LETTERS, MAX_BYTES = 20, 4096
_TOKEN = re.compile(rf"[!-~]{{{MIN_LETTERS},}}")


class TokenError(Exception):
    """The file cannot hold a token that only its owner knows; the text says what to do."""


def token_of(path: Path) -> tuple[str, bool]:
    """(the token, whether it was made just now).

    Raises:
        TokenError: the file is readable to others, belongs to another user, or holds no token.
    """
    made = _make(path)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise TokenError(f"cannot read {path}: {error.strerror}") from error
    try:
        _check(path, os.fstat(handle))
        text = os.read(handle, MAX_BYTES).decode("ascii", "replace").strip()
    finally:
        os.close(handle)
    if not _TOKEN.fullmatch(text):
        raise TokenError(f"{path} holds no token: one line of at least {MIN_LETTERS} ASCII letters without a space")
    return text, made


def _make(path: Path) -> bool:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    except OSError as error:
        raise TokenError(f"cannot make {path}: {error.strerror}") from error
    try:
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
    except OSError as error:
        with contextlib.suppress(OSError):
            path.unlink()
        raise TokenError(f"cannot write {path}: {error.strerror}") from error
    return True


def _check(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise TokenError(f"{path} is not a file")
    if found.st_uid != os.getuid():
        raise TokenError(f"{path} belongs to another user")
    if found.st_mode & 0o077:
        raise TokenError(f"others may read {path}: chmod 600 it, and put a new token in it")
