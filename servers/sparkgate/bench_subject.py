"""What a benchmark is made on: which engine, which of its models, who lives on it, and all that is known of both."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkgate.bench_launch import launch_facts, load_facts
from sparkgate.change.protect import served_by
from sparkgate.change.scene import Scene, look_around
from sparkgate.engine_state import Status
from sparkgate.engines.spec import Model, line
from sparkgate.failures.diagnosis import without_secrets
from sparkgate.fleet import Fleet, authorization, launch_digest
from sparkgate.machine.commands import Run
from sparkgate.machine.weights import weights_gib
from sparkgate.measure.reference import Setting, nearest
from sparkgate.measure.roofline import BITS_PER_WEIGHT
from sparkgate.routes import READERS
from sparkgate.runtimes.spec import Look
from sparkgate.version import __version__

GPU_QUERY = ("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
GPU_QUERY_S = 5.0
ARGV_MAX_CHARS = 4000


class CannotMeasure(Exception):
    """Nothing is measured; `code` is stable, the message says what to do."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Subject:
    """The engine that is measured.

    Attributes:
        model: the id that is asked for; "" leaves it to the engine.
        context: tokens of one request; None when it does not tell.
        lives_on: hosts whose agent is configured for this engine.
    """

    name: str
    status: Status
    look: Look | None
    model: str
    context: int | None
    lives_on: tuple[str, ...]


def choose(name: str, fleet: Fleet) -> Subject:
    """The engine of that name, or the only one that is ready; it asks all of them.

    Raises:
        CannotMeasure: there is none that can be measured now.
    """
    if not fleet.catalogue:
        words = "no engine is in the catalogue: the operator adds [engines.NAME] with a url to config.toml"
        raise CannotMeasure("not_configured", words)
    if name and name not in fleet.catalogue:
        raise CannotMeasure("unknown_engine", f"no engine of that name; there are {', '.join(fleet.catalogue)}")
    scene = look_around(fleet)
    chosen = name or _only_one(scene)
    status = scene.statuses[chosen]
    if status.state != "ready":
        hint = "engine_load or engine_swap makes it so" if fleet.catalogue[chosen].runtime else "start it first"
        raise CannotMeasure("not_ready", f"{chosen} is {status.state}; {hint}")
    if locked := fleet.locked(chosen, status):
        raise CannotMeasure("locked", f"{chosen} may carry a prompt off this machine, and {locked}")
    _refuse_ways_out(chosen, status, fleet)
    model = _model(chosen, status, fleet)
    hosts = tuple(dict.fromkeys(served.host for served in served_by(chosen, fleet, scene)))
    name, context = (model.id, model.context) if model else ("", None)
    return Subject(chosen, status, scene.looks[chosen], name, context, hosts)


def _only_one(scene: Scene) -> str:
    """A router before the only engine is not meant."""
    ready = [name for name, status in scene.statuses.items() if status.state == "ready"]
    found = [name for name in ready if not scene.statuses[name].front] or ready
    if len(found) == 1:
        return found[0]
    states = ", ".join(f"{name} is {status.state}" for name, status in scene.statuses.items())
    if found:
        raise CannotMeasure("engine_needed", f"several engines are ready, name one of {', '.join(found)}")
    raise CannotMeasure("not_ready", f"no engine is ready: {states}")


def _refuse_ways_out(name: str, status: Status, fleet: Fleet) -> None:
    """A router may answer from another machine: that measures nothing here, and costs money there."""
    if not status.front or status.engine not in READERS:
        return
    routes = fleet.routes(name, status.engine)
    leading = [one.name for one in routes or () if one.off_box is not False or one.fallbacks_off_box is not False]
    if routes is None or leading:
        what = f"may send {line(leading[0])} off this box" if leading else "does not tell where it sends requests"
        raise CannotMeasure("leaves_box", f"{name} {what}: name the engine behind it")


