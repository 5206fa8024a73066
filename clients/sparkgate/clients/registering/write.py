"""Replacing a host's file in one step, and only if it is still what was read."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from sparkgate.clients.registering.exchange import exchange
from sparkgate.clients.registering.reading import Found
from sparkgate.clients.registering.record import wait_for
from sparkgate.clients.registering.refusal import Changed, Refused

NEW_FILE = 0o600
PATIENCE_S = 10.0
"""How long others of ours are waited for: each takes a few milliseconds."""


def replace(found: Found, data: bytes) -> None:
    """Put `data` where `found` was read, with its mode, owner and extended attributes.

    Raises:
        Changed: the file is not what was read any more; it is left as the other writer wanted it.
        Refused: it cannot be written, or others of ours are at it all the time.
    """
    try:
        with _beside(found.real, data) as fresh:
            if found.data is None:
                _create(fresh, found.real)
            else:
                _like(found.real, fresh)
                with _alone(found.real.parent):
                    _swap(fresh, found.real, found.data, data)
            _flush_folder(found.real.parent)
    except FileNotFoundError as error:
        raise Changed from error
    except OSError as error:
        raise Refused(f"cannot write {found.real}: {error.strerror}; nothing was changed") from error


def remove(found: Found) -> None:
    """Remove the file if it still is what was read.

    Raises:
        Changed: it is not.
        Refused: it cannot be removed.
    """
    try:
        with _beside(found.real, b"") as aside:
            aside.unlink()
            with _alone(found.real.parent):
                found.real.rename(aside)
                if aside.read_bytes() != found.data:
                    _create(aside, found.real)
                    raise Changed
            _flush_folder(found.real.parent)
    except FileNotFoundError as error:
        raise Changed from error
    except OSError as error:
        raise Refused(f"cannot remove {found.real}: {error.strerror}") from error


def clear(real: Path) -> None:
    """Remove what a run that was killed has left; only for the holder of the lock."""
    for left in real.parent.glob(f".{_escaped(real.name)}.sparkgate-*.tmp"):
        left.unlink(missing_ok=True)


def _escaped(name: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


@contextlib.contextmanager
def _beside(real: Path, data: bytes) -> Iterator[Path]:
    """A flushed file of ours in the same folder, gone afterwards unless it has taken another name."""
    handle, name = tempfile.mkstemp(prefix=f".{real.name}.sparkgate-", suffix=".tmp", dir=real.parent)
    try:
        with os.fdopen(handle, "wb") as out:
            os.fchmod(out.fileno(), NEW_FILE)
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """No other of ours between a look and what it allows; a writer who does not ask is met by `give_back`.

    Two that exchange at once could each take the text of a third for what the other one had read.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):  # where there are no locks, `give_back` is all there is
            wait_for(handle, PATIENCE_S)
        yield
    finally:
        os.close(handle)


def _create(fresh: Path, real: Path) -> None:
    """Give a name that must be free."""
    try:
        os.link(fresh, real)
    except FileExistsError as error:
        raise Changed from error


def _like(real: Path, fresh: Path) -> None:
    state = real.stat()
    if (state.st_uid, state.st_gid) != (os.geteuid(), os.getegid()):
        with contextlib.suppress(PermissionError):
            os.chown(fresh, state.st_uid, state.st_gid)
    if sys.platform == "linux":
        _copy_attributes(real, fresh)
    fresh.chmod(stat.S_IMODE(state.st_mode))


def _copy_attributes(real: Path, fresh: Path) -> None:
    """Extended attributes as far as this user may set them."""
    with contextlib.suppress(OSError):
        for name in os.listxattr(real):
            with contextlib.suppress(OSError):
                os.setxattr(fresh, name, os.getxattr(real, name))


def _swap(fresh: Path, real: Path, expected: bytes, data: bytes) -> None:
    """Compare, change places, and look at what was replaced: a writer in between gets its text back."""
    if real.is_symlink() or real.read_bytes() != expected:
        raise Changed
    if not exchange(fresh, real):
        fresh.replace(real)
        return
    if fresh.read_bytes() != expected:
        give_back(fresh, real, data)


def give_back(fresh: Path, real: Path, ours: bytes) -> None:
    """Undo an exchange in which `fresh` came to hold the text of a writer we had not seen.

    Raises:
        Changed: always.
    """
    exchange(fresh, real)
    if fresh.read_bytes() != ours:
        # A third text came between the two steps. It is the newest, so it stands; the other one is not thrown away.
        exchange(fresh, real)
        fresh.rename(real.with_name(f"{real.name}.sparkgate-conflict"))
    raise Changed


def _flush_folder(folder: Path) -> None:
    """Some file systems have no such call; the new text stands all the same."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(handle)
    finally:
        os.close(handle)
