"""Who may use which toolset of a gate: the operator's `[access]`, and who is on the other side by the kernel's word."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sparkgate.access_settings import AccessSettings

ROOT = 0
CONTROL = "control"
"""Asked for by commands, not by hosts: how the gate is, and that it ends."""
FOR_ANY = frozenset({CONTROL, "confine"})
"""Open to whoever may use some toolset."""
GIVES = "the operator gives it in [access] of {config}"


@dataclass(frozen=True, slots=True)
class Asker:
    """The user at the other end of a connection.

    Attributes:
        uid: from SO_PEERCRED.
        user: its name, "" when it has none.
        groups: number and name of each of its groups, from SO_PEERGROUPS; None when the kernel did not tell.
    """

    uid: int
    user: str
    groups: frozenset[str] | None

    @property
    def keys(self) -> frozenset[str]:
        """What may stand for it in `[access.users]`."""
        return frozenset(_keys([self.uid], lambda _: self.user))

    @property
    def name(self) -> str:
        """As a person would say it."""
        return self.user or f"user {self.uid}"


def asker(uid: int, gids: Iterable[int] | None, user: Callable[[int], str], group: Callable[[int], str]) -> Asker:
    """Numbers with their names; `user` and `group` give the name of a number, "" for none."""
    return Asker(uid, user(uid), None if gids is None else frozenset(_keys(gids, group)))


def _keys(numbers: Iterable[int], name: Callable[[int], str]) -> Iterable[str]:
    """A name that looks like a number is none: it would stand for another user."""
    for number in numbers:
        yield str(number)
        if (named := name(number)) and not named.isdigit():
            yield named


def toolsets(access: AccessSettings, who: Asker) -> frozenset[str]:
    """What `[access]` gives a user: the union over its own entry and those of its groups, as far as they are told."""
    given = [words for name, words in access.users.items() if name in who.keys]
    given += [words for name, words in access.groups.items() if name in (who.groups or ())]
    return frozenset().union(*given)


def refusal(access: AccessSettings, who: Asker, toolset: str, own_uid: int, config: str, do: str = "") -> str:
    """Why this user may not have this toolset, or the models, or "" when it may.

    The gate's own user may everything, and so may root once `[access]` is given; both may always control the gate.
    Others may what `[access]` says; whoever may use something may also ask how the gate is.
    """
    if who.uid == own_uid or (who.uid == ROOT and (access.given or toolset == CONTROL)):
        return ""
    if not access.given:
        return f"this gate belongs to another user, and {who.name} may not use it; {GIVES.format(config=config)}"
    given = toolsets(access, who)
    if toolset == CONTROL and do == "stop":
        return f"{who.name} may not stop this gate; its own user and root may"
    if toolset in given or (toolset in FOR_ANY and given):
        return ""
    what = f"use {toolset[:20]} here" if given else "use this gate"
    untold = "; the kernel does not tell its groups" if who.groups is None else ""
    return f"{who.name} may not {what}{untold}; {GIVES.format(config=config)}"
