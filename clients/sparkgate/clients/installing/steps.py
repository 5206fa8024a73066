"""A plan is a list of steps, each shown in words, done in order, and skipped when it has been done already."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PATIENCE_S = 120.0


class StepFailed(Exception):
    """A step could not be done; the message says what to mend."""


@dataclass(frozen=True, slots=True)
class Step:
    """Something to do.

    Attributes:
        what: in words, as a person would do it.
        do: does it; raises StepFailed or OSError.
    """

    what: str
    do: Callable[[], None]


def run(*argv: str) -> Step:
    """A command, without a shell."""
    return Step(f"run {' '.join(argv)}", lambda: _run(argv))


def _run(argv: Sequence[str]) -> None:
    try:
        ran = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except FileNotFoundError as error:
        raise StepFailed(f"{argv[0]} is not on this machine") from error
    except subprocess.TimeoutExpired as error:
        raise StepFailed(f"{' '.join(argv)} did not end within {PATIENCE_S:.0f} s") from error
    if ran.returncode:
        said = (ran.stderr or ran.stdout).strip().splitlines()
        raise StepFailed(f"{' '.join(argv)}: {said[-1] if said else f'ended with code {ran.returncode}'}")


Ids = Callable[[], tuple[int, int]]
"""(uid, gid) of who gets a file; asked for when the step is done, as an earlier one may make the account."""


def root() -> tuple[int, int]:
    return 0, 0


def me() -> tuple[int, int]:
    return os.getuid(), os.getgid()


def folder(path: Path, mode: int, owner: Ids) -> Iterator[Step]:
    """A folder with this mode and owner; nothing when it is there so already."""
    if not _is_so(path, mode, owner):
        yield Step(f"make the folder {path} (mode {mode:04o})", lambda: _folder(path, mode, owner))


def _is_so(path: Path, mode: int, owner: Ids) -> bool:
    with suppress(OSError, KeyError):
        found = path.lstat()
        return path.is_dir() and (found.st_mode & 0o7777, found.st_uid, found.st_gid) == (mode, *owner())
    return False


def _folder(path: Path, mode: int, owner: Ids) -> None:
    path.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        os.fchown(handle, *owner())
        os.fchmod(handle, mode)
    finally:
        os.close(handle)


def file(path: Path, text: str, mode: int, owner: Ids) -> Iterator[Step]:
    """A file with this text; nothing when it holds it already."""
    with suppress(OSError, UnicodeDecodeError):
        if path.read_text(encoding="utf-8") == text:
            return
    yield Step(f"write {path} (mode {mode:04o})", lambda: _write(path, text, mode, owner))


def _write(path: Path, text: str, mode: int, owner: Ids) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    handle = os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fchown(handle, *owner())
        os.fchmod(handle, mode)
        os.fsync(handle)
    new.replace(path)


def gone(path: Path) -> Iterator[Step]:
    """A file or folder away, with all in it; nothing when it is not there."""
    if path.exists() or path.is_symlink():
        yield Step(f"remove {path}", lambda: _remove(path))


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def carry_out(plan: Sequence[Step], told: Callable[[Step], None]) -> None:
    """Do every step in order and tell of each that is done.

    Raises:
        StepFailed: one could not be done; those before it stay done, and are skipped the next time.
    """
    for step in plan:
        try:
            step.do()
        except StepFailed:
            raise
        except PermissionError as error:
            raise StepFailed(f"{error.filename or step.what}: permission denied") from error
        except (OSError, KeyError) as error:
            raise StepFailed(f"{step.what}: {error}") from error
        told(step)
