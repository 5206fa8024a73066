"""Why a change did not come about, as it is kept with its job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparkgate.change.jobs import Job
from sparkgate.failures.diagnosis import Diagnosis


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a change did not come about."""

    code: str
    message: str
    diagnosis: Diagnosis | None = None


def failure_as_json(failure: Failure) -> dict[str, Any]:
    told: dict[str, Any] = {"failure": {"code": failure.code, "message": failure.message}}
    return told | ({"diagnosis": failure.diagnosis.as_json()} if failure.diagnosis else {})


def failure_of(job: Job) -> Failure:
    """The failure that a job found half-way back was on its way back from."""
    told = job.result.get("failure", {})
    return Failure(str(told.get("code", "interrupted")), str(told.get("message", "the gate ended in the middle")))
