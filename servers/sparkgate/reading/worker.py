"""`python -I -m sparkgate.reading.worker`: reads one page, tells what is asked of it and ends.

Its standard input is a line of JSON that says what to do and then the document, `size` bytes; its standard output one
line of JSON. Everything is imported before anything foreign is read, and from then on it opens no socket, starts no
process, writes no file and takes no more memory and time than the limits here. It ends when the gate does.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import resource
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from sparkgate.log import describe
from sparkgate.policy.guard import Guard
from sparkgate.reading import document, robots
from sparkgate.reading.choose import chosen
from sparkgate.reading.page import Body, NotReadable
from sparkgate.reading.shown import Asked, to_json

LIMITS: Mapping[int, int] = {
    resource.RLIMIT_AS: 700_000_000,
    resource.RLIMIT_CPU: 8,
    resource.RLIMIT_FSIZE: 0,
    resource.RLIMIT_CORE: 0,
    resource.RLIMIT_NOFILE: 16,
    resource.RLIMIT_NPROC: 0,
}
"""Bytes, seconds, bytes, bytes, files, processes."""
READING, CHOOSING = (0.7, 5.5), (0.15, 1.5)
"""So large a share of the time there is, and so many seconds of the processor, are for each of the two; then what there
is by then is told."""
AGAIN_S = 0.1
PR_SET_PDEATHSIG = 1


class OutOfTime(BaseException):
    """The time for reading is over. Not an `Exception`, so that no library takes it for one of its own."""


def main() -> None:
    _end_with_parent()
    answer_to = os.dup(1)
    os.dup2(2, 1)  # what a library prints is no answer
    for limit, most in LIMITS.items():
        resource.setrlimit(limit, (most, most + (limit == resource.RLIMIT_CPU)))
    for number in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(number, _out_of_time)
    gc.disable()
    Guard().install()
    job = json.loads(sys.stdin.buffer.readline() or '{"size": -1}')
    data = sys.stdin.buffer.read(max(0, job["size"]))
    if len(data) == job["size"]:
        line = json.dumps(_answer(job, data), ensure_ascii=False, separators=(",", ":"))
        _write(answer_to, line.encode("utf-8", "replace") + b"\n")
    os._exit(0)


def _end_with_parent() -> None:
    """Killed by the kernel, as a parser that is busy hears no signal (Linux)."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _out_of_time(*_: object) -> None:
    raise OutOfTime


def _allow(seconds: float, allowed: tuple[float, float]) -> None:
    """What is over its time from now on is told so, again and again."""
    share, cpu_s = allowed
    signal.setitimer(signal.ITIMER_REAL, seconds * share, AGAIN_S)
    signal.setitimer(signal.ITIMER_PROF, cpu_s, AGAIN_S)


def _answer(job: Mapping[str, Any], data: bytes) -> dict[str, Any]:
    """What is told of the job; nothing foreign is in it but the text of what is shown."""
    try:
        try:
            return _done(job, data)
        finally:
            _allow(0, (0, 0))
    except NotReadable as reason:
        return {"code": reason.code, "detail": reason.detail}
    except OutOfTime:
        return {"code": "too_slow"}
    except MemoryError:
        return {"code": "too_much_memory"}
    except RecursionError:
        return {"code": "damaged"}
    except Exception as error:
        return {"code": "reader_failed", "fault": describe(error)}


def _done(job: Mapping[str, Any], data: bytes) -> dict[str, Any]:
    _allow(job["seconds"], READING)
    if job["job"] == "robots":
        return robots.verdict(data, job["url"], job["agent"])
    read = document.read(Body(data, job["type"], job["url"]), OutOfTime)
    _allow(job["seconds"], CHOOSING)
    return {"shown": to_json(chosen(read, Asked(**job["asked"])))}


def _write(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


if __name__ == "__main__":
    main()
