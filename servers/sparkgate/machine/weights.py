"""The size on disk of a model's weights."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

GIB = 1024.0**3
KINDS = ("*.safetensors", "*.gguf", "*.bin")
"""Patterns of weight files. A folder may hold the same weights in two formats; the first that is there is loaded."""
WHOLE_COPY = "consolidated"
"""Beginning of the names of a second copy of the same weights in one format."""

_PART = re.compile(r"(?P<stem>.+)-\d{5}-of-(?P<count>\d{5})(?P<suffix>\.\w+)")


def weights_gib(path: str) -> float | None:
    """GiB of the weights at `path`, each real file once; None when there are none or they cannot be read.

    `path` is a weight file (of a split one any part stands for all), a folder with weight files, or a
    `models--ORG--NAME` folder of the Hugging Face cache, of which the snapshot of refs/main counts.
    """
    if not path:
        return None
    try:
        place = Path(path).expanduser()
        files = _in_folder(_snapshot(place)) if place.is_dir() else _parts(place)
        sizes_bytes = {(file.st_dev, file.st_ino): file.st_size for file in map(os.stat, files)}
    except (OSError, RuntimeError):  # RuntimeError: `~name` of nobody
        return None
    return sum(sizes_bytes.values()) / GIB or None


def _parts(file: Path) -> list[Path]:
    """All parts of a split file, or the file alone."""
    part = _PART.fullmatch(file.name)
    if not part or not file.is_file():
        return _there([file])
    return [other for other in _there(file.parent.iterdir()) if _same_set(part, _PART.fullmatch(other.name))]


def _same_set(one: re.Match[str], other: re.Match[str] | None) -> bool:
    return other is not None and one.groups() == other.groups()


def _in_folder(folder: Path) -> list[Path]:
    """Weight files of one format in a folder or, when it has none, in the folders directly in it."""
    for pattern in (*KINDS, *(f"*/{kind}" for kind in KINDS)):
        if found := _there(folder.glob(pattern)):
            return [file for file in found if not file.name.startswith(WHOLE_COPY)] or found
    return []


def _there(files: Iterable[Path]) -> list[Path]:
    """Files that exist: a link of an unfinished download leads nowhere."""
    return [file for file in files if file.is_file()]


def _snapshot(folder: Path) -> Path:
    """The snapshot to load of a folder of the Hugging Face cache; the folder itself when it is none."""
    snapshots = folder / "snapshots"
    if not snapshots.is_dir():
        return folder
    main = folder / "refs" / "main"
    chosen = snapshots / main.read_text(encoding="utf-8", errors="replace").strip() if main.is_file() else snapshots
    if chosen != snapshots and chosen.is_dir():
        return chosen
    return max((one for one in snapshots.iterdir() if one.is_dir()), key=_changed_ns, default=folder)


def _changed_ns(folder: Path) -> int:
    return folder.stat().st_mtime_ns
