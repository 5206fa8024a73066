"""Level 1: the host's file is there, reads, is this user's, and nobody else can put commands into it."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sparkgate.clients.doctoring.finding import Finding
from sparkgate.clients.hosts.host import Target
from sparkgate.clients.registering.reading import find
from sparkgate.clients.registering.refusal import Refused
from sparkgate.clients.splice import CannotEdit, read

NO_FILE = "There is no file yet."


def examine_file(target: Target) -> tuple[str, Any, list[Finding]]:
    """(text, as it parses, findings); what is broken has no data."""
    try:
        found = find(target.file, target.folder)
        text = found.text
        if text is None:
            return "", {}, [Finding("file", "no_file", "ok", NO_FILE)]
        data = read(text, target.format)
    except Refused as error:
        return "", {}, [Finding("file", "unreadable", "fail", f"{error}.", "repair the file, or its owner and rights")]
    except CannotEdit as error:
        return "", {}, [_broken(target, error)]
    return text, data, list(_exposed(found.real)) or [Finding("file", "reads", "ok", f"It reads as {target.format}.")]


def _broken(target: Target, error: CannotEdit) -> Finding:
    """With the place in it, for people and for editors."""
    facts = {"line": error.line, "column": error.column}
    return Finding("file", "broken", "fail", f"{target.file}:{error}.", "repair this line", facts=facts)


def _exposed(real: Path) -> Iterator[Finding]:
    """Whoever writes this file says which commands the host starts."""
    if writable_by_others(real.stat().st_mode):
        yield Finding("file", "writable", "fail", f"Others can write {real}.", f"chmod go-w {real}")
    mode = real.parent.stat().st_mode
    if writable_by_others(mode) and not mode & stat.S_ISVTX:
        yield Finding("file", "folder_writable", "fail", f"Others can replace {real}.", f"chmod go-w {real.parent}")


def writable_by_others(mode: int) -> bool:
    return bool(mode & (stat.S_IWOTH | stat.S_IWGRP))
