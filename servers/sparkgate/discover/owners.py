"""Who owns what runs on this machine, asked without changing anything: containers, units, and what a pod is part of."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sparkgate.engines.spec import line
from sparkgate.machine.commands import Completed, Run
from sparkgate.runtimes.owner import at, listed, number, parsed, texts
from sparkgate.runtimes.systemd import argv_of

ASK_S = 15.0
Kind = Literal["", "kubernetes", "docker", "podman", "user", "system"]
GROUPS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("kubernetes", re.compile(r"kubepods.*[/-](?P<id>[0-9a-f]{64})(?:\.scope)?$")),
    ("docker", re.compile(r"(?:/docker/|docker-)(?P<id>[0-9a-f]{64})")),
    ("podman", re.compile(r"libpod-(?P<id>[0-9a-f]{64})")),
    ("user", re.compile(r"/user@(?P<uid>\d+)\.service/(?:.*/)?(?P<id>[^/]+\.service)(?:/|$)")),
    ("system", re.compile(r"/system\.slice/(?:.*/)?(?P<id>[^/]+\.service)(?:/|$)")),
)
"""(who made a control group, how its path looks), the inner ones first."""
SPARKRUN = re.compile(r"sparkrun_[0-9a-f]{8,16}(?:_[0-9a-f]{12})?(?![0-9a-f])")
HELPERS = ("docker.service", "containerd.service", "k3s.service", "snap.docker.dockerd.service")
"""Units that start the processes of others."""

DOCKER_LIST = ("docker", "ps", "-a", "-q", "--no-trunc")
DOCKER_INSPECT = ("docker", "container", "inspect")
UNIT_LIST = ("list-unit-files", "--type=service", "--no-legend", "--no-pager", "--plain")
UNIT_SHOW = ("show", "--no-pager", "-p", "Id,ActiveState,MainPID,ExecStart")
SPARKRUN_LIST = ("sparkrun", "status", "--json")


@dataclass(frozen=True, slots=True)
class Group:
    """The control group of a process: who made it, and the id of its container or the name of its unit."""

    kind: Kind = ""
    id: str = ""
    uid: int | None = None


@dataclass(frozen=True, slots=True)
class Owner:
    """`runtime` and `unit` as the catalogue has them; no runtime for what is only watched. `notes` say why."""

    runtime: str = ""
    unit: str = ""
    notes: tuple[str, ...] = ()


NO_GROUP, NOBODY = Group(), Owner()


@dataclass(frozen=True, slots=True)
class Container:
    """A container of docker. `ports` are (on this machine, inside, open to others); `mounts` (inside, outside)."""

    id: str
    name: str
    image: str
    argv: tuple[str, ...]
    running: bool
    pid: int = 0
    ports: tuple[tuple[int, int, bool], ...] = ()
    host_network: bool = False
    mounts: Mapping[str, str] | None = None
    removed_at_end: bool = False

    def outside(self, path: str) -> str:
        """A path inside as this machine has it; "" when it is not mounted."""
        for inside, outside in sorted((self.mounts or {}).items(), reverse=True):
            if path == inside or path.startswith(inside.rstrip("/") + "/"):
                return outside.rstrip("/") + path[len(inside.rstrip("/")) :]
        return ""


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of systemd; `name` as the catalogue has it (`user:` before those of the user manager)."""

    name: str
    argv: tuple[str, ...] = ()
    active: bool = False
    pid: int = 0


def group_of(text: str) -> Group:
    """The control group of a process from its `/proc/PID/cgroup`."""
    for kind, pattern in GROUPS:
        for row in text.splitlines():
            if found := pattern.search(row.rpartition(":")[2]):
                told = found.groupdict()
                return Group(kind, told["id"], int(told["uid"]) if told.get("uid") else None)
    return NO_GROUP


# -- docker


def containers(run: Run) -> tuple[tuple[Container, ...], str]:
    """All containers, stopped ones too, and why they cannot be told."""
    ended = run(DOCKER_LIST, ASK_S)
    ids = [word for word in ended.stdout.split() if word.isalnum()] if ended.ok else []
    told = parsed(run((*DOCKER_INSPECT, *ids), ASK_S).stdout) if ids else []
    return tuple(_container(one) for one in listed(told) if isinstance(one, dict)), silence("docker", ended)


def _container(found: Mapping[str, Any]) -> Container:
    host = at(found, "HostConfig")
    running = at(found, "State", "Running") is True
    return Container(
        id=line(at(found, "Id")),
        name=line(at(found, "Name")).lstrip("/"),
        image=line(at(found, "Config", "Image")),
        argv=(*texts([at(found, "Path")]), *texts(found, "Args")),
        running=running,
        pid=number(found, "State", "Pid"),
        ports=tuple(_ports(at(found, "NetworkSettings", "Ports") if running else at(host, "PortBindings"))),
        host_network=at(host, "NetworkMode") == "host",
        mounts={str(at(one, "Destination")): str(at(one, "Source")) for one in listed(found, "Mounts")},
        removed_at_end=at(host, "AutoRemove") is True,
    )


