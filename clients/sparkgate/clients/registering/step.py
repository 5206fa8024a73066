"""What happens to one server or one door."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Action = Literal["add", "update", "keep", "same", "refuse", "remove", "absent"]


@dataclass(frozen=True, slots=True)
class Step:
    """`name` is of a server, or the code of a door; `why` is there where the action needs one."""

    name: str
    action: Action
    why: str = ""
