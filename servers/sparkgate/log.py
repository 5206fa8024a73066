"""The log of the process: one JSON line an event, on stderr, without text that came from a caller."""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from typing import Any, TextIO


def error(event: str, **fields: Any) -> None:
    """Write an event that needs a person's eye. `fields` must hold no text of a query or an answer."""
    _write("error", event, fields)


def info(event: str, **fields: Any) -> None:
    """Write an event of ordinary life."""
    _write("info", event, fields)


def describe(problem: BaseException) -> dict[str, Any]:
    """Type and place of an exception; its text may hold a query, so it is left out."""
    frames = traceback.extract_tb(problem.__traceback__)
    return {"exception": type(problem).__name__, "frames": [f"{one.filename}:{one.lineno}" for one in frames[-4:]]}


def _write(level: str, event: str, fields: dict[str, Any], stream: TextIO | None = None) -> None:
    line = {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "level": level,
        "event": event,
        **fields,
    }
    (stream or sys.stderr).write(json.dumps(line) + "\n")
    (stream or sys.stderr).flush()


class LibraryHandler(logging.Handler):
    """Takes what libraries log: where, how bad and which exception type, never their message.

    A library's message can echo a value it was given (pydantic does), so only its place is kept.
    """

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self._told: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """One line a second from each place, so that a fault that repeats does not fill the disk."""
        place = f"{record.name}:{record.lineno}"
        if record.created - self._told.get(place, 0.0) < 1.0:
            return
        self._told[place] = record.created
        fields: dict[str, Any] = {"logger": record.name, "at_line": f"{record.module}:{record.lineno}"}
        if record.exc_info and record.exc_info[1]:
            fields |= describe(record.exc_info[1])
        _write(record.levelname.lower(), "library", fields)


def capture_libraries() -> None:
    """Route the logging module through `LibraryHandler`, warnings and worse only."""
    logging.basicConfig(handlers=[LibraryHandler(logging.WARNING)], level=logging.WARNING, force=True)
