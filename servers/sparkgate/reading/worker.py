"""`python -I -m sparkgate.reading.worker`: reads one page and ends.

Its standard input is a line of JSON that says what to do and then the document, `size` bytes; its standard output one
line of JSON. Everything is imported before anything foreign is read, and from then on it opens no socket, starts no
process, writes no file and takes no more memory and time than the limits here.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import sys
from collections.abc import Mapping
from typing import Any

from sparkgate.log import describe
from sparkgate.policy.guard import Guard
from sparkgate.reading import document, robots
from sparkgate.reading.page import Body, NotReadable, to_json

LIMITS: Mapping[int, int] = {
    resource.RLIMIT_AS: 700_000_000,
    resource.RLIMIT_CPU: 8,
    resource.RLIMIT_FSIZE: 0,
    resource.RLIMIT_CORE: 0,
    resource.RLIMIT_NOFILE: 16,
    resource.RLIMIT_NPROC: 0,
}
"""Bytes, seconds, bytes, bytes, files, processes."""
SHARE_OF_TIME, CPU_S, AGAIN_S = 0.75, 6.0, 0.1
"""Of the time there is, this share goes into reading, and of the processor's at most so much; then what there is by
then is told."""


class OutOfTime(BaseException):
    """The time for reading is over. Not an `Exception`, so that no library takes it for one of its own."""


def main() -> None:
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


def _out_of_time(*_: object) -> None:
    raise OutOfTime


def _answer(job: Mapping[str, Any], data: bytes) -> dict[str, Any]:
    """What is told of the job; nothing foreign is in it but the fields of a Read."""
    try:
        signal.setitimer(signal.ITIMER_REAL, job["seconds"] * SHARE_OF_TIME, AGAIN_S)
        signal.setitimer(signal.ITIMER_PROF, CPU_S, AGAIN_S)
        try:
            return _done(job, data)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.setitimer(signal.ITIMER_PROF, 0)
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
    if job["job"] == "robots":
        return robots.verdict(data, job["url"], job["agent"])
    return {"read": to_json(document.read(Body(data, job["type"], job["url"]), OutOfTime))}


def _write(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


if __name__ == "__main__":
    main()
