"""Where a host keeps its files, and where ours are."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sparkgate import paths
from sparkgate.clients.hosts import HOSTS
from sparkgate.clients.hosts.host import Where
from sparkgate.settings import Settings


def homes() -> list[str]:
    """HOME, and the account's own where that is another."""
    found = [os.path.realpath(paths.home())]
    with suppress(KeyError):
        found.append(os.path.realpath(pwd.getpwuid(os.getuid()).pw_dir))
    return [home for home in dict.fromkeys(found) if home != "/"]


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
            places = [target.file] if target.file.parent == home else []
            places += [target.folder] if target.folder != home else []
            found |= {os.path.realpath(place): None for place in places if place.exists()}
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
