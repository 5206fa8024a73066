"""What there is to do for a host: its own file, and the files beside it that hold its doors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sparkgate.clients.hosts.entry import SERVER_NAMES, Launch
from sparkgate.clients.hosts.host import Door, Host, Target, Where, nothing
from sparkgate.clients.registering import apply, command, restore
from sparkgate.clients.registering.diff import shown
from sparkgate.clients.registering.plan import Site, Wish, adding, removing
from sparkgate.clients.registering.record import default_file, load
from sparkgate.clients.registering.refusal import Refused
from sparkgate.clients.registering.report import Job, Report, told
from sparkgate.clients.splice import CannotEdit

CarryOut = Callable[[apply.Work, Path], apply.Done]


@dataclass(frozen=True, slots=True)
class Place:
    """One profile of one host on this machine."""

    host: Host
    target: Target
    where: Where

    @property
    def how(self) -> str:
        return self.target.how or self.host.how

    @property
    def site(self) -> Site:
        return Site(self.target.format, self.target.key, self.host.entry, self.host.owned, self.host.doors)

    def beside(self) -> Iterator[tuple[Target, Site]]:
        """Its other files that hold doors."""
        for beside in self.host.beside:
            if beside.doors is not nothing:
                for target in list(beside.targets(self.where))[:1]:
                    yield target, Site(target.format, target.key, self.host.entry, self.host.owned, beside.doors)

    def about(self, file: Path) -> dict[str, Any]:
        return {
            "host": self.host.name,
            "title": self.host.title,
            "profile": self.target.profile,
            "file": str(file),
            "after": self.host.after,
        }


def adding_jobs(place: Place, launches: Sequence[Launch], wish: Wish) -> list[Job]:
    """Our entries, and what closes doors where that is wished."""
    if place.how == "print":
        return [_by_hand(place)]
    beside = [(_closing(place, target, site, wish)) for target, site in place.beside()]
    seen = [] if wish.close_doors else _open(beside)
    main = _main(place, lambda text, known: adding(place.site, launches, wish, text, known), launches, seen)
    return [main, *(_job(place, work) for work in beside if wish.close_doors)]


def removing_jobs(place: Place, wish: Wish) -> list[Job]:
    """Our entries out of its file, and doors as they were.

    Raises:
        Refused: the record cannot be read.
    """
    if place.how == "print":
        return [_by_hand(place)]
    names = tuple(SERVER_NAMES.values())
    jobs = [_main(place, lambda text, known: removing(place.site, names, wish, text, known))]
    known = {one.file for one in load(default_file()).all() if one.host == place.host.name}
    beside = [(target, site) for target, site in place.beside() if str(target.file) in known]
    return jobs + [_job(place, _reopening(place, target, site, wish)) for target, site in beside]


def restoring_job(place: Place) -> Job:
    """The newest copy back in its place."""
    target, about = place.target, place.about(place.target.file)
    if place.how != "file":
        return _failed(place, f"{place.host.why}; its copy is not put back by us")
    work = restore.Restore(place.host.name, target.profile, target.file, target.folder, place.site)
    return Job(
        lambda: _guarded(about, lambda: _restored(restore.look(work, default_file()), about)),
        lambda: _guarded(about, lambda: _restored(restore.carry_out(work, default_file()), about)),
    )


def open_doors(place: Place) -> list[Door]:
    """Its own ways to the network, as its files are now; those that cannot be read have none."""
    return _open(
        _closing(place, target, site, Wish()) for target, site in [(place.target, place.site), *place.beside()]
    )


def _open(works: Iterable[apply.Work]) -> list[Door]:
    found: list[Door] = []
    for work in works:
        try:
            found += apply.look(work, load(default_file())).plan.doors
        except Refused:
            continue
    return found


def _work(place: Place, target: Target, make: apply.Make) -> apply.Work:
    return apply.Work(place.host.name, place.target.profile, target.file, target.folder, make)


def _closing(place: Place, target: Target, site: Site, wish: Wish) -> apply.Work:
    return _work(place, target, lambda text, known: adding(site, (), wish, text, known))


def _reopening(place: Place, target: Target, site: Site, wish: Wish) -> apply.Work:
    return _work(place, target, lambda text, known: removing(site, (), wish, text, known))


def _main(place: Place, make: apply.Make, launches: Sequence[Launch] = (), doors: Sequence[Door] = ()) -> Job:
    work = _work(place, place.target, make)
    carry_out: CarryOut = apply.carry_out
    if place.how == "command" and place.host.commands:
        carry_out = partial(command.carry_out, site=place.site, launches=launches, commands=place.host.commands)
    return _job(place, work, carry_out, doors)


def _job(place: Place, work: apply.Work, carry_out: CarryOut = apply.carry_out, doors: Sequence[Door] = ()) -> Job:
    """Args:
    doors: open ones in other files of the host.
    """
    about = place.about(work.file)
    return Job(
        lambda: _guarded(about, lambda: told(apply.look(work, load(default_file())), doors, **about)),
        lambda: _guarded(about, lambda: told(carry_out(work, default_file()), doors, **about)),
    )


def _by_hand(place: Place) -> Job:
    """A host whose file is not ours to write."""
    return _failed(place, f"{place.host.why}; `sparkgate register --print {place.host.name}` shows what to put where")


def _failed(place: Place, why: str) -> Job:
    report = Report(**place.about(place.target.file), failed=True, why=(why,))
    return Job(lambda: report, lambda: report)


def _guarded(about: dict[str, Any], work: Callable[[], Report]) -> Report:
    try:
        return work()
    except Refused as error:
        return Report(**about, failed=True, why=(str(error),))
    except CannotEdit as error:
        return Report(**about, failed=True, why=(f"{about['file']}:{error}",))


def _restored(done: restore.Restored, about: dict[str, Any]) -> Report:
    return Report(
        **about,
        backup=str(done.backup or ""),
        changed=done.changed,
        would_change=done.would_change,
        why=(f"{done.source.name} is what it holds now." if done.changed else f"from {done.source.name}",),
        diff=shown(done.before, done.after, about["file"], done.words),
    )
