"""Whether an engine fits into memory: what it needs, and what stays free once it is loaded. Computes only."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from sparkgate.engine_settings import EngineSettings
from sparkgate.machine.memory import Memory

GIB = 1024.0**3
WEIGHTS_FACTOR = 1.05
WORKSPACE_SHARE, WORKSPACE_MIN_GIB, WORKSPACE_MAX_GIB = 0.5, 0.25, 4.0
HEADROOM_SHARE_MAX = 0.1
PRESSURE_MAX_PERCENT = 10.0
SWAP_FREE_SHARE_LOW = 0.1


@dataclass(frozen=True, slots=True)
class Share:
    """A kind of engine that reserves a share of all memory, whatever its model needs.

    Attributes:
        options: what sets the share (0 to 1), in lower case, without leading dashes and with - for _.
        engine: the engine that takes `default` when no option is given; "" when no default is known.
        program: word by which its command is known where the catalogue does not name the engine behind a URL.
    """

    options: tuple[str, ...]
    engine: str = ""
    default: float = 0.0
    program: str = ""


SHARES = (
    Share(("gpu-memory-utilization",), "vllm", 0.92, "vllm"),
    Share(("mem-fraction-static",), "sglang", 0.9, "sglang"),
    Share(
        ("kv-cache-free-gpu-memory-fraction", "kv-cache-free-gpu-mem-fraction", "free-gpu-memory-fraction"),
        engine="trtllm",
        default=0.9,
        program="trtllm-serve",
    ),
    Share(("device-memory-utilization",), "max", 0.9),
    Share(("nim-kvcache-percent", "nim-gpu-mem-fraction"), "nim", 0.9),
    Share(("gpu-memory-fraction",)),
)
"""SGLang and TensorRT-LLM take their share of what is free at their start; of all memory it is never too little."""

CACHE_SIZES = {"kv-cache-memory-bytes": 1.0, "kv-cache-memory": 1.0, "vllm-cpu-kvcache-space": GIB}
"""Options that give the cache a size, and their unit in bytes; no share is reserved then. The last is of the CPU."""

NAMES_NO_ENGINE = ("", "openai", "dynamo", "lmcache")
"""Catalogue entries behind which any engine may be."""

_SEPARATOR = re.compile(r"[\s=:,{}\"']+")
_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,6})?)([kKmMgGtT]?)(?:i?B)?")
_UNKNOWN = "how much memory it needs is not known: set memory_gib or weights in its table"
_PRESSED = "the machine is short of memory already: for {percent:.1f} % of the last 10 s everything waited for it"
_ROOM = "{fit.available_gib:.1f} GiB are available and {fit.credit_gib:.1f} GiB come back"
_SHORT = (
    f"it needs {{fit.need_gib:.1f}} GiB ({{source}}); {_ROOM}, so that {{fit.left_gib:.1f}} GiB would stay free where "
    "{fit.headroom_gib:.1f} GiB must"
)
_NO_ROOM = f"{_ROOM}, less than the {{fit.headroom_gib:.1f}} GiB that must stay free"
_UNREAD = "how much memory is available is not known; whether it fits cannot be told"
_SWAP = "swap is nearly full: {free:.1f} of {total:.1f} GiB are free"


@dataclass(frozen=True, slots=True)
class Need:
    """What an engine will hold when it is ready, in GiB; None when it is not known.

    Attributes:
        source: what decided ("memory_gib", "learnt", "weights", or an option with its value); "" with None.
        parts: the terms it is computed from, one line each.
    """

    gib: float | None
    source: str = ""
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fit:
    """The answer, in GiB rounded to 0.1; None for what is not known.

    Attributes:
        credit_gib: what engines that are stopped first give back.
        headroom_gib: what must stay free: as configured, but at most a tenth of all.
        left_gib: what stays free when it is ready.
        reason: why it does not fit; "" when it does.
    """

    ok: bool
    available_gib: float | None
    credit_gib: float
    need_gib: float | None
    headroom_gib: float
    left_gib: float | None
    reason: str = ""
    warnings: tuple[str, ...] = ()


def need(entry: EngineSettings, weights_gib: float | None, learnt_gib: float | None, total_gib: float | None) -> Need:
    """What an engine needs: as configured, else as learnt, else from its weights; and never less than it reserves.

    Args:
        weights_gib: size of its weights on disk.
        learnt_gib: most it held after earlier loads.
        total_gib: all memory that models are loaded into.
    """
    options = _options(entry)
    cache_gib = _cache_gib(options)
    base = _base(entry, weights_gib, learnt_gib, cache_gib)
    share, why = _share(entry, options) if cache_gib is None else (0.0, "")
    if not share or total_gib is None:
        return base
    reserved_gib = share * total_gib
    parts = (*base.parts, f"{why} of {total_gib:.1f} GiB: {reserved_gib:.1f} GiB")
    return Need(reserved_gib, why, parts) if reserved_gib > (base.gib or 0.0) else Need(base.gib, base.source, parts)


def fits(
    memory: Memory,
    credit_gib: float,
    need: Need,
    headroom_gib: float,
    pressure_max_percent: float = PRESSURE_MAX_PERCENT,
) -> Fit:
    """Whether enough stays free beside an engine, counting what comes back from those that are stopped first."""
    available, wanted, credit = _rounded(memory.available_gib), _rounded(need.gib), round(credit_gib, 1)
    fit = Fit(
        ok=True,
        available_gib=available,
        credit_gib=credit,
        need_gib=wanted,
        headroom_gib=round(kept_free(headroom_gib, memory), 1),
        left_gib=None if available is None or wanted is None else round(available + credit - wanted, 1),
        warnings=_warnings(memory, need),
    )
    pressed = memory.pressure_full_avg10 is not None and memory.pressure_full_avg10 > pressure_max_percent
    reason = _PRESSED.format(percent=memory.pressure_full_avg10) if pressed else _reason(fit, need.source)
    return replace(fit, ok=not reason, reason=reason)


def kept_free(headroom_gib: float, memory: Memory) -> float:
    """GiB that must stay free: as configured, but at most a tenth of all."""
    return min(headroom_gib, HEADROOM_SHARE_MAX * (memory.total_gib or math.inf))


def swap_low(memory: Memory) -> tuple[float, float] | None:
    """(free, all) of the swap space in GiB when little of it is left."""
    free, total = memory.swap_free_gib, memory.swap_total_gib
    return (free, total) if free is not None and total and free < SWAP_FREE_SHARE_LOW * total else None


def _reason(fit: Fit, source: str) -> str:
    """What stays free decides; where the need is unknown, what is free before the engine takes anything."""
    if fit.left_gib is not None:
        return _SHORT.format(fit=fit, source=source) if fit.left_gib < fit.headroom_gib else ""
    known = fit.available_gib is not None and fit.available_gib + fit.credit_gib < fit.headroom_gib
    return _NO_ROOM.format(fit=fit) if known else ""


def _rounded(gib: float | None) -> float | None:
    return None if gib is None else round(gib, 1)


def _warnings(memory: Memory, need: Need) -> tuple[str, ...]:
    unknown = [_UNKNOWN] if need.gib is None else []
    unread = [_UNREAD] if memory.available_gib is None else []
    low = swap_low(memory)
    return (*unknown, *unread, *([_SWAP.format(free=low[0], total=low[1])] if low else []))


def _base(entry: EngineSettings, weights_gib: float | None, learnt_gib: float | None, cache_gib: float | None) -> Need:
    if entry.memory_gib > 0:
        return Need(entry.memory_gib, "memory_gib", (f"memory_gib: {entry.memory_gib:.1f} GiB",))
    if learnt_gib:
        return Need(learnt_gib, "learnt", (f"held after an earlier load: {learnt_gib:.1f} GiB",))
    if not weights_gib:
        return Need(None)
    workspace_gib = workspace(weights_gib)
    terms = {
        f"weights {weights_gib:.1f} GiB x {WEIGHTS_FACTOR}": weights_gib * WEIGHTS_FACTOR,
        "workspace and a small cache": workspace_gib,
        "cache of a configured size": cache_gib or 0.0,
    }
    return Need(sum(terms.values()), "weights", tuple(f"{name}: {gib:.1f} GiB" for name, gib in terms.items() if gib))


def workspace(weights_gib: float) -> float:
    """GiB for graphs, buffers and a cache of usual size: half of the weights, from 0.25 to 4 GiB."""
    return min(WORKSPACE_MAX_GIB, max(WORKSPACE_MIN_GIB, weights_gib * WORKSPACE_SHARE))


def _share(entry: EngineSettings, options: Mapping[str, str]) -> tuple[float, str]:
    """The share of all memory it reserves, and what says so; (0, "") when it reserves none."""
    given = {name: _fraction(options.get(name, "")) for share in SHARES for name in share.options}
    name = max(given, key=lambda one: given[one])
    if given[name]:
        return given[name], f"{name} {given[name]:g}"
    usual = next((share for share in SHARES if entry.command and _takes_default(share, entry)), None)
    return (usual.default, f"{usual.options[0]} {usual.default:g}, the default") if usual else (0.0, "")


def _takes_default(share: Share, entry: EngineSettings) -> bool:
    if entry.engine in NAMES_NO_ENGINE:
        return bool(share.program) and any(share.program in word for word in entry.command)
    return share.engine == entry.engine


def _fraction(word: str) -> float:
    """A share above 0 and at most 1; 0 when it is none, such as a variable that only a shell knows."""
    number = float(word) if re.fullmatch(r"\d{0,3}\.?\d{1,9}", word) else 0.0
    return number if 0 < number <= 1 else 0.0


def _cache_gib(options: Mapping[str, str]) -> float | None:
    """The cache size an option sets; None when none does, or in words that are no size."""
    for name, unit_bytes in CACHE_SIZES.items():
        if size := _SIZE.fullmatch(options.get(name, "")):
            return float(size[1]) * _scale(size[2]) * unit_bytes / GIB
    return None


def _scale(letter: str) -> float:
    """k, m, g count in thousands, K, M, G in 1024s, as vLLM reads them."""
    return (1000.0 if letter.islower() else 1024.0) ** " kmgt".index(letter.lower() or " ")


def _options(entry: EngineSettings) -> dict[str, str]:
    """Each word of command and environment with the one after it; of an option given twice the last counts.

    `--name value`, `--name=value`, `-e NAME=value`, the words of a shell's `-c` and keys of JSON are all found.
    """
    return {_plain(name): value for name, value in pairwise(_words((*entry.environment, *entry.command)))}


def _words(texts: Iterable[str]) -> Iterator[str]:
    return (word for text in texts for word in _SEPARATOR.split(text) if word)


def _plain(word: str) -> str:
    return word.lstrip("-").replace("_", "-").lower()
