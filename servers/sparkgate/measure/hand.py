"""`python -I -m sparkgate.measure.hand`: sends a share of a burst's requests, for a crew that one process cannot read.

The first line of its standard input tells the engine: `{"url", "headers", "path", "dialect"}`. Then each burst is two
lines: its bodies, answered by `{"ready": true}` when its connections are open, and the time at which it begins,
answered by its samples. A further line before that, `{}`, cancels the burst, and so does the end of the input.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from sparkgate.measure.clock import Burst, Clock
from sparkgate.measure.order import base_url
from sparkgate.measure.sample import to_json
from sparkgate.paths import state_dir
from sparkgate.policy.guard import Guard
from sparkgate.policy.kill_switch import kill_switch_of
from sparkgate.policy.local_stream import StreamDoor, StreamDoorError

MAX_LINE_BYTES = 1 << 28
_JSON = dict[str, Any]


async def work(guard: Guard) -> None:
    """Do what the lines of the input say, until it ends."""
    lines = asyncio.StreamReader(limit=MAX_LINE_BYTES)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    told = json.loads(await lines.readline())
    switch = kill_switch_of(Path(state_dir()))
    async with StreamDoor(base_url(told["url"]), told["headers"], guard, switch) as door:
        clock = Clock(door, told["path"], told["dialect"])
        while line := await lines.readline():
            if "bodies" in (asked := json.loads(line)):
                await burst(clock, asked, lines)


async def burst(clock: Clock, asked: _JSON, lines: asyncio.StreamReader) -> None:
    """One share of a burst: ready, begin, samples."""
    bodies = [body.encode() for body in asked["bodies"]]
    try:
        await clock.door.connect(len(bodies))
    except StreamDoorError as error:
        answer({"error": str(error)})
        return
    answer({"ready": True})
    if begins := await lines.readline():
        answer(as_json(await cancellable(clock, bodies, {**asked, **json.loads(begins)}, lines)))


async def cancellable(clock: Clock, bodies: list[bytes], asked: _JSON, lines: asyncio.StreamReader) -> Burst:
    """The burst, as far as it came before another line or the end of the input."""
    cancel = asyncio.Event()
    stop = asyncio.create_task(lines.readline())
    stop.add_done_callback(lambda _: cancel.set())
    measured = await clock.burst(bodies, asked["deadline_s"], cancel, asked["begins_ns"])
    stop.cancel()
    await asyncio.gather(stop, return_exceptions=True)
    return measured


def as_json(measured: Burst) -> _JSON:
    return {"samples": [to_json(one) for one in measured.samples], "sensors": measured.sensors.as_json()}


def answer(told: _JSON) -> None:
    sys.stdout.write(json.dumps(told, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def main() -> int:
    guard = Guard()
    guard.install()
    asyncio.run(work(guard))
    return 0


if __name__ == "__main__":
    sys.exit(main())
