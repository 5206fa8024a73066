"""An engine in a docker container on this machine.

The log of a container that docker removes at its end (`--rm`) is gone with it: the trait `rm` tells of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from sparkgate.engines.spec import line
from sparkgate.machine.commands import Completed, Run
from sparkgate.runtimes.owner import (
    FOR_MEMORY,
    Trouble,
    at,
    epoch_s,
    fault,
    for_memory,
    hide,
    is_trouble,
    joined,
    keep,
    listed,
    main_first,
    note_of,
    number,
    pairs,
    parsed,
    printed,
    step,
    texts,
    told,
    traits,
    without_flag_values,
    words_of_exit,
)
from sparkgate.runtimes.spec import Look, Owned, Place, RuntimeFault

LOOK_S = 10.0
KILL_S = 30.0
CREATE_S = 1800.0
"""Seconds docker may take to pull an image and to create the container."""

TROUBLES = (
    Trouble("No such (?:container|object)", "absent", "create {unit}, or give engines.{name} the command that does"),
    Trouble("Conflict. The container name", "name_taken", "another container has this name: remove or rename it"),
    Trouble(
        "port is already allocated|address already in use",
        "port_taken",
        "another process has the port: `docker ps` or `ss -ltnp` names it",
    ),
    Trouble(
        "could not select device driver|unknown or invalid runtime name",
        "no_gpu_driver",
        "install the NVIDIA container toolkit, run `nvidia-ctk runtime configure --runtime=docker`, restart docker",
    ),
    Trouble(
        "permission denied while trying to connect|dial unix.*permission denied",
        "forbidden",
        "let the account of the gate use docker (group docker), and start the gate anew",
    ),
    Trouble(
        "Cannot connect to the Docker daemon|Is the docker daemon running|error during connect",
        "unreachable",
        "start docker",
    ),
    Trouble("no matching manifest for", "wrong_platform", "name an image that is built for this machine"),
    Trouble(
        "pull access denied|manifest unknown|manifest for .* not found|repository does not exist",
        "no_image",
        "check the name of the image, or log in to its registry",
    ),
    Trouble("executable file not found", "no_command", "check the words after the image: it has no such command"),
    Trouble("cannot start a paused container", "paused", "run `docker unpause {unit}`"),
    Trouble("did not receive an exit event", "not_stopped", "its process hangs in the kernel: see `docker top {unit}`"),
    Trouble("is not running", "not_running", "nothing is left to do"),
)
STATES: Mapping[str, Owned] = {
    "created": "stopped",
    "running": "running",
    "paused": "running",
    "restarting": "failed",
    "removing": "stopped",
    "exited": "failed",
    "dead": "failed",
}
ENDED_WELL = (0, 130, 143)
TRAITS: Mapping[str, tuple[str, ...]] = {
    "status": ("State", "Status"),
    "health": ("State", "Health", "Status"),
    "restart_policy": ("HostConfig", "RestartPolicy", "Name"),
    "rm": ("HostConfig", "AutoRemove"),
    "privileged": ("HostConfig", "Privileged"),
    "runtime": ("HostConfig", "Runtime"),
    "network": ("HostConfig", "NetworkMode"),
    "ipc": ("HostConfig", "IpcMode"),
    "user": ("Config", "User"),
    "compose": ("Config", "Labels", "com.docker.compose.project"),
    "image_id": ("Image",),
}
"""Trait → where `docker inspect` has it.

