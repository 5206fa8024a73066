"""What is on a picture of runs: titles, lines, bars and notes. Nothing is drawn here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkgate.measure.knee import Point, Sweep, read_sweep
from sparkgate.measure.told import (
    Measure,
    Told,
    cells,
    groups,
    headline,
    higher_is_better,
    identity,
    key_number,
    measure,
    protocol,
    run_name,
    status,
    title,
    words,
)

MAX_LINES = 6
MAX_BARS = 24

_TOGETHER: Mapping[str, str] = {"agg_decode_tok_s": "first to last token", "agg_wall_tok_s": "with the wait before"}
"""Metrics of all streams together and what their lines are called."""
_LEGEND = "bars: 95 % interval from five repeats on, otherwise the range"
_HOLLOW = "hollow: with warnings"
_LEFT_OUT = "{count} without a valid number left out"
_NOTHING = "there is nothing to draw: {what}"
_NO_LEVELS = "no valid cells with {metrics} and two different values of {along}"
_PROTOCOLS = "the two runs were made by different protocols, so that their numbers cannot stand side by side"
_NO_PAIR = "the two runs share no cell in which both have a valid number"


class PictureError(Exception):
    """A picture that cannot be drawn as asked; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a panel; `points` are (x, measure, whether it has warnings)."""

    label: str
    points: tuple[tuple[int, Measure, bool], ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """One cell of two runs."""

    label: str
    a: Measure
    b: Measure


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: lines over a shared x, or pairs of bars.

    Attributes:
        knee: x of the vertical line, and what it says; None for none.
        names: of the two sides of the bars.
    """

    y: str
    x: str
    lines: tuple[Line, ...] = ()
    knee: tuple[int, str] | None = None
    log_y: bool = False
    bars: tuple[Pair, ...] = ()
    names: tuple[str, str] = ("", "")
    legend: bool = True


@dataclass(frozen=True, slots=True)
class Sheet:
    """A whole picture; `notes` stand below it."""

    title: str
    panels: tuple[Panel, ...]
    notes: tuple[str, ...] = ()


def _lines(run: Told, along: str, metrics: Mapping[str, str]) -> Iterator[Line]:
    """A line for each metric and group; `metrics` name what is added to the label of each."""
    for label, found in groups(cells(run), along).items():
        for metric, name in metrics.items():
            measured = [
                (key_number(cell, along) or 0, measure(cell, metric), status(cell) != "valid") for cell in found
            ]
            points = tuple((x, value, doubtful) for x, value, doubtful in measured if value)
            if points:
                yield Line(", ".join(filter(None, (label, name))), points)


def _panel(run: Told, y: str, along: str, metrics: Mapping[str, str], **look: Any) -> Panel:
    return Panel(y, along.replace("_", " "), tuple(_lines(run, along, metrics))[:MAX_LINES], **look)


def _sheet(run: Told, along: str, panels: Sequence[Panel], what: str) -> Sheet:
    filled = tuple(panel for panel in panels if panel.lines)
    if not any(len(line.points) > 1 for panel in filled for line in panel.lines):
        lacking = _NO_LEVELS.format(metrics=what, along=along.replace("_", " "))
        raise PictureError(_NOTHING.format(what=lacking))
    lacking_number = sum(measure(cell, headline(run, cell)) is None for cell in cells(run))
    hollow = any(doubtful for panel in filled for line in panel.lines for _, _, doubtful in line.points)
    notes = [_LEGEND, *([_HOLLOW] if hollow else [])]
    notes += [_LEFT_OUT.format(count=lacking_number)] if lacking_number else []
    return Sheet(run_name(run), filled, tuple(notes))


def sweep_sheet(runs: Sequence[Told]) -> Sheet:
    """Rates of all streams together and of one, against concurrency, with the knee."""
    [run] = runs
    alone = "median_stream_tok_s" if _has(run, "median_stream_tok_s") else "decode_tok_s"
    panels = [
        _panel(run, "all streams, tok/s", "concurrency", _TOGETHER, knee=_knee(run)),
        _panel(run, "each stream, tok/s", "concurrency", {alone: ""}),
    ]
    return _sheet(run, "concurrency", panels, "a rate")


