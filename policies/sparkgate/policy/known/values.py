"""Values that must never leave, and who the user is: read where they are kept, found wherever they stand.

A value is a `known-value` as a whole, and any part of at least 15 characters of one of 24 and more. What counts as a
value, and what does not, is said in `known_choice`; what is kept of it, in `known_index`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from sparkgate.policy.finding import Finding, Label
from sparkgate.policy.forms.view import View
from sparkgate.policy.known.canary import CANARY, canaries, make_canary
from sparkgate.policy.known.choice import Value
from sparkgate.policy.known.identity import Identity, Name, of_host, of_user
from sparkgate.policy.known.index import Digests, Index, Keyed
from sparkgate.policy.known.sources import (
    CANARIES,
    Contents,
    Places,
    Source,
    contents,
    environment,
    paths,
    patterns,
    read_text,
)

CONTINUATION = bytes(range(0x80, 0xC0))
"""Bytes of UTF-8 that begin no character."""
Signature = tuple[int, ...]


@dataclass(frozen=True, slots=True, repr=False)
class _Place:
    """What is kept of one place: a file, the environment, the account."""

    label: Label
    signature: Signature | None = None
    digests: Digests = field(default_factory=Digests)
    names: tuple[Name, ...] = ()
    note: str = ""


class KnownValues:
    """Finds what `places` hold, read now and again when `refresh` meets a change; without places it knows nothing.

    Args:
        key: at least 16 secret bytes that stay the same, as the canaries of the state folder are made with them.
        places: where to read.

    Raises:
        ValueError: the key is too short.
    """

    def __init__(self, key: bytes, places: Places | None = None) -> None:
        if len(key) < 16:
            raise ValueError(f"the key of the known values needs 16 bytes or more, not {len(key)}")
        self._key, self._keyed = key, Keyed(key)
        self._files: dict[Path, _Place] = {}
        self._fixed: list[_Place] = []
        self._patterns: list[tuple[str, Source]] = []
        self._home = places.home if places else Path()
        self._canaries = places.state / "canaries" if places and places.state else None
        if places:
            names = (*of_user(places.user, places.full_name, str(places.home)), *of_host(places.host, places.hosts))
            self._fixed = [self._place(environment(places), "the environment"), _Place(CANARY, names=names)]
            self._patterns = list(patterns(places))
        self._build()
        self.refresh()

    def __repr__(self) -> str:
        return f"KnownValues({self.count} values from {len(self._files) + 1} places)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("known values stay in the process that read them")

    @property
    def count(self) -> int:
        """How many values are known, those of several places counted once for each."""
        return sum(place.digests.count for place in self._places())

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be read, one sentence for each file, in which no value stands."""
        return tuple(place.note for place in self._places() if place.note)

    def refresh(self) -> bool:
        """Read what has changed, appeared or gone since; True when anything had. Never raises.

        It costs a stat of every file of the table: call it once a second, not for every text.
        """
        changed = False
        there: set[Path] = set()
        for path, source in self._paths():
            there.add(path)
            changed |= self._look(path, source)
        gone = self._files.keys() - there
        for path in gone:
            del self._files[path]
        if changed or gone:
            self._build()
        return bool(changed or gone)

    def make_canary(self, kind: str = "huggingface") -> str:
        """A fake credential to be planted, known from now on.

        Raises:
            CanaryError: no such kind.
            OSError: the state folder cannot be written, or there is none.
        """
        if self._canaries is None:
            raise FileNotFoundError("canaries need a state folder")
        value = make_canary(self._canaries, self._key, kind)
        self.refresh()
        return value

    def find(self, view: View, deadline: float) -> list[Finding]:
        """Every known value, part of one, and name of the user in a form, where exactly it stands.

        Raises:
            Overrun: `deadline` (time.monotonic seconds) passed.
        """
        raw = view.raw
        index, labels = self._index
        spans = index.find(raw, deadline)
        if not view.is_ascii:
            spans = [(number, _characters(raw, *span)) for number, span in spans]
        return [Finding(labels[number], *span) for number, span in spans] + self._identity.find(view, deadline)

    def _places(self) -> Iterable[_Place]:
        """The canaries first: they decide what a value is called that stands in several places."""
        files = self._files.values()
        yield from (place for place in files if place.label is CANARY)
        yield from self._fixed
        yield from (place for place in files if place.label is not CANARY)

    def _paths(self) -> Iterator[tuple[Path, Source]]:
        if self._canaries:
            yield self._canaries, CANARIES
        seen: set[Path] = set()
        for pattern, source in self._patterns:
            for path in paths(pattern, source):
                if path not in seen:
                    seen.add(path)
                    yield path, source

    def _look(self, path: Path, source: Source) -> bool:
        signature, before = _signature(path), self._files.get(path)
        if signature == (before.signature if before else None) and (before or source.take != "named"):
            return False
        if signature is None and source.take != "named":
            return self._files.pop(path, None) is not None
        self._files[path] = self._read(path, source, signature)
        return True

    def _read(self, path: Path, source: Source, signature: Signature | None) -> _Place:
        name = self._name(path)
        if source is CANARIES:
            return self._read_canaries(path, name, signature)
        return self._place(contents(path, source, self._home), name, signature)

    def _place(self, found: Contents, name: str, signature: Signature | None = None) -> _Place:
        label = Label("known-value", "secret", "block", "[known value]", f"A value of {name}, which must never leave.")
        note = f"{name} {found.note}" if found.note else ""
        return _Place(label, signature, self._keyed.digests(found.values), found.names, note)

    def _read_canaries(self, path: Path, name: str, signature: Signature | None) -> _Place:
        text, note = read_text(path)
        made = list(canaries(text, self._key))
        if None in made:
            note = note or "holds a canary that is damaged or was made with another key"
        digests = self._keyed.digests(Value(value) for value in made if value)
        return _Place(CANARY, signature, digests, note=f"{name} {note}" if note else "")

    def _name(self, path: Path) -> str:
        """A file as its user knows it, without the name of the user."""
        return f"~/{path.relative_to(self._home)}" if path.is_relative_to(self._home) else path.name

    def _build(self) -> None:
        places = list(self._places())
        index = Index(self._keyed, [place.digests for place in places])
        self._index = index, [place.label for place in places]
        self._identity = Identity(name for place in places for name in place.names)


def _signature(path: Path) -> Signature | None:
    """What changes when a file does; None when it is not there or may not be looked at."""
    try:
        seen = path.stat()
    except (OSError, ValueError):
        return None
    return seen.st_mtime_ns, seen.st_ctime_ns, seen.st_size, seen.st_ino


def _characters(raw: bytes, start: int, end: int) -> tuple[int, int]:
    """A byte span of UTF-8 text as str indices; a character that it cuts is inside."""
    return len(raw[: start + 1].translate(None, CONTINUATION)) - 1, len(raw[:end].translate(None, CONTINUATION))
