"""Carrying a plan out: read, plan, compare, replace, and from the start again when somebody else has written."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from sparkgate.clients.registering import backup, write
from sparkgate.clients.registering.plan import Plan
from sparkgate.clients.registering.reading import Found, find, private
from sparkgate.clients.registering.record import Record, Registration, both, locked
from sparkgate.clients.registering.refusal import Changed, Refused
from sparkgate.clients.splice import CannotEdit

TRIES = 5
Make = Callable[[str | None, Registration], Plan]


@dataclass(frozen=True, slots=True)
class Work:
    """One file of one host.

    Attributes:
        folder: of the host.
        make: text of the file, and what is remembered of it → what it is to hold.
    """

    host: str
    profile: str
    file: Path
    folder: Path
    make: Make


@dataclass(frozen=True, slots=True)
class Done:
    """Attributes:
    before: text as it was found.
    backup: the copy of it, when something was written.
    """

    plan: Plan
    before: str | None
    changed: bool = False
    backup: Path | None = None

    @property
    def would_change(self) -> bool:
        return self.plan.text != self.before


def look(work: Work, record: Record) -> Done:
    """What `carry_out` would do.

    Raises:
        Refused: the file has to be left as it is.
    """
    found = find(work.file, work.folder)
    private(found)
    return _planned(work, found, record)


def carry_out(work: Work, record_file: Path) -> Done:
    """Do it, all of it or nothing.

    Raises:
        Refused: nothing was written.
    """
    with locked(record_file) as record:
        for _ in range(TRIES):
            found = find(work.file, work.folder)
            private(found)
            write.clear(found.real)
            done = _planned(work, found, record)
            if done.plan.refused:
                return done
            if not done.would_change:
                record.put(done.plan.registration)
                return done
            with contextlib.suppress(Changed):
                copies = backup.folder(record_file, found.real)
                return replace(done, changed=True, backup=_written(work, found, done.plan, record, copies))
    raise too_busy(work.file)


def too_busy(file: Path) -> Refused:
    return Refused(f"{file} was written by another program at each of {TRIES} tries; stop that one and try again")


def _planned(work: Work, found: Found, record: Record) -> Done:
    try:
        text = found.text
        return Done(work.make(text, record.of(work.host, work.file, work.profile)), text)
    except CannotEdit as error:
        raise Refused(f"{found.real}:{error.line}:{error.column}: {error.why}; nothing was changed") from error


def _written(work: Work, found: Found, plan: Plan, record: Record, copies: Path) -> Path | None:
    """The record is written before the file as well, so that a kill between the two loses no knowledge."""
    known = record.of(work.host, work.file, work.profile)
    after = replace(plan.registration, at=datetime.now(UTC).isoformat(timespec="seconds"))
    with kept_copy(copies, found) as copy:
        record.put(both(known, after))
        try:
            if plan.text is None:
                write.remove(found)
            else:
                write.replace(found, found.encoded(plan.text))
        except (Changed, Refused):
            record.put(known)
            raise
    record.put(after)
    return copy


@contextlib.contextmanager
def kept_copy(copies: Path, found: Found) -> Iterator[Path | None]:
    """A copy of what is about to be replaced, gone again when it is not."""
    copy = copied(copies, found)
    try:
        yield copy
    except (Changed, Refused):
        if copy is not None:
            copy.unlink(missing_ok=True)
        raise
    backup.prune(copies)


def copied(copies: Path, found: Found) -> Path | None:
    """A copy of what is about to be replaced.

    Raises:
        Refused: it cannot be kept.
    """
    try:
        return None if found.data is None else backup.save(copies, found.real.name, found.data)
    except OSError as error:
        raise Refused(f"cannot keep a copy in {copies}: {error}; nothing was changed") from error
