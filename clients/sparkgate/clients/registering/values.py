"""Looking into parsed files."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, Final

MISSING: Final[Any] = object()
"""Not there; None is a value."""
PYTHON = re.compile(r"^(?:python|pypy)[\d.]*(?:\.exe)?$")
SCRIPT = re.compile(r"^sparkgate-(?:search|engine|bench)(?:\.exe)?$")
MODULE = "sparkgate.stdio"
TOOLSETS = frozenset({"search", "engine", "bench"})


def at(data: Any, key: Sequence[str]) -> Any:
    """The value at a path of names; MISSING where there is none."""
    for name in key:
        if not isinstance(data, Mapping) or name not in data:
            return MISSING
        data = data[name]
    return data


def argv_of(entry: Any) -> list[str]:
    """Command and arguments, whichever way a host writes them down; none where there are two commands."""
    if not isinstance(entry, Mapping) or ("command" in entry and "cmd" in entry):
        return []
    command, arguments = entry.get("command", entry.get("cmd")), entry.get("args")
    words = command if isinstance(command, list) else [command, *(arguments if isinstance(arguments, list) else ())]
    return [str(word) for word in words if word is not None and word is not MISSING]


def is_ours(entry: Mapping[str, Any]) -> bool:
    """Whether an entry reads as one of sparkgate's: by its command and arguments alone, exactly as we write them.

    It says nothing of what the program of that name is: whoever writes the file says that.
    """
    words = argv_of(entry)
    name = _program(words[0]) if words else ""
    if PYTHON.match(name) or words[:1] == [sys.executable]:
        return words[1:4] == ["-I", "-m", MODULE] and words[4:5] != [] and words[4] in TOOLSETS
    serves = name in ("sparkgate", "sparkgate.exe") and words[1:2] == ["serve"]
    return serves or bool(SCRIPT.match(name))


def _program(command: str) -> str:
    """The name of a program; "" where it stands in a folder that depends on where the host runs."""
    path = PureWindowsPath(command) if "\\" in command else PurePosixPath(command)
    return path.name if path.is_absolute() or command == path.name else ""
