"""An engine that sparkrun starts from a recipe, on this machine or on several.

Flags and the form of `status --json` are those of sparkrun 0.4.2, run with a docker that is none; other releases are
met with tolerance: a job is found by its id or its recipe wherever the answer lists objects. sparkrun has no grace for
a stop: it removes the containers at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sparkgate.engines.spec import line
from sparkgate.machine.commands import Completed
from sparkgate.runtimes.docker import ALWAYS, host_pids
from sparkgate.runtimes.owner import (
    Trouble,
    at,
    fault,
    for_memory,
    joined,
    keep,
    listed,
    main_first,
    note_of,
    parsed,
    printed,
    step,
    told,
    traits,
    without_flag_values,
    words_of_exit,
)
from sparkgate.runtimes.spec import Look, Owned, Place, RuntimeFault

LOOK_S = 30.0
STOP_S = 120.0
START_S = 3600.0
"""Seconds sparkrun may take to fetch image and model and to start the containers."""

OWNER = "sparkrun"
NO_WAIT = "--no-ready-wait"
WHERE = ("-H", "--hosts", "--hosts-file", "--cluster")
WHICH = ("--tp", "--tensor-parallel", "--port", "--served-model-name")
"""Flags of a start that a stop must repeat: where it runs, and what a job is told apart by."""
TROUBLES = (
    Trouble("no hosts specified", "no_hosts", "set a default cluster, or name --hosts in engines.{name}.command"),
    Trouble("not from a trusted source|trustrejected", "untrusted", "read the recipe, then add --trust to the command"),
    Trouble(r"recipe .* (?:not found|matches \d+ recipes)", "absent", "check engines.{name}.unit: `sparkrun list`"),
    Trouble("insufficient capacity|not enough", "no_room", "stop what holds the memory: `sparkrun status`"),
    Trouble("no job metadata|no running workload|nothing remains to read", "not_running", "nothing is left to do"),
    Trouble("did not confirm|may still be running", "not_stopped", "see `sparkrun status` and `docker ps`"),
    Trouble("publickey|host key verification", "forbidden", "let the account of the gate reach the hosts over ssh"),
    Trouble("cannot connect to the docker daemon|status unavailable", "unreachable", "start docker on its hosts"),
)
ENDED_UNSEEN = (
    "sparkrun has started it and nothing runs now: it ended by itself, and its log is gone unless --no-rm is set"
)
AGAIN = "the restart policy of its container"
_ID = r"(sparkrun_[0-9a-f]{8,16}(?:_[0-9a-f]{12})?)(?![0-9a-f])"
_IDS = (re.compile(r"(?:Cluster:\s+|cluster_id:\s*)" + _ID), re.compile(_ID))
_EXITED = re.compile(r"(?:Exited|Restarting) \((\d+)\)")


class SparkrunRuntime:
    """Owns the job of the recipe `entry.unit`; `entry.command` is the whole command of its start.

    A command of one's own needs `run` and `--no-follow`, from sparkrun 0.4 on also `--no-ready-wait`. That a start ends
    with 0 proves nothing: what was started and does not run is "failed". The id of a job is kept, as a stop by
    recipe misses jobs that were started with other flags. `restarts` are not told.

    Traits: `cluster_id`, `hosts`, `copies` (jobs of this recipe, when there are several), `rm`.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        command = place.entry.command or ("sparkrun", "run", place.entry.unit, "--no-follow", NO_WAIT)
        self._command = command
        self._program = command[: command.index("run")] if "run" in command else ("sparkrun",)

    def look(self) -> Look:
        ended = self._run(LOOK_S, "status", *self._flags(WHERE), "--json")
        answer = parsed(ended.stdout[max(ended.stdout.find("{"), 0) :])
        if not ended.ok or not isinstance(answer, dict):
            return Look("unknown", detail=told(self._place, ended, TROUBLES))
        note = note_of(self._place, OWNER)
        jobs = _jobs_of(answer, note.get("cluster_id", ""), self._place.entry.unit)
        if jobs:
            return self._read(jobs)
        errors = at(answer, "errors")
        if errors:
            host, reason = next(iter(errors.items())) if isinstance(errors, dict) else ("", errors)
            return Look("unknown", detail=line(f"{host}: {reason}"))
        if note.get("phase") == "starting":
            return self._bare("starting", "sparkrun is starting it")
        return self._bare("failed", ENDED_UNSEEN) if note.get("phase") == "started" else self._bare("stopped", "")

    def start(self) -> None:
        """Have sparkrun start the recipe.

        Raises:
            RuntimeFault: `bad_command`, `no_note`, or a code of `TROUBLES`.
        """
        if "run" not in self._command or "--no-follow" not in self._command:
            raise RuntimeFault("bad_command", f"engines.{self._place.name}: its command needs run and --no-follow")
        if self.look().state == "running":
            return
        keep(self._place, OWNER, phase="starting")
        ended = self._launched()
        keep(self._place, OWNER, phase="stopped" if ended.code else "started", cluster_id=_printed_id(ended.stdout))
        if not ended.ok:
            raise fault(self._place, "sparkrun did not start it", ended, TROUBLES)

    def stop(self, grace_s: float) -> None:
        """Have sparkrun stop the job, by its id where that is known.

        Raises:
            RuntimeFault: `not_stopped`, `no_note`, or a code of `TROUBLES`.
        """
        before = self.look()
        if before.state == "stopped":
            return
        target = before.traits.get("cluster_id") or self._target()
        which = () if _IDS[1].fullmatch(target) else self._flags(WHICH)
        ended = self._run(grace_s + STOP_S, "stop", target, *self._flags(WHERE), *which)
        after = self.look()
        if after.state == "running":
            raise RuntimeFault("not_stopped", f"{self._place.name}: sparkrun still lists {after.traits['cluster_id']}")
        if after.state == "unknown" and not ended.ok:
            raise fault(self._place, "sparkrun did not stop it", ended, TROUBLES)
        keep(self._place, OWNER, phase="stopped")

    def log(self, lines: int) -> Sequence[str]:
        target = self._target()
        which = () if _IDS[1].fullmatch(target) else self._flags(WHICH)
        ended = self._run(LOOK_S, "logs", target, "--tail", str(lines), *self._flags(WHERE), *which)
        return printed(ended.stdout)[-lines:] if ended.ok else []

    def steps(self) -> Sequence[str]:
        return [step(self._command, self._place)]

    def _run(self, timeout_s: float, *words: str) -> Completed:
        return self._place.run([*self._program, *words], timeout_s)

    def _launched(self) -> Completed:
        """The start; without the flag that a release before 0.4 does not know, and does not need."""
        ended = self._place.run(self._command, START_S)
        if ended.code == 2 and NO_WAIT in ended.stderr and not self._place.entry.command:
            return self._place.run([word for word in self._command if word != NO_WAIT], START_S)
        return ended

    def _target(self) -> str:
        return note_of(self._place, OWNER).get("cluster_id") or self._place.entry.unit

    def _flags(self, names: Sequence[str]) -> list[str]:
        """Those flags of the start, with their values."""
        found: list[str] = []
        for word, value in zip(self._command, (*self._command[1:], ""), strict=True):
            if word in names:
                found += [word, value]
            elif word.startswith(tuple(f"{name}=" for name in names)):
                found.append(word)
        return found

    def _bare(self, state: Owned, detail: str) -> Look:
        rm = {"rm": "--no-rm" not in self._command}
        return Look(state, argv=without_flag_values(self._command), detail=detail, traits=traits(rm))

    def _read(self, jobs: Sequence[Mapping[str, Any]]) -> Look:
        job = jobs[0]
        containers = listed(job, "containers") or [job]
        said = [line(at(one, "status")) for one in containers]
        ends = [int(match[1]) for text in said if (match := _EXITED.match(text))]
        names = {f"{_id(job)}_{line(at(one, 'role')) or 'solo'}" for one in containers}
        pids = (pid for name in sorted(names) for pid in host_pids(self._place.run, name))
        code = ends[0] if ends else None
        again = any(text.startswith("Restarting") for text in said)
        hosts = " ".join(dict.fromkeys(line(at(one, "host")) for one in containers))
        found = {"cluster_id": _id(job), "hosts": hosts, "rm": "--no-rm" not in self._command}
        return Look(
            "failed" if ends else "running",
            pids=() if ends else main_first(0, pids),
            exit_code=code,
            killed_for_memory=for_memory(code, says_so=False),
            revived_by=ALWAYS if "always" in self._flags(("--restart",)) else AGAIN if again else "",
            image=next((line(at(one, "image")) for one in containers), ""),
            argv=without_flag_values(self._command),
            detail=joined(*said, words_of_exit(code)),
            traits=traits(found | {"copies": str(len(jobs)) if len(jobs) > 1 else ""}),
        )