def prefill_sheet(runs: Sequence[Told]) -> Sheet:
    """First token and prefill rate against the length of the prompt."""
    [run] = runs
    panels = [
        _panel(run, title("ttft_any_ms"), "prompt_tokens", {"ttft_any_ms": ""}, log_y=True),
        _panel(run, title("pp_tok_s"), "prompt_tokens", {"pp_tok_s": ""}),
    ]
    return _sheet(run, "prompt_tokens", panels, "a first-token time")


def compare_sheet(runs: Sequence[Told]) -> Sheet:
    """Every cell that both runs hold, by its headline metric; one panel a metric."""
    a, b = runs
    if protocol(a) != protocol(b):
        raise PictureError(_PROTOCOLS)
    others = {identity(cell): cell for cell in cells(b)}
    pairs: dict[str, list[Pair]] = {}
    for cell in cells(a):
        metric = headline(a, cell)
        other = others.get(identity(cell))
        values = (measure(cell, metric), measure(other, metric) if other else None)
        if values[0] and values[1]:
            pairs.setdefault(metric, []).append(Pair(_short(cell, cells(a)), values[0], values[1]))
    if not pairs:
        raise PictureError(_NOTHING.format(what=_NO_PAIR))
    names = (f"A: {run_name(a)}", f"B: {run_name(b)}")
    panels = tuple(
        Panel(title(metric), "", bars=tuple(bars[:MAX_BARS]), names=names, legend=not number)
        for number, (metric, bars) in enumerate(pairs.items())
    )
    better = ["higher is better" if higher_is_better(metric) else "lower is better" for metric in pairs]
    return Sheet("A against B", panels, (_LEGEND, *dict.fromkeys(better)))


def _short(cell: Told, among: Sequence[Told]) -> str:
    """What tells a cell from the others of its run, its concurrency in any case."""
    names = ("concurrency", "prompt_tokens", "output_tokens", "family", "cache_mode", "depth_tokens", "thinking")
    differing = [name for name in names if len({repr(one["key"].get(name)) for one in among}) > 1]
    return words(cell, differing or ["concurrency"])


def _has(run: Told, metric: str) -> bool:
    return any(measure(cell, metric) for cell in cells(run))


def _knee(run: Told) -> tuple[int, str] | None:
    """Of the first group; None with fewer than three levels, or when it lies beyond them."""
    found = next(iter(groups(cells(run), "concurrency").values()), [])
    metric = next((name for name in _TOGETHER if any(measure(cell, name) for cell in found)), "")
    rates = {key_number(cell, "concurrency") or 1: measure(cell, metric) for cell in found}
    points = [Point(level, rate.value) for level, rate in rates.items() if rate and rate.value > 0]
    if len(points) < 3:
        return None
    return _knee_words(read_sweep(points), max(point.concurrency for point in points))


def _knee_words(sweep: Sweep, last: int) -> tuple[int, str] | None:
    knee = sweep.knee_marginal
    if knee is None or knee == last:
        return None
    also = "" if sweep.knees_agree else f" (bends most at {sweep.knee_chord})"
    return knee, f"knee: {knee}{also}"


PICTURES: Mapping[str, tuple[int, Callable[[Sequence[Told]], Sheet]]] = {
    "sweep": (1, sweep_sheet),
    "prefill": (1, prefill_sheet),
    "compare": (2, compare_sheet),
}
"""Name of a picture → how many runs it shows, and what is on it."""


def sheet_of(picture: str, runs: Sequence[Told]) -> Sheet:
    """What is on one picture of `PICTURES`.

    Raises:
        PictureError: an unknown picture, a wrong number of runs, or nothing to draw.
    """
    if picture not in PICTURES:
        raise PictureError(f"there is no picture {picture!r}; there are {', '.join(PICTURES)}")
    wanted, made = PICTURES[picture]
    if len(runs) != wanted:
        raise PictureError(f"{picture} shows {wanted} run{'s' * (wanted > 1)}, and {len(runs)} were given")
    return made(runs)


def picture_for(runs: Sequence[Told]) -> str:
    """The picture that suits: two runs are compared, prompts of several lengths show the first token."""
    if len(runs) > 1:
        return "compare"
    lengths = {key_number(cell, "prompt_tokens") for run in runs for cell in cells(run)}
    levels = {key_number(cell, "concurrency") for run in runs for cell in cells(run)}
    return "prefill" if len(lengths) > len(levels) else "sweep"
