"""Doors as data: where a host's file says that its own way to the network is shut, and what to write to shut it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sparkgate.clients.hosts.host import Change, Data, Door
from sparkgate.clients.hosts.reading import at, reachable, words


@dataclass(frozen=True, slots=True)
class Listed:
    """Shut while the list at `key` has all of `names`, or all of one of the `others`; shutting it keeps what it has."""

    code: str
    what: str
    key: tuple[str, ...]
    names: tuple[str, ...]
    others: tuple[tuple[str, ...], ...] = ()

    def door(self, data: Data) -> Door | None:
        given = at(data, *self.key)
        has = words(given)
        missing = [name for name in self.names if name not in has]
        if not missing or any(set(others) <= set(has) for others in self.others):
            return None
        way_out = f"add {', '.join(missing)} to `{'.'.join(self.key)}`"
        if not reachable(data, self.key) or not (given is None or isinstance(given, list)):
            return Door(self.code, self.what, way_out)
        return Door(self.code, self.what, way_out, (Change(self.key, [*(given or ()), *missing]),))


@dataclass(frozen=True, slots=True)
class Switched:
    """Shut while the value at `key` is `shut`."""

    code: str
    what: str
    key: tuple[str, ...]
    shut: Any
    only_if_there: bool = False

    def door(self, data: Data) -> Door | None:
        given = at(data, *self.key)
        if (type(given), given) == (type(self.shut), self.shut) or (self.only_if_there and given is None):
            return None
        changes = (Change(self.key, self.shut),) if reachable(data, self.key) else ()
        return Door(self.code, self.what, f"set `{'.'.join(self.key)}` to {_written(self.shut)}", changes)


@dataclass(frozen=True, slots=True)
class ByPerson:
    """No file says it: a person has to."""

    code: str
    what: str
    way_out: str

    def door(self, _: Data) -> Door:
        return Door(self.code, self.what, self.way_out)


@dataclass(frozen=True, slots=True)
class Confined:
    """A tool that can do anything; a user can switch it off: by one of `names` in the list at `key`, or by false."""

    code: str
    what: str
    key: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def door(self, data: Data) -> Door | None:
        given = at(data, *self.key) if self.key else None
        if set(self.names) & set(words(given)) or given is False:
            return None
        return Door(self.code, self.what, CONFINE, confine=True)


CONFINE = "only confinement closes this: start the host by `sparkgate confine -- COMMAND`"
SHELL = Confined("shell", "Its shell reaches whatever this machine reaches, past the policy and the log.")
BROWSER = Confined("browser", "Its browser reaches the network past the policy and the log.")


def doors(*table: Listed | Switched | ByPerson | Confined) -> Callable[[Data], Sequence[Door]]:
    """Parsed file → those of the table that are open."""
    return lambda data: [found for one in table if (found := one.door(data))]


def _written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f'"{value}"'
