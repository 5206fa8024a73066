"""Hosts whose own command writes their file, because they rewrite it all the time: what we plan, it carries out."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sparkgate.clients.hosts.entry import Launch
from sparkgate.clients.hosts.host import Commands
from sparkgate.clients.registering import apply, backup
from sparkgate.clients.registering.apply import Done, Work
from sparkgate.clients.registering.plan import Site
from sparkgate.clients.registering.reading import find
from sparkgate.clients.registering.record import locked
from sparkgate.clients.registering.refusal import Refused
from sparkgate.clients.registering.values import MISSING, at
from sparkgate.clients.splice import read
from sparkgate.failures.diagnosis import without_secrets

PATIENCE_S = 120.0
SAID_MAX = 300
SECRET = ("env", "headers")
"""Keys of an entry that may hold what must not stand in the list of processes."""


def carry_out(work: Work, record_file: Path, *, site: Site, launches: Sequence[Launch], commands: Commands) -> Done:
    """Let the host's command add or remove each server that the plan changes, and look into the file afterwards.

    Raises:
        Refused: the command is not there, or failed, or the file does not say afterwards what was asked for.
    """
    with locked(record_file) as record:
        done = apply.look(work, record)
        if done.plan.refused:
            return done
        before, after = read(done.before or "", site.format), read(done.plan.text or "", site.format)
        if not done.would_change:
            record.put(done.plan.registration)
            return done
        found = find(work.file, work.folder)
        copies = backup.folder(record_file, found.real)
        copy = apply.copied(copies, found)
        backup.prune(copies)
        for server in [step.name for step in done.plan.steps]:
            was, wanted = (at(data, (*site.key, server)) for data in (before, after))
            if was != wanted:
                _tell(commands, server, was, wanted, _launch(launches, server), site)
                _verify(work, site, server, wanted)
        record.put(done.plan.registration)
        return replace(done, changed=True, backup=copy)


def _launch(launches: Sequence[Launch], server: str) -> Launch | None:
    return next((launch for launch in launches if launch.server == server), None)


def _tell(commands: Commands, server: str, was: Any, wanted: Any, launch: Launch | None, site: Site) -> None:
    """Remove what is there, as `add` refuses a name that is taken, and add; a failure puts back what was there."""
    if any(isinstance(entry, Mapping) and any(entry.get(name) for name in SECRET) for entry in (was, wanted)):
        raise Refused(
            f"{server} has an env or headers of yours, which a command line would show to everyone; change it by hand"
        )
    if was is not MISSING:
        _run(commands.remove(server))
    if wanted is MISSING or launch is None:
        return
    add, entry = commands.add(launch), json.dumps(site.entry(launch))
    try:
        _run(_with(add, entry, wanted))
    except Refused:
        if was is not MISSING:
            _run(_with(add, entry, was))
        raise


def _with(argv: Sequence[str], entry: str, wanted: Any) -> list[str]:
    """The command with the whole entry, what the user has added to it among it."""
    return [json.dumps(wanted) if word == entry else word for word in argv]


def _run(argv: Sequence[str]) -> None:
    program = shutil.which(argv[0])
    if program is None:
        raise Refused(f"there is no {argv[0]} on PATH, which writes this file; nothing was changed")
    try:
        run = subprocess.run(
            [program, *argv[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Refused(f"`{' '.join(argv[:3])}` failed: {error}") from error
    if run.returncode:
        said = without_secrets((run.stderr or run.stdout).strip()[-SAID_MAX:])
        raise Refused(f"`{' '.join(argv[:3])}` ended with {run.returncode}: {said}")


def _verify(work: Work, site: Site, server: str, wanted: Any) -> None:
    """Exit codes of such commands are no proof."""
    text = find(work.file, work.folder).text or ""
    if at(read(text, site.format), (*site.key, server)) != wanted:
        raise Refused(f"the command ended well, but {work.file} does not hold {server} as it should")
