"""What the tools of the benchmark server answer: at most 1.5 KB, numbers with units, and what to do."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import anyio
from mcp.server.context import ServerRequestContext

from sparkgate.bench_beside import WRONG_SIDES, claim_line, comparison, published, sides_of
from sparkgate.bench_service import Bench, Wish
from sparkgate.brief import size_bytes
from sparkgate.engines.spec import line
from sparkgate.measure.draw import drawn
from sparkgate.measure.plan import Options, from_json
from sparkgate.measure.record import (
    cell_lines,
    flag_lines,
    full_json,
    read_cells,
    run_contrasts,
    run_line,
    sweep_finding,
)
from sparkgate.measure.sheets import PictureError, picture_for
from sparkgate.measure.store import Run, Store, StoredCell, StoreUnavailable
from sparkgate.policy.audit import Caller
from sparkgate.toolset import PICTURE, Arguments, failure

PICTURED = ("sweep", "prefill")
ANSWER_BYTES = 1500
POLL_S = 0.25
HISTORY, SHOWN_PUBLISHED = 10, 4
SINGLE = ("output_tokens", "repeats", "max_seconds", "thinking")
FOREIGN = ("foreign_load", "foreign_requests")
LIVES_ON = (
    "{hosts} lives on this engine: each of its turns, asking for this run too, is measured with it. "
    "Ask again when it has ended"
)
DISTURBED = "{hosts} lives on this engine: its own turns may be those other requests; let it rest during a run"
Context = ServerRequestContext[Any, Any]


async def bench_run(bench: Bench, arguments: Arguments, caller: Caller, _: Context) -> dict[str, Any]:
    try:
        options = _options(arguments)
    except ValueError:
        return failure(
            "invalid_argument", "concurrency and prompt_tokens are whole numbers with commas between: 1,4,16"
        )
    wish = Wish(arguments["kind"].strip().lower(), arguments["engine"].strip(), options)
    answer = await anyio.to_thread.run_sync(bench.begin, wish, caller)
    if not answer["ok"]:
        return answer
    run = await anyio.to_thread.run_sync(bench.store().run, answer["run"])
    return fitted(await anyio.to_thread.run_sync(_begun, bench, run) | answer)


def _options(arguments: Arguments) -> Options:
    """What was asked for; 0, "" and false leave it to the kind. Raises ValueError."""
    single: dict[str, Any] = {name: arguments[name] or None for name in SINGLE}
    streams, lengths = _numbers(arguments["concurrency"]), _numbers(arguments["prompt_tokens"])
    return Options(concurrency=streams, prompt_tokens=lengths, **single)


def _numbers(text: str) -> tuple[int, ...] | None:
    return tuple(int(word) for word in text.replace(" ", ",").split(",") if word) or None


def _begun(bench: Bench, run: Run) -> dict[str, Any]:
    planned = from_json(run.plan)
    estimate_s = bench.estimate_s(run, planned)
    hosts = " and ".join(run.provenance.get("lives_on", ()))
    left_out = [
        f"{cell.concurrency} streams, prompt {cell.whole_prompt_tokens}: {why}" for cell, why in planned.left_out
    ]
    told = {
        "ok": True,
        "run": run.id,
        "kind": run.kind,
        "engine": run.engine,
        "model": run.model,
        "state": run.state,
        "cells": len(planned.cells),
        "repeats": planned.repeats,
        "estimate_s": None if estimate_s is None else round(estimate_s),
        "at_most_s": planned.max_seconds,
        "note": LIVES_ON.format(hosts=hosts) if hosts else None,
        "left_out": left_out,
        "next": f"bench_job(id={run.id}, wait_s=20)",
    }
    return {name: value for name, value in told.items() if value not in (None, "", [])}


async def bench_job(bench: Bench, arguments: Arguments, caller: Caller, context: Context) -> dict[str, Any]:
    with suppress(StoreUnavailable):
        await anyio.to_thread.run_sync(bench.tidy)
    try:
        run = await anyio.to_thread.run_sync(_asked_for, bench.store(), arguments["id"])
    except KeyError:
        return failure("unknown_run", "there is no such run; bench_history lists those there are")
    if arguments["cancel"]:
        await anyio.to_thread.run_sync(bench.cancel, run.id, caller)
    with anyio.move_on_after(arguments["wait_s"]):
        run = await _at_its_end(bench.store(), run, context)
    answer = await anyio.to_thread.run_sync(job_answer, bench.store(), run.id)
    if run.state == "done" and run.kind in PICTURED:
        picture = await anyio.to_thread.run_sync(_picture, bench, run.id)
        return {**answer, PICTURE: picture} if isinstance(picture, bytes) else fitted(answer | {"no_picture": picture})
    return answer


def _picture(bench: Bench, run_id: int) -> bytes | str:
    """The run as a PNG; where none can be drawn, the words why."""
    told = full_json(bench.store(), run_id)
    try:
        return drawn(picture_for([told]), [told], "png", guard=bench.services.guard)
    except PictureError as error:
        return str(error)


def _asked_for(store: Store, run_id: int) -> Run:
    """The run of that id, 0 for the latest. Raises KeyError."""
    if run_id:
        return store.run(run_id)
    found = store.latest(1)
    if not found:
        raise KeyError(run_id)
    return found[0]


async def _at_its_end(store: Store, run: Run, context: Context) -> Run:
    """Wait; what is done is reported where the host asks for that."""
    done: object = None
    while run.state == "running":
        if run.progress and run.progress.get("done") != done:
            done = run.progress.get("done")
            await context.session.report_progress(float(run.progress["done"]), float(run.progress["of"]), _words(run))
        await anyio.sleep(POLL_S)
        run = await anyio.to_thread.run_sync(store.run, run.id)
    return run


def _words(run: Run) -> str:
    return f"{run.kind} on {run.engine}: {run.progress['done']} of {run.progress['of']} bursts"


def job_answer(store: Store, run_id: int) -> dict[str, Any]:
    """How far a run is, or what came of it."""
    run = store.run(run_id)
    cells = read_cells(store, run)
    told: dict[str, Any] = {
        "ok": run.state in ("running", "done"),
        "run": run.id,
        "kind": run.kind,
        "engine": run.engine,
        "model": run.model,
        "state": run.state,
        "code": run.code,
        "message": run.message,
        "elapsed_s": round((run.ended_s or time.time()) - run.created_s, 1),
    }
    told |= _live(run) if run.state == "running" else _outcome(store, run, cells)
    return fitted({name: value for name, value in told.items() if value not in (None, "", [], {})})


def _live(run: Run) -> dict[str, Any]:
    latest = run.progress.get("headline") or {}
    return {
        "progress": f"{run.progress['done']} of {run.progress['of']} bursts"
        if run.progress
        else "it looks at the engine",
        "headline": {name: round(value, 1) for name, value in latest.items() if isinstance(value, (int, float))},
        "estimate_s": run.probe.get("estimate_s"),
        "ending": "it was asked to end" if run.cancel else None,
        "next": f"bench_job(id={run.id}, wait_s=20)",
    }


def _outcome(store: Store, run: Run, cells: Sequence[StoredCell]) -> dict[str, Any]:
    finding = sweep_finding(run, cells)
    return {
        "validity": run.validity,
        "results": cell_lines(cells),
        "contrasts": [one.text for one in run_contrasts(store, run, cells)],
        "finding": f"{finding.text}; {finding.advice}" if finding else None,
        "flags": flag_lines(cells),
        "note": _disturbed(run, cells),
        "notes": list(run.notes),
    }


def _disturbed(run: Run, cells: Sequence[StoredCell]) -> str | None:
    hosts = " and ".join(run.provenance.get("lives_on", ()))
    seen = any(flag["id"] in FOREIGN for cell in cells for flag in cell.flags)
    return DISTURBED.format(hosts=hosts) if hosts and seen else None


async def bench_compare(bench: Bench, arguments: Arguments, _: Caller, __: Context) -> dict[str, Any]:
    sides = sides_of(str(arguments["a"]), str(arguments["b"]))
    if sides is None:
        return failure("invalid_argument", WRONG_SIDES)
    try:
        return await anyio.to_thread.run_sync(compare_answer, bench.store(), sides[0], sides[1])
    except KeyError as missing:
        return failure("unknown_run", f"there is no run {missing.args[0]}; bench_history lists those there are")


def compare_answer(store: Store, a: Sequence[int], b: Sequence[int]) -> dict[str, Any]:
    """What side B is, seen from side A, cell by cell; a side is one run or several. Raises KeyError."""
    told = comparison(store, a, b)
    return fitted({name: value for name, value in told.items() if name != "judged"})


async def bench_history(bench: Bench, arguments: Arguments, _: Caller, __: Context) -> dict[str, Any]:
    asked = {name: arguments[name].strip() for name in ("engine", "kind")}
    return await anyio.to_thread.run_sync(partial(history_answer, bench.store(), **asked))


def history_answer(store: Store, engine: str = "", kind: str = "") -> dict[str, Any]:
    """The latest runs, newest first, one line each."""
    return fitted(
        {"ok": True, "runs": [run_line(store, run) for run in store.latest(HISTORY, engine=engine, kind=kind)]}
    )


async def bench_reference(bench: Bench, arguments: Arguments, _: Caller, __: Context) -> dict[str, Any]:
    return await anyio.to_thread.run_sync(reference_answer, bench.store(), line(arguments["model"]))


def reference_answer(store: Store, model: str = "") -> dict[str, Any]:
    """Published numbers of a model, "" for that of the latest run, beside what was measured here."""
    told = published(store, model)
    if not told["ok"]:
        return told
    claims = [claim_line(claim) for claim in told["implausible"]]
    return fitted(told | {"published": told["published"][:SHOWN_PUBLISHED], "implausible": claims})


def fitted(told: Mapping[str, Any], limit_bytes: int = ANSWER_BYTES) -> dict[str, Any]:
    """The answer with its longest lists cut at their ends until it fits, and how many were left out."""
    shown, left_out = dict(told), dict[str, int]()
    while size_bytes({**shown, **left_out}) > limit_bytes:
        lists = [name for name, value in shown.items() if isinstance(value, list) and len(value) > 1]
        if not lists:
            break
        longest = max(lists, key=lambda name: size_bytes(shown[name]))
        shown[longest] = shown[longest][:-1]
        left_out[f"{longest}_left_out"] = left_out.get(f"{longest}_left_out", 0) + 1
    return {**shown, **left_out}
