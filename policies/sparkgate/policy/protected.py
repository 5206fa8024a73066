"""What must not leave because it is ours: values that are known, and folders that are not released."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

from sparkgate.policy.code.fingerprints import Fingerprints, FolderError
from sparkgate.policy.known.sources import Places
from sparkgate.policy.known.values import KnownValues

VALUES_EVERY_S = 1.0
FOLDERS_EVERY_S = 10.0


class Protected:
    """Known values and fingerprints, kept up to date.

    Args:
        key: of the digests.
        places: where values are read.
        folders: that are not released.
        state: where fingerprints are kept.

    Raises:
        FolderError: a folder cannot be read.
        OSError: its fingerprints cannot be kept.
    """

    def __init__(self, key: bytes, places: Places, folders: Sequence[Path], state: Path) -> None:
        self.values = KnownValues(key, places)
        self.folders = tuple(
            Fingerprints.of_folder(folder, key, state / f"unreleased-{number}.fp")
            for number, folder in enumerate(folders, 1)
        )
        self._values_due_s = self._folders_due_s = 0.0
        self._reading: threading.Thread | None = None
        self._lost: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be read, without a value."""
        return (*self.values.notes, *self._lost)

    def refresh(self) -> None:
        """Look for changes when it is time: at values at once, at folders beside what else is done."""
        now_s = monotonic()
        if now_s >= self._values_due_s:
            self._values_due_s = now_s + VALUES_EVERY_S
            self.values.refresh()
        if self.folders and now_s >= self._folders_due_s and not (self._reading and self._reading.is_alive()):
            self._folders_due_s = now_s + FOLDERS_EVERY_S
            self._reading = threading.Thread(target=self._read_folders, name="unreleased", daemon=True)
            self._reading.start()

    def _read_folders(self) -> None:
        """What was known of a folder that is gone meanwhile stays known."""
        lost = []
        for folder in self.folders:
            try:
                folder.refresh()
            except (FolderError, OSError):
                lost.append(f"{folder.folder} cannot be read any more")
        self._lost = tuple(lost)
