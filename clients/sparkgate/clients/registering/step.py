"""What happens to one server or one door."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Action = Literal["add", "update", "keep", "same", "refuse", "remove", "absent"]


@dataclass(frozen=True, slots=True)
class Step:
    """What happens to one.

    Attributes:
        name: of a server, or the code of a door.
        why: where the action needs one.
        dead: the entry as it is names an interpreter that is not there.
    """

    name: str
    action: Action
    why: str = ""
    dead: bool = False
