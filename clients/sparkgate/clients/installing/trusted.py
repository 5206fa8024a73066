"""Whether the Python that runs here may be what root starts: nobody but root can change a byte of it."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from sparkgate import paths

HIDDEN = ("/home", "/root", "/run/user", "/tmp", "/var/tmp", "/dev/shm")
"""What the unit does not see (ProtectHome, PrivateTmp), and what is gone after a while."""
MAX_LINKS = 40
"""The kernel follows no more (path_resolution(7))."""
IN_PLACE = (
    "sudo python3 -m venv /opt/sparkgate && sudo /opt/sparkgate/bin/pip install .",
    "sudo /opt/sparkgate/bin/sparkgate gate install --system",
)
"""From a checkout of sparkgate; the README shows the same lines."""
WAY_OUT = f"from a checkout of sparkgate, install it where root alone writes: `{' && '.join(IN_PLACE)}`"


def objection(places: Iterable[Path], hidden: Sequence[str] = HIDDEN) -> str:
    """Why these files and folders, with all that is in them, may not run as the gate of the machine; "" when they may.

    What the distribution has in `/usr` is judged by its folders alone, but for the packages that others put there.
    """
    walked: set[tuple[int, int]] = set()
    for place in places:
        found = _objection_to(place, hidden)
        if not found and _is_walked(real := _real(place)):
            found = _objection_within(real, hidden, walked)
        if found:
            return found
    return ""


def _objection_to(place: Path, hidden: Sequence[str]) -> str:
    """What is against a place and the way to it."""
    for seen in dict.fromkeys((place, _real(place))):
        if covering := next((one for one in hidden if seen.is_relative_to(one)), ""):
            return f"{seen} lies in {covering}, which the gate of the machine does not see; {WAY_OUT}"
    if open_part := _open_part(place):
        return f"{open_part} can be changed by others than root, and {place} runs from there; {WAY_OUT}"
    return ""


def _objection_within(top: Path, hidden: Sequence[str], walked: set[tuple[int, int]]) -> str:
    """What is against anything in a folder, and in those that links in it lead to; fills `walked`."""
    left = [top]
    while left:
        folder = left.pop()
        about = folder.stat()
        if (about.st_dev, about.st_ino) in walked:
            continue
        walked.add((about.st_dev, about.st_ino))
        for path, entry in _entries(folder):
            if _is_open(entry):
                return f"{path} can be changed by others than root, and the gate would run it; {WAY_OUT}"
            if stat.S_ISLNK(entry.st_mode):
                if found := _objection_to(Path(path), hidden):
                    return found
                left += [real] if _is_walked(real := _real(Path(path))) else []
            elif stat.S_ISDIR(entry.st_mode):
                left.append(Path(path))
    return ""


def _entries(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Path and state of each; what goes meanwhile is nothing that runs."""
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                yield entry.path, entry.stat(follow_symlinks=False)


def _real(path: Path) -> Path:
    """Unlike `Path.resolve`, without an error for links that go round in a circle."""
    return Path(os.path.realpath(path))


def _is_walked(place: Path) -> bool:
    if not place.is_dir() or place == Path("/"):
        return False
    of_distribution = place.is_relative_to("/usr") and not place.is_relative_to("/usr/local/lib")
    return not of_distribution or not {"site-packages", "dist-packages"}.isdisjoint(place.parts)


def _is_open(found: os.stat_result) -> bool:
    """Whether another user could change it. A list of who may (ACL) shows as the group's bits."""
    writable = not stat.S_ISLNK(found.st_mode) and found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return found.st_uid != paths.ROOT or bool(writable)


def _open_part(path: Path) -> Path | None:
    """The first folder, link or file on the way to a path that another user could exchange; links are followed."""
    here, left, links = Path("/"), list(path.absolute().parts), 0
    while left:
        here = here.parent if (name := left.pop(0)) == ".." else here / name
        try:
            found = here.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        keeps = left and stat.S_ISDIR(found.st_mode) and found.st_uid == paths.ROOT and found.st_mode & stat.S_ISVTX
        if _is_open(found) and not keeps:
            return here
        if stat.S_ISLNK(found.st_mode):
            links += 1
            if links > MAX_LINKS:
                return None
            here, left = here.parent, [*here.readlink().parts, *left]
    return None


def of_this_python() -> Iterator[Path]:
    """The interpreter, what it reads at its start, and every folder it imports from."""
    import sparkgate

    yield from (Path(sys.executable), Path(sys.prefix), Path(sys.base_prefix))
    yield from (Path(one) for one in sys.path if one and Path(one).exists())
    yield from map(Path, sparkgate.__path__)