def _model(name: str, status: Status, fleet: Fleet) -> Model | None:
    """The model that is loaded; None where the engine does not tell. Asking for another would load it."""
    if status.models is None:
        return None
    wanted = fleet.catalogue[name].model.removesuffix(":latest")
    held = [model for model in status.models if model.loaded is not False]
    named = [model for model in held if wanted in (model.id.removesuffix(":latest"), model.root)]
    if named or (held and not wanted):
        return (named or held)[0]
    if held and not fleet.catalogue[name].resident:
        return held[0]
    raise CannotMeasure("not_loaded", f"{wanted or 'no model'} is not loaded in {name}; engine_load does that first")


def provenance(subject: Subject, fleet: Fleet, run: Run, jobs_file: Path) -> dict[str, Any]:
    """All that tells this measurement from another, without secrets; nothing that is not known.

    Args:
        run: asks the GPU's driver.
        jobs_file: the file of the engine jobs, which tells how long the engine took to load.
    """
    entry, look = fleet.catalogue[subject.name], subject.look
    gpu, driver = _gpu(run)
    launch = launch_digest(entry)
    told: Mapping[str, Any] = {
        "engine": subject.status.engine,
        "engine_version": subject.status.version,
        "model": subject.model,
        "context": subject.context,
        "image": line(look.image) if look else None,
        "argv": without_secrets(" ".join(look.argv)[:ARGV_MAX_CHARS]) if look and look.argv else None,
        "launch": launch,
        "runtime": entry.runtime,
        "weights": Path(entry.weights).name if entry.weights else None,
        "weights_gib": weights_gib(entry.weights),
        "quantization": quantization(f"{subject.model} {entry.weights}"),
        **load_facts(jobs_file, subject.name, launch, look),
        "gpu": gpu,
        "driver": driver,
        "machine": hashlib.sha256(platform.node().encode()).hexdigest()[:12],
        "kernel": platform.release(),
        "python": platform.python_version(),
        "sparkgate": __version__,
        "lives_on": list(subject.lives_on),
    }
    known = {name: value for name, value in told.items() if value not in (None, "", [])}
    return known | launch_facts(subject.status.engine, look)


def _gpu(run: Run) -> tuple[str | None, str | None]:
    """(name, version of the driver) of the first GPU."""
    told = run(GPU_QUERY, GPU_QUERY_S)
    words = [line(word) for word in told.stdout.partition("\n")[0].split(",")] if told.ok else []
    return (words[0] or None, words[1] or None) if len(words) == 2 else (None, None)


def request_of(subject: Subject, fleet: Fleet, plan: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """What the measuring process is told, on its standard input: it holds the engine's key."""
    entry, gpu = fleet.catalogue[subject.name], facts.get("gpu", "")
    names = {entry.model, *(model.root or "" for model in subject.status.models or () if model.id == subject.model)}
    return {
        "url": entry.base,
        "leaves": fleet.leaves(subject.name, subject.status),
        "headers": authorization(entry),
        "engine": subject.status.engine,
        "model": subject.model,
        "aliases": sorted(names - {""}),
        "plan": dict(plan),
        "context": subject.context,
        "gpu": gpu,
        "weights_gib": facts.get("weights_gib"),
        "quantization": facts.get("quantization"),
        "speculation": facts.get("speculation"),
        "reference_prefill_tok_s": _published_prefill_tok_s(subject, gpu),
    }


def _published_prefill_tok_s(subject: Subject, gpu: str) -> float | None:
    """The fastest that is published for this model on this GPU."""
    near = nearest(subject.model, subject.status.engine, "pp_tok_s", Setting(hardware=gpu)) if gpu else []
    same = [one.row.bounds for one in near if not any(other.name == "hardware" for other in one.differences)]
    return max((bounds[1] for bounds in same if bounds), default=None)


def quantization(name: str) -> str | None:
    """Width of the weights as their name tells it ("NVFP4", "Q4_K_M"); None when it does not."""
    found = [width for width in BITS_PER_WEIGHT if width in name.upper()]
    return max(found, key=len, default=None)
