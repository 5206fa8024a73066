"""A stored run as others read it: the contract of `--json`, all of it, in a line a cell, and beside another run."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from sparkgate.measure import compare, contrasts
from sparkgate.measure.contrasts import Contrast
from sparkgate.measure.knee import Finding, Point, read_sweep
from sparkgate.measure.metrics import burst_metrics, median_metrics, request_metrics
from sparkgate.measure.sample import Sample
from sparkgate.measure.statistics import summarise
from sparkgate.measure.store import Run, Store, StoredBurst, StoredCell

UNVERIFIED = {
    "id": "unverified",
    "severity": "invalid",
    "text": "the run ended before its numbers were checked",
    "advice": "run it again to its end",
}
HEADLINES: Mapping[str, tuple[str, str]] = {
    "pass_1": ("right at once {:.0%}", "share"),
    "pass_3": ("right three times {:.0%}", "share"),
    "decode_tok_s": ("decode {:.1f} tok/s a stream", "tok/s"),
    "agg_decode_tok_s": ("together {:.1f} tok/s", "tok/s"),
    "ttft_any_ms": ("first token {:.0f} ms", "ms"),
    "pp_tok_s": ("prefill {:.0f} tok/s", "tok/s"),
}
"""Metric → how it is said, and its unit: the numbers that stand for a cell."""
PREFILL_KINDS = ("prefill", "prefix", "depth")
FIRST_TOKEN_KINDS = ("prefill", "prefix")
LABELS: Mapping[str, str] = {
    "depth_tokens": "{} tokens deep",
    "prompt_tokens": "prompt {}",
    "output_tokens": "{} tokens out",
    "cache_mode": "{}",
    "family": "{}",
    "thinking": "thinking {}",
}
WORDS: Mapping[object, str] = {True: "on", False: "off", None: "as served"}
DIFFERING = (
    *("engine", "engine_version", "model", "image", "launch", "weights", "quantization"),
    *("speculation", "max_sequences", "gpu", "driver", "machine"),
)
"""Facts of the provenance of which a difference between two runs is told."""


def burst_values(samples: Sequence[Sample]) -> dict[str, float]:
    """One value a metric of a burst: the median over its requests, and what only all of them together have."""
    answered = median_metrics([request_metrics(one) for one in samples if one.outcome == "ok"])
    found = {**answered.values, **burst_metrics(samples).values}
    return {name: value for name, value in found.items() if value is not None}


def values_of(bursts: Iterable[StoredBurst], metric: str) -> dict[str, list[float]]:
    """Hash of a cell → the value of each of its bursts that has one."""
    found: dict[str, list[float]] = {}
    for burst in bursts:
        value = burst_values(burst.samples).get(metric)
        found.setdefault(burst.cell_hash, []).extend([] if value is None else [value])
    return found


def read_cells(store: Store, run: Run) -> list[StoredCell]:
    """The cells of a run; those that were measured and never checked with what their bursts show."""
    cells = store.cells(run.id)
    if run.state == "running" or all(cell.status and cell.stats for cell in cells):
        return cells
    bursts = store.bursts(run.id)
    return [cell if cell.status and cell.stats else _unverified(cell, bursts) for cell in cells]


def _unverified(cell: StoredCell, bursts: Sequence[StoredBurst]) -> StoredCell:
    several = [burst_values(burst.samples) for burst in bursts if burst.cell_hash == cell.hash]
    names = dict.fromkeys(name for one in several for name in one)
    columns = {name: [one[name] for one in several if name in one] for name in names}
    stats = {name: _stated(values) for name, values in columns.items()}
    return StoredCell(cell.key, cell.hash, cell.status or "cancelled", (*cell.flags, UNVERIFIED), stats)


def _stated(values: Sequence[float]) -> dict[str, Any]:
    told = summarise(values, seed=0)
    return {"median": told.median, "low": told.low, "high": told.high, "mad": told.mad, "n": told.n}


def is_valid(cell: StoredCell) -> bool:
    return cell.status in ("valid", "tainted")


def result_json(run: Run, cells: Sequence[StoredCell]) -> dict[str, Any]:
    """What `sparkgate bench run --json` prints; scripts rely on it."""
    return {
        "run_id": run.id,
        "validity": run.validity,
        "state": run.state,
        "notes": list(run.notes),
        **({"code": run.code, "message": run.message} if run.code else {}),
        **_finding_json(run, cells),
        "cells": [
            {
                "key": dict(cell.key),
                "valid": is_valid(cell),
                "status": cell.status,
                "flags": [flag["id"] for flag in cell.flags],
                "stats": dict(cell.stats),
            }
            for cell in cells
        ],
    }


def full_json(store: Store, run_id: int) -> dict[str, Any]:
    """All that is stored of a run but the requests of each burst, which are told by their metrics.

    Raises:
        KeyError: there is no such run.
    """
    run = store.run(run_id)
    cells = read_cells(store, run)
    told = {name: value for name, value in asdict(run).items() if name not in ("id", "owner", "cancel")}
    return {
        "schema": "bench-run/1",
        "id": run.id,
        "run_id": run.id,
        **told,
        "cells": [asdict(cell) | {"valid": is_valid(cell)} for cell in cells],
        **_finding_json(run, cells),
        "contrasts": [one.as_json() for one in run_contrasts(store, run, cells)],
        "bursts": [_burst_json(burst) for burst in store.bursts(run_id)],
    }


def _finding_json(run: Run, cells: Sequence[StoredCell]) -> dict[str, Any]:
    """What a sweep says of the engine, and what to do; {} where it says nothing."""
    finding = sweep_finding(run, cells)
    return {"finding": asdict(finding)} if finding else {}


def _burst_json(burst: StoredBurst) -> dict[str, Any]:
    return {
        "cell_hash": burst.cell_hash,
        "repeat": burst.repeat,
        "values": burst_values(burst.samples),
        "requests": [_request_json(one) for one in burst.samples],
        "sensors": dict(burst.sensors),
        "engine_before": dict(burst.engine_before),
        "engine_after": dict(burst.engine_after),
    }


def _request_json(sample: Sample) -> dict[str, Any]:
    told = request_metrics(sample)
    ended = {"outcome": sample.outcome, "error": sample.error, "finish": sample.finish, "model": sample.model}
    return {**ended, "metrics": dict(told.values), "flags": list(told.flags)}


# -- in words


def label(cell: StoredCell, cells: Sequence[StoredCell]) -> str:
    """What tells a cell from the others of its run, the number of streams first."""
    words = [streams(cell)]
    for name, template in LABELS.items():
        if len({other.key[name] for other in cells}) > 1:
            value = cell.key[name]
            words.append(template.format(WORDS[value] if name == "thinking" else value))
    return ", ".join(words)


def streams(cell: StoredCell) -> str:
    """ "1 stream", "4 streams"."""
    count = cell.key["concurrency"]
    return f"{count} stream{'s' if count != 1 else ''}"


def headline(cell: StoredCell) -> list[tuple[str, float]]:
    """(metric, median) of the numbers that stand for a cell, those it has."""
    names = [name for name in HEADLINES if name != "agg_decode_tok_s" or cell.key["concurrency"] > 1]
    computes = cell.key["kind"] in PREFILL_KINDS and cell.key["cache_mode"] == "cold"
    names = [name for name in names if name != "pp_tok_s" or computes]
    known = [(name, cell.stats[name]["median"]) for name in names if cell.stats.get(name, {}).get("median") is not None]
    rest = ((name, one.get("median")) for name, one in cell.stats.items() if name not in HEADLINES)
    return known or [(name, value) for name, value in rest if value is not None][:3]


def numbers(cell: StoredCell) -> str:
    """The headline in words; of an invalid cell there is none."""
    if not is_valid(cell):
        return f"no number, {cell.status or 'not measured'}"
    said = [
        HEADLINES[name][0].format(value) if name in HEADLINES else f"{name} {value:g}" for name, value in headline(cell)
    ]
    return ", ".join([*said, *(["tainted"] if cell.status == "tainted" else [])]) or "no number"


def cell_lines(cells: Sequence[StoredCell]) -> list[str]:
    """One line a cell: what it is, its numbers with units, and what they are worth."""
    return [f"{label(cell, cells)}: {numbers(cell)}" for cell in cells]


def flag_lines(cells: Sequence[StoredCell]) -> list[str]:
    """Each flag once, the invalidating first: how many cells have it, what was seen, and what to do."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for cell in cells:
        for flag in cell.flags:
            found.setdefault(flag["id"], []).append(flag)
    ranked = sorted(found.values(), key=lambda same: same[0].get("severity") != "invalid")
    return [_flag_line(same, len(cells)) for same in ranked]


