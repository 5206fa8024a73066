"""What a GPU did while a cell was measured, and who else computed on it."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import Any

from sparkgate.measure.energy import SLOWING, GpuSample
from sparkgate.measure.sample import Sample
from sparkgate.measure.statistics import percentile
from sparkgate.measure.timeline import stream_of
from sparkgate.policy.guard import Guard

PROCESSES = ("--query-compute-apps=pid", "--format=csv,noheader")
PROCESSES_S = 5.0
MIN_A_QUARTER = 5


def gpu_facts(samples: Sequence[GpuSample]) -> dict[str, Any]:
    """What a cell's readings say by the names of `CellFacts`; what was never told is left out."""
    busy = [one.busy_percent for one in samples if one.busy_percent is not None]
    clocks = [one.sm_clock_mhz for one in samples if one.sm_clock_mhz is not None]
    heat = [one.temperature_c for one in samples if one.temperature_c is not None]
    told = [one.reasons for one in samples if one.reasons is not None]
    slowing = dict.fromkeys(name for names in told for name in names if name in SLOWING)
    return {
        **({"gpu_busy_percent": median(busy)} if busy else {}),
        **({"sm_clock_median_mhz": median(clocks), "sm_clock_p95_mhz": percentile(clocks, 95)} if clocks else {}),
        **({"gpu_temperature_max_c": max(heat)} if heat else {}),
        **({"throttle_reasons": tuple(slowing)} if told else {}),
    }


def while_all_ran(samples: Sequence[Sample], gpu: Sequence[GpuSample]) -> list[GpuSample]:
    """The readings of a burst from when its last stream had begun until its first one ended.

    Before and after that the GPU does other work: a prompt takes more power than a token.
    """
    streams = [stream for sample in samples if (stream := stream_of(sample)).chunks]
    if not streams:
        return []
    since_ns, until_ns = max(one.first_ns for one in streams), min(one.last_ns for one in streams)
    return [one for one in gpu if since_ns <= one.at_ns <= until_ns]


def drift_facts(readings: Sequence[GpuSample]) -> dict[str, Any]:
    """Clock and power in the first and in the last quarter of a cell's readings, by the names of `CellFacts`."""
    clocks = [one.sm_clock_mhz for one in readings if one.sm_clock_mhz is not None]
    powers = [one.power_w for one in readings if one.power_w is not None]
    return {**_ends("sm_clock", "mhz", clocks), **_ends("power", "w", powers)}


def _ends(name: str, unit: str, values: Sequence[float]) -> dict[str, float]:
    quarter = len(values) // 4
    if quarter < MIN_A_QUARTER:
        return {}
    return {f"{name}_before_{unit}": median(values[:quarter]), f"{name}_after_{unit}": median(values[-quarter:])}


def other_processes(program: str, guard: Guard | None = None, proc: Path = Path("/proc")) -> int | None:
    """How many others compute on the GPU beside one engine; None when nvidia-smi does not tell.

    `program` is the absolute path of nvidia-smi. Which process is the engine's is not known: it may run in a container
    or as another user. But the processes of one engine (a model on two GPUs, runners of a server) are of one session,
    and engines that were started apart are of several: all sessions but one are others. So an engine on the CPU hides
    one other, and nobody is called another for being one of two parts.
    """
    argv = (program, *PROCESSES)
    try:
        with guard.child(argv) if guard else nullcontext():
            told = subprocess.run(argv, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, timeout=PROCESSES_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    words = [word.strip() for word in told.stdout.decode("ascii", "replace").splitlines()]
    sessions = {_session(word, proc) for word in words if word.isdecimal()}
    return None if told.returncode else max(0, len(sessions) - 1)


def _session(pid: str, proc: Path) -> str:
    """The session of a process; "" for those that cannot be seen from here, which count as one."""
    try:
        return (proc / pid / "stat").read_text().rpartition(")")[2].split()[3]
    except (OSError, IndexError):
        return ""
