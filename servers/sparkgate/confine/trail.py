"""What a path goes through: every entry of a folder, real, that could be replaced to make it lead elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator

MOST_LINKS = 40
"""After so many the kernel gives up as well (path_resolution(7))."""


def entries(path: str) -> Iterator[str]:
    """Each entry that resolving `path` looks up, as its real folder and its name, links before what they lead to.

    Of `/home/u/cfg/x` with a link `cfg -> dot`: `/home`, `/home/u`, `/home/u/cfg`, `/home/u/dot`, `/home/u/dot/x`.
    What is missing ends it.
    """
    real, left, links = "/", _names(os.path.abspath(path)), 0
    while left:
        name = left.pop(0)
        if name == "..":
            real = os.path.dirname(real)
            continue
        entry = os.path.join(real, name)
        yield entry
        if not os.path.islink(entry):
            real = entry
            continue
        links += 1
        if links > MOST_LINKS:
            return
        target = os.readlink(entry)
        left = _names(target) + left
        real = "/" if target.startswith("/") else real


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def holds(folder: str, path: str) -> bool:
    """Whether `path` is `folder` or lies below it, as they are written; both absolute."""
    return os.path.commonpath([folder, path]) == folder
