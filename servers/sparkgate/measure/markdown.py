"""A report of a run to publish: what was measured, on what and how, what came of it, and what speaks against it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sparkgate.engines.spec import line
from sparkgate.measure.explain import Measured, explain
from sparkgate.measure.own_setting import own_setting
from sparkgate.measure.plan import PROTOCOL
from sparkgate.measure.reference import nearest
from sparkgate.measure.told import (
    HEADLINES,
    RATES,
    WITH_NUMBERS,
    Measure,
    Told,
    cells,
    headline,
    key_number,
    measure,
    number,
    run_name,
    status,
    title,
    unit,
    words,
)

MAX_FACTS = 60
MAX_FLAGS = 60
_ADVICE = "What to do"
_SPECIAL = re.compile(r"([\\`*_\[\]<>|#$~])")
_NO_NUMBER = "no number"
_UNTOLD = "No published number of this model and metric is known here."
_SHOWN = ("load", "warmup_bursts", "order", "nonce", "temperature")
"""Parts of the protocol that a reader needs."""


def report(run: Told, picture: str = "") -> str:
    """Markdown of one run.

    Args:
        picture: path or address of its picture, as it is to stand in the link; "" for none.
    """
    parts = [
        [f"# Benchmark: {_safe(run_name(run))}", "", _verdict(run)],
        [f"![{_safe(run_name(run))}](<{_address(picture)}>)"] if picture else [],
        ["## Results", "", *_results(run), *_finding(run)],
        _contrasts(run),
        ["## What speaks against it", "", *_against(run)],
        ["## Published numbers", "", *_published(run)],
        ["## Protocol", "", *_protocol(run)],
        ["## Provenance", "", *_provenance(run)],
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _finding(run: Told) -> list[str]:
    """What a sweep says of the engine, and what to do."""
    told = run.get("finding")
    if not isinstance(told, Mapping):
        return []
    return ["", f"**{_safe(told.get('text', ''))}.** {_safe(told.get('advice', ''))}."]


def _safe(text: object, limit: int = 200) -> str:
    """Text of others as one line in which nothing is Markdown or HTML."""
    return _SPECIAL.sub(r"\\\1", line(str(text)))[:limit]


def _address(text: str) -> str:
    return re.sub(r"[<>\s]", lambda found: f"%{ord(found[0]):02X}", text)


def _verdict(run: Told) -> str:
    validity, state = line(run.get("validity")), line(run.get("state"))
    counts = [status(cell) for cell in cells(run)]
    told = {"valid": "All cells are valid.", "tainted": "Cells have warnings; see below."}.get(validity)
    invalid = sum(one == "invalid" for one in counts)
    sentences = [
        f"Kind {_safe(run.get('kind', ''))}, {len(counts)} cell{'s' * (len(counts) != 1)}.",
        told or f"It is {_safe(validity or state or 'not verified')}.",
        f"Invalid and without a number: {invalid}." if invalid else "",
        f"Measured by {_safe(run['origin'])}, and read from its result." if run.get("origin") else "",
    ]
    return " ".join(filter(None, sentences))


def _results(run: Told) -> list[str]:
    found = cells(run)
    if not found:
        return ["No cell was measured."]
    metrics = [name for name in _metrics(run) if any(measure(cell, name) for cell in found)]
    head = ["cell", *(title(name) for name in metrics), "repeats", "status"]
    rows = [
        [_safe(words(cell)), *_values(cell, metrics), _repeats(cell, metrics), _safe(status(cell))] for cell in found
    ]
    note = "Each value is the median of its repeats, with its 95 % interval from five repeats on, otherwise its range."
    return [*_table(head, rows, numbers=len(metrics) + 1), "", note]


def _contrasts(run: Told) -> list[str]:
    """What its cells say against one another."""
    told = [line(one.get("text")) for one in _list(run.get("contrasts")) if isinstance(one, Mapping)]
    lines = [f"- {_safe(text, 400)}" for text in told[:MAX_FLAGS] if text]
    return ["## Against one another", "", *lines] if lines else []


def _metrics(run: Told) -> tuple[str, ...]:
    extra = ("median_stream_tok_s", "ttft_any_ms", "tpot_ms", "accept_rate", "j_per_token")
    return tuple(dict.fromkeys((*HEADLINES.get(line(run.get("kind")), RATES), *extra)))


def _values(cell: Told, metrics: Sequence[str]) -> Iterator[str]:
    for name in metrics:
        found = measure(cell, name)
        yield _with_interval(found) if found else _NO_NUMBER if status(cell) not in WITH_NUMBERS else "–"


def _with_interval(found: Measure) -> str:
    if found.low == found.high:
        return _short(found.value)
    return f"{_short(found.value)} ({_short(found.low)} to {_short(found.high)})"


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _repeats(cell: Told, metrics: Sequence[str]) -> str:
    stats = cell.get("stats")
    told = [stats[name] for name in metrics if name in stats] if isinstance(stats, Mapping) else []
    counts = [count for one in told if isinstance(one, Mapping) and (count := number(one.get("n"))) is not None]
    return f"{max(counts):.0f}" if counts else "–"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: int = 0) -> list[str]:
    """`numbers` columns after the first are set to the right."""
    marks = ["---", *["---:"] * numbers, *["---"] * (len(head) - 1 - numbers)]
    return [f"| {' | '.join(row)} |" for row in (head, marks, *rows)]


def _against(run: Told) -> list[str]:
    """Every flag once, with the cells that it is of."""
    seen: dict[tuple[str, str, str], list[str]] = {}
    for cell in cells(run):
        for flag in _flags(cell):
            seen.setdefault(flag, []).append(words(cell))
    notes = [f"- {_safe(note, 400)}" for note in _list(run.get("notes"))[:MAX_FLAGS]]
    if not seen:
        return notes or ["Nothing was seen that does."]
    return [_flag_line(*flag, where, len(cells(run))) for flag, where in list(seen.items())[:MAX_FLAGS]] + notes


def _flags(cell: Told) -> Iterator[tuple[str, str, str]]:
    """(severity, text, advice) of each; a flag that is a bare name is its own text."""
    for flag in _list(cell.get("flags")):
        if isinstance(flag, Mapping):
            text = line(flag.get("text")) or line(flag.get("id"))
            yield line(flag.get("severity")) or "warning", text, line(flag.get("advice"))
        else:
            yield "warning", line(flag).replace("_", " "), ""


def _flag_line(severity: str, text: str, advice: str, where: Sequence[str], of: int) -> str:
    told = "in every cell" if len(where) == of else f"in {len(where)} of {of} cells"
    only = f"in {_safe(where[0])}" if len(where) == 1 and of > 1 else told
    do = f" {_ADVICE}: {_safe(advice)}." if advice else ""
    return f"- **{_safe(severity)}**: {_safe(text)} ({only}).{do}"


def _published(run: Told) -> list[str]:
    """What others have published for this model, beside the first cell of one stream that has a number."""
    provenance = _table_of(run.get("provenance"))
    model = line(run.get("model") or provenance.get("model"))
    found = next(
        (cell for cell in cells(run) if (key_number(cell, "concurrency") or 1) == 1 and _head(run, cell)), None
    )
    if found is None or not model:
        return [_UNTOLD]
    metric, value = headline(run, found), _head(run, found)
    kind = line(provenance.get("engine") or run.get("engine"))
    rows = nearest(model, kind, metric, own_setting(provenance, found["key"]))
    told = explain(Measured(value.value, unit(metric)), rows) if value else []
    return [f"- {_safe(sentence, 600)}" for sentence in told] or [_UNTOLD]


def _head(run: Told, cell: Told) -> Measure | None:
    return measure(cell, headline(run, cell))


def _protocol(run: Told) -> list[str]:
    plan = _table_of(run.get("plan"))
    told = [(name, plan.get(name)) for name in ("repeats", "seed", "protocol_hash")]
    ours = [(name.replace("_", " "), PROTOCOL[name]) for name in _SHOWN] if not run.get("origin") else []
    pairs = [(name.replace("_", " "), value) for name, value in told if value] + ours
    return _table(["part", "value"], [[_safe(name), _safe(value)] for name, value in pairs])


def _provenance(run: Told) -> list[str]:
    times = [(name, _day(run.get(key))) for name, key in (("begun", "created_s"), ("ended", "ended_s"))]
    facts = [(name, value) for name, value in times if value]
    facts += list(_flat(_table_of(run.get("provenance"))))[:MAX_FACTS]
    return _table(["fact", "value"], [[_safe(name), _safe(value)] for name, value in facts]) if facts else ["Not told."]


def _flat(told: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Leaves of nested tables by their path; what is not known is left out."""
    for name, value in told.items():
        path = f"{before}{name}"
        if isinstance(value, Mapping):
            yield from _flat(value, f"{path}.")
        elif isinstance(value, list | tuple):
            yield path, " ".join(map(str, value))
        elif value not in (None, ""):
            yield path, str(value)


def _day(seconds: object) -> str:
    at = number(seconds)
    return "" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _table_of(told: object) -> Mapping[str, Any]:
    return told if isinstance(told, Mapping) else {}


def _list(told: object) -> list[Any]:
    return list(told) if isinstance(told, list | tuple) else []
