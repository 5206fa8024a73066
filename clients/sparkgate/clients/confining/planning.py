"""What the operator asked for, together with what is always so, as a plan."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from sparkgate import paths
from sparkgate.clients.confining.places import homes, host_folders, own_files
from sparkgate.confine.environment import scrubbed
from sparkgate.confine.plan import Plan, Wall
from sparkgate.confine.supervisor import folder_of
from sparkgate.confine.view import SHIELDED, BadView, Wish, shields, view, with_folder
from sparkgate.setting_tables import ConfineSettings
from sparkgate.settings import Settings
from sparkgate.used_here import used_here


def both(one: ConfineSettings, other: ConfineSettings) -> ConfineSettings:
    """What either asks for."""
    return ConfineSettings(**{row.name: getattr(one, row.name) + getattr(other, row.name) for row in fields(one)})


def planned(
    command: Sequence[str], settings: Settings, config: str, *, read_only: bool, best_effort: bool, wall: Wall | None
) -> Plan:
    """The plan of confining `command` as `settings.confine` says.

    Raises:
        BadView: something cannot be shown or written, or the folder it is to start in is gone.
    """
    asked = settings.confine
    sockets = absolute(asked.sockets)
    wish = Wish(
        homes=homes(),
        folder=_here(),
        write=[*absolute(asked.write), *host_folders(command[0])],
        read=[*absolute(asked.read), *sockets],
        used=used_here(Path(config)),
        ours=list(own_files(config, settings)),
        socket=paths.socket_path(config),
        socket_folder=folder_of(os.getpid()),
        best_effort=best_effort,
    )
    wish, note = (wish, "") if read_only else with_folder(wish)
    mounts = view(wish)
    shielded = [SHIELDED.format(place=mount.target) for mount in shields(wish.write, wish.used)]
    return Plan(
        argv=tuple(command),
        environment=scrubbed(os.environ, asked.env),
        folder=wish.folder,
        mounts=mounts,
        config=config,
        socket=wish.socket,
        shared=tuple(sockets),
        system=paths.means_system(),
        best_effort=best_effort,
        wall=wall,
        notes=(*filter(None, [note]), *shielded),
    )


def absolute(given: Sequence[str]) -> list[str]:
    """Paths from the folder this was started in, with `~` for the home folder."""
    return [os.path.abspath(Path(path).expanduser()) for path in given]


def _here() -> str:
    try:
        return os.path.realpath(Path.cwd())
    except OSError as error:
        raise BadView("the folder this was started in is gone; start it in another") from error