Further ones: `shm_size` and `memory_limit` ("64M", "32G"); with blanks between their parts `devices` (paths on the
host), `cap_add`, `ulimits` ("memlock=-1:-1") and `gpus` ("all", a number, or ids).
"""
SWARM = "com.docker.swarm.service.name"
ALWAYS = "restart policy always (when the docker daemon or the machine restarts)"
_STAMP = re.compile(r"(\d{4}-\d\d-\d\dT\S+) ?")
_DETACHED = re.compile(r"-[a-zA-Z]*d[a-zA-Z]*|--detach(?:=true)?")


class DockerRuntime:
    """Owns the container `entry.unit`; `entry.command` creates it when there is none.

    A container that was stopped here is "stopped" with whatever code it ended. Only the policy `always` brings back
    what `docker stop` has stopped; the others are told of while they revive what ended by itself.
    """

    def __init__(self, place: Place) -> None:
        self._place, self._unit = place, place.entry.unit

    def look(self) -> Look:
        ended = self._inspect()
        if is_trouble(ended, TROUBLES, "absent"):
            planned = traits({"rm": "--rm" in self._place.entry.command})
            return Look("stopped", detail=f"there is no container {self._unit}", traits=planned)
        found = at(parsed(ended.stdout), 0)
        if not ended.ok or not isinstance(found, dict):
            return Look("unknown", detail=told(self._place, ended, TROUBLES))
        return self._read(found)

    def start(self) -> None:
        """Start the container, or create it.

        Raises:
            RuntimeFault: `not_configured`, `bad_command`, or a code of `TROUBLES`.
        """
        ended = self._inspect()
        absent = is_trouble(ended, TROUBLES, "absent") and bool(self._place.entry.command)
        if not ended.ok and not absent:
            raise fault(self._place, "docker was asked for it", ended, TROUBLES)
        if at(parsed(ended.stdout), 0, "State", "Status") in ("running", "restarting"):
            return
        started = self._place.run(self._creation() if absent else self._docker("start", self._unit), CREATE_S)
        if not started.ok:
            raise fault(self._place, "docker did not start it", started, TROUBLES)

    def stop(self, grace_s: float) -> None:
        """Stop the container; docker kills it after `grace_s` seconds.

        Raises:
            RuntimeFault: `not_stopped`, or a code of `TROUBLES`.
        """
        stop = self._docker("stop", "-t", str(math.ceil(grace_s)), self._unit)
        ended = self._place.run(stop, grace_s + KILL_S)
        if is_trouble(ended, TROUBLES, "timeout"):
            ended = self._place.run(self._docker("kill", self._unit), KILL_S)
        gone = is_trouble(ended, TROUBLES, "absent")
        if not ended.ok and not gone and not is_trouble(ended, TROUBLES, "not_running"):
            raise fault(self._place, "docker did not stop it", ended, TROUBLES)
        if not gone:
            self._prove_stopped()

    def log(self, lines: int) -> Sequence[str]:
        """Both streams, put in order by docker's time stamps, which are taken off."""
        ended = self._place.run(self._docker("logs", "--timestamps", "--tail", str(lines), self._unit), LOOK_S)
        if not ended.ok:
            return []
        stamped = (_STAMP.match(text) for text in (ended.stdout + "\n" + ended.stderr).split("\n"))
        in_order = sorted((one for one in stamped if one), key=lambda one: one[1])
        return printed("\n".join(one.string[one.end() :] for one in in_order))[-lines:]

    def steps(self) -> Sequence[str]:
        start = step(self._docker("start", self._unit), self._place)
        if not self._place.entry.command:
            return [start]
        return [start, f"or, when there is no container {self._unit}:", step(self._place.entry.command, self._place)]

    def _docker(self, *words: str) -> list[str]:
        return ["docker", *words]

    def _inspect(self) -> Completed:
        return self._place.run(self._docker("container", "inspect", self._unit), LOOK_S)

    def _prove_stopped(self) -> None:
        ended = self._inspect()
        if is_trouble(ended, TROUBLES, "absent"):
            return
        if not ended.ok:
            raise fault(self._place, "docker does not tell whether it stopped", ended, TROUBLES)
        state = at(parsed(ended.stdout), 0, "State")
        if at(state, "Running"):
            raise RuntimeFault("not_stopped", f"{self._place.name}: docker still runs the container {self._unit}")
        keep(self._place, "docker", stopped=str(at(state, "StartedAt")))

    def _creation(self) -> Sequence[str]:
        """The command of the catalogue, when it leaves a container of this name behind and returns."""
        command = self._place.entry.command
        if PurePath(command[0]).name != "docker" or "run" not in command[:3]:
            return command
        if self._unit not in command and f"--name={self._unit}" not in command:
            missing = f"--name {self._unit}"
        elif not any(_DETACHED.fullmatch(word) for word in command):
            missing = "-d"
        else:
            return command
        raise RuntimeFault("bad_command", f"engines.{self._place.name}: its docker command needs {missing}")

    def _read(self, found: Mapping[str, Any]) -> Look:
        state = at(found, "State")
        running = at(state, "Status") in ("running", "paused")
        ended = epoch_s(at(state, "FinishedAt")) is not None or at(state, "Error")
        code = at(state, "ExitCode") if ended and not running else None
        killed = for_memory(code, bool(at(state, "OOMKilled")))
        return Look(
            self._owned(state),
            pids=host_pids(self._place.run, self._unit, number(state, "Pid")) if running else (),
            since_s=epoch_s(at(state, "StartedAt")) if running else None,
            exit_code=code,
            killed_for_memory=killed,
            restarts=number(found, "RestartCount"),
            revived_by=_revived_by(found),
            image=line(at(found, "Config", "Image")),
            argv=without_flag_values([*texts([at(found, "Path")]), *texts(found, "Args")]),
            environment=dict(_split(word) for word in texts(found, "Config", "Env")),
            detail=self._detail(found, code, killed),
            traits=_traits(found),
        )

    def _owned(self, state: Any) -> Owned:
        owned = STATES.get(str(at(state, "Status")), "unknown")
        if at(state, "Status") == "created" and at(state, "Error"):
            return "failed"
        here = note_of(self._place, "docker").get("stopped") == at(state, "StartedAt")
        return "stopped" if at(state, "Status") == "exited" and (here or at(state, "ExitCode") in ENDED_WELL) else owned

    def _detail(self, found: Mapping[str, Any], code: int | None, killed: bool | None) -> str:
        restarts = number(found, "RestartCount")
        return joined(
            FOR_MEMORY if killed else words_of_exit(code),
            line(hide(str(at(found, "State", "Error") or ""), self._place)),
            "it is paused" if at(found, "State", "Paused") else "",
            f"docker has started it again {restarts} times" if restarts else "",
        )


