"""Whether the Python that runs here may be what root starts: nobody but root can change a byte of it."""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from sparkgate import paths

HIDDEN = ("/home", "/root", "/run/user", "/tmp", "/var/tmp", "/dev/shm")
"""What the unit does not see (ProtectHome, PrivateTmp), and what is gone after a while."""
IN_PLACE = (
    "sudo python3 -m venv /opt/sparkgate && sudo /opt/sparkgate/bin/pip install .",
    "sudo /opt/sparkgate/bin/sparkgate gate install --system",
)
"""From a checkout of sparkgate; the README shows the same lines."""
WAY_OUT = f"from a checkout of sparkgate, install it where root alone writes: `{' && '.join(IN_PLACE)}`"


def objection(places: Iterable[Path], hidden: Sequence[str] = HIDDEN) -> str:
    """Why these files may not run as the gate of the machine; "" when they may."""
    for place in places:
        for seen in dict.fromkeys((place, place.resolve())):
            if covering := next((one for one in hidden if seen.is_relative_to(one)), ""):
                return f"{seen} lies in {covering}, which the gate of the machine does not see; {WAY_OUT}"
            if open_part := _open_part(seen):
                return f"{open_part} can be changed by others than root, and {place} runs from there; {WAY_OUT}"
    return ""


def _open_part(path: Path) -> Path | None:
    """The first part of the way to a file that another user could exchange."""
    for part in (path, *path.parents):
        found = part.lstat()
        sticky = part != path and stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
        writable = not stat.S_ISLNK(found.st_mode) and found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if found.st_uid != paths.ROOT or (writable and not sticky):
            return part
    return None


def of_this_python() -> Iterator[Path]:
    """The interpreter, what it reads at its start, and every folder it imports from."""
    yield from (Path(sys.executable), Path(sys.prefix), Path(sys.base_prefix))
    yield from (Path(one) for one in sys.path if one and Path(one).exists())
    yield Path(paths.__file__)
