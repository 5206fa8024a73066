"""Processes of this machine that may be engines: those that listen, and those whose command line says what they are."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sparkgate.discover.owners import NO_GROUP, NOBODY, Group, Owner, group_of
from sparkgate.discover.signs import NO_SIGN, Sign, port_of, sign_of, usual_port
from sparkgate.machine.files import text_of
from sparkgate.machine.listeners import Listener, listeners

PROC = Path("/proc")
NOT_HTTP: Mapping[int, str] = {
    21: "FTP",
    22: "SSH",
    23: "Telnet",
    25: "SMTP",
    53: "DNS",
    110: "POP3",
    111: "portmapper",
    139: "SMB",
    143: "IMAP",
    389: "LDAP",
    445: "SMB",
    465: "SMTP",
    587: "SMTP",
    631: "printing",
    636: "LDAP",
    873: "rsync",
    993: "IMAP",
    995: "POP3",
    1433: "SQL Server",
    1521: "Oracle",
    1883: "MQTT",
    2049: "NFS",
    2379: "etcd",
    2380: "etcd",
    3306: "MySQL",
    3389: "RDP",
    4222: "NATS",
    5432: "PostgreSQL",
    5672: "AMQP",
    5900: "VNC",
    6379: "Redis",
    6443: "Kubernetes",
    9092: "Kafka",
    10250: "kubelet",
    11211: "memcached",
    27017: "MongoDB",
    29500: "torch rendezvous",
}
"""Ports where something else than an engine listens, and which no request of ours should disturb."""
IN_CONTAINERS = ("docker", "podman", "kubernetes")
OURS = re.compile(r"(?:^|/)sparkgate(?:$|[./])")
OUR_WORDS = 4
"""So many words of a command line may name a program or a module of ours."""
FORWARDER = "docker-proxy"


@dataclass(frozen=True, slots=True)
class Seen:
    """A process; `argv` is () for the kernel's own."""

    pid: int
    parent: int
    argv: tuple[str, ...]
    group: Group
    uid: int = 0


@dataclass(frozen=True, slots=True)
class Candidate:
    """What may be an engine, before it is asked.

    Attributes:
        pids: processes that listen, the main one first; () when they may not be seen.
        argv: command of the main process. Never printed before it was searched for secrets.
        folder: where it was started, when that may be seen.
        same_user: whether this user may stop and start it.
        public: it is open to other machines.
        state: whether anything listens there, nobody does yet, or it was stopped.
        sign: what its command line or image says it is.
        weights: on this machine, where they are named by a path.
    """

    port: int
    host: str = "127.0.0.1"
    pids: tuple[int, ...] = ()
    argv: tuple[str, ...] = ()
    folder: str = ""
    group: Group = NO_GROUP
    same_user: bool = False
    public: bool = False
    state: Literal["listening", "silent", "stopped"] = "listening"
    sign: Sign = NO_SIGN
    weights: str = ""
    owner: Owner = NOBODY

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"


def processes(proc: Path = PROC) -> dict[int, Seen]:
    """Every process by its id."""
    found = (_seen(entry) for entry in proc.iterdir() if entry.name.isdecimal())
    return {one.pid: one for one in found if one}


def candidates(proc: Path = PROC) -> tuple[Candidate, ...]:
    """What listens on TCP ports of this machine, and engines that have started and do not listen yet.

    Left out are ports of `NOT_HTTP` and processes of sparkgate itself.
    """
    seen = processes(proc)
    listening = listeners(proc)
    heard = {pid for one in listening for pid in one.pids}
    found = [_listening(one, seen, proc) for one in listening if one.port not in NOT_HTTP]
    kept = [one for one in found if one]
    return (*kept, *_silent(seen, heard | {pid for one in kept for pid in one.pids}, {one.port for one in kept}, proc))


def ancestors(pid: int, seen: Mapping[int, Seen]) -> Iterator[int]:
    """A process, its parent, and so on."""
    met: set[int] = set()
    while pid in seen and pid not in met:
        yield pid
        met.add(pid)
        pid = seen[pid].parent


