"""Gates as data: what in a host's file keeps the tools of a server from its model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from sparkgate.clients.hosts.host import Data, Gate
from sparkgate.clients.hosts.reading import at, is_off, table, words

Row = Callable[[Data, Sequence[str]], Iterable[Gate]]


def gates(*rows: Row) -> Callable[[Data, Sequence[str]], Sequence[Gate]]:
    """Parsed file, names of servers → what each row finds."""
    return lambda data, names: [gate for row in rows for gate in row(data, names)]


@dataclass(frozen=True, slots=True)
class SwitchedOff:
    """The entry of a server has a switch of its own, and it is off; `key` leads to the table of servers."""

    key: tuple[str, ...]
    switch: str = "enabled"

    def __call__(self, data: Data, names: Sequence[str]) -> Iterable[Gate]:
        means_on = self.switch == "enabled"
        for name in names:
            value = at(data, *self.key, name, self.switch)
            if is_off(value) if means_on else value is True:
                where = ".".join((*self.key, name, self.switch))
                yield Gate("switched_off", f"{name} is switched off.", f"remove `{where}`")


@dataclass(frozen=True, slots=True)
class Denied:
    """A list at `key` has a word or pattern that matches one of `forms` of a server."""

    key: tuple[str, ...]
    forms: tuple[str, ...]
    code: str = "denied"

    def __call__(self, data: Data, names: Sequence[str]) -> Iterable[Gate]:
        given = words(at(data, *self.key))
        for name in names:
            if word := first_match(given, self.forms, name):
                where = ".".join(self.key)
                yield Gate(self.code, f"`{where}` hides {name} by {word!r}.", f"remove {word!r} from `{where}`")


@dataclass(frozen=True, slots=True)
class NotAllowed:
    """A list at `key` names what is shown, and none of `forms` of a server is in it.

    Attributes:
        empty_shows_all: an empty list is as none.
    """

    key: tuple[str, ...]
    forms: tuple[str, ...]
    code: str = "not_allowed"
    empty_shows_all: bool = False

    def __call__(self, data: Data, names: Sequence[str]) -> Iterable[Gate]:
        given = at(data, *self.key)
        if not isinstance(given, list) or (self.empty_shows_all and not given):
            return
        for name in names:
            if not first_match(words(given), self.forms, name):
                where, word = ".".join(self.key), self.forms[0].format(server=name)
                yield Gate(self.code, f"`{where}` does not name {name}.", f"add {word!r} to `{where}`")


@dataclass(frozen=True, slots=True)
class Has:
    """The value at `key` is `value`, which hides every server."""

    key: tuple[str, ...]
    value: Any
    code: str
    way_out: str

    def __call__(self, data: Data, names: Sequence[str]) -> Iterable[Gate]:
        given, where = at(data, *self.key), ".".join(self.key)
        if names and (type(given), given) == (type(self.value), self.value):
            yield Gate(self.code, f"`{where}` is {given!r}, which hides the tools of servers.", self.way_out)


def first_match(given: Sequence[str], forms: Sequence[str], name: str) -> str:
    """The first word of a list that, as a pattern, matches a form of a server's name."""
    wanted = [form.format(server=name) for form in forms]
    return next((word for word in given if any(fnmatchcase(form, word) for form in wanted)), "")


def servers_in(data: Data, *key: str) -> list[str]:
    """Names in the table of servers whose switch `enabled` is not off."""
    return [str(name) for name, entry in table(at(data, *key)).items() if not is_off(at(entry, "enabled"))]
