"""What a file of a host is to hold, as a pure function of what it holds, what we have written before, and a wish."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sparkgate.clients.hosts.entry import Launch
from sparkgate.clients.hosts.host import Data, Door, Format, nothing
from sparkgate.clients.registering.diff import legible
from sparkgate.clients.registering.doors import close, cut, put_back, reopen
from sparkgate.clients.registering.interpreter import lost
from sparkgate.clients.registering.record import Closed, Entry, Registration, sha, sha_of
from sparkgate.clients.registering.step import Action, Step
from sparkgate.clients.registering.values import MISSING, at, is_ours
from sparkgate.clients.splice import CannotEdit, drop, put, read
from sparkgate.version import __version__

NEW_TEXT: Mapping[Format, str] = {"json": "{}\n", "jsonc": "{}\n", "json5": "{}\n", "yaml": "", "toml": ""}
"""A file that is made begins so."""
HAND = "change it by hand, or use --replace"
PROGRAM = frozenset({"command", "cmd", "args"})
"""Keys of what an entry starts, over all hosts."""


@dataclass(frozen=True, slots=True)
class Site:
    """One file, and what belongs into it.

    Attributes:
        key: names that lead to the table of servers.
        entry: of a host: launch → what stands under the name of the server.
        doors: of a host: parsed file → its open doors.
    """

    format: Format
    key: tuple[str, ...]
    entry: Callable[[Launch], Mapping[str, Any]]
    owned: frozenset[str]
    doors: Callable[[Data], Sequence[Door]] = nothing


@dataclass(frozen=True, slots=True)
class Wish:
    """Attributes:
    replace: also what the user has changed, and entries that are not ours.
    close_doors: of the host, as far as its file can.
    """

    replace: bool = False
    close_doors: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """Attributes:
    text: of the whole file; None when there is to be none.
    registration: what is to be remembered.
    doors: that are open in the file as it is now.
    shut: codes of those that this closes.
    opened: codes of those that this opens again.
    stays: sentences on what the user has changed.
    words: of the text, before and after, that may be shown.
    """

    text: str | None
    registration: Registration
    steps: tuple[Step, ...] = ()
    doors: tuple[Door, ...] = ()
    shut: tuple[str, ...] = ()
    opened: tuple[str, ...] = ()
    stays: tuple[str, ...] = ()
    words: frozenset[str] = frozenset()

    @property
    def refused(self) -> bool:
        return any(step.action == "refuse" for step in self.steps)


def adding(site: Site, launches: Sequence[Launch], wish: Wish, text: str | None, known: Registration) -> Plan:
    """Our entries in the file, as this install needs them.

    Raises:
        CannotEdit: the text cannot be read, or not be changed without risk.
    """
    before = text
    text = NEW_TEXT[site.format] if text is None else text
    steps: list[Step] = []
    after = known
    for launch in launches:
        text, step, entry = _settle(site, launch, wish, text, known.entry(launch.server))
        steps.append(step)
        after = after.with_entry(entry) if entry else after
    doors = tuple(site.doors(read(text, site.format)))
    shut: tuple[str, ...] = ()
    if wish.close_doors:
        text, after, shut = close(text, site.format, site.doors, after)
    if before is None and after.is_empty:
        return Plan(None, after, tuple(steps), doors)
    words = _legible(site, (before, known), (text, after))
    return Plan(text, _stamped(after, known, before, text), tuple(steps), doors, shut, words=words)


def removing(site: Site, servers: Sequence[str], wish: Wish, text: str | None, known: Registration) -> Plan:
    """The file without our entries, as it was before where nothing else has changed.

    Args:
        servers: names that ours can have, beside those that are recorded.

    Raises:
        CannotEdit: the text cannot be read, or not be changed without risk.
    """
    if text is None:
        return Plan(
            None, replace(known, entries=(), closed=()), tuple(Step(one.server, "absent") for one in known.entries)
        )
    before, after = text, known
    steps: list[Step] = []
    text, after, stays, opened = reopen(text, site.format, after)
    written = [one.server for one in known.entries]
    there = at(read(text, site.format), site.key)
    unwritten = [name for name in servers if name not in written and at(there, (name,)) is not MISSING]
    for server in [*unwritten, *reversed(written)]:
        text, step = _take_out(site, server, wish, text, known.entry(server))
        steps.append(step)
        after = after if step.action == "refuse" else after.without_entry(server)
    stays = stays if steps or opened or stays else ("Nothing of sparkgate's is in it.",)
    ours_alone = known.created and known.text_hash == sha_of(before.encode())
    if after.is_empty and ours_alone and _hollow(read(text, site.format)):
        return Plan(None, after, tuple(steps), opened=opened, stays=stays, words=_legible(site, (before, known)))
    words = _legible(site, (before, known), (text, after))
    return Plan(text, _stamped(after, known, before, text), tuple(steps), opened=opened, stays=stays, words=words)


def _legible(site: Site, *texts: tuple[str | None, Registration]) -> frozenset[str]:
    return legible(site.format, site.key, [(text, known) for text, known in texts if text is not None])


Settled = tuple[str, Step, Entry | None]


def _settle(site: Site, launch: Launch, wish: Wish, text: str, known: Entry | None) -> Settled:
    """One server: a new entry, an older one of ours brought up to date, or one that is not ours."""
    place, wanted = (*site.key, launch.server), site.entry(launch)
    there = at(read(text, site.format), place)
    if there is MISSING or (wish.replace and not (isinstance(there, Mapping) and is_ours(there))):
        edit = put(text, site.format, place, wanted)
        entry = Entry(
            launch.server,
            edit.made,
            {key: [sha(value)] for key, value in wanted.items() if key in site.owned},
            *([] if there is MISSING else ([there], cut(text, edit.text))),
        )
        return edit.text, Step(launch.server, "add" if there is MISSING else "update"), entry
    if not isinstance(there, Mapping) or not is_ours(there):
        why = f"{'.'.join(place)} is there and not sparkgate's; {HAND}"
        return text, Step(launch.server, "refuse", why), None
    return _bring_up_to_date(site, place, there, wanted, wish, text, known or Entry(launch.server))


def _bring_up_to_date(
    site: Site,
    place: tuple[str, ...],
    there: Mapping[str, Any],
    wanted: Mapping[str, Any],
    wish: Wish,
    text: str,
    known: Entry,
) -> Settled:
    """Each key that is ours by itself: what the user has changed since stays.

    The command of an entry that came from another machine is nobody's change: where it starts nothing, it is ours.
    """
    kept, changed, owned = [], False, dict(known.owned)
    dead = lost(there)
    moved = PROGRAM if dead and not PROGRAM & owned.keys() else ()
    for key in [name for name in (*wanted, *there) if name in site.owned]:
        now, then = there.get(key, MISSING), wanted.get(key, MISSING)
        if now == then:
            owned |= {key: [sha(now)]}
        elif not wish.replace and key not in moved and not _as_written(now, known.owned.get(key)):
            kept.append(key)
        elif then is MISSING:
            text = drop(text, site.format, (*place, key)).text
            changed, _ = True, owned.pop(key, None)
        else:
            text = put(text, site.format, (*place, key), then).text
            changed, owned[key] = True, [sha(then)]
    if dead and PROGRAM & set(kept):
        why = f"{'.'.join(place)} starts {dead}, which is not there, and was changed by hand; {HAND}"
        return text, Step(known.server, "refuse", why, dead=True), None
    why = f"yours stays: {', '.join(dict.fromkeys(kept))}; --replace writes sparkgate's" if kept else ""
    action: Action = "update" if changed else "keep" if kept else "same"
    return text, Step(known.server, action, why, dead=bool(dead)), replace(known, owned=owned)


def _as_written(now: Any, hashes: Sequence[str] | None) -> bool:
    """Whether a value is one of ours; one that we never wrote and that is not there may be added."""
    if now is MISSING:
        return not hashes
    return sha(now) in (hashes or ())


def _take_out(site: Site, server: str, wish: Wish, text: str, known: Entry | None) -> tuple[str, Step]:
    place = (*site.key, server)
    there = at(read(text, site.format), place)
    if there is MISSING:
        return text, Step(server, "absent")
    if not wish.replace and not (isinstance(there, Mapping) and is_ours(there)):
        return text, Step(server, "refuse", f"{'.'.join(place)} is not sparkgate's; {HAND}")
    if known and known.before and isinstance(there, Mapping) and is_ours(there):
        theirs = Closed("", list(place), known.before, "", known.made, known.cut)
        return put_back(text, site.format, theirs), Step(server, "remove", "what it took the place of is there again")
    return drop(text, site.format, place, known.made if known else 0).text, Step(server, "remove")


def _stamped(after: Registration, known: Registration, before: str | None, text: str) -> Registration:
    """With what a later run needs to know of this text; as it was when nothing has changed."""
    if text == before and (after.entries, after.closed) == (known.entries, known.closed):
        return known
    untouched = before is None or (known.created and sha_of(before.encode()) == known.text_hash)
    return replace(after, created=untouched, text_hash=sha_of(text.encode()), version=__version__)


def _hollow(value: Any) -> bool:
    return not value or (isinstance(value, Mapping) and all(_hollow(inner) for inner in value.values()))


def still_true(site: Site, text: str, known: Registration) -> Registration:
    """What is remembered, without what is not in this text; all of it where the text cannot be read."""
    try:
        data = read(text, site.format)
    except CannotEdit:
        return known
    entries = tuple(one for one in known.entries if at(data, (*site.key, one.server)) is not MISSING)
    closed = tuple(one for one in known.closed if (now := at(data, one.key)) is not MISSING and sha(now) == one.hash)
    return replace(known, entries=entries, closed=closed, created=False, text_hash=sha_of(text.encode()))