def _flag_line(same: Sequence[Mapping[str, Any]], cells: int) -> str:
    first = same[0]
    share = f" ({len(same)} of {cells} cells)" if cells > 1 else ""
    advice = f"; {first['advice']}" if first.get("advice") else ""
    return f"{first['id']}{share}: {first.get('text') or first['id']}{advice}"


def when(run: Run) -> str:
    """Its begin, in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(run.created_s))


def sweep_finding(run: Run, cells: Sequence[StoredCell]) -> Finding | None:
    """What stops a sweep from scaling, or where its knee is; None where its valid levels do not tell."""
    levels = [point for cell in cells if is_valid(cell) and (point := _point(cell))]
    if run.kind != "sweep" or len({level.concurrency for level in levels}) < max(2, len(levels)):
        return None
    tokens = cells[0].key["output_tokens"]
    return read_sweep(levels, output_tokens=tokens, engine=str(run.provenance.get("engine", ""))).finding


def _point(cell: StoredCell) -> Point | None:
    def value(metric: str, which: str = "median") -> float | None:
        found = cell.stats.get(metric, {}).get(which)
        return None if found is None else float(found)

    together = value("agg_decode_tok_s")
    if not together:
        return None
    waiting = cell.facts.get("waiting_max")
    slowest_ms = value("ttft_slowest_ms") or value("ttft_any_ms", "high")
    return Point(cell.key["concurrency"], together, value("decode_tok_s"), slowest_ms, waiting)


def run_contrasts(store: Store, run: Run, cells: Sequence[StoredCell]) -> list[Contrast]:
    """What the cells of a run of some kinds say against one another, from the bursts of one repeat each."""
    field, switched = contrasts.FIELDS.get(run.kind), run.probe.get("thinking_switch", True)
    if field is None or (field == "thinking" and not switched):
        return []
    metric, values = compared_metric(run), dict[str, dict[int, float]]()
    for burst in store.bursts(run.id):
        if value := burst_values(burst.samples).get(metric):
            values.setdefault(burst.cell_hash, {})[burst.repeat] = value
    return contrasts.contrasts(field, metric, list(filter(is_valid, cells)), values, label)


def run_line(store: Store, run: Run) -> str:
    """A run in a line, with its best cell."""
    ended = run.validity if run.state == "done" else run.state
    begun = f"{run.id}: {when(run)} {run.kind} on {run.engine}, {ended}"
    valid = [cell for cell in store.cells(run.id) if is_valid(cell)] if run.state == "done" else []
    best = max(valid, key=lambda cell: (cell.stats.get("agg_decode_tok_s") or {}).get("median") or 0, default=None)
    return f"{begun}; {streams(best)}: {numbers(best)}" if best else begun


# -- two runs


def compared_metric(run: Run) -> str:
    """The metric by which runs of a kind are compared: of one stream, both rates are the same."""
    return "ttft_any_ms" if run.kind in FIRST_TOKEN_KINDS else "agg_decode_tok_s"


def compare_stored(store: Store, a: Run, b: Run) -> list[tuple[str, compare.Verdict | compare.Refusal]]:
    """(what the cell is, what B is seen from A) for every cell of two runs, by the metric of A's kind."""
    return compare_sides(store, [a], [b])


