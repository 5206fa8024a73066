"""Benchmarks on behalf of a caller: what is asked for is planned, refused or begun, followed, cancelled.

One run is made at a time on this machine, and none while an engine is changed. A process of its own measures; a thread
of the gate writes down what it tells as it comes.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from sparkgate import log
from sparkgate.bench_process import COMMAND, Measuring, measuring
from sparkgate.bench_subject import CannotMeasure, Subject, choose, provenance, request_of
from sparkgate.change.actions import caller_as_json
from sparkgate.change.control import actions, open_fleet
from sparkgate.change.jobs import JobsUnavailable
from sparkgate.change.lock import MachineLock, Taken
from sparkgate.engines.spec import line
from sparkgate.machine.commands import runner
from sparkgate.measure.budget import Rates
from sparkgate.measure.plan import TRIMMED, Options, Plan, PlanError, capped, estimate_s, plan, within_budget
from sparkgate.measure.store import CUT_OFF, Ending, Run, Store, StoreUnavailable
from sparkgate.measure.store import StoredCell as Measured
from sparkgate.measure.store_fault import is_passing
from sparkgate.measure.validity import RULES
from sparkgate.policy.audit import Caller
from sparkgate.policy.kill_switch import LockedNow
from sparkgate.runtimes.spec import RuntimeFault
from sparkgate.services import Live, NotReady, Services
from sparkgate.toolset import failure

BUSY = "run {run.id} ({run.kind} on {run.engine}) is measured; wait for it with bench_job"
CHANGING = "job {job.id} ({job.kind} of {job.target}) changes engines; wait for it with engine_job"
MEANWHILE = "job {job.id} ({job.kind} of {job.target}) changed engines meanwhile: run it again"
TOO_LONG = (
    "{error}. That is by the rates of run {run.id}, which a run of the kind quick finds anew; the operator allows at "
    "most {cap_s} s ([bench] max_seconds in config.toml)"
)
UNWRITTEN = "run {run} has ended, and how cannot be written down: {error}"
SAME_RATES = ("engine", "engine_version", "launch")
"""Facts of the provenance with which the rates of an engine may change."""
PROBED = 50
T = TypeVar("T")
WRITE_TRIES = 6
LATEST_JOBS = 5
LIMIT_FACTOR, LIMIT_MORE_S = 1.5, 300.0
"""A process that has not ended after so much more than `max_seconds` is ended."""
LOST = Ending("interrupted", "interrupted", "interrupted", CUT_OFF)
SEVERITY = {rule.id: rule.severity for rule in RULES}
ADVICE = {rule.id: rule.advice for rule in RULES}


@dataclass(frozen=True, slots=True)
class Wish:
    """What a caller wants measured; `engine` "" is the only one that is ready."""

    kind: str
    engine: str = ""
    options: Options = field(default_factory=Options)

    def same_as(self, asked: Mapping[str, Any]) -> bool:
        """Whether a run was asked for in the same way."""
        engine = self.engine or asked["engine"]
        return {"kind": self.kind, "engine": engine, "options": _plain(self.options)} == dict(asked)


class Bench:
    """Begins runs and knows those of this process.

    Args:
        services: gives settings and log.
        command: the process that measures, word by word.
    """

    def __init__(self, services: Services, command: Sequence[str] = COMMAND) -> None:
        self.services, self._command = services, tuple(command)
        self._store: Store | None = None
        self._opening = threading.Lock()
        self._beginning = threading.Lock()
        self._threads: dict[int, threading.Thread] = {}
        self._processes: dict[int, Measuring] = {}
        self._unwritten: dict[int, Ending] = {}

    @property
    def running(self) -> int:
        """Runs of this process that are not at their end."""
        return sum(thread.is_alive() for thread in list(self._threads.values()))

    def store(self) -> Store:
        """Raises StoreUnavailable."""
        with self._opening:
            self._store = self._store or Store(self.services.state / "bench.db")
            return self._store

    def begin(self, wish: Wish, caller: Caller) -> dict[str, Any]:
        """Begin a run, or join the one that was asked for in the same way. {"ok": True, "run": id}, or a refusal."""
        try:
            live = self.services.live()
            with self._beginning:
                self._close_lost()
                return self._begin(wish, caller, live)
        except (NotReady, CannotMeasure, RuntimeFault) as error:
            return failure(error.code, str(error))
        except PlanError as error:
            return failure("bad_plan", str(error))
        except (StoreUnavailable, JobsUnavailable) as error:
            return failure("store_unavailable", str(error))

    def _begin(self, wish: Wish, caller: Caller, live: Live) -> dict[str, Any]:
        seed = secrets.randbits(128)
        options = capped(wish.kind, wish.options, live.settings.bench.max_seconds)
        plan(wish.kind, seed, options)  # so that a mistake in it is told before any engine is asked
        if running := [run for run in self.store().unfinished() if run.state == "running"]:
            joined = {"ok": True, "run": running[0].id, "joined": True}
            return joined if wish.same_as(running[0].asked) else failure("busy", BUSY.format(run=running[0]))
        if jobs := self.services.control.jobs().running(live.settings.control.lock):
            return failure("busy", CHANGING.format(job=jobs[0]))
        try:
            lock = MachineLock(f"{live.settings.control.lock}-bench")
        except Taken as held:
            return failure("busy", f"{held} is measuring on this machine; ask again when it has ended")
        try:
            return {"ok": True, "run": self._launch(wish, options, seed, caller, live, lock)}
        except BaseException:
            lock.release()
            raise

    def _launch(self, wish: Wish, options: Options, seed: int, caller: Caller, live: Live, lock: MachineLock) -> int:
        """The id of a run that has begun and will release the lock."""
        with open_fleet(live, self.services.state, self.services.guard) as fleet:
            subject = choose(wish.engine.strip(), fleet)
            planned = plan(wish.kind, seed, options, context=subject.context)
            facts = provenance(subject, fleet, runner(self.services.guard), self.services.control.jobs().path)
            self._refuse_too_long(subject, planned, facts, live.settings.bench.max_seconds)
            request = request_of(subject, fleet, planned.as_json(), facts)
        asked = {"kind": wish.kind, "engine": subject.name, "options": _plain(wish.options)}
        run = self.store().begin(subject.name, planned, asked, caller_as_json(caller), facts)
        try:
            self._note(live, run, caller, "measure", "done")
        except RuntimeFault as error:
            self.store().end(run.id, Ending("failed", "failed", error.code, str(error)))
            raise
        thread = threading.Thread(
            target=self._work, args=(run, request, caller, live, lock), name=f"bench-{run.id}", daemon=True
        )
        self._threads[run.id] = thread
        thread.start()
        return run.id

    def _note(self, live: Live, run: Run, caller: Caller, action: str, outcome: str) -> None:
        entry = live.settings.engines.get(run.engine)
        told = {"action": action, "engine": run.engine, "kind": run.kind, "run": str(run.id)}
        actions(live).note(caller, "bench_run", entry.url if entry else "", outcome, **told)

    def cancel(self, run_id: int, caller: Caller) -> Run:
        """Ask a run to end; what it has measured is kept. Raises KeyError, NotReady, StoreUnavailable, RuntimeFault."""
        run = self.store().run(run_id)
        if run.state == "running" and not run.cancel:
            self._note(self.services.live(), run, caller, "cancel", "done")
            try:
                self.store().ask_to_cancel(run_id)
            finally:
                if process := self._processes.get(run_id):
                    process.cancel()
        return run

    def _refuse_too_long(self, subject: Subject, planned: Plan, facts: Mapping[str, Any], cap_s: int) -> None:
        """Raises PlanError for a run that takes longer than it may; those that are cut to their time find new rates."""
        known = None if planned.kind in TRIMMED else self._probed(subject.name, subject.model, facts)
        if known is None:
            return
        try:
            within_budget(planned, _rates(known))
        except PlanError as error:
            raise PlanError(TOO_LONG.format(error=error, run=known, cap_s=cap_s)) from error

    def _probed(self, engine: str, model: str, facts: Mapping[str, Any]) -> Run | None:
        """The latest run that found the rates of this engine as it is now; None where none is known."""
        for run in self.store().latest(PROBED, engine=engine):
            same = all(run.provenance.get(name) == facts.get(name) for name in SAME_RATES)
            if same and model and run.model == line(model) and not run.origin and _rates(run).known:
                return run
        return None

    def estimate_s(self, run: Run, planned: Plan) -> float | None:
        """About how long a run takes, from its own probe or the latest one of the engine; None when there is none."""
        if told := run.probe.get("estimate_s"):
            return float(told)
        known = self._probed(run.engine, run.model, run.provenance)
        return estimate_s(planned, _rates(known)) if known else None

    def _close_lost(self) -> None:
        """Mark runs that nobody makes any more: their process is gone, or their thread in this one."""
        for run in self.store().unfinished():
            thread = self._threads.get(run.id)
            ours = run.owner.pid == os.getpid() and not (thread and thread.is_alive())
            if run.state == "interrupted" or ours:
                self._end_late(run.id)

    def _end_late(self, run_id: int) -> None:
        """Write down how a run has ended; where it could not be written then, it is told until it can be."""
        known = self._unwritten.get(run_id)
        try:
            self.store().end(run_id, known or LOST)
        except StoreUnavailable as error:
            if known:
                raise NotReady("store_unavailable", UNWRITTEN.format(run=run_id, error=error)) from error
            raise
        self._unwritten.pop(run_id, None)

    # -- the thread of a run

    def _work(self, run: Run, request: dict[str, Any], caller: Caller, live: Live, lock: MachineLock) -> None:
        ending = Ending("failed", "failed", "fault", "a fault in sparkgate ended it; the log of the gate says where")
        try:
            ending = self._measure(run, request)
        except StoreUnavailable as error:
            ending = Ending("failed", "failed", "store_unavailable", f"{error}; what was measured before is kept")
        except LockedNow as error:
            ending = Ending("failed", "failed", "locked", str(error))
        except Exception as error:
            log.error("bench_fault", run=run.id, **log.describe(error))
        finally:
            self._processes.pop(run.id, None)
            lock.release()
            self._close(run, ending, caller, live)

    def _close(self, run: Run, ending: Ending, caller: Caller, live: Live) -> None:
        try:
            changes = self._changes(run)
            worth = "tainted" if changes and ending.validity == "valid" else ending.validity
            told = replace(ending, validity=worth, notes=(*ending.notes, *changes))
            self._unwritten[run.id] = told
            self._patiently(lambda: self.store().end(run.id, told))
            del self._unwritten[run.id]
            with suppress(RuntimeFault):
                self._note(live, run, caller, "end", ending.state)
        except Exception as error:
            log.error("bench_fault", run=run.id, **log.describe(error))

    def _patiently(self, act: Callable[[], T]) -> T:
        """Another program may hold the file for long; the worker writes between bursts only, so waiting is harmless."""
        for tries_left in range(WRITE_TRIES - 1, 0, -1):
            try:
                return act()
            except StoreUnavailable as error:
                if not is_passing(error.__cause__):
                    raise
                log.info("bench_store_waits", tries_left=tries_left)
        return act()

    def _is_cancelled(self, run_id: int) -> bool:
        return self._patiently(lambda: self.store().run(run_id)).cancel

    def tidy(self) -> None:
        """Close runs that nobody makes any more, unless one is just being begun. Raises StoreUnavailable."""
        if self._beginning.acquire(blocking=False):
            try:
                self._close_lost()
            finally:
                self._beginning.release()

    def _changes(self, run: Run) -> list[str]:
        """Changes of engines that fell into a run."""
        with suppress(JobsUnavailable):
            jobs = self.services.control.jobs().latest(LATEST_JOBS)
            return [MEANWHILE.format(job=job) for job in jobs if job.changed_s > run.created_s]
        return []

    def _measure(self, run: Run, request: Mapping[str, Any]) -> Ending:
        limit_s = LIMIT_FACTOR * float(run.plan["max_seconds"]) + LIMIT_MORE_S
        last: dict[str, Any] = {}
        switch = self.services.switch if request["leaves"] else None
        with measuring(self._command, self.services.guard, limit_s, switch) as process:
            self._processes[run.id] = process
            process.send(request)
            if self._is_cancelled(run.id):
                process.cancel()
            for event in process.events():
                self._patiently(partial(self._write, run.id, event))
                if event.get("event") in ("end", "failed"):
                    last = event
                elif self._is_cancelled(run.id):
                    process.cancel()
            return _ending(last, process.exit_code(), cancelled=self._is_cancelled(run.id))

    def _write(self, run_id: int, event: dict[str, Any]) -> None:
        store, what = self.store(), event.get("event", "")
        told = {name: value for name, value in event.items() if name != "event"}
        if what == "probe":
            store.note_probe(run_id, told)
        elif what == "progress":
            store.note_progress(run_id, told)
        elif what == "burst":
            counters = (told.get("engine_before") or {}, told.get("engine_after") or {})
            store.add_burst(run_id, told["cell"], told["repeat"], told["samples"], told["sensors"], *counters)
        elif what == "cell":
            store.put_cell(run_id, _cell(told))


def _rates(run: Run) -> Rates:
    told = run.probe.get("rates") or {}
    return Rates(told.get("prefill_tok_s"), told.get("decode_tok_s"))


def _plain(options: Options) -> dict[str, Any]:
    """As JSON gives it back: lists, and only what was asked for."""
    told = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(options).items()}
    return {name: value for name, value in told.items() if value is not None}


def _cell(event: Mapping[str, Any]) -> Measured:
    flags = [flag if isinstance(flag, dict) else {"id": flag} for flag in event.get("flags", ())]
    usual = (
        {"severity": SEVERITY.get(one["id"], "warning"), "text": "", "advice": ADVICE.get(one["id"], "")}
        for one in flags
    )
    known = [
        {name: line(value) for name, value in (told | one).items()} for told, one in zip(usual, flags, strict=True)
    ]
    parts = (event.get("stats") or {}, event.get("why_null") or {}, event.get("facts") or {})
    return Measured(event["key"], "", event.get("status", ""), known, *parts)


def _ending(last: Mapping[str, Any], code: int, *, cancelled: bool) -> Ending:
    notes = tuple(line(note) for note in last.get("notes") or ())
    if cancelled or last.get("validity") == "cancelled":
        return Ending("cancelled", "cancelled", notes=notes)
    if "validity" in last:
        return Ending("done", line(last["validity"]), notes=notes)
    if last:
        return Ending("failed", "failed", line(last.get("code")) or "failed", line(last.get("message")), notes)
    words = f"the measuring process ended with code {code} and did not say why; the log of the gate tells more"
    return Ending("failed", "failed", "process_ended", words)
