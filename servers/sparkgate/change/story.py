"""A job in the words of an answer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from sparkgate.change.jobs import Job

LAST_STEPS = 12
ORPHANED = "its gate is gone; the next gate goes on with it"


def job_as_json(
    job: Job, steps: Sequence[tuple[float, str, str]] = (), *, outage_s: float | None = None
) -> dict[str, Any]:
    """The record that tools and `--json` give; nothing that is not known."""
    end_s = time.time() if job.state == "running" else job.changed_s
    told: dict[str, Any] = {
        "job": job.id,
        "kind": job.kind,
        "engine": job.target,
        "state": job.state,
        "phase": job.phase,
        "going_back": job.back if job.state == "running" and job.back else None,
        "elapsed_s": round(end_s - job.created_s, 1),
        "expected_s": None if outage_s is None else round(outage_s, 1),
        "code": job.code,
        "message": ORPHANED if job.orphaned else job.message,
        "rolled_back": job.result.get("rolled_back"),
        "diagnosis": job.result.get("diagnosis"),
        "models": job.result.get("models"),
        "cut_off_requests": job.result.get("cut_off"),
        "next": f"engine_job(id={job.id}, wait_s=20)" if job.state == "running" else None,
        "steps": [f"+{at_s - job.created_s:.1f} s {words or phase}" for at_s, phase, words in steps[-LAST_STEPS:]],
    }
    return {name: value for name, value in told.items() if value not in (None, "", [])}


def done_words(job: Job, started: str) -> str:
    """What has come of a job; `started`: the engine that it was to start, "" for none."""
    what = f"{started} is ready" if started else f"{job.target} is unloaded"
    return f"{what} after {time.time() - job.created_s:.1f} s"
