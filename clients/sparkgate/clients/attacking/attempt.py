"""One escape and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sparkgate.confine.canaries import Targets

State = Literal["closed", "open", "not tried"]


class NotTried(Exception):
    """The machine has nothing to try this on; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What the attempts are made on.

    Attributes:
        targets: canaries outside.
        config, socket, state: paths of the gate: its configuration, its socket, the folder of its log and keys.
        home: folder of the user.
    """

    targets: Targets
    config: str
    socket: str
    state: str
    home: str


@dataclass(frozen=True, slots=True)
class Attack:
    """An escape.

    Attributes:
        name: stable, for scripts.
        title: what it would be, in words.
        attempt: returns when it got through, and raises OSError when it did not.
    """

    name: str
    title: str
    attempt: Callable[[Reach], None]


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one: `how` is why it was closed, in the kernel's words."""

    name: str
    title: str
    state: State
    how: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def tried(attack: Attack, reach: Reach) -> Result:
    """Try it. What is no OSError counts as open: nothing is closed by a mistake of ours."""
    try:
        attack.attempt(reach)
    except NotTried as error:
        return Result(attack.name, attack.title, "not tried", str(error))
    except OSError as error:
        return Result(attack.name, attack.title, "closed", error.strerror or type(error).__name__)
    except Exception as error:
        return Result(attack.name, attack.title, "open", f"it could not be told: {type(error).__name__}")
    return Result(attack.name, attack.title, "open")


def first_open(attempts: Sequence[Callable[[], None]]) -> None:
    """Every one must fail; the first that does not is the way out. Raises OSError, that of the first attempt."""
    failed: OSError | None = None
    for attempt in attempts:
        try:
            return attempt()
        except OSError as error:
            failed = failed or error
    if failed:
        raise failed
