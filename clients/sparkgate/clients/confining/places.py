"""Where a host keeps its files, and where ours are."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import sparkgate
from sparkgate import paths
from sparkgate.clients.hosts import HOSTS
from sparkgate.clients.hosts.host import Where
from sparkgate.settings import Settings


def host_folders(program: str) -> Iterator[str]:
    """The folders of the host that `program` is; none when it is no host that is known, or not installed.

    Of a host that keeps its file in the home folder itself, it is that file.
    """
    home = Path(os.path.realpath(paths.home()))
    name = Path(program).name
    where = Where(home, os.environ)
    found: dict[str, None] = {}
    for host in HOSTS.values():
        for target in host.targets(where) if name in host.binaries else ():
            place = target.file if target.folder == home else target.folder
            if place.exists():
                found[str(place)] = None
    yield from found


def own_files(config: str, settings: Settings) -> Iterator[str]:
    """What of sparkgate's is to be absent: rules, log, keys, and the files of credentials that the settings name.

    The user's own folders are made where they are missing: one that came later would be in sight.
    """
    yield from (os.path.dirname(config), paths.state_dir())
    for folder in (f"{paths.own_config_home()}/sparkgate", paths.own_state_dir()):
        if not os.path.lexists(folder):
            paths.private_dir(folder)
        yield folder
    named = (settings.searxng.auth_file, settings.audit.head_file, *(one.key_file for one in settings.engines.values()))
    yield from (str(Path(name).expanduser()) for name in named if name)


def own_code() -> list[str]:
    """What the inside needs of this installation: the interpreter, and the folders of modules."""
    folders = [sys.prefix, sys.base_prefix, *sys.path, *(str(Path(one).resolve()) for one in sparkgate.__path__)]
    return [folder for folder in dict.fromkeys(folders) if os.path.isabs(folder) and os.path.exists(folder)]
