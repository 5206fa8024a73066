"""What the parts of the embedded SearXNG share: its error, its progress, and the lock of its folder."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sparkgate.machine.files import open_private, private_folder

Progress = Callable[[str], None]


class EmbeddedError(Exception):
    """The embedded SearXNG cannot do what was asked; the message names the thing and the way out."""


def silent(_: str) -> None:
    """A `Progress` that says nothing."""


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
