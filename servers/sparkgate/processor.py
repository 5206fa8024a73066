"""What an engine computes on: as it says itself, as its log says, or as the driver lists its processes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sparkgate.engine_state import Processor
from sparkgate.machine.memory import Memory
from sparkgate.runtimes.spec import Look

OFFLOADED = re.compile(r"offloaded (\d{1,4})/(\d{1,4}) layers to GPU")
NO_GPU = re.compile(r"no usable GPU found|compiled without (?:GPU|CUDA) support", re.IGNORECASE)


def processor_of(told: Processor, lines: Sequence[str], look: Look | None, memory: Memory) -> Processor:
    """The engine's own word (`told`) counts most, then its log, then whether the driver knows its processes."""
    if told != "unknown":
        return told
    said = _from_log(lines)
    if said != "unknown" or not memory.gpu or memory.holders is None or look is None or not look.pids:
        return said
    return "gpu" if {holder.pid for holder in memory.holders} & set(look.pids) else "cpu"


def _from_log(lines: Sequence[str]) -> Processor:
    """llama.cpp and what is built on it; of several loads the last one counts."""
    for line in reversed(lines):
        if found := OFFLOADED.search(line):
            part, whole = int(found[1]), int(found[2])
            return "gpu" if part >= whole else "mixed" if part else "cpu"
        if NO_GPU.search(line):
            return "cpu"
    return "unknown"
