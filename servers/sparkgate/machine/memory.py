"""How much memory there is for models, and who holds it. What is not told is None, never 0.

On a machine whose CPU and GPU share one memory (GB10) the driver tells no memory of the GPU, but still what each
process holds of it; the kernel's MemAvailable is then the limit.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sparkgate.engines.spec import line
from sparkgate.machine.commands import Completed, Run
from sparkgate.machine.files import text_of

PROC = Path("/proc")
FORMAT = "--format=csv,noheader,nounits"
GPU_QUERY = ("nvidia-smi", "--query-gpu=memory.total,memory.used,memory.free", FORMAT)
PROCESS_QUERY = ("nvidia-smi", "--query-compute-apps=pid,process_name,used_gpu_memory", FORMAT)
NVIDIA_SMI_TIMEOUT_S = 5.0
NO_DEVICE = "No devices were found"
KIB_PER_GIB, MIB_PER_GIB = 1024.0**2, 1024.0

_NOT_SUPPORTED = re.compile(r"N/A|Not Supported", re.IGNORECASE)
_HOLDER = re.compile(r"\s*(\d{1,10})\s*,(.*),([^,]*)")
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,6})?")
_PARTLY = "nvidia-smi tells no memory of {count} of {all} GPUs; they are not counted"
_NO_ANSWER = "{what} cannot be told: nvidia-smi: {reason}"


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that computes on a GPU. `name` is its program without folder, "" when it is not told."""

    pid: int
    name: str
    held_gib: float | None


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory that models are loaded into, now; sizes in GiB.

    Attributes:
        total_gib, available_gib: of the GPUs together when they have memory of their own, else of the machine
            (MemTotal, MemAvailable).
        source: where these two are from.
        unified: CPU and GPU share one memory; None when it is not known or there is no GPU.
        gpu: a GPU is there; None when nvidia-smi does not answer.
        pressure_full_avg10: share of the last 10 s in which everything waited for memory, in percent.
        swap_free_gib, swap_total_gib: swap space.
        holders: processes on the GPUs, as the host counts pids; None when it cannot be told who they are.
        notes: what could not be read, and why.
    """

    total_gib: float | None
    available_gib: float | None
    source: Literal["meminfo", "nvidia-smi"] = "meminfo"
    unified: bool | None = None
    gpu: bool | None = False
    pressure_full_avg10: float | None = None
    swap_free_gib: float | None = None
    swap_total_gib: float | None = None
    holders: tuple[Holder, ...] | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Held:
    """What processes hold together, in GiB; None when it is not known.

    Attributes:
        source: where it is from, or with None why it is not known.
        returns_gib: by how much available memory grows when they end. Pages of files, such as weights that are
            mapped, count as available already, so they are held and do not return.
    """

    gib: float | None
    source: str
    returns_gib: float | None = None


@dataclass(frozen=True, slots=True)
class _Gpus:
    """What nvidia-smi tells: `sizes` are (total, free) in GiB of each GPU, None for one that does not tell.

    `no_own` is set when a GPU says that it has no memory of its own to tell of.
    """

    present: bool | None
    sizes: tuple[tuple[float, float] | None, ...] = ()
    no_own: bool = False
    holders: tuple[Holder, ...] | None = None
    notes: tuple[str, ...] = ()


def read_memory(run: Run, proc: Path = PROC) -> Memory:
    """Read the memory of this machine; at most two short commands, never raises."""
    info = _table_gib(text_of(proc / "meminfo"))
    gpus = _gpus(run)
    known = [size for size in gpus.sizes if size]
    silent = len(gpus.sizes) - len(known)
    uncounted = silent and (known or not gpus.no_own)
    partly = (_PARTLY.format(count=silent, all=len(gpus.sizes)),) if uncounted else ()
    missing = () if known or "MemAvailable" in info else (f"{proc}/meminfo tells no MemAvailable",)
    return Memory(
        total_gib=sum(total for total, _ in known) if known else info.get("MemTotal"),
        available_gib=sum(free for _, free in known) if known else info.get("MemAvailable"),
        source="nvidia-smi" if known else "meminfo",
        unified=False if known else (gpus.no_own or None),
        gpu=gpus.present,
        pressure_full_avg10=pressure(proc),
        swap_free_gib=info.get("SwapFree"),
        swap_total_gib=info.get("SwapTotal"),
        holders=gpus.holders,
        notes=(*gpus.notes, *partly, *missing),
    )


def pressure(proc: Path = PROC) -> float | None:
    """Share of the last 10 s in which everything waited for memory, in percent; None where the kernel does not tell."""
    found = re.search(r"^full avg10=(\d{1,3}(?:\.\d+)?)", text_of(proc / "pressure" / "memory"), re.MULTILINE)
    return float(found[1]) if found else None


def available_gib(proc: Path = PROC) -> float | None:
    """MemAvailable, in GiB: the kernel's estimate of what can be had without swapping."""
    return _table_gib(text_of(proc / "meminfo")).get("MemAvailable")