def host_pids(run: Run, container: str, main: int = 0) -> tuple[int, ...]:
    """Processes of a container as this machine counts them, `main` first; () when there is no such container."""
    ended = run(["docker", "top", container, "-eo", "pid"], LOOK_S)
    return main_first(main, (int(word) for word in ended.stdout.split() if ended.ok and word.isdecimal()))


def size(size_bytes: int) -> str:
    """Bytes in the largest unit that leaves no rest: "64M"; "" for none."""
    for unit, name in ((2**30, "G"), (2**20, "M"), (2**10, "K"), (1, "")):
        if size_bytes > 0 and size_bytes % unit == 0:
            return f"{size_bytes // unit}{name}"
    return ""


def _split(word: str) -> tuple[str, str]:
    name, _, value = word.partition("=")
    return name, value


def _revived_by(found: Mapping[str, Any]) -> str:
    service = pairs(found, "Config", "Labels").get(SWARM)
    if service:
        return f"docker swarm service {line(service)}"
    policy = line(at(found, "HostConfig", "RestartPolicy", "Name"))
    again = f"restart policy {policy}" if at(found, "State", "Status") == "restarting" else ""
    return ALWAYS if policy == "always" else again


def _traits(found: Mapping[str, Any]) -> dict[str, str]:
    host = at(found, "HostConfig")
    ulimits = (f"{at(one, 'Name')}={at(one, 'Soft')}:{at(one, 'Hard')}" for one in listed(host, "Ulimits"))
    return traits(
        {name: at(found, *path) for name, path in TRAITS.items()}
        | {
            "shm_size": size(number(host, "ShmSize")),
            "memory_limit": size(number(host, "Memory")),
            "devices": " ".join(str(at(one, "PathOnHost")) for one in listed(host, "Devices")),
            "cap_add": " ".join(texts(host, "CapAdd")),
            "ulimits": " ".join(ulimits),
            "gpus": " ".join(filter(None, map(_gpus, listed(host, "DeviceRequests")))),
        }
    )


def _gpus(request: Any) -> str:
    count = number(request, "Count")
    return "all" if count < 0 else " ".join(texts(request, "DeviceIDs")) or (str(count) if count else "")