def _ports(bindings: Any) -> Iterator[tuple[int, int, bool]]:
    for inside, places in bindings.items() if isinstance(bindings, dict) else ():
        number_, _, protocol = inside.partition("/")
        for place in places or () if protocol in ("", "tcp") else ():
            port = str(at(place, "HostPort"))
            if port.isdecimal() and int(port) and number_.isdecimal():
                yield int(port), int(number_), not str(at(place, "HostIp")).startswith(("127.", "::1"))


def owner_of_container(one: Container, run: Run) -> Owner:
    """docker, or sparkrun for what it has started; then the recipe is asked for."""
    job = SPARKRUN.match(one.name)
    if job:
        recipe = _recipe(parsed(run(SPARKRUN_LIST, ASK_S).stdout), job[0])
        note = f"sparkrun has started it as {job[0]}: add runtime and unit with the name of its recipe"
        return Owner("sparkrun", recipe) if recipe else Owner(notes=(note,))
    rm = "docker removes this container at its end: add the command that creates it anew" if one.removed_at_end else ""
    return Owner("docker", one.name, (rm,) if rm else ())


def _recipe(answer: Any, job: str) -> str:
    """The recipe of a job, wherever the answer lists it; "" when it does not."""
    if isinstance(answer, list):
        return next((found for one in answer if (found := _recipe(one, job))), "")
    if not isinstance(answer, dict):
        return ""
    mine = any(isinstance(value, str) and value.startswith(job) for value in answer.values())
    said = at(answer, "meta", "recipe") or at(answer, "metadata", "recipe") or at(answer, "recipe")
    if mine and isinstance(said, str):
        return line(said)
    inner = [({"id": key} | value) if isinstance(value, dict) else value for key, value in answer.items()]
    return _recipe(inner, job)


# -- systemd


def units(run: Run) -> dict[str, Unit]:
    """Services of the system and of this user's manager by name; {} where systemd does not tell."""
    return {unit.name: unit for manager in ((), ("--user",)) for unit in _units(run, manager)}


def _units(run: Run, manager: Sequence[str]) -> Iterator[Unit]:
    ended = run(("systemctl", *manager, *UNIT_LIST), ASK_S)
    rows = (row.split() for row in ended.stdout.splitlines()) if ended.ok else ()
    names = [row[0] for row in rows if row and row[0].endswith(".service") and "@." not in row[0]]
    shown = run(("systemctl", *manager, *UNIT_SHOW, *names), ASK_S).stdout if names else ""
    for block in shown.split("\n\n"):
        told = dict(row.split("=", 1) for row in block.splitlines() if "=" in row)
        pid = told.get("MainPID", "")
        yield Unit(
            name=("user:" if manager else "") + line(told.get("Id", "")),
            argv=argv_of(told.get("ExecStart", "")),
            active=told.get("ActiveState") not in ("inactive", "failed", None),
            pid=int(pid) if pid.isdecimal() else 0,
        )


def owner_of_group(group: Group, family: Iterable[int], known: Mapping[str, Unit]) -> Owner | None:
    """The owner a control group tells of a process; None when that is nobody who starts and stops it.

    `family` are the process and its ancestors. A process that somebody left behind in the group of a unit is not the
    unit's: systemd then names another main process.
    """
    if group.kind == "docker":
        return Owner(notes=("it runs in a container that docker does not tell of: let this account use docker",))
    if group.kind == "podman":
        return Owner(notes=("it runs in a container of podman, which is only watched",))
    if group.kind == "kubernetes":
        return Owner(notes=("it runs in a pod of Kubernetes: install kubectl here and let this account use it",))
    if not group.kind or group.id in HELPERS:
        return None
    if group.kind == "user" and group.uid != os.getuid():
        return Owner(notes=(f"it is the unit {line(group.id)} of another user",))
    name = ("user:" if group.kind == "user" else "") + line(group.id)
    unit = known.get(name)
    strange = unit is not None and unit.pid and unit.pid not in set(family)
    return None if strange else Owner("systemd", name)


def silence(program: str, ended: Completed, *, needed: bool = False) -> str:
    """Why a program tells nothing; "" when it does, and when it is not installed and not `needed` either."""
    if ended.ok or (ended.absent and not needed):
        return ""
    return line(f"{program} tells nothing: {ended.stderr or ended.code}")
