"""Level 3: the interpreter of an entry is there, will be there tomorrow, and has this sparkgate in it."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkgate import link
from sparkgate.clients.doctoring.child import Child
from sparkgate.clients.doctoring.finding import Finding
from sparkgate.clients.registering.interpreter import is_temporary, passing
from sparkgate.version import __version__

PATIENCE_S = 30.0
SCRIPT = """
import json, sys
from sparkgate.version import __version__
told = {"version": __version__}
try:
    from sparkgate import paths
    from sparkgate.arguments import parse_arguments
    told["socket"] = paths.socket_path(parse_arguments(sys.argv[1:])[1])
except (Exception, SystemExit):
    pass
print(json.dumps(told))
"""
"""Asked of the entry's own interpreter, in the child's environment: its sparkgate, and where that looks for a gate."""


@dataclass(frozen=True, slots=True)
class Probe:
    """What an interpreter says. `version` is "" when it has no sparkgate; `gate`: whether one runs already."""

    version: str = ""
    socket: str = ""
    gate: bool = False


def probe(child: Child) -> Probe | None:
    """Ask the interpreter; None when the command is none, or is not there, or has no folder to run in."""
    if child.flags is None or not child.program or not Path(child.folder).is_dir():
        return None
    told = _asked(child)
    socket = str(told.get("socket", ""))
    return Probe(str(told.get("version", "")), socket, gate_runs(socket))


def _asked(child: Child) -> dict[str, Any]:
    words = list(child.argv)
    arguments = words[words.index("-m") + 2 :]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired, ValueError):
        run = subprocess.run(
            [child.program, *(child.flags or ()), "-c", SCRIPT, *arguments],
            env=dict(child.environment),
            cwd=child.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        found = json.loads(run.stdout)
        return found if isinstance(found, dict) else {}
    return {}


def gate_runs(socket: str) -> bool:
    """Whether somebody listens there."""
    try:
        link.connect(socket).close()
    except BlockingIOError:
        return True
    except (OSError, link.Barred):
        return False
    return True


def examine_interpreter(server: str, child: Child, told: Probe | None, asked: bool, way_out: str) -> Iterator[Finding]:
    """Args:
    asked: whether the interpreter was to be started at all.
    way_out: what writes the entry anew.
    """
    if not child.program:
        yield _fail("absent", f"{server} is started by {_command(child)}, {_why_absent(child)}.", way_out, server)
        return
    if why := passing(child.program) or ("it is in a temporary folder" if is_temporary(child.program) else ""):
        words = f"{child.program} will not last: {why}."
        yield Finding("interpreter", "passing", "warn", words, "install sparkgate with pipx or uv tool", server)
    if child.flags is None:
        words = f"{child.argv[0]} is no Python interpreter; what it starts is told by the next level."
        yield Finding("interpreter", "wrapped", "skip", words, server=server)
    elif not asked or told is None:
        words = f"{child.program} is there; it was not started."
        yield Finding("interpreter", "there", "ok", words, server=server)
    else:
        yield _has(server, child, told, way_out)


def _has(server: str, child: Child, told: Probe, way_out: str) -> Finding:
    if not told.version:
        return _fail("no_sparkgate", f"{child.program} does not start, or has no sparkgate in it.", way_out, server)
    if told.version != __version__:
        words = f"{child.program} has sparkgate {told.version}, and this is {__version__}."
        return Finding("interpreter", "other_version", "warn", words, way_out, server)
    words = f"{child.program} has sparkgate {told.version}."
    return Finding("interpreter", "imports", "ok", words, server=server)


def _fail(code: str, words: str, way_out: str, server: str) -> Finding:
    return Finding("interpreter", code, "fail", words, way_out, server)


def _command(child: Child) -> str:
    return child.argv[0] if child.argv else "no command"


def _why_absent(child: Child) -> str:
    if not child.argv or "/" not in child.argv[0]:
        return "which is not on the PATH that the host gives it"
    file = Path(child.folder) / child.argv[0]
    return "which is not executable" if file.exists() else "which is not there"
