"""The record of one engine: what it says of itself, what its owner says, and what it holds, put together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import anyio

from sparkgate import log
from sparkgate.change.readiness import STAGE_LINES, stage_of
from sparkgate.engine_settings import EngineSettings
from sparkgate.engine_state import State, Status, as_json
from sparkgate.engines.spec import line
from sparkgate.failures.diagnosis import diagnose
from sparkgate.fleet import PROOF_S, Fleet, authorization
from sparkgate.machine.memory import Memory
from sparkgate.processor import processor_of
from sparkgate.routes import RoutedModel
from sparkgate.runtimes.spec import Look, Owned

ReadMemory = Callable[[], Memory]
ROUTES = 5
OWNED_STATES: dict[Owned, State] = {
    "running": "starting",
    "starting": "starting",
    "failed": "failed",
    "stopped": "down",
    "unknown": "down",
}
"""What an engine is that does not answer, by what its owner says of its process."""
RATE_OVER_S = 0.5
"""Two readings of a counter closer than this give no rate."""
STRANGER = "its owner says it is {state}; what answers at its URL is another process"


class Rates:
    """Tokens a second of each engine, from its counter at two times it was asked for its state."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def of(self, name: str, generated_tokens: float | None) -> float | None:
        """The rate since this was last asked; None at first, and after the engine was started anew."""
        if generated_tokens is None:
            return None
        now = time.monotonic()
        with self._lock:
            then, before = self._last.get(name, (now, generated_tokens))
            if name not in self._last or now - then >= RATE_OVER_S:
                self._last[name] = (now, generated_tokens)
        if now - then < RATE_OVER_S or generated_tokens < before:
            return None
        return round((generated_tokens - before) / (now - then), 1)


async def all_reports(fleet: Fleet, names: list[str], rates: Rates, *, prove: bool = False) -> list[dict[str, Any]]:
    """The record of every named engine, asked at the same time."""
    found: dict[str, dict[str, Any]] = {}

    async def ask(name: str) -> None:
        entry = fleet.catalogue[name]
        late = Status(name, entry.engine or "unknown", "unknown", warnings=("it did not answer in time",))
        found[name] = as_json(late)
        with anyio.move_on_after(entry.timeout_s * ROUTES + (PROOF_S if prove else 0)):
            found[name] = await anyio.to_thread.run_sync(
                _safe_report, name, fleet, memory, rates, prove, abandon_on_cancel=True, limiter=limiter
            )

    limiter = anyio.CapacityLimiter(16)
    with ThreadPoolExecutor(1) as pool:
        memory = pool.submit(fleet.memory).result
        async with anyio.create_task_group() as group:
            for name in names:
                group.start_soon(ask, name)
    return [found[name] for name in names]


def _safe_report(name: str, fleet: Fleet, memory: ReadMemory, rates: Rates, prove: bool) -> dict[str, Any]:
    """A mistake of ours with one engine does not take the answers of the others away."""
    try:
        return report(name, fleet, memory, rates, prove=prove)
    except Exception as error:
        log.error("engine_fault", **log.describe(error))
        entry = fleet.catalogue[name]
        return as_json(Status(name, entry.engine or "unknown", "unknown", warnings=("its answer could not be read",)))


def report(name: str, fleet: Fleet, memory: ReadMemory, rates: Rates, *, prove: bool = False) -> dict[str, Any]:
    """One engine now; `memory` is read while it answers.

    What is not known is left out; every number that is measured names its source.
    """
    look = fleet.look(name)
    status = _together(fleet.status(name, prove=prove), look, resident=fleet.catalogue[name].resident)
    lines = fleet.log(name, STAGE_LINES) if _may_tell(name, fleet, look) else ()
    status = replace(status, processor=processor_of(status.processor, lines, look, memory()))
    told = as_json(status)
    warnings = [*told.pop("warnings"), *_key_warning(fleet.catalogue[name])]
    told |= _owner(fleet.catalogue[name].runtime, look) if look else {}
    told |= _progress(name, fleet, status, look)
    told |= _memory(fleet, look, memory)
    rate = rates.of(name, (status.load or {}).get("generated_tokens"))
    told |= {} if rate is None else {"load": {**told.get("load", {}), "generated_tok_s": rate}}
    if status.front and status.state != "down":
        routes = fleet.routes(name, status.engine)
        told["routes"] = None if routes is None else [_route(route) for route in routes]
    return told | {"warnings": warnings}


def _may_tell(name: str, fleet: Fleet, look: Look | None) -> bool:
    """Whether its log is at hand and of the kind that names the processor."""
    return look is not None and look.state == "running" and fleet.kind(name).name == "llamacpp"


def _key_warning(entry: EngineSettings) -> list[str]:
    unusable = entry.key_file and not authorization(entry)
    return [f"key_file {entry.key_file} cannot be read, or holds no key"] if unusable else []


def _route(route: RoutedModel) -> dict[str, Any]:
    """One name of a router: where it goes, and whether that can leave the box; null for what it does not tell."""
    return {
        "name": route.name,
        "via": list(route.via),
        "off_box": route.off_box,
        "fallbacks": None if route.fallbacks is None else list(route.fallbacks),
        "fallbacks_off_box": route.fallbacks_off_box,
    }


def _together(status: Status, look: Look | None, *, resident: bool) -> Status:
    """The engine's own word and its owner's, who knows best whether the process is there.

    A daemon's always is: there the owner tells of the one model, and the engine of all.
    """
    if look is None or look.state == "unknown":
        return replace(status, warnings=(*status.warnings, look.detail)) if look and look.detail else status
    if status.state == "down":
        return replace(status, state=OWNED_STATES[look.state], warnings=())
    if resident:
        return status if look.state == "running" else replace(status, state=OWNED_STATES[look.state], proven=None)
    if look.state in ("stopped", "failed"):
        stranger = STRANGER.format(state=look.state)
        return replace(status, state=OWNED_STATES[look.state], models=None, load=None, warnings=(stranger,))
    return status


def _owner(kind: str, look: Look) -> dict[str, Any]:
    told = {
        "kind": kind,
        "state": look.state,
        "pid": look.pids[0] if look.pids else None,
        "restarts": look.restarts,
        "revived_by": line(look.revived_by) or None,
        "image": line(look.image) or None,
        "exit_code": look.exit_code,
        "detail": line(look.detail) or None,
    }
    since = {"since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(look.since_s))} if look.since_s else {}
    return {"runtime": {name: value for name, value in told.items() if value is not None}} | since


def _progress(name: str, fleet: Fleet, status: Status, look: Look | None) -> dict[str, Any]:
    """Its stage while it loads, or what ended it."""
    if status.state in ("starting", "loading"):
        stage = stage_of(fleet.kind(name), fleet.log(name, STAGE_LINES))
        return {"stage": stage} if stage else {}
    if look is not None and look.state == "failed":
        return {"diagnosis": diagnose(fleet.log(name), look).as_json()}
    return {}


def _memory(fleet: Fleet, look: Look | None, memory: ReadMemory) -> dict[str, Any]:
    if look is None or not look.pids:
        return {}
    held = fleet.held(look, memory())
    told: Mapping[str, Any] = {"held_gib": None if held.gib is None else round(held.gib, 2), "source": held.source}
    return {"memory": {name: value for name, value in told.items() if value is not None}}
