"""What stands beside a run: another run, or published numbers. All of it; the tools cut it to what fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from sparkgate.measure.compare import Cell, Refusal, Verdict, refusal, side_names
from sparkgate.measure.explain import Measured, describe, explain
from sparkgate.measure.own_setting import own_setting
from sparkgate.measure.quality_compare import Judged, compare_quality
from sparkgate.measure.record import (
    HEADLINES,
    compare_sides,
    compared_metric,
    differences,
    headline,
    identity,
    is_valid,
    label,
    numbers,
    run_line,
)
from sparkgate.measure.reference import Claim, Near, implausible, nearest, same_model
from sparkgate.measure.store import Run, Store, StoredCell
from sparkgate.toolset import failure

LOOKED_AT = 200
QUALITY = "quality"
MAX_RUNS = 20
WRONG_SIDES = "each side is the number of a run, or several with commas between: 3,6"
TWICE = "run {id} is named twice: a run stands on one side, once"
OTHER_KINDS = "runs of quality have scores and others have rates: compare runs of one kind"
NO_OUTCOMES = "run {side} keeps scores only, as older versions did: run quality anew to compare its tasks"
OTHER_TASKS = "the runs were asked different tasks: another version of the set; run quality anew in both"
BROKEN = "{claims} published rate{s} for one stream lie{v} above what the memory allows"


# -- runs


def sides_of(*told: str) -> list[list[int]] | None:
    """Ids of the runs of each side, from "3,6"; None when they are none."""
    found = [[word.strip() for word in text.split(",")] for text in told]
    if not all(word.isdecimal() and len(word) < 16 for words in found for word in words):
        return None
    sides = [[int(word) for word in words] for words in found]
    return sides if all(len(side) <= MAX_RUNS for side in sides) else None


def comparison(store: Store, a: Sequence[int], b: Sequence[int]) -> dict[str, Any]:
    """What side B is, seen from side A, cell by cell; "judged" has it in numbers.

    Raises:
        KeyError: there is no such run.
    """
    twice = [id_ for id_, count in Counter([*a, *b]).items() if count > 1]
    if twice and len(a) + len(b) > 2:
        return failure("invalid_argument", TWICE.format(id=twice[0]))
    sides = [[store.run(id_) for id_ in ids] for ids in (a, b)]
    kinds = {run.kind for runs in sides for run in runs}
    if QUALITY in kinds and len(kinds) > 1:
        return failure("not_comparable", OTHER_KINDS)
    quality = kinds == {QUALITY}
    judged: Sequence[tuple[str, Verdict | Judged | Refusal]]
    judged = compare_tasks(store, *sides) if quality else compare_sides(store, *sides)
    told = {
        "ok": True,
        "a": _side(store, sides[0]),
        "b": _side(store, sides[1]),
        "metric": "pass_1" if quality else compared_metric(sides[0][0]),
        "verdict": _counted([_kind(verdict) for _, verdict in judged]),
        "cells": [f"{what}: {_kind(verdict)}; {verdict.why}" for what, verdict in judged],
        "families": [text for _, verdict in judged if isinstance(verdict, Judged) for text in verdict.families],
        "left_out": [one.left_out for _, one in judged if isinstance(one, Judged) and one.left_out],
        "differs": _differing(*sides),
        "judged": [{"cell": what, "kind": _kind(verdict), **asdict(verdict)} for what, verdict in judged],
    }
    return {name: value for name, value in told.items() if value != []}


def _kind(verdict: Verdict | Judged | Refusal) -> str:
    return "not comparable" if isinstance(verdict, Refusal) else verdict.kind


def _counted(kinds: Sequence[str]) -> str:
    return ", ".join(f"{kind} in {count} of {len(kinds)} cells" for kind, count in Counter(kinds).items()) or "no cells"


def _side(store: Store, runs: Sequence[Run]) -> str | list[str]:
    lines = [run_line(store, run) for run in runs]
    return lines[0] if len(lines) == 1 else lines


def _differing(a: Sequence[Run], b: Sequence[Run]) -> list[str]:
    """Between the sides, and within one of several runs, which should not be."""
    within = [
        f"within {side}, {what}"
        for side, runs in (("A", a), ("B", b))
        for run in runs[1:]
        for what in differences(runs[0], run)
    ]
    return [*differences(a[0], b[0]), *dict.fromkeys(within)]


def compare_tasks(store: Store, a: Sequence[Run], b: Sequence[Run]) -> list[tuple[str, Judged | Refusal]]:
    """(what the cell is, what B is seen from A) of runs of quality; the trials of a side are pooled."""
    sides = [[{identity(cell.key): cell for cell in store.cells(run.id)} for run in runs] for runs in (a, b)]
    protocols = [[run.protocol for run in runs] for runs in (a, b)]
    cells = {key: cell for run in (*sides[1], *sides[0]) for key, cell in run.items()}
    order = dict.fromkeys(key for run in (*sides[0], *sides[1]) for key in run)
    return [
        (label(cells[key], list(cells.values())), _tasks([[run.get(key) for run in runs] for runs in sides], protocols))
        for key in order
    ]


def _tasks(sides: Sequence[Sequence[StoredCell | None]], protocols: Sequence[Sequence[str]]) -> Judged | Refusal:
    """One cell of all runs of both sides."""
    held = [
        [Cell(protocol, (), is_valid(cell)) if cell else None for cell, protocol in zip(*both, strict=True)]
        for both in zip(sides, protocols, strict=True)
    ]
    if why := refusal(*held):
        return Refusal(why)
    kept = [[(cell.stats.get("pass_1") or {}) if cell else {} for cell in cells] for cells in sides]
    names = [name for side, runs in zip("AB", kept, strict=True) for name in side_names(side, len(runs))]
    lacking = [name for name, one in zip(names, [*kept[0], *kept[1]], strict=True) if not one.get("outcomes")]
    if lacking:
        return Refusal(NO_OUTCOMES.format(side=lacking[0]))
    if len({one.get("tasks") for runs in kept for one in runs}) > 1:
        return Refusal(OTHER_TASKS)
    return compare_quality(*(_pooled([one["outcomes"] for one in runs]) for runs in kept))


def _pooled(runs: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The trials of each task in all runs."""
    return {id_: "".join(run.get(id_, "") for run in runs) for id_ in dict.fromkeys(id_ for run in runs for id_ in run)}


