"""Which files of which hosts are looked at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sparkgate.clients.hosts.entry import SERVER_NAMES
from sparkgate.clients.hosts.host import Host, Target, Where
from sparkgate.clients.register_options import is_there
from sparkgate.clients.registering.jobs import Place
from sparkgate.clients.registering.record import Record

MARKS = tuple(name.encode() for name in ("sparkgate", *SERVER_NAMES.values()))
"""One of these stands in every entry of ours, also in a file that does not parse."""


def chosen(host: Host, where: Where, record: Record, profile: str, named: bool) -> Iterator[Place]:
    """Those with something of ours; the usual one where there is none. All if the host was named, else if it is here.

    Hosts share a project's file, so that there is an entry in it does not say that a host is here.
    """
    once = {one.file: one for one in reversed(host.targets(where))}
    targets = [one for one in reversed(once.values()) if not profile or one.profile == profile]
    ours = [one for one in targets if concerns_us(host, one, record)]
    for target in ours or targets[:1]:
        if named or (is_there(host, where) and target.folder.is_dir()):
            yield Place(host, target, where)


def concerns_us(host: Host, target: Target, record: Record) -> bool:
    """Whether there is something of ours in the file, or should be; it may be broken."""
    if not record.of(host.name, target.file).is_empty:
        return True
    try:
        data = target.file.read_bytes()
    except OSError:
        return False
    return any(mark in data for mark in MARKS)


def looked_for(hosts: Sequence[Host], where: Where) -> list[str]:
    """Host and folder, for when nothing is found."""
    firsts: list[tuple[Host, Target]] = [(host, target) for host in hosts for target in list(host.targets(where))[:1]]
    return [f"{host.title} ({target.folder})" for host, target in firsts]
