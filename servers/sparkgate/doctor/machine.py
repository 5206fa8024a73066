"""Facts of the machine that no engine and no owner tells: its GPUs, engine processes nobody owns, what revives pods."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sparkgate.engine_settings import EngineSettings
from sparkgate.engines.spec import line
from sparkgate.machine.commands import Run
from sparkgate.machine.files import text_of
from sparkgate.runtimes.kubernetes import kubectl, namespace_of
from sparkgate.runtimes.owner import at, listed, number, pairs, parsed

ASK_S = 5.0
CLOCKS = (
    "nvidia-smi",
    "--query-gpu=utilization.gpu,clocks.sm,clocks.max.sm,clocks_event_reasons.active",
    "--format=csv,noheader,nounits",
)
WORKERS = re.compile(r"(?:VLLM::|sglang::|TRTLLM::)[\w.-]{1,60}")
"""Names that workers of an engine give themselves; the process that serves the API has another."""
MANAGERS = ("systemd", "init")
GPU = "nvidia.com/gpu"
_ACTS = re.compile(r"\b(?:scale|rollout|restart|delete)\b")
_CLOCK_ROW = re.compile(r"\s*(\d{1,3})\s*,\s*(\d{1,5})\s*,\s*(\d{1,5})\s*,\s*(?:0x([0-9a-fA-F]{1,16}))?.*")


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker process of an engine whose parent is gone."""

    pid: int
    name: str


@dataclass(frozen=True, slots=True)
class Clocks:
    """A GPU at one moment: its use in percent, its clock and the highest one in MHz, what holds it back as bits."""

    use_percent: int
    sm_mhz: int
    max_mhz: int
    held_back: int = 0


@dataclass(frozen=True, slots=True)
class Machine:
    """None and empty for what is not known.

    Attributes:
        gpus: GPUs there are.
        gpus_offered: GPUs that Kubernetes hands out.
        orphans: workers of engines whose parent is gone and that no owner of the catalogue knows.
        watchdogs: engine → the CronJob that acts on its Deployment.
    """

    gpus: int | None = None
    gpus_offered: int | None = None
    clocks: tuple[Clocks, ...] = ()
    orphans: tuple[Worker, ...] = ()
    watchdogs: Mapping[str, str] = field(default_factory=dict)


def read_machine(
    catalogue: Mapping[str, EngineSettings], owned: Collection[int], run: Run | None, proc: Path
) -> Machine:
    """Read it; never raises. `owned` are processes that an owner knows; without `run` no command is run."""
    units = {name: one.unit for name, one in catalogue.items() if one.runtime == "kubernetes"}
    counted, offered = _gpus(run) if run and units else (None, None)
    return Machine(
        gpus=counted or _cards(proc),
        gpus_offered=offered,
        clocks=_clocks(run) if run else (),
        orphans=tuple(_orphans(proc, owned)),
        watchdogs=_watchdogs(run, units) if run else {},
    )


def _cards(proc: Path) -> int | None:
    """GPUs of this machine, as the driver lists them."""
    try:
        return len(list((proc / "driver/nvidia/gpus").iterdir())) or None
    except OSError:
        return None


def _clocks(run: Run) -> tuple[Clocks, ...]:
    ended = run(CLOCKS, ASK_S)
    rows = (_CLOCK_ROW.fullmatch(row) for row in ended.stdout.splitlines() if ended.ok)
    return tuple(Clocks(int(row[1]), int(row[2]), int(row[3]), int(row[4] or "0", 16)) for row in rows if row)


def _items(run: Run, *words: str) -> list[Any]:
    """Items of a list of Kubernetes; [] when it may not be read."""
    ended = kubectl(run, (*words, "-o", "json"), ASK_S)
    return listed(parsed(ended.stdout), "items") if ended.ok else []


def _gpus(run: Run) -> tuple[int | None, int | None]:
    """(GPUs of the nodes, as far as they are labelled with them; GPUs that they hand out)."""
    nodes = _items(run, "get", "nodes")
    offered = sum(_whole(at(node, "status", "allocatable", GPU)) for node in nodes)
    counts = [_whole(pairs(node, "metadata", "labels").get(f"{GPU}.count")) for node in nodes]
    return sum(counts) if counts and all(counts) else None, offered or None


def _watchdogs(run: Run, units: Mapping[str, str]) -> dict[str, str]:
    jobs = {namespace: _items(run, "-n", namespace, "get", "cronjobs") for namespace in _namespaces(units)}
    return {
        name: line(at(job, "metadata", "name"))
        for name, unit in units.items()
        for job in jobs[namespace_of(unit)[0]]
        if not at(job, "spec", "suspend") and _acts_on(job, namespace_of(unit)[1])
    }


def _namespaces(units: Mapping[str, str]) -> list[str]:
    return list(dict.fromkeys(namespace_of(unit)[0] for unit in units.values()))


def _acts_on(job: Any, deployment: str) -> bool:
    """Whether the commands of a CronJob name the Deployment and do something to it."""
    containers = listed(job, "spec", "jobTemplate", "spec", "template", "spec", "containers")
    words = json.dumps([[at(one, "command"), at(one, "args")] for one in containers])
    named = re.search(rf"(?<![\w.-]){re.escape(deployment)}(?![\w.-])", words)
    return bool(named and _ACTS.search(words))


def _orphans(proc: Path, owned: Collection[int]) -> Iterator[Worker]:
    for folder in sorted(proc.iterdir()):
        if not folder.name.isdecimal() or int(folder.name) in owned:
            continue
        name = WORKERS.match(text_of(folder / "cmdline"))
        if name and _is_left(proc, _parent(folder)):
            yield Worker(int(folder.name), name[0])


def _parent(folder: Path) -> str:
    """Fields follow the name in brackets, which may hold anything (proc(5))."""
    fields = text_of(folder / "stat").rpartition(")")[2].split()
    return fields[1] if len(fields) > 1 else ""


def _is_left(proc: Path, parent: str) -> bool:
    return parent == "1" or text_of(proc / parent / "comm").strip() in MANAGERS


def _whole(value: Any) -> int:
    return int(value) if isinstance(value, str) and value.isdecimal() else number([value], 0)
