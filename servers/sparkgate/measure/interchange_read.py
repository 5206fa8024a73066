"""Results of other load generators as runs: their values under our names, where both mean the same.

What they call by the same name and measure otherwise is left out: guidellm's time per output token holds the first
token, and its rate of output tokens is over the whole time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sparkgate.engines.spec import line
from sparkgate.measure.checks import MAX_FAILED
from sparkgate.measure.plan import Cell, digest
from sparkgate.measure.told import number

MAX_BYTES = 200_000_000
MAX_COUNT = 1e12
Json = Mapping[str, Any]

_FOREIGN = "{origin} measured this under its own protocol: streams are refilled, and lengths are not verified"
_ADVICE = "compare it with runs of {tool} only"
_FAILED = "{failed} of {requests} requests failed"
_SHORT = "an answer has {least:.0f} of {asked} tokens"
_SURVIVORS = "what is left is a choice of the survivors: mend the errors and measure again"
_LENGTH = "rates over answers of different lengths cannot be compared: force the length"
_CUT = "it did not finish: {why}"
_UNTOLD = "{tool} does not tell it"


class ImportRefused(Exception):
    """A file that is no result of a load generator that is known here; the message says why."""


@dataclass(frozen=True, slots=True)
class Metric:
    """Where one of our metrics stands in a foreign result.

    Attributes:
        scale: from its unit to ours.
        inverse: it is `scale` over the foreign value, so that low and high change places.
        middle: the statistic that is taken: of rates over a whole run it is the mean.
    """

    name: str
    scale: float = 1.0
    inverse: bool = False
    middle: str = ""


GUIDELLM: Mapping[str, Metric] = {
    "ttft_any_ms": Metric("time_to_first_token_ms"),
    "ttft_content_ms": Metric("time_to_first_output_token_ms"),
    "tpot_ms": Metric("inter_token_latency_ms"),
    "decode_tok_s": Metric("inter_token_latency_ms", 1e3, inverse=True),
    "agg_wall_tok_s": Metric("output_tokens_per_second", middle="mean"),
    "e2e_ms": Metric("request_latency", 1e3),
    "prompt_tokens": Metric("prompt_token_count"),
    "output_tokens": Metric("output_token_count"),
}
AIPERF: Mapping[str, Metric] = {
    "ttft_any_ms": Metric("time_to_first_token"),
    "ttft_content_ms": Metric("time_to_first_output_token"),
    "tpot_ms": Metric("inter_token_latency"),
    "decode_tok_s": Metric("output_token_throughput_per_user"),
    "agg_wall_tok_s": Metric("output_token_throughput", middle="avg"),
    "e2e_ms": Metric("request_latency"),
    "prompt_tokens": Metric("input_sequence_length"),
    "output_tokens": Metric("output_sequence_length"),
}
AIPERF_UNITS: Mapping[str, float] = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3, "sec": 1e3}
"""Unit of a time → in ms."""
NEVER_TOLD = ("agg_decode_tok_s", "agg_steady_tok_s")


def read_results(texts: Sequence[str | bytes]) -> dict[str, Any]:
    """One run of several results, such as those of one exported plan.

    Raises:
        ImportRefused: one of them cannot be read, or they are of different programs, models or addresses.
    """
    runs = [read_result(text) for text in texts]
    first = runs[0]
    for run in runs[1:]:
        if any(run[name] != first[name] for name in ("origin", "provenance")):
            told = " and ".join(f"{one['origin']} of {one['model']}" for one in (first, run))
            raise ImportRefused(f"these are results of {told}: import each by itself")
    cells = [cell for run in runs for cell in run["cells"]]
    provenance = first["provenance"]
    begun, ended = ([run[name] for run in runs if run[name] is not None] for name in ("created_s", "ended_s"))
    times = (min(begun, default=None), max(ended, default=None))
    return _with_cells(_run(first["origin"], provenance["url"], provenance["model"], cells, *times))


def read_result(text: str | bytes) -> dict[str, Any]:
    """A run, as the store tells it, of a guidellm report or an aiperf export.

    Its cells are `tainted` at best, and their hashes are those of no cell of ours.

    Raises:
        ImportRefused: no JSON, too large, of another program, or without a measured cell.
    """
    if len(text) > MAX_BYTES:
        raise ImportRefused(f"it has {len(text)} bytes, and {MAX_BYTES} is the most")
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        raise ImportRefused(
            "it is no JSON: guidellm writes benchmarks.json, aiperf profile_export_aiperf.json"
        ) from None
    for reads, fits in READERS:
        if isinstance(told, Mapping) and fits(told):
            return _with_cells(reads(told))
    raise ImportRefused("it is neither a report of guidellm nor an export of aiperf")


def _with_cells(run: dict[str, Any]) -> dict[str, Any]:
    if not run["cells"]:
        raise ImportRefused(f"{run['origin']} has measured nothing in it")
    for place, cell in enumerate(run["cells"]):
        cell["hash"] = digest({"key": cell["key"], "origin": run["origin"], "place": place})
    bad = any(cell["status"] == "invalid" for cell in run["cells"])
    return run | {"validity": "invalid" if bad else "tainted"}


def _guidellm(told: Json) -> dict[str, Any]:
    origin = f"guidellm {line(_at(told, 'metadata').get('guidellm_version'))}".strip()
    spec = _at(told, "config", "spec")
    backend = _at(spec, "backend")
    benchmarks = [one for one in _list(told.get("benchmarks")) if isinstance(one, Mapping)]
    cells = [_guidellm_cell(one, spec, origin) for one in benchmarks if _levels(one)]
    started = [value for one in benchmarks if (value := number(one.get("start_time"))) is not None]
    ended = [value for one in benchmarks if (value := number(one.get("end_time"))) is not None]
    return _run(
        origin, backend.get("target"), backend.get("model"), cells, min(started, default=None), max(ended, default=None)
    )


def _levels(benchmark: Json) -> int | None:
    """Streams at once; None for a load that is no number of streams."""
    strategy = _at(benchmark, "config", "strategy")
    if strategy.get("type_") == "synchronous":
        return 1
    streams = number(strategy.get("streams"))
    return int(streams) if streams and streams >= 1 and strategy.get("type_") == "concurrent" else None


def _guidellm_cell(benchmark: Json, spec: Json, origin: str) -> dict[str, Any]:
    data = next((one for one in _list(spec.get("data")) if isinstance(one, Mapping)), {})
    metrics = _at(benchmark, "metrics")
    totals = _at(metrics, "request_totals")
    asked, served = (_whole(data.get(f"{side}_tokens")) for side in ("output", "prompt"))
    stats = {}
    for name, metric in GUIDELLM.items():
        told = _at(metrics, metric.name, "successful")
        places = {"median": metric.middle or "median", "low": "min", "high": "max"}
        found = _stats(told, places, metric)
        stats.update({name: found | {"n": _whole(totals.get("successful"))}} if found else {})
    done, failed = (_whole(totals.get(name)) or 0 for name in ("successful", "errored"))
    warned = [line(one.get("message")) for one in _list(benchmark.get("warnings")) if isinstance(one, Mapping)]
    key = _key(_levels(benchmark), served, asked, stats)
    return _cell(key, stats, origin, (failed, done + failed), asked, warned)


def _aiperf(told: Json) -> dict[str, Any]:
    origin = f"aiperf {line(told.get('aiperf_version'))}".strip()
    config = _at(told, "input_config")
    model = _first(_at(config, "models").get("items")).get("name")
    urls = _list(_at(config, "endpoint").get("urls"))
    cell = _aiperf_cell(told, config, origin)
    times = (_epoch_s(told.get(name)) for name in ("start_time", "end_time"))
    return _run(origin, urls[0] if urls else "", model, [cell] if cell["stats"] else [], *times)


def _aiperf_cell(told: Json, config: Json, origin: str) -> dict[str, Any]:
    phases = [one for one in _list(config.get("phases")) if isinstance(one, Mapping) and one.get("kind") == "profiling"]
    prompts = _at(_first(config.get("datasets")), "prompts")
    asked, served = (_whole(_at(prompts, side).get("mean")) for side in ("osl", "isl"))
    stats = {}
    for name, metric in AIPERF.items():
        found = _aiperf_stats(_at(told, metric.name), metric)
        stats.update({name: found} if found else {})
    done, failed = (_whole(_at(told, name).get("avg")) for name in ("request_count", "error_request_count"))
    why = line(told.get("incomplete_reason")) or "it was cancelled"
    cut = told.get("was_cancelled") is True or told.get("is_complete") is False
    key = _key(_whole(_first(phases).get("concurrency")), served, asked, stats)
    counts = (failed or 0, None if done is None else done + (failed or 0))
    return _cell(key, stats, origin, counts, asked, [_CUT.format(why=why)] if cut else [])


def _aiperf_stats(told: Json, metric: Metric) -> dict[str, Any]:
    unit = line(told.get("unit"))
    if metric.name.endswith(("token", "latency")) and unit not in AIPERF_UNITS:
        return {}
    places = {"median": metric.middle or "p50", "low": "min", "high": "max", "p95": "p95", "p99": "p99"}
    found = _stats(told, places, Metric(metric.name, AIPERF_UNITS.get(unit, 1.0)))
    return found | {"n": _whole(told.get("count"))} if found else {}


def _stats(told: Json, places: Mapping[str, str], metric: Metric) -> dict[str, Any]:
    """{} where the middle is missing; no ends for a mean over a whole run, whose ends are those of moments."""
    values = {name: number(told.get(place)) for name, place in places.items()}
    scaled = {
        name: end for name, value in values.items() if value is not None and (end := _scaled(value, metric)) is not None
    }
    if "median" not in scaled:
        return {}
    if metric.middle:
        return {"median": scaled["median"]}
    if metric.inverse and {"low", "high"} <= scaled.keys():
        scaled |= {"low": scaled["high"], "high": scaled["low"]}
    return scaled


def _scaled(value: float, metric: Metric) -> float | None:
    if metric.inverse and not value:
        return None
    return number(metric.scale / value if metric.inverse else value * metric.scale)


def _key(streams: int | None, prompt: int | None, output: int | None, stats: Mapping[str, Any]) -> dict[str, Any]:
    """A key of ours; lengths that were not told are those that were seen."""
    seen = [_whole(stats.get(name, {}).get("median")) or 0 for name in ("prompt_tokens", "output_tokens")]
    cell = Cell("imported", "prose", prompt or seen[0], output or seen[1], max(streams or 1, 1), None, enforced=False)
    return cell.key | {"family": "synthetic"}


def _cell(
    key: Mapping[str, Any],
    stats: Mapping[str, Any],
    origin: str,
    failed: tuple[int, int | None],
    asked: int | None,
    warned: list[str],
) -> dict[str, Any]:
    tool = origin.split()[0]
    flags = [_flag("imported", "warning", _FOREIGN.format(origin=origin), _ADVICE.format(tool=tool))]
    flags += [
        _flag("warned", "warning", text.rstrip("."), f"see the documentation of {tool}") for text in warned if text
    ]
    count, requests = failed
    if count:
        severity = "invalid" if requests and count / requests > MAX_FAILED else "warning"
        flags.append(_flag("errors", severity, _FAILED.format(failed=count, requests=requests), _SURVIVORS))
    least = number(stats.get("output_tokens", {}).get("low"))
    if asked and least is not None and least < asked:
        flags.append(_flag("short_output", "invalid", _SHORT.format(least=least, asked=asked), _LENGTH))
    invalid = any(flag["severity"] == "invalid" for flag in flags)
    missing = [name for name in (*GUIDELLM, *NEVER_TOLD) if name not in stats]
    return {
        "key": dict(key),
        "status": "invalid" if invalid else "tainted",
        "flags": flags,
        "stats": dict(stats),
        "why_null": dict.fromkeys(missing, _UNTOLD.format(tool=tool)),
        "facts": {},
    }


def _flag(id_: str, severity: str, text: str, advice: str) -> dict[str, str]:
    return {"id": id_, "severity": severity, "text": text, "advice": advice}


def _run(
    origin: str, url: object, model: object, cells: list[dict[str, Any]], started_s: float | None, ended_s: float | None
) -> dict[str, Any]:
    return {
        "id": None,
        "kind": "sweep" if len(cells) > 1 else "imported",
        "engine": "",
        "model": line(model),
        "state": "done",
        "origin": origin,
        "provenance": {"model": line(model), "url": line(url), "measured_by": origin},
        "plan": {"schema": "", "protocol_hash": digest({"origin": origin}), "cells": [cell["key"] for cell in cells]},
        "seed": "",
        "created_s": started_s,
        "ended_s": ended_s,
        "cells": cells,
    }


def _at(told: object, *path: str) -> Json:
    """What stands at a path of names; {} when there is no table."""
    for name in path:
        told = told.get(name) if isinstance(told, Mapping) else None
    return told if isinstance(told, Mapping) else {}


def _list(told: object) -> list[Any]:
    return told if isinstance(told, list) else []


def _first(told: object) -> Json:
    return next((one for one in _list(told) if isinstance(one, Mapping)), {})


def _whole(value: object) -> int | None:
    """A count; None for what is none, or is too large to be one."""
    found = number(value)
    return None if found is None or not 0 <= found <= MAX_COUNT else round(found)


def _epoch_s(value: object) -> float | None:
    """Of a time as ISO text; without a zone it is this machine's, as aiperf writes it."""
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return None if at is None else at.timestamp()


READERS: tuple[tuple[Callable[[Json], dict[str, Any]], Callable[[Json], bool]], ...] = (
    (_guidellm, lambda told: "benchmarks" in told and "guidellm_version" in _at(told, "metadata")),
    (_aiperf, lambda told: "aiperf_version" in told),
)
"""Reads a result, and tells whether it is one of that program."""
