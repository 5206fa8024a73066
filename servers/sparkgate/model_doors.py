"""The gate's side of the model doors: which engines a confined agent reaches, and the process that carries to them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

from sparkgate import log
from sparkgate.door_process import DoorProcess
from sparkgate.door_rows import Rows
from sparkgate.door_states import Answers, addresses, ask, carried, closed, door_of, is_router, port_of
from sparkgate.engine_settings import EngineSettings
from sparkgate.policy.audit import Caller
from sparkgate.policy.kill_switch import LockedNow
from sparkgate.policy.model_door.plan import Door
from sparkgate.policy.model_door.router import ALL
from sparkgate.services import Services
from sparkgate.settings import Settings, SettingsError, load

LOOK_S = 0.5
"""How often the configuration and the kill switch are looked at."""
ASK_S, ASK_UNKNOWN_S, FIRST_ASK_S = 10.0, 2.0, 4.0
"""How often an engine is asked what it is, while it is known and while it is not, and how long an opening waits."""
KEEP_S = 60.0
"""How long the routes of a router count that does not tell them any more."""
CUT_S = 2.0
"""How long a lock waits for the process to have cut its streams."""


@dataclass(frozen=True, slots=True)
class Offered:
    """An engine that a confined agent finds at 127.0.0.1:`port`; `engine` is what the configuration says it is."""

    name: str
    port: int
    engine: str


class ModelDoors:
    """The doors of one confined agent. Belongs to one event loop.

    Attributes:
        counts: door → what it has carried, refused and failed, and what is open now.
    """

    def __init__(self, services: Services, caller: Caller) -> None:
        self._services, self._caller = services, caller
        self.counts: Mapping[str, Mapping[str, int]] = {}
        self._rows = Rows(services, caller)
        self._names: frozenset[str] = frozenset()
        self._doors: dict[str, Door] = {}
        self._entries: dict[str, EngineSettings] = {}
        self._answers: dict[str, tuple[float, Answers]] = {}
        self._doubted: set[str] = set()
        self._closed: dict[str, set[str]] = {}
        self._seen: dict[str, object] = {}
        self._stamp: object = None
        self._settings: Settings | None = None
        self._process: DoorProcess | None = None
        self._loop = asyncio.get_running_loop()
        self._cut = asyncio.Event()
        self._renewed = asyncio.Event()
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def fault(self) -> str:
        """Why nothing is carried any more; "" while it is."""
        return self._process.fault if self._process else ""

    # -- which

    def offered(self) -> tuple[Offered, ...]:
        """The engines that have a door, in the order of the configuration; none while it cannot be used."""
        return self._choice()[0]

    def refused(self) -> tuple[str, ...]:
        """Why each other engine has none."""
        return self._choice()[1]

    def _choice(self) -> tuple[tuple[Offered, ...], tuple[str, ...]]:
        try:
            engines = load(self._services.config).engines
        except SettingsError as error:
            return (), (str(error),)
        taken: dict[int, Offered] = {}
        reasons: list[str] = []
        for name, entry in engines.items():
            port, reason = port_of(entry), carried(name, entry)
            if port in taken and not reason:
                reason = f"{name}: port {port} is that of {taken[port].name}; give one of them another port"
            if reason:
                reasons.append(reason)
            else:
                taken[port] = Offered(name, port, entry.engine)
        return tuple(taken.values()), tuple(reasons)

    # -- life

    async def open(self, listeners: Mapping[str, int]) -> None:
        """Serve the listening TCP sockets of these engines; their descriptors are ours from now on."""
        self._names = frozenset(listeners)
        if not listeners:
            return
        switch = self._services.switch
        files = [str(one) for one in (switch.operator, switch.own) if one]
        self._process = DoorProcess(self._services.guard, listeners, files, self._plan, self._heard)
        await self._look()
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_ASK_S):
                await self._ask_all()
        self._tasks = [
            asyncio.create_task(work)
            for work in (self._process.keep_running(), self._keep_asking(), self._keep_locked())
        ]

    async def close(self) -> None:
        """Cut everything and end the process."""
        if self._process:
            await self._process.end()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.to_thread(self._rows.settle, now=True)

    # -- what is known

    async def _keep_asking(self) -> None:
        while True:
            await _is_set_soon(self._wake)
            self._wake.clear()
            try:
                await self._look()
                await self._ask_all()
                await asyncio.to_thread(self._rows.settle)
            except Exception as error:
                log.error("door_states", **log.describe(error))
            await self._tell()

    async def _look(self) -> None:
        """Read the configuration when its file is another; one that cannot be used closes the doors."""
        try:
            found = os.stat(self._services.config)  # noqa: PTH116
            stamp: object = (found.st_ino, found.st_mtime_ns, found.st_size)
        except OSError:
            stamp = None
        if stamp == self._stamp and self._entries:
            return
        self._stamp = stamp
        try:
            self._settings = await asyncio.to_thread(load, self._services.config)
            self._entries = {name: one for name, one in self._settings.engines.items() if name in self._names}
            self._answers = {}
        except SettingsError:
            self._settings = None

    async def _ask_all(self) -> None:
        """Ask those whose answers are old, all at the same time."""
        now_s = monotonic()
        due = [name for name in self._entries if self._due(name, now_s)]
        self._doubted.clear()
        told = await asyncio.gather(*(self._asked(name) for name in due))
        for name, answers in zip(due, told, strict=True):
            self._answers[name] = (monotonic(), self._kept(name, answers))
        await self._settle()

    def _kept(self, name: str, answers: Answers) -> Answers:
        """What a router has told of late counts while it is too busy to tell it again."""
        before = self._answers.get(name, (0.0, Answers()))[1]
        still = before.routes is not None and monotonic() - before.told_s < KEEP_S
        return before if answers.routes is None and answers.kind == before.kind and still else answers

    def _due(self, name: str, now_s: float) -> bool:
        if name not in self._answers or name in self._doubted:
            return True
        at_s, answers = self._answers[name]
        needs_more = not answers.kind or (is_router(answers.kind) and answers.routes is None)
        repeats = is_router(answers.kind) or answers.models is not None
        return now_s - at_s > (ASK_UNKNOWN_S if needs_more else ASK_S) and (needs_more or repeats)

    async def _asked(self, name: str) -> Answers:
        try:
            return await asyncio.to_thread(ask, name, self._entries[name], self._services.guard, self._services.switch)
        except Exception as error:
            log.error("door_ask", **log.describe(error))
            return Answers(self._entries[name].engine)

    async def _settle(self) -> None:
        """Make the doors of what is known."""
        if self._settings is None:
            self._doors = {name: replace(door, state="misconfigured") for name, door in self._doors.items()}
            return
        kinds = {
            name: self._answers[name][1].kind if name in self._answers else one.engine
            for name, one in self._settings.engines.items()
        }
        doors = {}
        for name, entry in self._entries.items():
            answers = self._answers.get(name, (0.0, Answers(entry.engine)))[1]
            found = await addresses(entry, self._services.guard)
            door = door_of(name, entry, answers, found, self._settings, kinds)
            seen = (entry, self._settings.control, answers.routes)
            if answers.routes is not None and self._seen.setdefault(name, seen) != seen:
                self._seen[name] = seen
                self._closed.pop(name, None)  # the operator has changed something
            doors[name] = closed(door, self._closed.get(name, ()))
        self._doors = doors

    # -- the kill switch

    async def _keep_locked(self) -> None:
        """Close what leads off this machine at the moment of locking, and open it again some time after its end."""
        while True:
            self._cut.clear()
            away = any(one.leads_away for one in self._doors.values())
            try:
                with self._services.switch.cutting(self._note_cut) if away else nullcontext():
                    await self._tell()
                    if await _is_set_soon(self._cut):
                        await self._cut_now()
            except LockedNow:
                await self._cut_now()
                await asyncio.sleep(LOOK_S)

    def _note_cut(self) -> None:
        """Called by whoever looks, in any thread."""
        self._loop.call_soon_threadsafe(self._cut.set)

    async def _cut_now(self) -> None:
        """Return when the process has cut its streams."""
        self._renewed.clear()
        if await self._tell():
            with suppress(TimeoutError):
                async with asyncio.timeout(CUT_S):
                    await self._renewed.wait()

    # -- the process

    def _plan(self) -> list[Door]:
        locked = self._services.switch.told() is not None
        return [replace(one, state="locked") if locked and one.leads_away else one for one in self._doors.values()]

    async def _tell(self) -> bool:
        return await self._process.tell() if self._process else False

    async def _heard(self, event: Mapping[str, Any]) -> None:
        work = {
            "refused": self._hear_refused,
            "left": self._hear_left,
            "counts": self._hear_counts,
            "renewed": self._hear_renewed,
        }.get(event["event"])
        if work:
            await work(event)

    async def _hear_counts(self, event: Mapping[str, Any]) -> None:
        self.counts = event["doors"]

    async def _hear_renewed(self, _event: Mapping[str, Any]) -> None:
        self._renewed.set()

    async def _hear_refused(self, event: Mapping[str, Any]) -> None:
        for door, rule, method, path, count in event["rows"]:
            await asyncio.to_thread(self._rows.refused, self._url(door), door, rule, method, path, count)

    async def _hear_left(self, event: Mapping[str, Any]) -> None:
        """Keep the model closed, and look again at what answers there."""
        name = event["door"]
        if self._entries.get(name, EngineSettings()).stays_home:
            self._closed.setdefault(name, set()).add(event["model"] or ALL)
        self._doubted.add(name)
        await asyncio.to_thread(self._rows.left, self._url(name), event)
        self._wake.set()

    def _url(self, name: str) -> str:
        door = self._doors.get(name)
        return f"{door.scheme}://{door.engine.authority}{door.engine.base}" if door else ""


async def _is_set_soon(event: asyncio.Event) -> bool:
    """Whether it is set before it is time for another look."""
    with suppress(TimeoutError):
        async with asyncio.timeout(LOOK_S):
            await event.wait()
    return event.is_set()