def family(pids: Iterable[int], seen: Mapping[int, Seen]) -> tuple[int, ...]:
    """These processes and all that descend from them."""
    roots = set(pids)
    return tuple(pid for pid in seen if roots.intersection(ancestors(pid, seen)))


def _listening(one: Listener, seen: Mapping[int, Seen], proc: Path) -> Candidate | None:
    """The listener of a port; what another user listens with is found by the port in its command line."""
    said = [] if one.pids else [pid for pid, other in seen.items() if _says_port(other, one.port)]
    pids = _main_first([pid for pid in (*one.pids, *said) if pid in seen], seen)
    if not pids:
        return Candidate(one.port, public=one.public)
    main = seen[pids[0]]
    sign = sign_of(main.argv)
    if os.getpid() in pids or (not sign.engine and any(OURS.search(word) for word in main.argv[:OUR_WORDS])):
        return None
    at_home = bool(sign.engine) and usual_port(main.argv, sign.engine) == one.port
    return _candidate(one.port, pids, main, sign if at_home else NO_SIGN, one.public, proc)


def _says_port(one: Seen, port: int) -> bool:
    engine = sign_of(one.argv).engine
    return bool(engine) and one.group.kind not in IN_CONTAINERS and usual_port(one.argv, engine) == port


def _silent(seen: Mapping[int, Seen], heard: set[int], ports: set[int], proc: Path) -> Iterator[Candidate]:
    """Engines by their command line that are not at their port, a wrapper and its engine once.

    One that listens elsewhere and names no port may have it from its environment, and is found there. What an engine
    that listens has started is its own.
    """
    named = {pid for pid, one in seen.items() if sign_of(one.argv).engine}
    open_ = named & heard
    busy = {pid for pid in named if port_of(seen[pid].argv) is None and open_.intersection(family([pid], seen))}
    named -= busy | {pid for pid in named if _above(pid, open_, seen)}
    named = {pid for pid in named if not any(seen[up].argv == seen[pid].argv for up in _above(pid, named, seen))}
    wrappers = {up for pid in named for up in _above(pid, named, seen)}
    for pid in sorted(named - wrappers):
        sign = sign_of(seen[pid].argv)
        port = usual_port(seen[pid].argv, sign.engine)
        if port not in ports and seen[pid].group.kind not in IN_CONTAINERS:
            yield _candidate(port, (pid,), seen[pid], sign, False, proc, "silent")


def _above(pid: int, named: set[int], seen: Mapping[int, Seen]) -> set[int]:
    return named.intersection(ancestors(pid, seen)) - {pid}


def _candidate(
    port: int,
    pids: tuple[int, ...],
    main: Seen,
    sign: Sign,
    public: bool,
    proc: Path,
    state: Literal["listening", "silent"] = "listening",
) -> Candidate:
    return Candidate(
        port=port,
        pids=pids,
        argv=main.argv,
        folder=_folder(proc / str(main.pid)),
        group=main.group,
        same_user=main.uid == os.getuid() and _bare(main) != FORWARDER,
        public=public,
        state=state,
        sign=sign,
    )


def _main_first(pids: list[int], seen: Mapping[int, Seen]) -> tuple[int, ...]:
    return tuple(sorted(pids, key=lambda pid: (seen[pid].parent in pids, pid)))


def _bare(one: Seen) -> str:
    return Path(one.argv[0]).name if one.argv else ""


def _seen(entry: Path) -> Seen | None:
    """A process by its folder in /proc; None when it is gone, or a zombie."""
    try:
        state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
        words = (entry / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        uid = entry.stat().st_uid
    except (OSError, ValueError):
        return None
    argv = tuple(os.fsdecode(word) for word in words) if words != [b""] else ()
    return None if state in "ZX" else Seen(int(entry.name), int(parent), argv, group_of(text_of(entry / "cgroup")), uid)


def _folder(entry: Path) -> str:
    try:
        return str((entry / "cwd").readlink())
    except OSError:
        return ""
