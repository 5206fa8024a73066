"""What is done to engines, in the same log as what leaves: a row before each action, its outcome after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from time import perf_counter

from sparkgate.change.jobs import Job, JobState
from sparkgate.engine_settings import EngineSettings
from sparkgate.policy.audit import AuditLog, Caller, Intent, LogUnavailable, Outcome
from sparkgate.runtimes.spec import RuntimeFault

DESTINATION = "engine"


class ActionLog:
    """Writes rows of actions; `policy` is the digest of the policy in force."""

    def __init__(self, log: AuditLog, policy: str) -> None:
        self._log, self._policy = log, policy

    @contextmanager
    def row(self, job: Job, verb: str, name: str, entry: EngineSettings) -> Iterator[None]:
        """One action on one engine of a job.

        Raises:
            RuntimeFault: the row is not on disk, so the action is not done.
        """
        caller = Caller(**job.caller)
        fields = {"action": verb, "engine": name, "runtime": entry.runtime, "job": str(job.id), "unit": entry.unit}
        fields |= {"plan": str(job.plan.get("plan_id", ""))}
        began = perf_counter()
        row = self._intend(caller, f"engine_{job.kind}", entry.url, fields, "allow", ())
        outcome = "failed"
        try:
            yield
            outcome = "done"
        finally:
            elapsed_us = round((perf_counter() - began) * 1e6)
            with suppress(LogUnavailable):  # the row stays open, which reads as "end unknown"
                self._log.close(row, Outcome(outcome, elapsed_us=elapsed_us))

    def note(self, caller: Caller, tool: str, url: str, outcome: str = "done", **fields: str) -> None:
        """Something that was decided or has ended: a plan that was confirmed, the end of a job.

        Raises:
            RuntimeFault: the row is not on disk.
        """
        row = self._intend(caller, tool, url, fields, "allow", ())
        with suppress(LogUnavailable):
            self._log.close(row, Outcome(outcome))

    def ended(self, job: Job, url: str, state: JobState, code: str, back: Sequence[str]) -> None:
        """The end of a job, which ends whether that can be logged or not; `back`: engines that were brought back."""
        told = {"action": "end", "engine": job.target, "job": str(job.id), "code": code}
        told |= {"back": " and ".join(back)} if back else {}
        with suppress(RuntimeFault):
            self.note(Caller(**job.caller), f"engine_{job.kind}", url, state, **told)

    def refused(self, caller: Caller, kind: str, name: str, url: str, code: str) -> None:
        """A change that was asked for and not begun.

        Raises:
            RuntimeFault: the row is not on disk.
        """
        finding = {"rule": code, "class": "engine", "start": 0, "end": 0}
        self._intend(caller, f"engine_{kind}", url, {"action": kind, "engine": name}, "block", (finding,))

    def _intend(
        self,
        caller: Caller,
        tool: str,
        origin: str,
        fields: Mapping[str, str],
        verdict: str,
        findings: tuple[Mapping[str, object], ...],
    ) -> int:
        intent = Intent(
            caller=caller,
            tool=tool,
            destination=DESTINATION,
            origin=origin,
            verdict=verdict,
            sent="",
            fields={name: value for name, value in fields.items() if value},
            findings=findings,
            withheld=(),
            policy=self._policy,
            decision_us=0,
        )
        try:
            return self._log.intend(intent)
        except LogUnavailable as error:
            raise RuntimeFault("log_unavailable", f"nothing was done, as it cannot be logged: {error}") from error


def caller_as_json(caller: Caller) -> dict[str, object]:
    return asdict(caller)