def _printed_id(text: str) -> str:
    return next((match[1] for pattern in _IDS if (match := pattern.search(text))), "")


def _jobs_of(answer: Mapping[str, Any], cluster_id: str, recipe: str) -> list[Mapping[str, Any]]:
    """Jobs with this id or this recipe, that with the id first."""
    found = [job for job in _listed_jobs(answer) if _id(job) == cluster_id or _is_of(job, recipe)]
    return sorted(found, key=lambda job: _id(job) != cluster_id)


def _listed_jobs(answer: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Every object that is listed, or stands under an id, but for what is only under way."""
    for key, value in answer.items():
        if key.startswith("pending"):
            continue
        if isinstance(value, dict):
            yield from ({"workload_id": id_} | one for id_, one in value.items() if isinstance(one, dict))
        yield from (one for one in listed(value) if isinstance(one, dict))


def _id(job: Mapping[str, Any]) -> str:
    keys = ("workload_id", "cluster_id", "id", "name", "container")
    texts = (at(job, key) for key in keys)
    return next((match[1] for text in texts if isinstance(text, str) and (match := _IDS[1].match(text))), "")


def _is_of(job: Mapping[str, Any], recipe: str) -> bool:
    said = at(job, "meta", "recipe") or at(job, "metadata", "recipe") or at(job, "recipe")
    if not isinstance(said, str) or not said:
        return False
    exact = said.startswith("@") and recipe.startswith("@")
    return said == recipe if exact else _short(said) == _short(recipe)


def _short(recipe: str) -> str:
    return recipe.rpartition("/")[2].removesuffix(".yaml").removesuffix(".yml")
