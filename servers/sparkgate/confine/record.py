"""What a confinement is, written where the inside can read it and cannot change it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sparkgate import paths
from sparkgate.confine.canaries import FOREIGN, Targets

RECORD = "confinement.json"


@dataclass(frozen=True, slots=True)
class Record:
    """One confinement.

    Attributes:
        name: as it stands in rows of the log.
        wall: who made the namespaces.
        missing: what could not be closed, and why.
        doors: model endpoints: name, port, engine.
        targets: canaries outside, to be tried.
        writable: what may be changed inside.
    """

    name: str
    wall: str
    missing: Mapping[str, str]
    doors: Sequence[Mapping[str, Any]]
    targets: Targets
    writable: Sequence[str]

    @property
    def told(self) -> str:
        """In one line, for people."""
        doors = ", ".join(f"{door['name']} at port {door['port']}" for door in self.doors) or "none"
        missing = f"; NOT CLOSED: {', '.join(self.missing)}" if self.missing else ""
        return f"confined as {self.name} by {self.wall}, models: {doors}{missing}"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def write(self, folder: str) -> None:
        with open(os.path.join(folder, RECORD), "w", encoding="utf-8") as file:
            json.dump(asdict(self), file)


def found(config: str) -> Record | None:
    """That of the confinement this process is in; None outside, where no such file is."""
    folder = os.path.dirname(paths.socket_path(config))
    try:
        with open(os.path.join(folder, RECORD), encoding="utf-8") as file:
            told = json.load(file)
        targets = Targets(**{**told["targets"], "path": os.path.join(folder, FOREIGN)})
        return Record(**{**told, "targets": targets})
    except (OSError, ValueError, KeyError, TypeError):
        return None
