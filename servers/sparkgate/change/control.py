"""Changing engines on behalf of a caller: what is asked for is planned, refused or begun as a job, joined, cancelled.

One job runs at a time on this machine. Jobs run in threads of the gate and are written down as they go, so that they
outlive the host that asked, and the next gate goes on where this one was ended.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sparkgate import log
from sparkgate.change.actions import ActionLog, caller_as_json
from sparkgate.change.jobs import Job, Jobs, JobsUnavailable, Kind, Occupied, PlanUsed, StoredPlan
from sparkgate.change.lock import MachineLock, Taken
from sparkgate.change.phases import FORWARD, Change
from sparkgate.change.plan import Plan, make_plan, plan_as_json
from sparkgate.change.story import job_as_json
from sparkgate.engine_report import Rates
from sparkgate.fleet import Fleet
from sparkgate.machine.commands import runner, spawner
from sparkgate.policy.audit import Caller
from sparkgate.policy.guard import Guard
from sparkgate.runtimes.spec import RuntimeFault
from sparkgate.services import Live, NotReady, Services
from sparkgate.toolset import failure

RUNS = "job {job.id} ({job.kind} of {job.target}) runs; wait for it with engine_job"
LEFT = "job {job.id} ({job.kind} of {job.target}) was left unfinished; a gate of {job.plan[config]} goes on with it"
STALE = "plan {plan_id} is unknown, used, too old, or things have changed since"
RESUME_WITHIN_S = 3600.0
"""A job that was left longer ago is closed and not gone on with."""


def open_fleet(live: Live, state: Path, guard: Guard | None) -> Fleet:
    """The engines of the catalogue as this process may reach them."""
    off_box = live.settings.control.off_box
    return Fleet(live.settings.engines, state, runner(guard), spawner(guard), guard, off_box)


@dataclass(frozen=True, slots=True)
class Wish:
    """What a caller wants done; `plan_id` names a plan that a person has confirmed."""

    kind: Kind
    engine: str
    plan_id: str = ""


class Control:
    """Begins jobs and knows those of this process.

    Args:
        services: gives settings and log.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._jobs: Jobs | None = None
        self._opening = threading.Lock()
        self._beginning = threading.Lock()
        self._threads: dict[int, threading.Thread] = {}
        self._stuck: set[int] = set()
        self.rates = Rates()
        self.let_go = threading.Event()

    @property
    def running(self) -> int:
        """Jobs of this process that are not at their end, also one that could not be written and waits for that."""
        return sum(thread.is_alive() for thread in list(self._threads.values())) + len(self._stuck)

    def jobs(self) -> Jobs:
        """Raises JobsUnavailable."""
        with self._opening:
            self._jobs = self._jobs or Jobs(self._services.state / "jobs.db")
            return self._jobs

    def begin(self, wish: Wish, caller: Caller) -> dict[str, Any]:
        """Begin a change, or join the one that does the same already. The answer of the tools."""
        try:
            live = self._services.live()
            self.recover()
            with self._beginning:
                return self._begin(wish, caller, live)
        except NotReady as error:
            return failure(error.code, str(error))
        except (JobsUnavailable, RuntimeFault) as error:
            return failure(getattr(error, "code", "jobs_unavailable"), str(error))

    def _begin(self, wish: Wish, caller: Caller, live: Live) -> dict[str, Any]:
        catalogue = live.settings.engines
        if wish.engine not in catalogue:
            return failure("unknown_engine", f"no engine of that name; there are {', '.join(catalogue) or 'none'}")
        if running := self.jobs().running(live.settings.control.lock):
            return self._meet(wish, running[0])
        with open_fleet(live, self._services.state, self._services.guard) as fleet:
            plan = make_plan(wish.kind, wish.engine, fleet, self.jobs(), live.settings.control)
        if plan.nothing_to_do:
            what = "not loaded" if wish.kind == "unload" else "ready"
            return {"ok": True, "state": "done", "message": f"{wish.engine} is {what} already"}
        stored, refused = self._permitted(wish, plan)
        if refused:
            actions(live).refused(caller, wish.kind, wish.engine, catalogue[wish.engine].url, refused["code"])
            return refused
        return self._launch(live, plan, stored, caller)

    def _meet(self, wish: Wish, running: Job) -> dict[str, Any]:
        """A repeated call joins the job it began; anything else has to wait."""
        told = job_as_json(running, self.jobs().steps(running.id))
        if (wish.kind, wish.engine) == (running.kind, running.target):
            return {"ok": True, "joined": True, **told}
        return failure("busy", (LEFT if running.orphaned else RUNS).format(job=running), job=told)

    def _permitted(self, wish: Wish, plan: Plan) -> tuple[StoredPlan | None, dict[str, Any] | None]:
        """(the confirmed plan, nothing) or (nothing, the refusal)."""
        if plan.refusals:
            first = plan.refusals[0]
            more = [asdict(one) for one in plan.refusals[1:]]
            return None, failure(first.code, first.message, **({"more": more} if more else {}))
        stored = self.jobs().plan(wish.plan_id) if wish.plan_id else None
        if wish.plan_id and not _still_good(stored, plan):
            return None, failure("plan_stale", STALE.format(plan_id=wish.plan_id[:40]))
        if plan.protected and (stored is None or not stored.confirmed):
            hosts = " and ".join(dict.fromkeys(served.host for served in plan.hosts))
            command = f"sparkgate engine plan {wish.engine}{' --unload' if wish.kind == 'unload' else ''} --confirm"
            leaving = " and ".join((*plan.stops, *plan.evicts))
            words = f"{hosts} lives on {leaving}: a person runs `{command}` and gives its plan_id"
            return None, failure("needs_confirmation", words, plan=plan_as_json(plan))
        return stored, None

    def cancel(self, job_id: int, caller: Caller) -> Job:
        """Ask a job to end. Raises KeyError, NotReady, JobsUnavailable, RuntimeFault (it cannot be logged)."""
        job = self.jobs().get(job_id)
        if job.state == "running" and not job.cancel:
            self._note(self._services.live(), caller, "cancel", job.target, job=str(job_id))
            self.jobs().ask_to_cancel(job_id)
        return job

    def confirm(self, job_id: int, caller: Caller) -> Job:
        """Keep what a job has put in the place of an engine that an agent lived on; a person says so.

        Raises:
            KeyError, NotReady, JobsUnavailable, RuntimeFault: as `cancel`.
        """
        job = self.jobs().get(job_id)
        if job.state == "running":
            self._note(self._services.live(), caller, "confirm", job.target, job=str(job_id))
            self.jobs().remember(job_id, confirmed="by a person")
        return job

    def _note(self, live: Live, caller: Caller, action: str, engine: str, **fields: str) -> None:
        entry = live.settings.engines.get(engine)
        told = {"action": action, "engine": engine, **fields}
        actions(live).note(caller, f"engine_{action}", entry.url if entry else "", **told)

    def plan(
        self, kind: Kind, engine: str, caller: Caller, *, after_idle_s: float = 0.0, keep: bool = False
    ) -> tuple[Plan, StoredPlan | None]:
        """What would be done now; with `keep` as a plan that a person has confirmed, good once and for some minutes.

        Raises:
            NotReady: the configuration cannot be used.
            JobsUnavailable: it cannot be kept.
            RuntimeFault: that it is kept cannot be logged.
            KeyError: there is no such engine.
        """
        live = self._services.live()
        control = live.settings.control
        if engine not in live.settings.engines:
            raise KeyError(engine)
        with open_fleet(live, self._services.state, self._services.guard) as fleet:
            made = make_plan(kind, engine, fleet, self.jobs(), control)
        if not keep or made.refusals:
            return made, None
        expires_s = time.time() + control.plan_minutes * 60
        self._note(live, caller, "plan", engine, plan_for=kind)
        stored = StoredPlan(f"p-{secrets.token_hex(6)}", kind, engine, made.digest, True, after_idle_s, expires_s, None)
        self.jobs().keep_plan(stored)
        return made, stored

    def _launch(self, live: Live, plan: Plan, stored: StoredPlan | None, caller: Caller) -> dict[str, Any]:
        lane = live.settings.control.lock
        try:
            lock = MachineLock(lane)
        except Taken as held:
            return failure("busy", f"{held} is changing engines; ask again when it has ended")
        try:
            written = _as_written(plan, stored) | {"config": str(self._services.config)}
            asker, first = caller_as_json(caller), FORWARD[plan.kind][0]
            job = self.jobs().begin(lane, plan.kind, plan.target, written, asker, first, stored.id if stored else "")
        except Occupied:
            lock.release()
            if running := self.jobs().running(lane):
                return self._meet(Wish(plan.kind, plan.target), running[0])
            return failure("busy", "another job has just ended; ask again")
        except PlanUsed:
            lock.release()
            return failure("plan_stale", STALE.format(plan_id=stored.id if stored else ""))
        except BaseException:
            lock.release()
            raise
        self._run(job, lock, live)
        return {"ok": True, **job_as_json(self.jobs().get(job.id), (), outage_s=plan.outage_s)}

    def _run(self, job: Job, lock: MachineLock, live: Live) -> None:
        def work() -> None:
            try:
                with open_fleet(live, self._services.state, self._services.guard) as fleet:
                    limits, told = live.settings.control, actions(live)
                    Change(job, self.jobs(), fleet, limits, told, self.let_go, lock.release).run()
            except Exception as error:
                self._stuck.add(job.id)
                log.error("job_fault", job=job.id, **log.describe(error))
            finally:
                lock.release()

        self._stuck.discard(job.id)
        thread = threading.Thread(target=work, name=f"job-{job.id}", daemon=True)
        self._threads[job.id] = thread
        thread.start()

    def recover(self) -> None:
        """Go on with jobs whose process is gone, or close those that cannot be gone on with.

        Raises:
            NotReady: the configuration cannot be used; they stay as they are.
            JobsUnavailable: the file of the jobs cannot be used.
        """
        if not (self._services.state / "jobs.db").exists():
            return
        if not any(self._is_left(job) for job in self.jobs().running()):
            return
        with self._beginning:
            for job in self.jobs().running():
                ours = job.plan["config"] == str(self._services.config)
                if self._is_left(job) and (ours or time.time() - job.changed_s > RESUME_WITHIN_S):
                    self._adopt(job, self._services.live())

    def _is_left(self, job: Job) -> bool:
        """Whether nobody runs it: its process is gone, or it is this one and its thread has failed."""
        thread = self._threads.get(job.id)
        ours = job.owner.pid == os.getpid() and not (thread and thread.is_alive())
        return job.orphaned or (ours and not self.let_go.is_set())

    def _adopt(self, job: Job, live: Live) -> None:
        try:
            lock = MachineLock(job.lane)
        except Taken:
            return
        missing = [name for name in (job.target, *job.plan["stops"]) if name not in live.settings.engines]
        if not self.jobs().take_over(job):
            lock.release()
        elif "ending" not in job.result and (missing or time.time() - job.changed_s > RESUME_WITHIN_S):
            why = f"{missing[0]} is not in the catalogue any more" if missing else "it was left too long ago"
            words = f"the gate ended in phase {job.phase}, and {why}; engine_status tells what runs"
            self.jobs().end(job.id, "failed", "interrupted", words, job.result)
            lock.release()
        else:
            log.info("job_resumed", job=job.id, phase=job.phase)
            self._run(job, lock, live)


def actions(live: Live) -> ActionLog:
    return ActionLog(live.egress.log, live.egress.policy.digest)


def _still_good(stored: StoredPlan | None, plan: Plan) -> bool:
    return bool(stored and stored.digest == plan.digest and stored.job_id is None and stored.expires_s > time.time())


def _as_written(plan: Plan, stored: StoredPlan | None) -> dict[str, Any]:
    """What a job has to know of its plan, also in another process."""
    return {
        "stops": list(plan.stops),
        "start": plan.start,
        "held_gib": dict(plan.held_gib),
        "need_gib": plan.fit.need_gib if plan.fit else None,
        "available_gib": plan.available_gib,
        "hosts": [asdict(served) for served in plan.hosts] if plan.start else [],
        "after_idle_s": stored.after_idle_s if stored else 0.0,
        "digest": plan.digest,
        "plan_id": stored.id if stored else "",
    }
