"""Whether the interpreter that an entry names will still be there tomorrow."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sparkgate.clients.registering.values import argv_of, is_ours

CACHED = (
    (re.compile(r"/uv/(?:archive|environments|builds)-"), "uv keeps it in its cache"),
    (re.compile(r"/pipx/(?:\.cache|cache)/|/\.cache/pipx/"), "pipx keeps it in its cache"),
    (re.compile(r"/\.(?:tox|nox)/"), "a test run has made it"),
)
"""Part of a path → why another program takes it away unasked."""
TEMPORARY = re.compile(r"^/(?:private/)?(?:var/)?tmp/|^/(?:private/)?var/folders/|^/dev/shm/")


def passing(interpreter: str) -> str:
    """Why another program will take this interpreter away; "" when nothing says so."""
    return next((why for pattern, why in CACHED if pattern.search(interpreter)), "")


def is_temporary(interpreter: str) -> bool:
    """Whether it lies where a machine may clean up when it starts; whoever put it there may know that."""
    return bool(TEMPORARY.search(interpreter)) or Path(interpreter).is_relative_to(tempfile.gettempdir())


def lost(entry: Any) -> str:
    """The interpreter of an entry of ours when it is not on this machine; "" when it is, or the host looks it up."""
    if not isinstance(entry, Mapping) or not is_ours(entry):
        return ""
    command = argv_of(entry)[0]
    return command if Path(command).is_absolute() and not Path(command).exists() else ""
