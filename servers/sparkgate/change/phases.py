"""The change of engines, phase after phase: each is written down before it begins, and each may be begun again.

A swap: wait for idle → drain → stop → prove that memory and port are free → start → ready → right. When something
fails after the stop, the way goes back: stop the new one, prove, start the old one, wait until it is ready.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any

from sparkgate import log
from sparkgate.change.actions import ActionLog
from sparkgate.change.failure import Failure, failure_as_json, failure_of
from sparkgate.change.fit import kept_free
from sparkgate.change.host_proof import prove_host
from sparkgate.change.jobs import Job, Jobs, JobState, JobsUnavailable
from sparkgate.change.plan import make_plan
from sparkgate.change.quiet import drain, wait_until_idle
from sparkgate.change.readiness import NotRight, Wait, wait_until_ready
from sparkgate.change.release import Before, is_gone, is_up, listener_words, still_held
from sparkgate.change.rightness import prove_right
from sparkgate.change.story import done_words
from sparkgate.engine_settings import ControlSettings
from sparkgate.fleet import Fleet, launch_digest
from sparkgate.machine.listeners import is_listened
from sparkgate.machine.origins import local_port
from sparkgate.runtimes.spec import RuntimeFault

FORWARD: dict[str, tuple[str, ...]] = {
    "load": ("start", "ready", "right"),
    "swap": ("idle", "drain", "recheck", "stop", "release", "start", "ready", "right", "confirm"),
    "unload": ("idle", "drain", "recheck", "stop", "release"),
}
BACK = ("back_stop", "back_release", "back_start", "back_ready")
HARMLESS = ("idle", "drain", "recheck")
"""Phases in which nothing has been changed yet."""
POLL_S = 0.2
LAST_RESERVE = 0.25
"""Share of the headroom at which a load is given up."""
LOADING_PRESSURE_PERCENT = 50.0
"""Reading weights makes some memory pressure by itself; past this a machine that shares it with its GPU freezes."""


class Cancelled(Exception):
    """Somebody asked for it."""


class LetGo(Exception):
    """This process ends; the next one goes on."""


class Change:
    """One job on its way.

    Args:
        job: as it was begun, or found.
        let_go: set when this process is about to end.
        give_up_lock: of its lane; called before the job is told to have ended.
    """

    def __init__(
        self,
        job: Job,
        jobs: Jobs,
        fleet: Fleet,
        control: ControlSettings,
        actions: ActionLog,
        let_go: threading.Event,
        give_up_lock: Callable[[], None],
    ) -> None:
        self._job, self._jobs, self._fleet, self._control = job, jobs, fleet, control
        self._actions, self._let_go, self._give_up_lock = actions, let_go, give_up_lock
        self._stops: list[str] = list(job.plan["stops"])
        self._start: str = job.plan["start"]

    def run(self) -> None:
        """Go on from the job's phase to its end. Never raises for what engines and owners do.

        Raises:
            JobsUnavailable: what is done cannot be written down any more; the job stays where it is.
        """
        with suppress(LetGo):
            if decided := self._job.result.get("ending"):
                self._end(*decided)
            elif self._job.back:
                self._go_back(failure_of(self._job), after=self._job.phase)
            else:
                self._go_forward()

    def _go_forward(self) -> None:
        phases = FORWARD[self._job.kind]
        began = phases[phases.index(self._job.phase) :] if self._job.phase in phases else phases
        for phase in began:
            self._jobs.enter(self._job.id, phase)
            if failure := self._failure_in(phase):
                if phase in HARMLESS:
                    return self._end_failed(failure, rolled_back=None)
                return self._go_back(failure)
        self._end("done", "", done_words(self._job, self._start))

    def _go_back(self, failure: Failure, after: str = BACK[0]) -> None:
        """Undo, so that the box is as it was; both errors are told when that fails as well."""
        self._jobs.remember(self._job.id, **failure_as_json(failure))
        if self._job.kind == "unload" or not (self._stops or self._was_started()):
            return self._end_failed(failure, rolled_back=False if self._job.kind == "unload" else None)
        for phase in BACK[BACK.index(after) :]:
            self._jobs.enter(self._job.id, phase, back=True)
            if undone := self._failure_in(phase):
                worse = f"{failure.message}; and going back failed: {undone.message}"
                return self._end_failed(Failure("rollback_failed", worse, failure.diagnosis), rolled_back=False)
        self._end_failed(failure, rolled_back=True)

    def _failure_in(self, phase: str) -> Failure | None:
        """Do a phase; a fault of ours is a failure like another, so that the old engine comes back."""
        try:
            PHASES[phase](self)
        except (NotRight, RuntimeFault) as error:
            return Failure(error.code, str(error), getattr(error, "diagnosis", None))
        except Cancelled:
            return Failure("cancelled", "cancelled")
        except (LetGo, JobsUnavailable):
            raise
        except Exception as error:
            log.error("job_fault", job=self._job.id, phase=phase, **log.describe(error))
            return Failure("fault", f"a fault in sparkgate in phase {phase}; the log of the gate says where")
        return None

    # -- phases

    def _idle(self) -> None:
        """Wait until the last answer of the outgoing engine has reached its reader."""
        idle_s = float(self._job.plan.get("after_idle_s", 0))
        wait_until_idle(self._fleet, self._stops, idle_s, self._pause, self._tell)

    def _drain(self) -> None:
        """Let running requests end."""
        if busy := drain(self._fleet, self._stops, self._control.drain_s, self._pause, self._tell):
            self._jobs.remember(self._job.id, cut_off=busy)

    def _recheck(self) -> None:
        """What was planned, and confirmed, must still be what is done: the wait may have been long."""
        kind, wanted = self._job.kind, self._job.plan.get("digest")
        made = make_plan(kind, self._job.target, self._fleet, self._jobs, self._control)
        if made.refusals:
            raise NotRight(made.refusals[0].code, made.refusals[0].message)
        if wanted and made.digest != wanted:
            raise NotRight("plan_stale", "what runs has changed since it was planned; plan it anew")
        if made.hosts and not self._job.plan.get("plan_id"):
            raise NotRight(
                "needs_confirmation", f"{made.hosts[0].host} has come to live on {' and '.join(self._stops)}"
            )

    def _stop(self) -> None:
        for name in self._stops:
            self._stop_one(name)

    def _stop_one(self, name: str) -> None:
        runtime = self._fleet.runtime(name)
        if runtime is None or is_gone(runtime.look()):
            return
        self._tell(f"stopping {name}")
        with self._action("stop", name):
            runtime.stop(self._fleet.catalogue[name].stop_grace_s)

    def _release(self) -> None:
        self._released(self._stops, wanted_gib=self._job.plan.get("need_gib") or 0.0)

    def _released(self, names: list[str], wanted_gib: float) -> None:
        """Not done when the owner says so: processes, port and memory must be free before anything is started."""
        deadline = time.monotonic() + self._control.release_s
        before = Before(self._job.plan.get("available_gib"), self._job.plan.get("held_gib", {}))
        headroom_gib = self._control.headroom_gib
        while held_by := still_held(names, self._fleet, before, wanted_gib, headroom_gib):
            if time.monotonic() > deadline:
                raise NotRight("not_released", f"{held_by} is not free {self._control.release_s:g} s after the stop")
            self._tell(f"waiting for {held_by}")
            self._pause(POLL_S, cancellable=False)

    def _start_new(self) -> None:
        self._start_one(self._start)

    def _start_one(self, name: str) -> None:
        runtime, entry = self._fleet.runtime(name), self._fleet.catalogue[name]
        assert runtime is not None
        look = runtime.look()
        if look.state in ("running", "starting") and not self._fleet.catalogue[name].resident:
            if name == self._start and self._stops:
                self._jobs.remember(self._job.id, started=True)
            return
        port = None if self._fleet.catalogue[name].resident else local_port(entry.url)
        if port and is_listened(port):
            raise NotRight("port_in_use", f"port {port} of {name} is listened on already by {listener_words(port)}")
        self._jobs.remember(self._job.id, restarts=look.restarts or 0, started=True, started_s=time.time())
        self._tell(f"starting {name}")
        with self._action("start", name):
            runtime.start()

    def _ready(self) -> None:
        try:
            self._ready_one(self._start, cancellable=True)
        except NotRight as error:
            again = error.diagnosis is not None and error.diagnosis.retry
            if not again or self._jobs.get(self._job.id).result.get("tried_again"):
                raise
            self._jobs.remember(self._job.id, tried_again=str(error))
            self._tell(f"{error}; trying once more")
            self._back_stop()
            self._back_release()
            self._start_one(self._start)
            self._ready_one(self._start, cancellable=True)

    def _ready_one(self, name: str, *, cancellable: bool) -> None:
        entry = self._fleet.catalogue[name]
        wait_until_ready(
            name,
            self._fleet,
            Wait(
                pause=lambda seconds: self._pause(seconds, cancellable=cancellable),
                tell=self._tell,
                patience_s=entry.patience_s or self._fleet.kind(name).patience_s,
                stall_s=self._control.stall_s,
                pressure_max_percent=self._pressure_max_percent() if cancellable else math.inf,
                spare_gib=self._spare_gib() if cancellable else 0.0,
                restarts=int(self._jobs.get(self._job.id).result.get("restarts", 0)),
            ),
        )

    def _pressure_max_percent(self) -> float:
        """On the way back it does not count: what it falls from has just been stopped."""
        return max(LOADING_PRESSURE_PERCENT, self._control.pressure_max_percent)

    def _spare_gib(self) -> float:
        """Where CPU and GPU share one memory, a load is given up before nothing is left of it."""
        memory = self._fleet.memory()
        return LAST_RESERVE * kept_free(self._control.headroom_gib, memory) if memory.unified else 0.0

    def _right(self) -> None:
        memory = self._fleet.memory()
        self._tell(f"checking that {self._start} is the right one and generates")
        status = prove_right(self._start, self._fleet, memory)
        held = self._fleet.held(self._fleet.look(self._start), memory)
        began_s = self._jobs.get(self._job.id).result.get("started_s", self._job.created_s)
        load_s = time.time() - began_s
        self._jobs.learn(self._start, launch_digest(self._fleet.catalogue[self._start]), held.gib, load_s)
        self._jobs.remember(self._job.id, models=[model.id for model in status.models or () if model.loaded])

    def _confirm(self) -> None:
        """The agent that lived on the old engine must reach the new one by its own URL, or the old one comes back."""
        hosts: list[dict[str, Any]] = self._job.plan.get("hosts", [])
        deadline = time.monotonic() + self._control.confirm_minutes * 60
        while hosts and not self._jobs.get(self._job.id).result.get("confirmed"):
            if all(prove_host(one["url"], one["models"], self._start, self._fleet) for one in hosts):
                return self._jobs.remember(self._job.id, confirmed="its host's URL answers")
            if time.monotonic() > deadline:
                raise NotRight("not_confirmed", f"nobody confirmed {self._start} in time")
            self._tell(f"waiting for `sparkgate engine confirm {self._job.id}`, or for an answer by the host's own URL")
            self._pause(POLL_S)

    def _back_stop(self) -> None:
        """An owner that could not start it may be unable to stop it; what surely does not run is no hindrance."""
        if not self._was_started():
            return
        try:
            self._stop_one(self._start)
        except RuntimeFault as fault:
            port = local_port(self._fleet.catalogue[self._start].url)
            look = self._fleet.look(self._start)
            if (look is not None and is_up(look)) or port is None or is_listened(port):
                raise
            self._tell(f"{fault}; nothing of {self._start} runs")

    def _back_release(self) -> None:
        if not self._was_started():
            return
        held = self._job.plan.get("held_gib", {}).values()
        look = self._fleet.look(self._start)
        stopped = [self._start] if look is not None and look.state != "unknown" else []
        self._released(stopped, wanted_gib=sum(gib for gib in held if gib))

    def _back_start(self) -> None:
        for name in self._stops:
            self._start_one(name)

    def _back_ready(self) -> None:
        for name in self._stops:
            self._ready_one(name, cancellable=False)
            if self._fleet.status(name, prove=True).proven is False:
                raise NotRight("wedged", f"{name} is back and generates nothing")

    # -- helpers

    def _was_started(self) -> bool:
        """Whether this job has begun to start the new engine: if not, what holds its port is somebody else."""
        return bool(self._jobs.get(self._job.id).result.get("started"))

    def _tell(self, words: str) -> None:
        if self._jobs.get(self._job.id).message != words:
            self._jobs.tell(self._job.id, words)

    def _pause(self, seconds: float, *, cancellable: bool = True) -> None:
        if self._let_go.wait(seconds):
            raise LetGo
        if cancellable and self._jobs.get(self._job.id).cancel:
            raise Cancelled

    def _action(self, verb: str, name: str) -> AbstractContextManager[None]:
        return self._actions.row(self._job, verb, name, self._fleet.catalogue[name])

    def _end_failed(self, failure: Failure, *, rolled_back: bool | None) -> None:
        self._jobs.remember(self._job.id, **failure_as_json(failure), rolled_back=rolled_back)
        back = f"{' and '.join(self._stops)} is back" if self._stops else "it was stopped again"
        after = {None: "nothing was changed", True: back}.get(rolled_back)
        state: JobState = "cancelled" if failure.code == "cancelled" else "failed"
        words = failure.message.rstrip(".")
        self._end(state, failure.code, f"{words}; {after}" if after else words)

    def _end(self, state: JobState, code: str, message: str) -> None:
        """Decided first, so that who takes it over ends it too; who is told finds its row, and may begin the next."""
        self._jobs.remember(self._job.id, ending=[state, code, message])
        back = self._stops if self._jobs.get(self._job.id).result.get("rolled_back") else []
        try:
            self._actions.ended(self._job, self._fleet.catalogue[self._job.target].url, state, code, back)
        finally:
            self._give_up_lock()
            self._jobs.end(self._job.id, state, code, message, self._jobs.get(self._job.id).result)


PHASES: dict[str, Callable[[Change], None]] = {
    "idle": Change._idle,
    "drain": Change._drain,
    "recheck": Change._recheck,
    "stop": Change._stop,
    "release": Change._release,
    "start": Change._start_new,
    "ready": Change._ready,
    "right": Change._right,
    "confirm": Change._confirm,
    "back_stop": Change._back_stop,
    "back_release": Change._back_release,
    "back_start": Change._back_start,
    "back_ready": Change._back_ready,
}
