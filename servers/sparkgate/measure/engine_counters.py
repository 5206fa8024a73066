"""What an engine counts itself, before and after a burst, and how many requests it had at once meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from sparkgate.engine_state import SHARES, gauges
from sparkgate.engines import ENGINES
from sparkgate.policy.local_stream import StreamDoor, StreamDoorError

POLL_S = 0.5
SETTLE_S = 0.1
SETTLE_TRIES = 10
IDLE_S = 3.0
Counters = Mapping[str, float]

MORE: Mapping[str, Mapping[str, str]] = {
    "vllm": {
        "preemptions": "vllm:num_preemptions_total",
        "drafts": "vllm:spec_decode_num_drafts_total",
        "queue_s": "vllm:request_queue_time_seconds_sum",
        "queued": "vllm:request_queue_time_seconds_count",
        "ttft_s": "vllm:time_to_first_token_seconds_sum",
        "prompt_tokens": "vllm:prompt_tokens_total",
        "cached_prompt_tokens": "vllm:prompt_tokens_cached_total",
    },
    "llamacpp": {"prompt_tokens": "llamacpp:prompt_tokens_total"},
}
"""Our name → Prometheus name, beside the gauges of the engine's own table."""
MEANS: Mapping[str, Mapping[str, str]] = {"sglang": {"accept_length": "sglang:spec_accept_length"}}
"""Likewise, of gauges that every part of an engine tells anew: of several series the median is taken, not the sum."""
GAUGES = ("running", "waiting")
"""Those that go up and down."""
LEVELS = (*GAUGES, *SHARES, "accept_length", "generation_tok_s")
"""Those of which a difference means nothing."""
TELL_GPU_SHARE = ("ollama",)
"""Engines whose list of models tells how much of each lies in GPU memory."""


@dataclass(frozen=True, slots=True)
class Counting:
    """The metrics route of one engine; "" when it has none, and then nothing is known."""

    door: StreamDoor
    path: str
    names: Mapping[str, str]
    engine: str = ""

    @classmethod
    def of(cls, door: StreamDoor, engine: str) -> Counting:
        known = ENGINES.get(engine)
        if known is None or not known.metrics:
            return cls(door, "", {}, engine)
        return cls(door, known.metrics, {**known.gauges, **MORE.get(engine, {})}, engine)

    async def text(self) -> str:
        """The metrics as they are; "" when they cannot be had."""
        if not self.path:
            return ""
        try:
            status, body = await self.door.ask("GET", self.path)
        except StreamDoorError:
            return ""
        return body.decode("utf-8", "replace") if status == 200 else ""

    async def read(self) -> Counters:
        """What it counts now; empty when that is not known."""
        text = await self.text()
        return {**gauges(text, self.names), **means(text, MEANS.get(self.engine, {}))}

    async def settled(self, before: Counters, tokens: int) -> Counters:
        """The counters after a burst of so many generated tokens: engines may count them a moment later."""
        after = await self.read()
        for _ in range(SETTLE_TRIES):
            grown = difference(before, after).get("generated_tokens")
            if grown is None or grown >= tokens:
                break
            await asyncio.sleep(SETTLE_S)
            after = await self.read()
        return after

    async def idle(self) -> bool | None:
        """Whether nobody else uses it; waits some seconds for that. None when it does not tell."""
        for _ in range(round(IDLE_S / POLL_S)):
            now = await self.read()
            if "running" not in now:
                return None
            if not now["running"] and not now.get("waiting"):
                return True
            await asyncio.sleep(POLL_S)
        return False

    async def gpu_share(self, model: str) -> float | None:
        """The share of a loaded model that lies in GPU memory, 0 to 1; None when its engine does not tell."""
        if self.engine not in TELL_GPU_SHARE:
            return None
        known = ENGINES[self.engine]
        try:
            status, body = await self.door.ask("GET", known.models.path)
            models = known.read_models(json.loads(body)) if status == 200 else []
        except (StreamDoorError, ValueError, RecursionError):
            return None
        return next((one.gpu_share for one in models if one.is_called(model)), None)


def means(text: str, names: Mapping[str, str]) -> dict[str, float]:
    """Prometheus text → the median of each gauge over its series."""
    lines = text.splitlines()
    told = {
        ours: [one[ours] for line in lines if line.startswith(theirs) and (one := gauges(line, {ours: theirs}))]
        for ours, theirs in names.items()
    }
    return {name: median(values) for name, values in told.items() if values}


def difference(before: Counters, after: Counters) -> dict[str, float]:
    """By how much each count grew; one that fell was begun anew and is left out, and so are gauges."""
    grown = {name: after[name] - before[name] for name in after if name in before and name not in LEVELS}
    return {name: value for name, value in grown.items() if value >= 0}


@dataclass(slots=True)
class Watched:
    """What was seen while a burst ran.

    Attributes:
        texts: metrics of the engine, read afterwards.
        runnable: processes of the host that wanted to run, without this one.
    """

    texts: list[str] = field(default_factory=list)
    runnable: list[int] = field(default_factory=list)

    def peaks(self, names: Mapping[str, str]) -> dict[str, float]:
        """The most of each gauge."""
        seen = [gauges(text, names) for text in self.texts]
        return {name: max(values) for name in GAUGES if (values := [one[name] for one in seen if name in one])}


async def _poll(counting: Counting, watched: Watched) -> None:
    await asyncio.sleep(SETTLE_S)
    while True:
        watched.texts.append(await counting.text())
        watched.runnable += runnable()
        await asyncio.sleep(POLL_S)


@contextmanager
def watching(counting: Counting) -> Iterator[Watched]:
    """Look at the engine now and then; what it answers is read when the burst is over."""
    watched = Watched()
    task = asyncio.create_task(_poll(counting, watched))
    try:
        yield watched
    finally:
        task.cancel()


def runnable(loadavg: Path = Path("/proc/loadavg")) -> Sequence[int]:
    """How many processes want to run now, without this one; () where that is not told."""
    try:
        return (int(loadavg.read_text().split()[3].partition("/")[0]) - 1,)
    except (OSError, ValueError, IndexError):
        return ()


def swapped_in_pages(vmstat: Path = Path("/proc/vmstat")) -> int | None:
    """Pages read back from swap since the machine started."""
    try:
        lines = dict(line.split(None, 1) for line in vmstat.read_text().splitlines())
        return int(lines["pswpin"])
    except (OSError, ValueError, KeyError):
        return None