def compare_sides(
    store: Store, a: Sequence[Run], b: Sequence[Run]
) -> list[tuple[str, compare.Verdict | compare.Refusal]]:
    """The same of two settings with one or more runs each."""
    metric = compared_metric(a[0])
    sides = [[_side(store, run, metric) for run in runs] for runs in (a, b)]
    judged = compare.compare_sides(*sides, higher_is_better=metric != "ttft_any_ms")
    cells = {identity(cell.key): cell for run in (*b, *a) for cell in store.cells(run.id)}
    return [(label(cells[key], list(cells.values())), verdict) for key, verdict in judged.items()]


def _side(store: Store, run: Run, metric: str) -> dict[tuple[Any, ...], compare.Cell]:
    values = values_of(store.bursts(run.id), metric)
    return {
        identity(cell.key): compare.Cell(run.protocol, values.get(cell.hash, ()), is_valid(cell))
        for cell in store.cells(run.id)
    }


def identity(key: Mapping[str, Any]) -> tuple[Any, ...]:
    """Equal for cells that may be compared."""
    return tuple(sorted(key.items()))


def differences(a: Run, b: Run) -> list[str]:
    """What is known to differ in what was measured: "engine_version: 0.25.1, then 0.26.0"."""
    pairs = ((name, _fact(a, name), _fact(b, name)) for name in DIFFERING)
    known = (pair for pair in pairs if None not in pair and pair[1] != pair[2])
    return [f"{name}: {one or 'none'}, then {other or 'none'}" for name, one, other in known]


def _fact(run: Run, name: str) -> Any:
    return (run.model or None) if name == "model" else run.provenance.get(name)
