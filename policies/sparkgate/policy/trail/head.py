"""The head of the chain outside the database, so that rows taken off its end are missed."""

from __future__ import annotations

import errno
import json
import os
import re
import syslog
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkgate.policy.trail.chain import Chain, Head
from sparkgate.policy.trail.file import locked

LINE_BYTES = 160
"""Of the file, always: it is written in place, as its folder may belong to somebody else."""
LOCK_S = 0.1
"""Longest wait for another program that holds the head; the row is on the disk already."""
SYSLOG_EVERY_S = 600.0
IDENT = "sparkgate-audit"
_TOLD = re.compile(r"head (?P<seq>\d{1,18}):(?P<mac>[0-9a-f]{32}) signed (?P<signed>[0-9a-f]{32})")


@dataclass(frozen=True, slots=True)
class Anchor:
    """A head as it was kept; `at_s` are seconds since the epoch."""

    head: Head
    at_s: float


class HeadFile:
    """One line of JSON that says which link is the last.

    Args:
        path: made when absent (0600); it may belong to another user who lets this one write it.
        chain: signs what is written, and is asked whether what is read was signed.
    """

    def __init__(self, path: Path, chain: Chain) -> None:
        self.path = path
        self._chain = chain

    def write(self, head: Head) -> bool:
        """Keep `head` unless a later one is kept already; whether the file can be written."""
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError:
            return False
        try:
            if not locked(descriptor, LOCK_S):
                return False
            kept = self._parsed(os.pread(descriptor, LINE_BYTES, 0))
            if kept is None or kept.head.seq < head.seq:
                os.pwrite(descriptor, self._line(head), 0)
            return True
        except OSError:
            return False
        finally:
            os.close(descriptor)

    def rewind(self, head: Head) -> None:
        """Keep `head` though a later one is kept. Raises OSError."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            if not locked(descriptor, LOCK_S):
                raise OSError(errno.EAGAIN, "another program holds the head", str(self.path))
            os.pwrite(descriptor, self._line(head), 0)
        finally:
            os.close(descriptor)

    def read(self) -> Anchor | None:
        """What is kept; None when there is no file, or it holds nothing that was signed with the key."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            locked(descriptor, LOCK_S)  # so that no line is read while half of it is written
            return self._parsed(os.pread(descriptor, LINE_BYTES, 0))
        except OSError:
            return None
        finally:
            os.close(descriptor)

    def _line(self, head: Head) -> bytes:
        told = {"seq": head.seq, "mac": head.mac.hex(), "at": int(time.time()), "signed": self._chain.signed(head)}
        return json.dumps(told).ljust(LINE_BYTES - 1).encode() + b"\n"

    def _parsed(self, line: bytes) -> Anchor | None:
        try:
            told: dict[str, Any] = json.loads(line)
            head = Head(int(told["seq"]), bytes.fromhex(told["mac"]))
            return Anchor(head, float(told["at"])) if self._chain.is_signed(head, str(told["signed"])) else None
        except (ValueError, KeyError, TypeError, RecursionError):
            return None


def heads_told(text: str, chain: Chain) -> list[Anchor]:
    """The heads in lines that `SystemLog` wrote, those that were signed with this key."""
    found = []
    for told in _TOLD.finditer(text):
        head = Head(int(told["seq"]), bytes.fromhex(told["mac"]))
        if chain.is_signed(head, told["signed"]):
            found.append(Anchor(head, 0.0))
    return found


class SystemLog:
    """Tells the head to syslog (the journal, where there is one), now and then: there this user changes nothing.

    Args:
        chain: signs it.
        clock: seconds that do not go back.
    """

    def __init__(self, chain: Chain, clock: Callable[[], float] = time.monotonic) -> None:
        self._chain = chain
        self._clock = clock
        self._told_s = clock() - SYSLOG_EVERY_S

    def tell(self, head: Head, *, now: bool = False) -> None:
        """Tell it when the last time is long ago; with `now` at once."""
        at_s = self._clock()
        if now or at_s - self._told_s >= SYSLOG_EVERY_S:
            self._told_s = at_s
            syslog.openlog(IDENT, syslog.LOG_PID, syslog.LOG_AUTHPRIV)
            syslog.syslog(syslog.LOG_NOTICE, f"head {head.seq}:{head.mac.hex()} signed {self._chain.signed(head)}")