# -- published numbers


def published(store: Store, model: str = "") -> dict[str, Any]:
    """Published numbers of a model, "" for that of the latest run, beside what was measured here, nearest first."""
    measured = [run for run in store.latest(LOOKED_AT) if run.state == "done" and not run.origin]
    runs = [run for run in measured if run.validity in ("valid", "tainted") and run.kind != QUALITY]
    own = next((run for run in runs if run.model and (not model or same_model(model, run.model))), None)
    name = model or (own.model if own else "")
    if not name:
        return failure("missing_argument", "model is needed: nothing valid has been measured yet")
    cell = _single(store, own) if own else None
    metric, value = headline(cell)[0] if cell else ("decode_tok_s", 0.0)
    facts = own.provenance if own else {}
    near = nearest(name, str(facts.get("engine", "")), metric, own_setting(facts, cell.key if cell else None))
    claims = sorted(implausible(), key=lambda claim: not same_model(name, claim.row.model))
    return {
        "ok": True,
        "model": name,
        "measured": f"run {own.id} on {own.engine}: {numbers(cell)}" if own and cell else "nothing valid here yet",
        "compared": explain(Measured(value, HEADLINES[metric][1]), near) if cell and metric in HEADLINES else [],
        "published": [_published(one) for one in near],
        "implausible": [_claim(claim) for claim in claims],
        **({} if near else {"note": "no number of this model is among those that are known"}),
    }


def _single(store: Store, run: Run) -> StoredCell | None:
    """The valid cell with the fewest streams."""
    valid = [cell for cell in store.cells(run.id) if is_valid(cell) and headline(cell)]
    return min(valid, key=lambda cell: cell.key["concurrency"], default=None)


def _published(near: Near) -> str:
    row = near.row
    low, high = row.bounds or (0.0, 0.0)
    amount = f"{low:g}" if low == high else f"{low:g} to {high:g}"
    return f"{row.id}: {row.metric} {amount} {row.unit} on {row.engine} ({row.kind}, {row.source})"


def _claim(claim: Claim) -> dict[str, Any]:
    """A published rate that breaks the roofline; `factor` is how many times the ceiling it is."""
    row = claim.row
    return {
        "id": row.id,
        "model": row.model,
        "engine": row.engine,
        "claimed": row.bounds[0] if row.bounds else None,
        "unit": row.unit,
        "ceiling_tok_s": round(claim.ceiling_tok_s, 2),
        "factor": round(claim.ratio, 2),
        "text": describe(claim),
    }


def claim_line(told: Mapping[str, Any]) -> str:
    """The same in a line."""
    return (
        f"{told['id']}: {told['claimed']:g} {told['unit']} for {told['model']} on {told['engine']}, "
        f"{told['factor']:.1f} times its ceiling of {told['ceiling_tok_s']:.1f}"
    )
