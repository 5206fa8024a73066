"""What the doctor looks at: everything that is known of an engine and of its machine at one moment."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from sparkgate import log as events
from sparkgate.change.protect import Served, served_by
from sparkgate.change.scene import Routes, Scene
from sparkgate.doctor.chat import Chat, ask_chat
from sparkgate.doctor.machine import Machine, read_machine
from sparkgate.engine_settings import EngineSettings
from sparkgate.engine_state import Status
from sparkgate.engines import ENGINES
from sparkgate.engines.spec import Engine, Model
from sparkgate.fleet import Fleet
from sparkgate.machine.commands import Run
from sparkgate.machine.files import text_of
from sparkgate.machine.listeners import Listener, listeners
from sparkgate.machine.memory import PROC, Held, Memory
from sparkgate.machine.origins import local_port
from sparkgate.paths import home
from sparkgate.policy.local import LocalDoorError
from sparkgate.runtimes.spec import Look

STUCK_S = 25.0
"""Longest wait for one token; what takes longer on a machine that is up is stuck, or compiles its first request."""
AT_ONCE = 8
FILE_MAX_CHARS = 200_000
LINE_MAX_CHARS = 2000
HERMES_FILE = ".hermes/config.yaml"
PAGES: Mapping[str, tuple[str, ...]] = {
    "vllm": ("/metrics",),
    "sglang": ("/metrics", "/server_info"),
    "llamacpp": ("/props",),
    "docker-model-runner": ("/engines/status",),
    "litellm": ("/health/readiness", "/model/info"),
}
"""Engine → routes that are read besides those of its state; none loads a model, costs money or takes samples away."""
FILES = {"litellm": "--config", "vllm": "LMCACHE_CONFIG_FILE"}
"""Engine → option or variable that names a file of its configuration."""
_CONTEXT = re.compile(r"^\s*context_length:\s*(\d{1,9})\b", re.MULTILINE)
_ENVIRONMENT_WORD = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Box:
    """All engines of the catalogue, and their machine.

    `looks` has no row for an engine that is only watched; `routers` are those that answer, with their routes.
    """

    entries: Mapping[str, EngineSettings] = field(default_factory=dict)
    looks: Mapping[str, Look] = field(default_factory=dict)
    statuses: Mapping[str, Status] = field(default_factory=dict)
    routers: Mapping[str, Routes] = field(default_factory=dict)
    memory: Memory = field(default_factory=lambda: Memory(None, None))
    listeners: tuple[Listener, ...] = ()
    machine: Machine = field(default_factory=Machine)


@dataclass(frozen=True, slots=True)
class Evidence:
    """One engine now; None and empty for what is not known.

    Attributes:
        log: the last lines it has printed, oldest first.
        pages: text of further routes by path, and of files of its configuration by the option that names them. They
            are searched and never shown: they may hold keys.
        chat: how it answered a short chat with a tool in it; None when it was not asked.
        hosts: agents that live on it.
        told_context: tokens of context that Hermes is told it has.
        now_s: when this was read, in seconds since the epoch.
    """

    name: str
    entry: EngineSettings
    status: Status
    look: Look | None = None
    log: tuple[str, ...] = ()
    held: Held = field(default_factory=lambda: Held(None, ""))
    pages: Mapping[str, str] = field(default_factory=dict)
    chat: Chat | None = None
    hosts: tuple[Served, ...] = ()
    told_context: int | None = None
    now_s: float = 0.0
    box: Box = field(default_factory=Box)

    @property
    def kind(self) -> Engine:
        """What answers; the engine of the catalogue when nothing does."""
        named = self.entry.engine or "openai"
        return ENGINES.get(self.status.engine) or ENGINES[named]

    @property
    def argv(self) -> tuple[str, ...]:
        return (self.look.argv if self.look else ()) or self.entry.command

    @property
    def environment(self) -> dict[str, str]:
        """Variables it was started with, as far as they are known; for checks only, never shown."""
        pairs = (_ENVIRONMENT_WORD.fullmatch(word) for word in (*self.entry.environment, *self.entry.command))
        named = {pair[1]: pair[2] for pair in pairs if pair}
        return named | dict(self.look.environment if self.look else {})

    @property
    def traits(self) -> Mapping[str, str]:
        return self.look.traits if self.look else {}

    @property
    def memory(self) -> Memory:
        return self.box.memory

    @property
    def routes(self) -> Routes:
        """Where it sends requests, when it is a router that tells."""
        return self.box.routers.get(self.name)

    @property
    def others(self) -> dict[str, Look]:
        """What the owners of the other engines say."""
        return {name: look for name, look in self.box.looks.items() if name != self.name}

    @property
    def listener(self) -> Listener | None:
        """Its port on this machine."""
        port = local_port(self.entry.url)
        return next((one for one in self.box.listeners if one.port == port), None)

    @property
    def model(self) -> Model | None:
        """The model that it must serve, or the first that is loaded."""
        loaded = [one for one in self.status.models or () if one.loaded is not False]
        wanted = [one for one in loaded if one.is_called(self.entry.model)]
        return next(iter(wanted or loaded), None)


def read_box(fleet: Fleet, prove: Iterable[str] = (), run: Run | None = None, proc: Path = PROC) -> Box:
    """Ask every engine of the catalogue at the same time; those in `prove` also for one token.

    Args:
        run: asks kubectl and nvidia-smi for facts of the machine; None leaves them out.
    """
    chosen = set(prove)
    looks = at_once(fleet.look, fleet.catalogue)
    known = {name: look for name, look in looks.items() if look}
    mine = {pid for look in known.values() for pid in look.pids}
    statuses = at_once(lambda name: fleet.status(name, prove=name in chosen, proof_s=STUCK_S), fleet.catalogue)
    fronts = [name for name, status in statuses.items() if status.front and status.state != "down"]
    return Box(
        entries=fleet.catalogue,
        looks=known,
        statuses=statuses,
        routers=at_once(lambda name: fleet.routes(name, statuses[name].engine), fronts),
        memory=fleet.memory(),
        listeners=tuple(listeners(proc)),
        machine=read_machine(fleet.catalogue, mine, run, proc),
    )


def gather(fleet: Fleet, name: str, box: Box, folder: Path | None = None) -> Evidence:
    """Everything of one engine; `folder` is the home folder, in which hosts of agents have their configuration."""
    entry, look = fleet.catalogue[name], box.looks.get(name)
    status = box.statuses.get(name) or Status(name, entry.engine or "unknown", "unknown")
    scene = Scene(box.looks, {**box.statuses, name: status}, box.routers, box.memory)
    hosts = served_by(name, fleet, scene, folder)
    bare = Evidence(
        name,
        entry,
        status,
        look,
        log=tuple(text[:LINE_MAX_CHARS] for text in fleet.log(name)),
        held=fleet.held(look, box.memory),
        hosts=hosts,
        told_context=_told_context(folder or Path(home())) if _has_hermes(hosts) else None,
        now_s=time.time(),
        box=box,
    )
    answers = status.state not in ("down", "sleeping")
    return replace(
        bare,
        pages=_pages(fleet, bare) if answers else {},
        chat=ask_chat(fleet, name, status) if status.proven and entry.chat else None,
    )


def at_once(ask: Callable[[str], Found], names: Iterable[str]) -> dict[str, Found]:
    """Ask for every name at the same time; a mistake of ours with one does not take the others away."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        begun = {name: pool.submit(ask, name) for name in names}
    found = {}
    for name, one in begun.items():
        error = one.exception()
        if isinstance(error, Exception):
            events.error("doctor_fault", **events.describe(error))
        else:
            found[name] = one.result()
    return found


def _pages(fleet: Fleet, evidence: Evidence) -> dict[str, str]:
    door, pages = fleet.door(evidence.name), {}
    for path in PAGES.get(evidence.status.engine, ()):
        try:
            answer = door.get(evidence.entry.base + path)
        except LocalDoorError:
            continue
        if answer.status == 200:
            pages[path] = answer.text
    named = FILES.get(evidence.status.engine, "")
    return pages | ({named: text} if (text := _file(evidence, named)) else {})


def _file(evidence: Evidence, named: str) -> str:
    """The file of its configuration; "" when it is in a container, or cannot be read."""
    if not named or evidence.entry.runtime not in ("process", "systemd"):
        return ""
    after = dict(zip(evidence.argv, evidence.argv[1:], strict=False))
    path = after.get(named) or evidence.environment.get(named, "")
    return text_of(Path(evidence.entry.folder or home(), path).expanduser(), FILE_MAX_CHARS) if path else ""


def _has_hermes(hosts: Iterable[Served]) -> bool:
    return any(one.host == "Hermes" for one in hosts)


def _told_context(folder: Path) -> int | None:
    found = _CONTEXT.search(text_of(folder / HERMES_FILE, FILE_MAX_CHARS))
    return int(found[1]) if found else None
