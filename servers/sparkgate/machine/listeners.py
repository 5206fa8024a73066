"""Which TCP ports of this machine are listened on, and by which processes (Linux, `/proc/net/tcp`, proc(5))."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

LISTEN = "0A"
TABLES = ("net/tcp", "net/tcp6")
LOOPBACK = frozenset({"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"})


@dataclass(frozen=True, slots=True)
class Listener:
    """One port that is listened on; `public` when not on loopback alone, `pids` those that may be seen."""

    port: int
    public: bool
    pids: tuple[int, ...] = ()


def listeners(proc: Path = Path("/proc")) -> list[Listener]:
    """Every TCP port that is listened on, by number."""
    inodes, public = _listening(proc)
    owners = socket_owners(set(inodes), proc)
    ports: dict[int, set[int]] = defaultdict(set)
    for inode, port in inodes.items():
        ports[port] |= owners.get(inode, set())
    return [Listener(port, port in public, tuple(sorted(pids))) for port, pids in sorted(ports.items())]


def listening_pids(port: int, proc: Path = Path("/proc")) -> tuple[int, ...]:
    """Processes that listen on a TCP port and may be seen by this user; () also when nobody listens."""
    inodes, _ = _listening(proc)
    owners = socket_owners({inode for inode, found in inodes.items() if found == port}, proc)
    return tuple(sorted({pid for pids in owners.values() for pid in pids}))


def is_listened(port: int, proc: Path = Path("/proc")) -> bool:
    """Whether anybody listens on a TCP port, seen or not."""
    return port in _listening(proc)[0].values()


def _listening(proc: Path) -> tuple[dict[str, int], set[int]]:
    """(socket inode → port, ports that are open to more than loopback)."""
    inodes: dict[str, int] = {}
    public = set()
    for table in TABLES:
        for fields in _rows(proc / table):
            address, _, port = fields[1].partition(":")
            if fields[3] == LISTEN:
                inodes[fields[9]] = int(port, 16)
                public |= set() if address in LOOPBACK else {int(port, 16)}
    return inodes, public


def _rows(table: Path) -> list[list[str]]:
    try:
        return [line.split() for line in table.read_text().splitlines()[1:]]
    except OSError:
        return []


def socket_owners(inodes: set[str], proc: Path = Path("/proc")) -> dict[str, set[int]]:
    """Socket inode → processes that have it open and may be seen by this user."""
    owners: dict[str, set[int]] = defaultdict(set)
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    for entry in proc.glob("[0-9]*") if wanted else ():
        for target in wanted.keys() & set(_descriptors(entry / "fd")):
            owners[wanted[target]].add(int(entry.name))
    return owners


def _descriptors(folder: Path) -> list[str]:
    """What the open files of a process are; [] when it is gone or another user's."""
    targets = []
    with suppress(OSError):
        for entry in folder.iterdir():
            targets.append(str(entry.readlink()))
    return targets
