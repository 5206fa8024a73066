"""`python -I -m sparkgate.measure.worker`: the process that measures one order, and reaches one origin only.

The first line of its standard input is the order, its standard output one event a line. It ends when it is done, at
SIGTERM, and when its standard input ends; in the latter cases what was measured until then is told first.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sparkgate.measure.bursts import Course, Emit
from sparkgate.measure.energy import PowerLog, command, nvidia_smi
from sparkgate.measure.gpu import other_processes
from sparkgate.measure.order import Order, OrderError, base_url, read
from sparkgate.measure.protocol import Run
from sparkgate.paths import state_dir
from sparkgate.policy.guard import Guard
from sparkgate.policy.kill_switch import is_loopback, kill_switch_of
from sparkgate.policy.local_stream import StreamDoor, StreamDoorError

MAX_ORDER_BYTES = 4_000_000
_STDIN, _STDOUT = 0, 1

HIDDEN, SHORTEST_SECRET_CHARS = "[withheld]", 8


def main() -> int:
    """The exit code: 0 once a last event was written."""
    guard = Guard()
    guard.install()
    try:
        order = read(_first_line())
    except OrderError as error:
        emit({"event": "failed", "code": "bad_order", "message": str(error)})
        return 0
    asyncio.run(_run(order, guard))
    return 0


def _first_line() -> bytes:
    """Unbuffered, so that the end of the input is seen later."""
    line = bytearray()
    while not line.endswith(b"\n") and len(line) < MAX_ORDER_BYTES:
        piece = os.read(_STDIN, 65_536)
        if not piece:
            break
        line += piece
    return bytes(line.partition(b"\n")[0])


def emit(event: Mapping[str, Any]) -> None:
    """Write one event; that nobody reads it any more shows at the end of the input."""
    with suppress(BrokenPipeError):
        data = memoryview(json.dumps(event, separators=(",", ":"), allow_nan=False).encode() + b"\n")
        while data:
            data = data[os.write(_STDOUT, data) :]


async def _run(order: Order, guard: Guard) -> None:
    cancel = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, cancel.set)
    _cancel_at_end_of_input(loop, cancel)
    try:
        switch = kill_switch_of(Path(state_dir()))
        async with StreamDoor(base_url(order.url), order.headers, guard, switch) as door:
            with _power(order.url, guard) as power:
                await Run(order, door, Course(_without(order.headers), cancel, power), guard).whole()
    except StreamDoorError as error:
        emit({"event": "failed", "code": "unreachable", "message": str(error)})


def _without(headers: Mapping[str, str]) -> Emit:
    """Emits events without the words of these headers: an engine may repeat the key when it refuses it."""
    secrets = [word for value in headers.values() for word in value.split() if len(word) >= SHORTEST_SECRET_CHARS]
    return lambda event: emit(hidden(event, secrets))


def hidden(value: Any, secrets: Sequence[str]) -> Any:
    """JSON without these words, also where a text was cut within one."""
    if isinstance(value, str):
        for secret in secrets:
            value = _hidden_in(value, secret)
        return value
    if isinstance(value, Mapping):
        return {name: hidden(one, secrets) for name, one in value.items()}
    return [hidden(one, secrets) for one in value] if isinstance(value, (list, tuple)) else value


def _hidden_in(text: str, secret: str) -> str:
    text = text.replace(secret, HIDDEN)
    for length in range(len(secret) - 1, SHORTEST_SECRET_CHARS - 1, -1):
        if text.endswith(secret[:length]):
            return text[:-length] + HIDDEN
    return text


def _cancel_at_end_of_input(loop: asyncio.AbstractEventLoop, cancel: asyncio.Event) -> None:
    def readable() -> None:
        if not os.read(_STDIN, 65_536):
            loop.remove_reader(_STDIN)
            cancel.set()

    # A file as input cannot be watched, and has no end that means anything.
    with suppress(OSError):
        loop.add_reader(_STDIN, readable)


@contextmanager
def _power(url: str, guard: Guard) -> Iterator[PowerLog | None]:
    """Readings of the GPU of this machine, where the engine runs on it."""
    program = shutil.which("nvidia-smi")
    if not program or not is_loopback(urlsplit(url).hostname or ""):
        yield None
        return
    with PowerLog(nvidia_smi([program, *command()[1:]], guard)) as power:
        power.others = other_processes(program, guard)
        yield power


if __name__ == "__main__":
    sys.exit(main())
