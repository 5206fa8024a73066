"""What the tools of the engine server answer."""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio
from mcp.server.context import ServerRequestContext

from sparkgate.brief import brief_engines, brief_findings
from sparkgate.change.confirmation import ask_person
from sparkgate.change.control import Wish, open_fleet
from sparkgate.change.jobs import Kind
from sparkgate.change.story import job_as_json
from sparkgate.doctor.examination import examine, findings_as_json
from sparkgate.engine_report import all_reports
from sparkgate.engines.spec import line
from sparkgate.failures.diagnosis import without_secrets
from sparkgate.machine.commands import runner
from sparkgate.policy.audit import Caller
from sparkgate.services import Live, Services
from sparkgate.toolset import Arguments, failure

NO_ENGINES = "No engine is in the catalogue. The operator adds [engines.NAME] with a url to config.toml."
POLL_S = 0.25
LINE_MAX_CHARS = 4000
LOG_ANSWER_CHARS = 5000
Context = ServerRequestContext[Any, Any]


async def engine_status(services: Services, arguments: Arguments, _: Caller, __: Context) -> dict[str, Any]:
    live = await anyio.to_thread.run_sync(services.live)
    names, problem = _names(live, arguments["name"].strip())
    if problem:
        return problem
    with open_fleet(live, services.state, services.guard) as fleet:
        found = await all_reports(fleet, names, services.control.rates, prove=bool(arguments["name"].strip()))
    running = await anyio.to_thread.run_sync(services.control.jobs().running)
    jobs = {"jobs": [job_as_json(job) for job in running]} if running else {}
    return {"ok": True, "engines": brief_engines(found, jobs), **jobs}


async def _change(
    kind: Kind, services: Services, arguments: Arguments, caller: Caller, context: Context
) -> dict[str, Any]:
    """Begin a change; where a person is needed and the host can ask one, ask."""
    control = services.control
    wish = Wish(kind, arguments["name"].strip(), arguments.get("plan_id", "").strip())
    answer = await anyio.to_thread.run_sync(control.begin, wish, caller)
    if answer.get("code") == "needs_confirmation" and await ask_person(context, answer["plan"]):
        made, kept = await anyio.to_thread.run_sync(partial(control.plan, kind, wish.engine, caller, keep=True))
        plan_id = kept.id if kept and made.digest == answer["plan"]["digest"] else ""
        answer = await anyio.to_thread.run_sync(control.begin, Wish(kind, wish.engine, plan_id), caller)
    return answer


engine_load = partial(_change, "load")
engine_swap = partial(_change, "swap")
engine_unload = partial(_change, "unload")


async def engine_job(services: Services, arguments: Arguments, caller: Caller, _: Context) -> dict[str, Any]:
    control = services.control
    await anyio.to_thread.run_sync(control.recover)
    jobs = control.jobs()
    try:
        job = jobs.get(arguments["id"]) if arguments["id"] else jobs.latest(1)[0]
    except (KeyError, IndexError):
        return failure("unknown_job", "there is no such job")
    if arguments["cancel"]:
        await anyio.to_thread.run_sync(control.cancel, job.id, caller)
    with anyio.move_on_after(arguments["wait_s"]):
        while job.state == "running":
            await anyio.sleep(POLL_S)
            job = await anyio.to_thread.run_sync(jobs.get, job.id)
    return {"ok": job.state in ("running", "done"), **job_as_json(job, jobs.steps(job.id))}


async def engine_doctor(services: Services, arguments: Arguments, _: Caller, __: Context) -> dict[str, Any]:
    live = await anyio.to_thread.run_sync(services.live)
    names, problem = _names(live, arguments["name"].strip())
    if problem:
        return problem
    with open_fleet(live, services.state, services.guard) as fleet:
        found = await anyio.to_thread.run_sync(examine, fleet, names, runner(services.guard))
    return {"ok": True, **brief_findings(findings_as_json(found))}


async def engine_logs(services: Services, arguments: Arguments, _: Caller, __: Context) -> dict[str, Any]:
    live = await anyio.to_thread.run_sync(services.live)
    name = arguments["name"].strip()
    problem = _names(live, name)[1]
    if problem or not name:
        return problem or failure("missing_argument", "name is needed")
    with open_fleet(live, services.state, services.guard) as fleet:
        lines = await anyio.to_thread.run_sync(fleet.log, name, arguments["lines"])
    shown = await anyio.to_thread.run_sync(readable, lines)
    return {"ok": True, "name": name, "lines": shown}


def readable(lines: list[str]) -> list[str]:
    """Log lines that may be shown: short, printable, without secrets; the newest that fit, oldest first."""
    shown: list[str] = []
    left = LOG_ANSWER_CHARS
    for text in reversed(lines):
        words = line(without_secrets(text[:LINE_MAX_CHARS]))
        left -= len(words) + 8
        if left < 0:
            break
        shown.append(words)
    return shown[::-1]


def _names(live: Live, name: str) -> tuple[list[str], dict[str, Any] | None]:
    catalogue = live.settings.engines
    if not catalogue:
        return [], failure("not_configured", NO_ENGINES)
    if name and name not in catalogue:
        return [], failure("unknown_engine", f"no engine of that name; there are {', '.join(catalogue)}")
    return [name] if name else list(catalogue), None
