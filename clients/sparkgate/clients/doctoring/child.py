"""How a host would start a server from its entry: the argument vector, the environment and the folder."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkgate.clients.doctoring.entries import ENVIRONMENT
from sparkgate.clients.hosts.host import Host, Ways, Where
from sparkgate.clients.registering.values import PYTHON, argv_of

VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_]\w*)(?::-([^}]*))?\}")
TELLING = re.compile(r"(?:^|_)(?:API_?)?(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$", re.IGNORECASE)
SECRET_MIN_CHARS = 8
"""A shorter value may stand in any text by chance."""
PLANTED = "SPARKGATE_DOCTOR_TOKEN"
"""A variable of ours with a value that nothing may print."""


@dataclass(frozen=True, slots=True)
class Child:
    """Attributes:
    program: what the first word is found as; "" when it is not.
    secrets: values that must not turn up in what it prints.
    """

    argv: tuple[str, ...]
    program: str
    environment: Mapping[str, str]
    folder: str
    secrets: frozenset[str] = frozenset()

    @property
    def flags(self) -> tuple[str, ...] | None:
        """What stands between a Python interpreter and `-m`; None when the command is something else."""
        words = self.argv[1:]
        if not self.argv or not PYTHON.match(Path(self.argv[0]).name) or "-m" not in words:
            return None
        return words[: words.index("-m")]


def child_of(host: Host, entry: Mapping[str, Any], where: Where, planted: str = "") -> Child:
    """The child of this entry, when the host itself runs in the environment and the folder of `where`."""
    ways = host.ways
    whole = {**where.environment, **({PLANTED: planted} if planted else {})}
    argv = [_expanded(word, whole, ways) for word in argv_of(entry)]
    environment = _environment(host, ways, entry, whole)
    if ways.finds_beside and argv:
        argv[0] = re.sub(r"^~(?=/|$)", str(where.home), argv[0])
        environment["PATH"] = ":".join([str(Path(argv[0]).parent), environment.get("PATH", "")]).strip(":")
    start = str(where.project or where.home)
    folder = next((str(entry[key]) for key in ways.folder if isinstance(entry.get(key), str)), start)
    folder = str(Path(start) / _expanded(folder, whole, ways))
    return Child(tuple(argv), _found(argv, environment, folder), environment, folder, secrets_of(whole, environment))


def _environment(host: Host, ways: Ways, entry: Mapping[str, Any], whole: Mapping[str, str]) -> dict[str, str]:
    """What the host hands on, what the entry asks for, what the host adds."""
    passed = host.environment(whole) | {name: whole[name] for name in entry.get("env_vars") or () if name in whole}
    own = {name: value for key in ENVIRONMENT for name, value in _texts(entry.get(key)).items()}
    kept = {name: _expanded(value, whole, ways) for name, value in own.items() if not _drops(ways, name)}
    return passed | kept | dict(ways.adds)


def _texts(value: Any) -> dict[str, str]:
    return {str(name): str(one) for name, one in value.items()} if isinstance(value, Mapping) else {}


def _drops(ways: Ways, name: str) -> bool:
    return bool(ways.drops and re.search(ways.drops, name))


def _expanded(text: str, whole: Mapping[str, str], ways: Ways) -> str:
    """A variable that is not set stays as it is written."""
    if not ways.expands:
        return text
    return VARIABLE.sub(lambda found: whole.get(found[1], found[0] if found[2] is None else found[2]), text)


def _found(argv: list[str], environment: Mapping[str, str], folder: str) -> str:
    if not argv:
        return ""
    if "/" in argv[0]:
        file = Path(folder) / argv[0]
        return str(file) if shutil.which(str(file)) else ""
    return shutil.which(argv[0], path=environment.get("PATH", "")) or ""


def secrets_of(*environments: Mapping[str, str]) -> frozenset[str]:
    """Values of variables with a telling name."""
    pairs = [pair for environment in environments for pair in environment.items()]
    return frozenset(value for name, value in pairs if TELLING.search(name) and len(value) >= SECRET_MIN_CHARS)