def held(pids: Sequence[int], memory: Memory, proc: Path = PROC) -> Held:
    """What these processes hold of the memory that models are loaded into."""
    if not pids:
        return Held(None, "no process of it is known")
    if memory.gpu is None:
        return Held(None, "nvidia-smi does not answer")
    return _held_on_gpu(set(pids), memory.holders) if memory.gpu else _held_in_memory(sorted(set(pids)), proc)


def foreign_holders(memory: Memory, known_pids: Collection[int]) -> tuple[Holder, ...]:
    """Processes on the GPUs that are none of `known_pids`, the largest first."""
    strangers = [holder for holder in memory.holders or () if holder.pid not in known_pids]
    return tuple(sorted(strangers, key=lambda holder: -(holder.held_gib or 0)))


def _gpus(run: Run) -> _Gpus:
    told = run(GPU_QUERY, NVIDIA_SMI_TIMEOUT_S)
    if told.absent:
        return _Gpus(present=False)
    if NO_DEVICE in told.stdout + told.stderr:
        return _Gpus(present=False, notes=(f"nvidia-smi: {NO_DEVICE}",))
    if not told.ok:
        return _Gpus(present=None, notes=(_NO_ANSWER.format(what="GPU memory", reason=_reason(told)),))
    sizes = tuple(_size(row) for row in told.stdout.splitlines() if row.count(",") == 2)
    if not sizes:
        return _Gpus(present=None, notes=(_NO_ANSWER.format(what="GPU memory", reason="its answer is not a table"),))
    listed = run(PROCESS_QUERY, NVIDIA_SMI_TIMEOUT_S)
    return _Gpus(
        present=True,
        sizes=sizes,
        no_own=bool(_NOT_SUPPORTED.search(told.stdout)),
        holders=_holders(listed.stdout.splitlines()) if listed.ok else None,
        notes=() if listed.ok else (_NO_ANSWER.format(what="who holds GPU memory", reason=_reason(listed)),),
    )


def _size(row: str) -> tuple[float, float] | None:
    total, _, free = (_gib(cell, MIB_PER_GIB) for cell in row.split(","))
    return (total, free) if total and free is not None else None


def _holders(rows: Iterable[str]) -> tuple[Holder, ...]:
    """One holder a process, which has a row for each GPU it computes on."""
    found: dict[int, Holder] = {}
    for row in rows:
        if parts := _HOLDER.fullmatch(row):
            pid, held_gib = int(parts[1]), _gib(parts[3], MIB_PER_GIB)
            other_gib = found[pid].held_gib if pid in found else 0.0
            found[pid] = Holder(pid, _program(parts[2]), _both(other_gib, held_gib))
    return tuple(found.values())


def _program(name: str) -> str:
    """The first word without its folder: what comes after may be arguments, and a key among them."""
    words = line(name).split()
    return "" if not words or words[0].startswith("[") else words[0].rpartition("/")[2]


def _both(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _reason(ended: Completed) -> str:
    return line(ended.stderr) or line(ended.stdout) or f"it ended with {ended.code}"


def _gib(cell: str, per_gib: float) -> float | None:
    """A plain number; None for everything else, such as [N/A], Not Supported, [Not Found] or nothing at all."""
    return float(cell) / per_gib if _NUMBER.fullmatch(cell.strip()) else None


def _held_on_gpu(pids: set[int], holders: tuple[Holder, ...] | None) -> Held:
    if holders is None:
        return Held(None, "nvidia-smi does not tell who holds GPU memory")
    sizes = [holder.held_gib for holder in holders if holder.pid in pids]
    told = [size for size in sizes if size is not None]
    if not told:
        return Held(None, "nvidia-smi lists none of its processes" if not sizes else "nvidia-smi tells no size for it")
    return Held(sum(told), "nvidia-smi compute-apps", sum(told))


def _held_in_memory(pids: Sequence[int], proc: Path) -> Held:
    found = [told for pid in pids if (told := _process(proc / str(pid)))]
    if not found:
        return Held(None, "none of its processes is there, or none may be read")
    sources = dict.fromkeys(source for source, _, _ in found)
    return Held(sum(all_ for _, all_, _ in found), ", ".join(sources), sum(all_ - file for _, all_, file in found))


def _process(folder: Path) -> tuple[str, float, float] | None:
    """Where the size of a process is from, all of it in GiB, and the part that is pages of files."""
    for name, all_key, file_key, source in PROCESS_SIZES:
        table = _table_gib(text_of(folder / name))
        if table.get(all_key):
            return source, table[all_key], table.get(file_key, 0.0)
    return None


PROCESS_SIZES = (
    ("smaps_rollup", "Pss", "Pss_File", "smaps_rollup"),
    ("status", "VmRSS", "RssFile", "VmRSS, shared pages counted in each process"),
)
"""File in /proc/PID, its lines for all pages and for those of files, and what it is called; the better one first.

Only the owner of a process may read its share of shared pages.
"""


def _table_gib(text: str) -> dict[str, float]:
    """`Name:  123 kB` lines in GiB."""
    rows = re.finditer(r"^(\w+):\s+(\d{1,15}) kB$", text, re.MULTILINE)
    return {row[1]: int(row[2]) / KIB_PER_GIB for row in rows}
