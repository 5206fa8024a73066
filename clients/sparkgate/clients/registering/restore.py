"""Putting the newest copy of a host's file back."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from sparkgate.clients.registering import backup, write
from sparkgate.clients.registering.apply import TRIES, kept_copy, too_busy
from sparkgate.clients.registering.diff import legible
from sparkgate.clients.registering.plan import Site, still_true
from sparkgate.clients.registering.reading import Found, find, private
from sparkgate.clients.registering.record import Record, load, locked
from sparkgate.clients.registering.refusal import Changed, Refused


@dataclass(frozen=True, slots=True)
class Restore:
    """One file of one host."""

    host: str
    profile: str
    file: Path
    folder: Path
    site: Site


@dataclass(frozen=True, slots=True)
class Restored:
    """Attributes:
    source: the copy that is put back.
    before: text of the file as it was found, None when there was none.
    backup: the copy of that.
    words: of both texts that may be shown.
    """

    source: Path
    before: str | None
    after: str
    would_change: bool = False
    changed: bool = False
    backup: Path | None = None
    words: frozenset[str] = frozenset()


def look(work: Restore, record_file: Path) -> Restored:
    """What `carry_out` would do.

    Raises:
        Refused: there is no copy, or the file has to be left as it is.
    """
    found = find(work.file, work.folder)
    private(found)
    source, data = _newest(work.file, backup.folder(record_file, found.real))
    known = load(record_file).of(work.host, work.file, work.profile)
    texts = [(text, known) for text in (_text(found.data), _text(data)) if text is not None]
    words = legible(work.site.format, work.site.key, texts)
    return Restored(source, _text(found.data), _text(data) or "", found.data != data, words=words)


def carry_out(work: Restore, record_file: Path) -> Restored:
    """Do it; what is replaced becomes the newest copy, so doing it twice changes nothing.

    Raises:
        Refused: nothing was written.
    """
    with locked(record_file) as record:
        for _ in range(TRIES):
            found = find(work.file, work.folder)
            private(found)
            write.clear(found.real)
            source, data = _newest(work.file, backup.folder(record_file, found.real))
            if found.data == data:
                return Restored(source, _text(data), _text(data) or "")
            with contextlib.suppress(Changed):
                with kept_copy(backup.folder(record_file, found.real), found) as copy:
                    write.replace(found, data)
                _remember(work, Found(found.real, data), record)
                return Restored(source, _text(found.data), _text(data) or "", True, True, copy)
    raise too_busy(work.file)


def _newest(file: Path, folder: Path) -> tuple[Path, bytes]:
    for copy in backup.copies(folder)[:1]:
        try:
            return copy, backup.load(copy)
        except OSError as error:
            raise Refused(f"{copy} cannot be read: {error.strerror}") from error
    raise Refused(f"there is no copy of {file} from before a change of sparkgate's")


def _remember(work: Restore, found: Found, record: Record) -> None:
    """Of a text that is not UTF-8 as little is known as of one that does not parse."""
    with contextlib.suppress(Refused):
        known = record.of(work.host, work.file, work.profile)
        record.put(still_true(work.site, found.text or "", known))


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")
