"""Whether what an entry names may be started: a file in a folder of work may be anybody's, as in a clone."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sparkgate import paths
from sparkgate.arguments import GATES
from sparkgate.clients.doctoring.case import Case
from sparkgate.clients.doctoring.child import Child
from sparkgate.clients.doctoring.entries import ENVIRONMENT
from sparkgate.clients.doctoring.finding import Finding
from sparkgate.clients.registering.record import sha
from sparkgate.clients.registering.values import MODULE, is_ours

COMMAND = ("command", "cmd", "args")
FOLDER = ("cwd", "workingDirectory")
HARMLESS = re.compile(r"^(?:LANG|LC_[A-Z]+|TZ|TERM|COLUMNS|NO_COLOR)$")
"""Variables that say nothing of what is run, what is read and what is connected to."""
PROJECT = "project"
"""Profile of files in the folder of work."""


def is_trusted(case: Case, server: str, child: Child) -> bool:
    """The user says so, or `register` has written the command, or it is this sparkgate and nothing else."""
    entry = case.entry(server)
    if case.trusts or not child.program:
        return case.trusts
    plain = _is_plain(entry)
    if _is_recorded(case, server, entry):
        return plain or case.place.target.profile != PROJECT
    return plain and is_ours(entry) and _is_this_one(child) and _asks_for_nothing_else(case, child)


def not_trusted(case: Case, server: str, child: Child) -> Finding:
    words = f"{server} was not started: {case.place.target.file} names what to run, and sparkgate has not written that."
    facts = {"program": child.program}
    return Finding("spawn", "not_trusted", "warn", words, _way_out(case), server, facts)


def _way_out(case: Case) -> str:
    look = f"`sparkgate doctor --as-host {case.host.name}` prints what it names"
    return f"{look}; if you trust that, `sparkgate doctor --trust` starts it; `{case.register} --replace` writes ours"


def _is_recorded(case: Case, server: str, entry: Mapping[str, Any]) -> bool:
    """Whether command and arguments are as this sparkgate has written them into this very file."""
    known = case.known.entry(server)
    keys = [key for key in COMMAND if key in entry]
    return known is not None and bool(keys) and all(sha(entry[key]) in known.owned.get(key, ()) for key in keys)


def _is_plain(entry: Mapping[str, Any]) -> bool:
    """No variable that could matter, and no folder that depends on where the host runs."""
    variables = [entry[key] for key in ENVIRONMENT if entry.get(key) is not None]
    folders = [entry[key] for key in FOLDER if entry.get(key) is not None]
    return all(
        isinstance(one, Mapping) and all(HARMLESS.match(str(name)) for name in one) for one in variables
    ) and all(isinstance(one, str) and Path(one).is_absolute() for one in folders)


def _is_this_one(child: Child) -> bool:
    """The interpreter that runs now, at the same place: another environment links to the same file."""
    words = [child.argv[0], child.program]
    return all(Path(word).is_absolute() and _place(word) == _place(sys.executable) for word in words)


def _place(program: str) -> tuple[Path, Path]:
    return Path(program).parent.resolve(), Path(program).resolve()


def _asks_for_nothing_else(case: Case, child: Child) -> bool:
    """Only the user's own configuration and folders."""
    words = [word for word in child.argv[5:] if word not in GATES]
    options, values = words[::2], words[1::2]
    own = {
        "--config": {case.config, paths.default_config_path()},
        "--env": {f"{name}={folder}" for name, folder in paths.moved_places().items()},
    }
    pairs = list(zip(options, values, strict=False))
    known = all(name == "--host" or value in own.get(name, ()) for name, value in pairs)
    return child.argv[1:4] == ("-I", "-m", MODULE) and len(options) == len(values) and known
