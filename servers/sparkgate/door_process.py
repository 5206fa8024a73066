"""The process of the model doors as the gate sees it: started anew when it dies, told the state, heard line by line."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from time import monotonic
from typing import Any

from sparkgate import log
from sparkgate.policy.guard import Guard
from sparkgate.policy.model_door.plan import Door, First, written

COMMAND = (sys.executable, "-s", "-P", "-m", "sparkgate.door")
"""It reads the environment, which is `environment` and nothing of the gate's."""
HUGE_PAGE_FILE = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
HUGE_PAGE_MAX_BYTES = 4_194_304
"""Of a kernel with pages of 64 KB a huge one has 512 MB, which models need."""
_MALLOC = {"hugetlb": 1, "mmap_threshold": 131_072, "trim_threshold": 2_097_152}
"""A long body has pages of its own, which go with it; of what else is freed, 2 MB at the end are kept."""
ON_HUGE_PAGES = {
    "PYTHONMALLOC": "malloc",
    "GLIBC_TUNABLES": ":".join(f"glibc.malloc.{name}={value}" for name, value in _MALLOC.items()),
}
"""For glibc from 2.35 on. A request after a pause touches many small pages that no cache knows any more, which took
twice the time of a few huge ones; the process holds one or two megabytes more."""
MAX_STARTS, STARTS_S, RESTART_S = 5, 60.0, 0.2
END_S = 3.0
MAX_LINE_BYTES = 2_000_000
GIVEN_UP = "the process of the model doors has ended {count} times within {seconds:g} s; start the agent anew"

Heard = Callable[[Mapping[str, Any]], Awaitable[None]]


def environment(huge_page_file: Path = HUGE_PAGE_FILE) -> dict[str, str]:
    """All of the process's environment; the file holds the size of a huge page in bytes, where the kernel has them."""
    size = 0
    with suppress(OSError, ValueError):
        size = int(huge_page_file.read_text("ascii"))
    return {"LC_ALL": "C.UTF-8"} | (ON_HUGE_PAGES if 0 < size <= HUGE_PAGE_MAX_BYTES else {})


class DoorProcess:
    """One process for all doors of a confined agent.

    Args:
        listeners: descriptors by name, which belong to this from now on.
        switch: files of the kill switch, which the process looks at itself.
        plan: the doors as they are to be now.
        heard: takes each event.
        command: argv of the process, its program as an absolute path.

    Attributes:
        fault: why it is not started any more; "" while it is.
    """

    def __init__(
        self,
        guard: Guard | None,
        listeners: Mapping[str, int],
        switch: Sequence[str],
        plan: Callable[[], list[Door]],
        heard: Heard,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._guard, self._listeners, self._command = guard, dict(listeners), tuple(command)
        self._plan, self._heard, self._switch = plan, heard, tuple(switch)
        self._process: Process | None = None
        self._sent = b""
        self._starts: list[float] = []
        self._ending = False
        self._heard_all = asyncio.Event()
        self.fault = ""

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    async def keep_running(self) -> None:
        """Start it, again when it has died, and give up when that happens too often."""
        while not self.fault and not self._ending:
            self._starts = [one for one in self._starts if monotonic() - one < STARTS_S]
            if len(self._starts) >= MAX_STARTS:
                log.error("doors_given_up", starts=MAX_STARTS)
                self._drop()
                self.fault = GIVEN_UP.format(count=MAX_STARTS, seconds=STARTS_S)
                return
            self._starts.append(monotonic())
            try:
                await self._run()
            except OSError as error:
                log.error("door_start", **log.describe(error))
            await asyncio.sleep(RESTART_S)

    async def tell(self) -> bool:
        """Tell it the state of the doors when that is another; whether it was told something."""
        process, line = self._process, written(self._plan())
        if line == self._sent or process is None or process.stdin is None:
            return False
        self._sent = line
        with suppress(OSError):
            process.stdin.write(line)
            await process.stdin.drain()
        return True

    async def end(self) -> None:
        """It ends with its input, and what it still tells is heard; the listeners are gone afterwards."""
        self._ending = True
        self._drop()
        process = self._process
        if process and process.stdin:
            process.stdin.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(END_S):
                    await process.wait()
                    await self._heard_all.wait()
        await self._end()

    def _drop(self) -> None:
        """Without its listener a door refuses connections at once."""
        while self._listeners:
            with suppress(OSError):
                os.close(self._listeners.popitem()[1])

    async def _run(self) -> None:
        """One process from its start to its end."""
        with self._guard.child(self._command) if self._guard else nullcontext():
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
                cwd="/",
                env=environment(),
                pass_fds=tuple(self._listeners.values()),
                limit=MAX_LINE_BYTES,
                start_new_session=True,
            )
        self._process = process
        self._heard_all.clear()
        assert process.stdin and process.stdout
        try:
            self._sent = written(self._plan())
            with suppress(OSError):
                process.stdin.write(written(self._plan(), First(self._listeners, self._switch)))
                await process.stdin.drain()
            while line := await process.stdout.readline():
                await self._take(line)
        finally:
            self._heard_all.set()
            await self._end()
            if not self._ending:
                log.error("door_ended", code=process.returncode)

    async def _take(self, line: bytes) -> None:
        try:
            event = json.loads(line)
            if event["event"] == "fault":
                log.error("door_fault", exception=str(event["exception"]), frames=[str(one) for one in event["frames"]])
            else:
                await self._heard(event)
        except (ValueError, KeyError, TypeError) as error:
            log.error("door_line", **log.describe(error))

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin:
            process.stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                await process.wait()
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
        await process.wait()
