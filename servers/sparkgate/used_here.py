"""What this process runs and reads, as paths: whoever can change one of them needs no other way out."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import sparkgate
from sparkgate.settings import SettingsError, load


def used_here(config: Path) -> list[str]:
    """Interpreter and modules, folders in which programs are found by name, configuration, and commands of engines."""
    try:
        commands = [word for one in load(config).engines.values() for word in one.command]
    except SettingsError:
        commands = []
    modules = [sys.prefix, sys.base_prefix, *sys.path, *sparkgate.__path__]
    programs = os.environ.get("PATH", os.defpath).split(os.pathsep)
    files = [str(config), *map(str, config.parent.rglob("*"))]
    return [path for path in dict.fromkeys([*modules, *programs, *files, *commands]) if Path(path).is_absolute()]
