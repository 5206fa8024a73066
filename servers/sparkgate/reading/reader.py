"""The gate's side of reading pages: a fresh process for each page, and one that waits for the next."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict
from typing import Any

import anyio

from sparkgate import log
from sparkgate.policy.guard import Guard
from sparkgate.reading.page import Body, Robots, Unreadable, unreadable
from sparkgate.reading.shown import Asked, Shown, from_json

__all__ = ["Asked", "Body", "Reader", "Robots", "Shown", "Unreadable"]

COMMAND = (sys.executable, "-I", "-m", "sparkgate.reading.worker")
ENVIRONMENT = {"LC_ALL": "C.UTF-8"}
MAX_ANSWER_BYTES = 1_500_000
MAX_BODY_BYTES = 64_000_000
ENDS_S = 0.3
"""So long may a process take from its answer to its end."""
PARALLEL = 2
"""Pages read at a time; more wait, within their own deadline."""
ENDINGS: Mapping[int, str] = {-signal.SIGXCPU: "too_slow"}
"""How a process ended that did not answer → what that means."""

NAME, FRAME = re.compile(r"[A-Za-z_]\w{0,60}", re.A), re.compile(r"[\w./-]{1,300}:\d{1,7}", re.A)

Answer = Mapping[str, Any]


class Reader:
    """Reads pages, each in a process of its own that has seen no other.

    One more process is started ahead, so that a page does not wait for it; it is ended when none came for a while.
    Belongs to one event loop.

    Args:
        guard: opened for starting the process; None where there is none.
        idle_s: how long a started process waits for a page, in seconds.
        command: argv of the process, its program as an absolute path.
    """

    def __init__(self, guard: Guard | None = None, *, idle_s: float = 60.0, command: Sequence[str] = COMMAND) -> None:
        self._guard, self._idle_s, self._command = guard, idle_s, tuple(command)
        self._places = asyncio.Semaphore(PARALLEL)
        self._spare: Process | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    async def read(self, body: Body, asked: Asked, deadline_s: float = 10.0) -> Shown | Unreadable:
        """What is asked of a page, or why there is no text; within `deadline_s` seconds. Never raises on bad luck."""
        job = {"job": "page", "type": body.content_type, "url": body.url, "asked": asdict(asked)}
        answer = await self._ask(job, body.data, deadline_s)
        with suppress(KeyError, TypeError, ValueError):
            return from_json(answer["shown"])
        return unreadable(answer.get("code"), answer.get("detail"))

    async def robots(self, data: bytes, url: str, agent: str, deadline_s: float = 5.0) -> Robots | Unreadable:
        """What the robots.txt `data` says of `url` to the user agent `agent`, within `deadline_s` seconds."""
        answer = await self._ask({"job": "robots", "url": url, "agent": agent}, data, deadline_s)
        allowed = answer.get("allowed")
        return Robots(allowed) if isinstance(allowed, bool) else unreadable(answer.get("code"))

    @property
    def is_warm(self) -> bool:
        """Whether a process waits for the next page."""
        return self._spare is not None and self._spare.returncode is None

    def warm(self) -> None:
        """Start the process for the next page now, in the background; such as while the page is still on its way."""
        if not self._closed and not self.is_warm and not self._tasks:
            task = asyncio.get_running_loop().create_task(self._prepare())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        """End the process that waits; pages that are being read are read to their end."""
        self._closed = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if spare := self._taken():
            await _end(spare)

    async def _ask(self, header: Mapping[str, Any], data: bytes, deadline_s: float) -> Answer:
        if len(data) > MAX_BODY_BYTES:
            return {"code": "too_much_memory"}
        with anyio.move_on_after(deadline_s):
            async with self._places:
                try:
                    process = self._taken() or await self._start()
                except OSError as error:
                    log.error("page_start", **log.describe(error))
                    return {"code": "reader_failed"}
                try:
                    return await _exchange(process, {**header, "size": len(data), "seconds": deadline_s}, data)
                finally:
                    await _end(process)
                    self.warm()
        return {"code": "too_slow"}

    async def _start(self) -> Process:
        """Not given up halfway, so that there is no process that nobody knows."""
        with anyio.CancelScope(shield=True), self._guard.child(self._command) if self._guard else nullcontext():
            process = await asyncio.create_subprocess_exec(
                *self._command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, cwd="/", env=ENVIRONMENT, close_fds=True
            )
        return process

    async def _prepare(self) -> None:
        """That it cannot be started shows when a page needs one."""
        with suppress(OSError):
            self._spare = await self._start()
            self._timer = asyncio.get_running_loop().call_later(self._idle_s, self._retire)

    def _taken(self) -> Process | None:
        """The process that waits, now no longer; None when there is none or it has died."""
        spare, self._spare = self._spare, None
        if self._timer:
            self._timer.cancel()
        return spare if spare and spare.returncode is None else None

    def _retire(self) -> None:
        if spare := self._taken():
            task = asyncio.get_running_loop().create_task(_end(spare))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


async def _exchange(process: Process, header: Mapping[str, Any], data: bytes) -> Answer:
    """Tell it the job and hear its answer; its end without one is an answer too."""
    assert process.stdin and process.stdout
    with suppress(OSError):
        process.stdin.write(json.dumps(header).encode() + b"\n")
        process.stdin.write(data)
        await process.stdin.drain()
        process.stdin.write_eof()
    line = bytearray()
    while (piece := await process.stdout.read(65_536)) and len(line) <= MAX_ANSWER_BYTES:
        line += piece
    if not line.endswith(b"\n") and len(line) <= MAX_ANSWER_BYTES:
        ending = await process.wait()
        if ending not in ENDINGS:
            log.error("page_process", code=ending)
        return {"code": ENDINGS.get(ending, "reader_failed")}
    return _understood(bytes(line))


def _understood(line: bytes) -> Answer:
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        log.error("page_answer", size_bytes=len(line))
        return {"code": "reader_failed"}
    if "fault" in answer:
        log.error("page_fault", **_fault(answer["fault"]))
    return answer


def _fault(told: object) -> dict[str, Any]:
    """Type and place of an exception as the process told them, unless they are anything else."""
    told = told if isinstance(told, dict) else {}
    kind, frames = str(told.get("exception", "")), told.get("frames")
    places = [str(one) for one in frames[:4]] if isinstance(frames, list) else []
    return {"exception": kind if NAME.fullmatch(kind) else "unknown", "frames": list(filter(FRAME.fullmatch, places))}


async def _end(process: Process) -> None:
    """Wait until it is gone, whatever happens meanwhile; it is killed unless it has ended its answer, and so itself."""
    assert process.stdout
    with anyio.CancelScope(shield=True):
        if process.stdout.at_eof():
            with anyio.move_on_after(ENDS_S):
                await process.wait()
        with suppress(ProcessLookupError):
            if process.returncode is None:
                process.kill()
        with suppress(OSError):
            await process.communicate()
