"""Traps of the machine and of what the engines of the catalogue do to each other."""

from __future__ import annotations

from collections.abc import Iterator

from sparkgate.change.fit import PRESSURE_MAX_PERCENT, swap_low
from sparkgate.doctor.evidence import Box
from sparkgate.doctor.rules.check import Check
from sparkgate.engines import ENGINES
from sparkgate.machine.origins import local_port, origin
from sparkgate.runtimes.spec import Look

FOREIGN_GIB = 4.0
HELD_BACK = 0x8 | 0x20 | 0x40 | 0x80
"""Bits of clocks_event_reasons: hardware slowdown, heat by software, heat by hardware, power brake."""
BUSY_PERCENT = 50
SLOW_SHARE = 0.5
REVIVING = ("always", "unless-stopped")


def copies(box: Box) -> str:
    """Models in memory at the same time, but for engines that may run beside others."""
    known = {pid for look in box.looks.values() for pid in look.pids}
    found = list(dict.fromkeys(_copies(box)))
    large = [one for one in box.memory.holders or () if one.pid not in known and (one.held_gib or 0) >= FOREIGN_GIB]
    watched = any(box.looks.get(name) is None for name in box.entries)
    found += [] if watched else [f"{one.name or 'a process'} (pid {one.pid}, not of the catalogue)" for one in large]
    return ", ".join(found) if len(found) > 1 and box.memory.unified is not False else ""


def _copies(box: Box) -> Iterator[str]:
    seen = set()
    for name, entry in box.entries.items():
        look, status = box.looks.get(name), box.statuses.get(name)
        kind = ENGINES.get(status.engine) if status else None
        here = local_port(entry.url) is not None or (look and look.pids)
        if entry.beside or not here or (status and status.front):
            continue
        loaded = [one.id for one in (status.models if status else None) or () if one.loaded]
        if kind and kind.load:
            yield from (f"{'/'.join(map(str, origin(entry.url)))} {model}" for model in loaded)
        elif origin(entry.url) not in seen and (_runs_under(look) if look else bool(loaded)):
            seen.add(origin(entry.url))
            yield name


def _runs_under(look: Look) -> bool:
    return look.state in ("running", "starting") or look.traits.get("replicas", "0") != "0"


def shared_gpus(box: Box) -> str:
    """Kubernetes hands out more GPUs than there are, or pods have more."""
    machine = box.machine
    taken = {
        name: int(look.traits["gpus"])
        for name, look in box.looks.items()
        if _runs_under(look) and look.traits.get("gpus", "").isdecimal() and "strategy" in look.traits
    }
    if machine.gpus is None:
        return ""
    if (machine.gpus_offered or 0) > machine.gpus:
        return f"Kubernetes offers {machine.gpus_offered} GPUs, and there are {machine.gpus}"
    total = sum(taken.values())
    return f"{', '.join(taken)} have {total} GPUs, and there are {machine.gpus}" if total > machine.gpus else ""


def several_revived(box: Box) -> str:
    """Engines that all come back when the machine starts."""
    names = [name for name, look in box.looks.items() if _comes_back(look) and not box.entries[name].beside]
    return f"{', '.join(names)} start with the machine" if len(names) > 1 else ""


def _comes_back(look: Look) -> bool:
    return look.traits.get("restart_policy") in REVIVING or look.traits.get("enabled") == "enabled"


def orphans(box: Box) -> str:
    ports = {pid for one in box.listeners for pid in one.pids}
    sizes = {one.pid: one.held_gib for one in box.memory.holders or ()}
    found = [one for one in box.machine.orphans if one.pid not in ports]
    return ", ".join(f"{one.name} (pid {one.pid}{_size(sizes.get(one.pid))})" for one in found)


def _size(held_gib: float | None) -> str:
    return "" if held_gib is None else f", {held_gib:.1f} GiB"


def pressed(box: Box) -> str:
    full, low = box.memory.pressure_full_avg10, swap_low(box.memory)
    if full is not None and full > PRESSURE_MAX_PERCENT:
        return f"for {full:.1f} % of the last 10 s everything waited for memory"
    return f"{low[0]:.1f} of {low[1]:.1f} GiB of swap are free" if low else ""


def slow_gpu(box: Box) -> str:
    for one in box.machine.clocks:
        if one.held_back & HELD_BACK:
            return f"the driver holds its clock at {one.sm_mhz} of {one.max_mhz} MHz (reasons {one.held_back:#x})"
        if one.use_percent >= BUSY_PERCENT and one.sm_mhz < SLOW_SHARE * one.max_mhz:
            return f"it is used to {one.use_percent} %, and runs at {one.sm_mhz} of {one.max_mhz} MHz"
    return ""


CHECKS: tuple[Check[Box], ...] = (
    Check(
        "uma.two_copies",
        "error",
        (),
        copies,
        "More than one model is in memory at the same time, and the next load may stop the whole machine.",
        "Keep one copy: unload the others, or mark a small one that is meant to stay with beside = true.",
    ),
    Check(
        "k8s.timeslicing",
        "warning",
        (),
        shared_gpus,
        "Time-slicing shows one GPU several times, and keeps no memory apart: nothing stops a second model.",
        "Keep all but one of the Deployments at 0 replicas, and change them through engine_swap.",
    ),
    Check(
        "restart.policy",
        "warning",
        (),
        several_revived,
        "After a restart of the machine several of them may start at the same time, and two models are loaded.",
        "Leave that to one engine: `docker update --restart=no NAME` or `systemctl disable UNIT` for the others.",
    ),
    Check(
        "orphan.enginecore",
        "error",
        (),
        orphans,
        "The server of this engine is gone, and its worker still holds memory that no stop gives back.",
        "End these processes by their pid, and then look at the memory once more.",
    ),
    Check(
        "mem.pressure",
        "error",
        (),
        pressed,
        "Where CPU and GPU share one memory, too large a load does not fail: the machine freezes.",
        "Load nothing now; unload an engine, or end what else holds memory.",
    ),
    Check(
        "nvsmi.na",
        "info",
        (),
        lambda box: "nvidia-smi tells no memory of the GPU" if box.memory.unified else "",
        "That is usual where CPU and GPU share one memory (GB10), and no fault.",
        "Read what each process holds in its list of processes, and what is free as MemAvailable.",
    ),
    Check(
        "gpu.lowpower",
        "warning",
        (),
        slow_gpu,
        "The GPU runs far below its clock, and everything on it is slower by as much.",
        "Check power supply, cable and cooling, and take power off for a minute; measure again afterwards.",
    ),
)
