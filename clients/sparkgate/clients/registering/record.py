"""What sparkgate has put into which file: `registrations.json` in the state folder, 0600, with a lock of its own.

Hosts refuse or strip keys they do not know, so this cannot stand in their files. It holds hashes of what was written,
which tell a change by the user from an older entry of ours. Of the values of a file it holds those that we have taken
the place of, so that they can be put back.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from sparkgate import paths
from sparkgate.clients.registering.refusal import Refused

VERSION = 1
PATIENCE_S = 60.0
PAUSE_S = 0.02


def sha(value: Any) -> str:
    """Of a plain value, whatever the order of its keys."""
    return sha_of(json.dumps(value, sort_keys=True, ensure_ascii=False, default=str).encode())


def sha_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True, slots=True)
class Entry:
    """One server in the file.

    Attributes:
        made: how many parents the splice made for it, to be taken out with it.
        owned: key of the entry → hashes of what we have written there; more than one while a write is under way.
        before: list of the entry of another program whose place it took; empty when there was none.
        cut: the text that was changed, before and after.
    """

    server: str
    made: int = 0
    owned: Mapping[str, list[str]] = field(default_factory=dict)
    before: list[Any] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Closed:
    """One value that was changed to close a door.

    Attributes:
        before: list of the value that was there; empty when there was none.
        hash: of the value we have written.
        cut: the text that was changed, before and after.
    """

    code: str
    key: list[str]
    before: list[Any]
    hash: str
    made: int = 0
    cut: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Registration:
    """One file of one host.

    Attributes:
        created: there was no file, and nobody but us has written it since.
        text_hash: of the file as we left it.
    """

    host: str
    profile: str
    file: str
    entries: tuple[Entry, ...] = ()
    closed: tuple[Closed, ...] = ()
    created: bool = False
    text_hash: str = ""
    version: str = ""
    at: str = ""

    def entry(self, server: str) -> Entry | None:
        return next((one for one in self.entries if one.server == server), None)

    def with_entry(self, entry: Entry) -> Registration:
        """Replaced where it stands, else last: entries are taken out in the opposite order."""
        known = {one.server: one for one in self.entries} | {entry.server: entry}
        return replace(self, entries=tuple(known.values()))

    def without_entry(self, server: str) -> Registration:
        return replace(self, entries=tuple(one for one in self.entries if one.server != server))

    def with_closed(self, closed: Closed) -> Registration:
        kept = [one for one in self.closed if one.key != closed.key]
        return replace(self, closed=(*kept, closed))

    @property
    def is_empty(self) -> bool:
        return not self.entries and not self.closed


def both(old: Registration, new: Registration) -> Registration:
    """What is true whether or not the file gets written: for the moment before."""
    entries = [replace(one, owned=_both_hashes(old.entry(one.server), one)) for one in new.entries]
    gone = [one for one in old.entries if new.entry(one.server) is None]
    undone = [one for one in old.closed if one.key not in [kept.key for kept in new.closed]]
    return replace(new, entries=(*entries, *gone), closed=(*new.closed, *undone))


def _both_hashes(old: Entry | None, new: Entry) -> dict[str, list[str]]:
    before = old.owned if old else {}
    return {key: sorted({*before.get(key, ()), *new.owned.get(key, ())}) for key in sorted({*before, *new.owned})}


class Record:
    """All registrations of this user."""

    def __init__(self, file: Path, known: Iterable[Registration]) -> None:
        self._file = file
        self._known = {(one.host, one.file): one for one in known}

    def of(self, host: str, file: Path, profile: str = "") -> Registration:
        return self._known.get((host, str(file))) or Registration(host, profile, str(file))

    def all(self) -> list[Registration]:
        return list(self._known.values())

    def put(self, registration: Registration) -> None:
        """Keep this one on disk; an empty one is forgotten.

        Raises:
            Refused: the state folder cannot be written.
        """
        place = (registration.host, registration.file)
        known = self._known.get(place)
        if registration == known or (registration.is_empty and known is None):
            return
        self._known[place] = registration
        if registration.is_empty:
            del self._known[place]
        self._save()

    def _save(self) -> None:
        data = {"version": VERSION, "registrations": [asdict(one) for one in self._known.values()]}
        try:
            handle, name = tempfile.mkstemp(prefix=f"{self._file.name}.", dir=self._file.parent)
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                json.dump(data, out, ensure_ascii=False, indent=1)
                out.flush()
                os.fsync(out.fileno())
            Path(name).replace(self._file)
        except OSError as error:
            raise Refused(f"cannot write {self._file}: {error.strerror}") from error


def default_file() -> Path:
    return Path(paths.own_state_dir()) / "registrations.json"


def load(file: Path) -> Record:
    """The record as it stands; an absent file is an empty one.

    Raises:
        Refused: it cannot be read.
    """
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        return Record(file, [_registration(one) for one in found["registrations"]])
    except FileNotFoundError:
        return Record(file, ())
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Refused(
            f"{file} cannot be read ({error}); move it away, and entries are told by their command"
        ) from error


def _registration(found: Mapping[str, Any]) -> Registration:
    entries = tuple(Entry(**one) for one in found["entries"])
    return Registration(**{**found, "entries": entries, "closed": tuple(Closed(**one) for one in found["closed"])})


@contextlib.contextmanager
def locked(file: Path, patience_s: float = PATIENCE_S) -> Iterator[Record]:
    """The record, for the one process that may write it and hosts' files now.

    Raises:
        Refused: another one holds it for too long, or the folder cannot be used.
    """
    try:
        paths.private_dir(str(file.parent))
        lock = os.open(file.with_suffix(".lock"), os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as error:
        raise Refused(f"cannot use {file.parent}: {error}") from error
    try:
        wait_for(lock, patience_s)
        yield load(file)
    finally:
        os.close(lock)


def wait_for(lock: int, patience_s: float) -> None:
    """Hold an open file alone, until it is closed.

    Raises:
        Refused: another one held it all the while.
        OSError: its file system knows no locks.
    """
    end = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError as error:
            if time.monotonic() > end:
                raise Refused("another `sparkgate register` is at work; try again") from error
            time.sleep(PAUSE_S)
