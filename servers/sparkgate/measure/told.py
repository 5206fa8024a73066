"""A stored run as JSON, read for pictures and reports: nothing is trusted to be there, and nothing invalid is a number.

A run is `{"id", "kind", "engine", "validity", "origin", "provenance", "plan", "cells": [{"key", "hash", "status",
"flags", "stats": {metric: {"median", "low", "high", "ci95", "n", …}}, "why_null", "facts"}], …}`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkgate.engines.spec import line

Told = Mapping[str, Any]
MAX_CELLS = 400

HEADLINES: Mapping[str, tuple[str, ...]] = {
    "prefill": ("ttft_any_ms", "pp_tok_s"),
    "prefix": ("ttft_any_ms", "pp_tok_s"),
    "quality": ("pass_1", "pass_3"),
}
"""Kind of a run → its metrics, the first one first; other kinds have `RATES`."""
RATES = ("decode_tok_s", "agg_decode_tok_s", "agg_wall_tok_s", "ttft_any_ms")
UNITS: Mapping[str, str] = {"_tok_s": "tok/s", "_ms": "ms", "_s": "s", "_j": "J", "j_per_token": "J", "_w": "W"}
"""End of a metric's name → its unit."""
NAMES: Mapping[str, str] = {
    "decode_tok_s": "one stream",
    "median_stream_tok_s": "median stream",
    "agg_decode_tok_s": "all streams, decode",
    "agg_wall_tok_s": "all streams, wall",
    "ttft_any_ms": "first token",
    "pp_tok_s": "prefill",
    "tpot_ms": "between tokens",
    "accept_rate": "drafts accepted",
    "j_per_token": "energy a token",
    "pass_1": "right at once",
    "pass_3": "right in all three trials",
}
_KEY_WORDS: Mapping[str, str] = {
    "family": "{}",
    "prompt_tokens": "{} prompt tokens",
    "output_tokens": "{} output tokens",
    "concurrency": "concurrency {}",
    "cache_mode": "{}",
    "depth_tokens": "depth {}",
}
WITH_NUMBERS = ("valid", "tainted")


@dataclass(frozen=True, slots=True)
class Measure:
    """A value and its interval: 95 % where there were five repeats or more (`sure`), otherwise the range."""

    value: float
    low: float
    high: float
    sure: bool = False


def cells(run: Told) -> list[Told]:
    """The cells of a run that have a key."""
    told = run.get("cells")
    found = told if isinstance(told, list) else []
    return [cell for cell in found if isinstance(cell, Mapping) and isinstance(cell.get("key"), Mapping)][:MAX_CELLS]


def status(cell: Told) -> str:
    """`valid`, `tainted`, `invalid`, how it ended without that, or `not verified`."""
    return line(cell.get("status")) or "not verified"


def identity(cell: Told) -> str:
    """Equal for cells that may be compared, in runs of one protocol."""
    return json.dumps(dict(cell["key"]), sort_keys=True, default=str)


def protocol(run: Told) -> str:
    """The hash of what makes runs comparable; "" where it is not told."""
    plan = run.get("plan")
    return line(plan.get("protocol_hash")) if isinstance(plan, Mapping) else ""


def measure(cell: Told, metric: str) -> Measure | None:
    """One metric of a cell; None for a cell that is invalid or was not verified, and where it has no value."""
    stats = cell.get("stats")
    told = stats.get(metric) if isinstance(stats, Mapping) else None
    if status(cell) not in WITH_NUMBERS or not isinstance(told, Mapping):
        return None
    value = number(told.get("median"))
    if value is None:
        return None
    ci = told.get("ci95")
    sure = isinstance(ci, Sequence) and len(ci) == 2 and None not in map(number, ci)
    ends = list(ci) if sure and isinstance(ci, Sequence) else [told.get("low"), told.get("high")]
    low, high = (value if (end := number(one)) is None else end for one in ends)
    return Measure(value, min(low, value), max(high, value), sure)


def number(value: object) -> float | None:
    """A finite number; None for anything else, True and False too."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def key_number(cell: Told, name: str) -> int | None:
    """A whole number above 0 of the key of a cell."""
    value = number(cell["key"].get(name))
    return int(value) if value and value > 0 else None


def headline(run: Told, cell: Told) -> str:
    """The metric that a cell is judged by."""
    metrics = HEADLINES.get(line(run.get("kind")), RATES)
    if metrics is RATES and (key_number(cell, "concurrency") or 1) > 1:
        metrics = RATES[1:]
    return next((metric for metric in metrics if measure(cell, metric)), metrics[0])


def higher_is_better(metric: str) -> bool:
    return not metric.endswith(("_ms", "_s", "_token")) or metric.endswith("_tok_s")


def unit(metric: str) -> str:
    """ "" for a share or a count."""
    return next((told for end, told in UNITS.items() if metric.endswith(end)), "")


def title(metric: str) -> str:
    """A metric in words, with its unit."""
    name = NAMES.get(metric, metric.replace("_", " "))
    return f"{name}, {unit(metric)}" if unit(metric) else name


def groups(found: Sequence[Told], along: str) -> dict[str, list[Told]]:
    """Cells that differ in one part of their key only, in its order, by what tells each group from the others.

    Groups that no words tell apart have a number.
    """
    together: dict[Hashable, list[Told]] = {}
    for cell in found:
        if key_number(cell, along) is not None:
            together.setdefault(_rest(cell, along), []).append(cell)
    chosen = list(together.values())
    differing = [name for name in (*_KEY_WORDS, "thinking") if len({_part(one[0], name) for one in chosen}) > 1]
    named: dict[str, list[Told]] = {}
    for one in chosen:
        name = words(one[0], [part for part in differing if part != along])
        same = sum(other.startswith(name) for other in named)
        named[f"{name} ({same + 1})".strip() if name in named else name] = sorted(
            one, key=lambda c: key_number(c, along) or 0
        )
    return named


def _rest(cell: Told, along: str) -> Hashable:
    return tuple(sorted((str(name), repr(value)) for name, value in cell["key"].items() if name != along))


def _part(cell: Told, name: str) -> str:
    return repr(cell["key"].get(name))


def words(cell: Told, names: Sequence[str] | None = None) -> str:
    """What a cell is, or those parts of its key."""
    key, chosen = cell["key"], [*_KEY_WORDS, "thinking"] if names is None else names
    told = [_KEY_WORDS[name].format(_text(key[name])) for name in chosen if name in _KEY_WORDS and key.get(name)]
    if "thinking" in chosen and isinstance(key.get("thinking"), bool):
        told.append(f"thinking {'on' if key['thinking'] else 'off'}")
    return ", ".join(told)


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else line(value)


def run_name(run: Told) -> str:
    """What a run is called in a picture: its number, engine and model."""
    provenance = run.get("provenance")
    model = provenance.get("model") if isinstance(provenance, Mapping) else None
    number_ = run.get("id") or run.get("run_id")
    parts = [
        f"run {number_}" if isinstance(number_, int) else "",
        line(run.get("engine")),
        line(run.get("model") or model),
        line(run.get("origin")),
    ]
    return ", ".join(filter(None, parts)) or "a run"
