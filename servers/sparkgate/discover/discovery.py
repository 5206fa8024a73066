"""Finds engines that run on this machine, or were stopped on it, and who owns them. It only reads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from sparkgate.discover.owners import (
    NOBODY,
    Container,
    Group,
    Owner,
    Unit,
    containers,
    owner_of_container,
    owner_of_group,
    units,
)
from sparkgate.discover.pods import Workload, workloads
from sparkgate.discover.processes import PROC, Candidate, Seen, ancestors, candidates, family, processes
from sparkgate.discover.signs import NO_SIGN, sign_of, usual_port, wants_tls, weights_of
from sparkgate.engine_settings import EngineSettings
from sparkgate.engines import ENGINES
from sparkgate.engines.spec import Engine, Model, openai_models
from sparkgate.identify import NEEDS_KEY, Asked, Identity, identify
from sparkgate.machine.commands import Run
from sparkgate.machine.memory import held, read_memory
from sparkgate.machine.origins import origin
from sparkgate.policy.guard import Guard
from sparkgate.policy.local import LocalDoor, LocalDoorError

ASK_S = 2.0
ASK_MAX_BYTES = 64 * 1024
ASKED_AT_ONCE = 8
NAMED_BY_ROOT = ("lmstudio",)
"""Engines whose models are loaded by another name than that of the copy that is loaded."""
State = Literal["answers", "needs key", "loading", "stopped"]
DoorFor = Callable[[str], LocalDoor]


@dataclass(frozen=True, slots=True)
class Found:
    """An engine.

    `models` are ids: those loaded in a resident engine or else, with `loaded` False, those that it lists.
    `because` names what speaks for it. `held_gib` is what its processes hold now, None when that is not known.
    """

    candidate: Candidate
    engine: str
    state: State
    because: tuple[str, ...]
    models: tuple[str, ...] = ()
    loaded: bool = True
    held_gib: float | None = None

    @property
    def resident(self) -> bool:
        """Whether models come and go in it by request."""
        return ENGINES[self.engine].resident


@dataclass(frozen=True, slots=True)
class Discovery:
    """`asked` addresses got GET requests; `known` engines are in the catalogue, `inner` ones belong to another one."""

    found: tuple[Found, ...]
    asked: int
    known: int
    inner: int
    notes: tuple[str, ...] = ()


def door_for(guard: Guard | None = None) -> DoorFor:
    """URL → a door to it and to nothing else, with the patience and the limit that a stranger gets."""
    return lambda url: LocalDoor([url], ASK_S, ASK_MAX_BYTES, guard)


def discover(
    catalogue: Mapping[str, EngineSettings], run: Run, door: DoorFor | None = None, proc: Path = PROC
) -> Discovery:
    """Look at ports, processes, containers, units and pods; ask what listens with a few GETs each.

    `catalogue` is what need not be found. `run` asks docker, systemd, kubectl and nvidia-smi.
    """
    places, notes = owned(candidates(proc), processes(proc), run)
    fresh = [place for place in places if not _is_known(place, catalogue)]
    with ThreadPoolExecutor(max_workers=ASKED_AT_ONCE) as pool:
        answers = pool.map(lambda place: recognise(place, door or door_for()), fresh)
        found = [one for one in answers if one]
    seen = processes(proc)
    outer = [one for one in found if not _is_inner(one, found, seen)]
    memory = read_memory(run, proc) if outer else None
    return Discovery(
        found=tuple(
            replace(one, held_gib=held(family(one.candidate.pids, seen), memory, proc).gib) if memory else one
            for one in outer
        ),
        asked=sum(place.state == "listening" for place in fresh),
        known=len(places) - len(fresh),
        inner=len(found) - len(outer),
        notes=notes,
    )


def recognise(candidate: Candidate, door: DoorFor) -> Found | None:
    """What answers at a candidate, by at most six GETs; else what its command line or image says.

    None for what is no engine: web pages, TLS, other protocols, and what says nothing of itself anywhere.
    """
    sign = candidate.sign
    if candidate.state != "listening":
        state: State = "loading" if candidate.state == "silent" else "stopped"
        return Found(candidate, sign.engine, state, (sign.because,)) if sign.engine else None
    with door(candidate.url) as opened:
        asked = Asked(lambda path: opened.get(candidate.url + path))
        try:
            identity = identify(asked)
        except LocalDoorError:
            hides = not sign.engine or wants_tls(candidate.argv)
            return None if hides else Found(candidate, sign.engine, "loading", (sign.because,))
        return None if _is_page(asked) else _judged(candidate, identity, asked)


def _judged(candidate: Candidate, identity: Identity, asked: Asked) -> Found | None:
    """What HTTP proves wins over what a command line says; what says no more than OpenAI does not."""
    sign = candidate.sign
    plain = identity.engine in (None, ENGINES["openai"])
    engine = ENGINES.get(sign.engine) if plain and sign.engine else identity.engine
    if engine is None:
        return None
    because = (*identity.because, *((sign.because,) if sign.engine else ()))
    if identity.engine is None:
        silent = asked.met(503) or not any(asked.answers.values())
        state: State | None = "needs key" if asked.met(*NEEDS_KEY) else "loading" if silent else None
        return Found(candidate, engine.name, state, because) if state else None
    models, loaded = _models(engine, asked)
    return Found(candidate, engine.name, "answers", because, models, loaded)


def _models(engine: Engine, asked: Asked) -> tuple[tuple[str, ...], bool]:
    """Ids of the models that are loaded and True, or of those that are listed and False."""
    told = engine.read_models(asked.json(engine.models.path))
    loaded = tuple(_name(engine, one) for one in told if one.loaded)
    if loaded:
        return tuple(dict.fromkeys(loaded)), True
    listed = [*openai_models(asked.json("/v1/models")), *told]
    return tuple(dict.fromkeys(one.id for one in listed)), False


def _name(engine: Engine, model: Model) -> str:
    return model.root if model.root and engine.name in NAMED_BY_ROOT else model.id


def _is_page(asked: Asked) -> bool:
    """Whether every path is answered with a web page, as an application of one page does."""
    answers = [answer for answer in asked.answers.values() if answer]
    return bool(answers) and all(one.status == 200 and one.content_type == "text/html" for one in answers)


def _is_known(place: Candidate, catalogue: Mapping[str, EngineSettings]) -> bool:
    """By its address; what was stopped by its owner, as several that take turns have one address."""
    if place.state == "stopped":
        owner = place.owner
        return any((one.runtime, one.unit) == (owner.runtime, owner.unit) for one in catalogue.values() if one.unit)
    return origin(place.url) in {origin(one.url) for one in catalogue.values()}


def _is_inner(one: Found, found: Collection[Found], seen: Mapping[int, Seen]) -> bool:
    """Whether another engine has started it, and so stops it when it wants."""
    outer = {pid for other in found if other is not one and other.resident for pid in other.candidate.pids}
    above = {up for pid in one.candidate.pids for up in ancestors(pid, seen)}
    return bool(outer & above - set(one.candidate.pids))


# -- who owns what


def owned(
    listening: Iterable[Candidate], seen: Mapping[int, Seen], run: Run
) -> tuple[list[Candidate], tuple[str, ...]]:
    """The candidates with their owners, and those that only an owner tells of; then what could not be told."""
    boxes, docker_note = containers(run)
    known = units(run)
    places: list[Candidate] = []
    plain: list[Candidate] = []
    pods: list[Candidate] = []
    for place in listening:
        box = _box_of(place, boxes)
        group = pods if place.group.kind == "kubernetes" else plain
        if box:
            places.append(_in_box(place, box, seen, run))
        else:
            group.append(place)
    places += [_on_machine(place, known, seen) for place in plain]
    taken = {place.port for place in (*places, *pods)}
    places += [_in_box(one, box, seen, run) for box in boxes for one in _published(box, taken)]
    places += _stopped_units(known)
    inside, pod_note = _in_pods(pods, seen, known, run)
    return [*places, *inside], tuple(note for note in (docker_note, pod_note) if note)


def _box_of(place: Candidate, boxes: Iterable[Container]) -> Container | None:
    """The running container of a process, or the one that has published its port."""
    for box in boxes:
        published = any(port == place.port for port, _, _ in box.ports) and place.state == "listening"
        if box.running and (box.id == place.group.id or published):
            return box
    return None


def _in_box(place: Candidate, box: Container, seen: Mapping[int, Seen], run: Run) -> Candidate:
    sign = sign_of(box.argv, box.image)
    inside = {port: within for port, within, _ in box.ports}.get(place.port, place.port)
    ports = [within for _, within, _ in box.ports]
    usual = usual_port(box.argv, sign.engine) if sign.engine else 0
    serves = inside == usual or len(ports) < 2
    own = tuple(pid for pid in place.pids if pid in seen and seen[pid].group.id == box.id)
    inner = dict.fromkeys(pid for pid in (box.pid, *_members(box.id, seen)) if pid and box.running)
    return replace(
        place,
        argv=box.argv,
        pids=own or tuple(inner),
        group=Group("docker", box.id),
        sign=sign if serves else NO_SIGN,
        public=place.public or any(port == place.port and open_ for port, _, open_ in box.ports),
        weights=box.outside(weights_of(box.argv)),
        owner=owner_of_container(box, run) if sign.engine or place.state == "listening" else NOBODY,
    )


def _published(box: Container, taken: Collection[int]) -> Iterator[Candidate]:
    """Ports of a container that nobody is seen to listen on: those of one that runs, or the main one of a stopped."""
    sign = sign_of(box.argv, box.image)
    if box.running:
        yield from (Candidate(port) for port, _, _ in box.ports if port not in taken)
    elif sign.engine:
        usual = usual_port(box.argv, sign.engine)
        ports = {inside: outside for outside, inside, _ in box.ports}
        outside = ports.get(usual) or next(iter(ports.values()), usual if box.host_network else 0)
        if outside:
            yield Candidate(outside, state="stopped")


def _members(id_: str, seen: Mapping[int, Seen]) -> list[int]:
    return sorted(pid for pid, one in seen.items() if one.group.id == id_)


def _on_machine(place: Candidate, known: Mapping[str, Unit], seen: Mapping[int, Seen]) -> Candidate:
    above = {up for pid in place.pids for up in ancestors(pid, seen)}
    owner = owner_of_group(place.group, above, known)
    if owner is None:
        notes = () if place.same_user else ("its process is not of this user, so it is only watched",)
        owner = Owner("process" if place.same_user else "", notes=notes)
    return replace(place, weights=weights_of(place.argv, place.folder), owner=owner)


def _stopped_units(known: Mapping[str, Unit]) -> Iterator[Candidate]:
    for unit in known.values():
        sign = sign_of(unit.argv)
        if sign.engine and not unit.active:
            yield Candidate(
                usual_port(unit.argv, sign.engine),
                argv=unit.argv,
                state="stopped",
                sign=sign,
                weights=weights_of(unit.argv),
                owner=Owner("systemd", unit.name),
            )


def _in_pods(
    places: Iterable[Candidate], seen: Mapping[int, Seen], known: Mapping[str, Unit], run: Run
) -> tuple[list[Candidate], str]:
    """What kubectl tells of the pods here, asked only where pods run; without it what listens here is watched."""
    here = {one.group.id for one in seen.values() if one.group.kind == "kubernetes"}
    if not here:
        return [], ""
    told, note = workloads(run, here)
    found = [one for work in told for one in _workload(work, seen)]
    ids = {work.id for work in told}
    rest = [_on_machine(place, known, seen) for place in places if place.group.id not in ids]
    missing = [
        f"{work.name} has an engine and no Service: nothing tells where to reach it" for work in told if _lost(work)
    ]
    return found + rest, "; ".join([*([note] if note else []), *missing])


def _lost(work: Workload) -> bool:
    return work.address is None and bool(sign_of(work.argv, work.image).engine)


def _workload(work: Workload, seen: Mapping[int, Seen]) -> Iterator[Candidate]:
    sign = sign_of(work.argv, work.image)
    if work.address and (sign.engine or work.id):
        host, port = work.address
        yield Candidate(
            port or ENGINES[sign.engine or "openai"].port,
            host,
            pids=tuple(_members(work.id, seen)) if work.id else (),
            argv=work.argv,
            group=Group("kubernetes", work.id),
            state="listening" if work.id else "stopped",
            sign=sign,
            owner=work.owner,
        )
