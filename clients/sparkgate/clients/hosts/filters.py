"""Which part of its environment a host hands to a server, as data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kept:
    """Only these names; `insensitive` ones in any case."""

    names: frozenset[str]
    prefixes: tuple[str, ...] = ()
    insensitive: frozenset[str] = frozenset()

    def __call__(self, whole: Mapping[str, str]) -> dict[str, str]:
        return {name: value for name, value in whole.items() if self._keeps(name)}

    def _keeps(self, name: str) -> bool:
        return name in self.names or name.upper() in self.insensitive or name.startswith(self.prefixes)


@dataclass(frozen=True, slots=True)
class Without:
    """All but the names that match."""

    pattern: str

    def __call__(self, whole: Mapping[str, str]) -> dict[str, str]:
        return {name: value for name, value in whole.items() if not re.search(self.pattern, name, re.IGNORECASE)}


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


SDK = Kept(
    names("HOME LOGNAME PATH SHELL TERM USER"),
    insensitive=names(
        "APPDATA HOMEDRIVE HOMEPATH LOCALAPPDATA PATH PROCESSOR_ARCHITECTURE PROGRAMFILES SYSTEMDRIVE SYSTEMROOT TEMP "
        "USERNAME USERPROFILE"
    ),
)
"""`getDefaultEnvironment` of both MCP SDKs: hosts that add nothing to it."""


def everything(whole: Mapping[str, str]) -> dict[str, str]:
    return dict(whole)
