"""What a run will measure: its cells, in which order, and about how long that takes. Nothing is sent here."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args

from sparkgate.measure.budget import SHORTEST_ANSWER, Rates, bursts_s, what_fits, with_answers
from sparkgate.measure.prompts import FAMILIES, INSTRUCTIONS, NONCE_WORDS, TAIL_WORDS, VOCABULARY, Family

CacheMode = Literal["cold", "warm"]
SCHEMA = "bench-plan/1"
WARMUP_BURSTS = 2
"""Of each cell, thrown away; more only while its first-token times still fall."""
START_OVERHEAD_S = 5.0

PROTOCOL: Mapping[str, object] = {
    "version": 1,
    "temperature": 0,
    "load": "burst: all streams of a cell start at once; the next burst waits for the last of them",
    "warmup_bursts": WARMUP_BURSTS,
    "order": "cells shuffled within each repeat",
    "nonce": f"{NONCE_WORDS} words first, {TAIL_WORDS} before the instruction",
    "vocabulary": VOCABULARY,
    "instructions": dict(INSTRUCTIONS),
}
"""All that makes two runs comparable beside the key of a cell; a change here makes old runs incomparable."""


class PlanError(Exception):
    """A plan that cannot be made as asked; the message names the option and the way out."""


def digest(value: object) -> str:
    """ "sha256:" and 64 hex digits of the value as JSON with sorted keys."""
    told = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(told.encode()).hexdigest()


def protocol_hash() -> str:
    """Of `PROTOCOL`: runs whose hashes differ must not be compared."""
    return digest(PROTOCOL)


@dataclass(frozen=True, slots=True)
class Cell:
    """One measured point; cells with equal keys may be compared.

    Attributes:
        prompt_tokens: of the whole prompt without `depth_tokens`.
        depth_tokens: tokens of context that stand before the prompt and are computed with it.
        concurrency: streams started at once.
        thinking: None leaves it as the server has it.
        cache_mode: `cold`, nothing of the prompt was seen before; `warm`, all but its tail was.
        enforced: exactly `output_tokens` are generated; otherwise they are the most.
    """

    kind: str
    family: Family = "prose"
    prompt_tokens: int = 512
    output_tokens: int = 256
    concurrency: int = 1
    thinking: bool | None = False
    cache_mode: CacheMode = "cold"
    depth_tokens: int = 0
    enforced: bool = True

    @property
    def key(self) -> dict[str, Any]:
        """All fields by name; the same in every version of this schema."""
        return asdict(self)

    @property
    def hash(self) -> str:
        """Of key and protocol together: equal hashes may be compared."""
        return digest({"key": self.key, "protocol": protocol_hash()})

    @property
    def whole_prompt_tokens(self) -> int:
        return self.depth_tokens + self.prompt_tokens

    @property
    def context_tokens(self) -> int:
        """Of context that one stream takes."""
        return self.whole_prompt_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Options:
    """What may be asked of a kind; None takes the kind's own. Times in seconds."""

    concurrency: tuple[int, ...] | None = None
    prompt_tokens: tuple[int, ...] | None = None
    output_tokens: int | None = None
    repeats: int | None = None
    max_seconds: int | None = None
    thinking: bool | None = None
    family: Family | None = None


LIMITS: Mapping[str, tuple[int, int]] = {
    "concurrency": (1, 256),
    "prompt_tokens": (64, 1_000_000),
    "output_tokens": (1, 32_768),
    "repeats": (1, 10),
    "max_seconds": (10, 86_400),
}


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of run and its defaults.

    Attributes:
        spread: (a cell with the first of all options, the options) → cells.
        soak_s: its order is begun again until that many seconds have gone; 0 runs it once.
    """

    name: str
    about: str
    spread: Callable[[Cell, Options], Sequence[Cell]]
    concurrency: tuple[int, ...] = (1,)
    prompt_tokens: tuple[int, ...] = (512,)
    output_tokens: int = 256
    repeats: int = 3
    max_seconds: int = 1800
    soak_s: int = 0


def _grid(one: Cell, options: Options) -> list[Cell]:
    """Every prompt length at every concurrency."""
    streams, lengths = options.concurrency or (), options.prompt_tokens or ()
    return [replace(one, prompt_tokens=length, concurrency=count) for length in lengths for count in streams]


def _over(**values: Sequence[Any]) -> Callable[[Cell, Options], list[Cell]]:
    """The grid once for every value of one field."""
    [(name, chosen)] = values.items()
    return lambda one, options: [replace(cell, **{name: value}) for value in chosen for cell in _grid(one, options)]


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("quick", "one stream and four, in a minute", _grid, (1, 4), output_tokens=64, max_seconds=60),
        Kind("decode", "how fast one stream generates", _grid, output_tokens=400, repeats=5),
        Kind("sweep", "rate against concurrency, and where it bends", _grid, (1, 2, 4, 8, 16)),
        Kind(
            "prefill",
            "time to the first token against the length of the prompt",
            _grid,
            prompt_tokens=(512, 2048, 8192, 16384, 32768),
            output_tokens=16,
        ),
        Kind(
            "prefix",
            "the same prompt new and seen before; at two streams also what a forgotten nonce would show",
            _over(cache_mode=("cold", "warm")),
            (1, 2),
            prompt_tokens=(8192,),
            output_tokens=32,
            repeats=6,
        ),
        Kind("thinking", "with thinking off and on", _over(thinking=(False, True)), output_tokens=400, repeats=6),
        Kind(
            "content",
            "prose, code, JSON and a text easy to draft",
            _over(family=FAMILIES[:4]),
            output_tokens=400,
            repeats=6,
        ),
        Kind(
            "depth",
            "how fast it generates when the context is full",
            _over(depth_tokens=(0, 4096, 16384, 32768)),
            output_tokens=128,
        ),
        Kind(
            "quality",
            "small tasks with one right answer, three trials each",
            _over(enforced=(False,)),
            output_tokens=2048,
        ),
        Kind("soak", "the same load for a long time", _grid, (4,), repeats=1, max_seconds=7200, soak_s=600),
    )
}


TASKS = "quality"
TRIMMED = ("quick",)
"""Kinds that leave out their last cells rather than take longer than `max_seconds`."""


@dataclass(frozen=True, slots=True)
class Step:
    """One burst: `cells[cell]` for the `repeat`-th time, each counted from 0."""

    repeat: int
    cell: int


@dataclass(frozen=True, slots=True)
class Plan:
    """A run to be made.

    Attributes:
        seed: 128 bits, from which order and nonces follow.
        left_out: cells that do not fit, each with one line why.
    """

    kind: str
    cells: tuple[Cell, ...]
    repeats: int
    seed: int
    max_seconds: int
    soak_s: int = 0
    left_out: tuple[tuple[Cell, str], ...] = ()

    @property
    def steps(self) -> tuple[Step, ...]:
        """Every cell once in each repeat, in an order that follows from the seed: a drift hits all cells alike."""
        return tuple(Step(repeat, cell) for repeat in range(self.repeats) for cell in self.order(repeat))

    def order(self, repeat: int) -> list[int]:
        """Indices of all cells as this repeat measures them; a soak may go beyond its `repeats`."""
        drawn = random.Random(f"{self.seed:032x} order {repeat}")
        return sorted(range(len(self.cells)), key=lambda _: drawn.random())

    @property
    def requests(self) -> int:
        """Requests of one way through, without warm-up."""
        return self.repeats * sum(cell.concurrency for cell in self.cells)

    @property
    def output_tokens(self) -> int:
        """The most output tokens of one way through, without warm-up."""
        return self.repeats * sum(cell.concurrency * cell.output_tokens for cell in self.cells)

    @property
    def hash(self) -> str:
        return digest(self.as_json())

    def as_json(self) -> dict[str, Any]:
        """For the store; `from_json` makes the same plan of it."""
        return {
            "schema": SCHEMA,
            "protocol_hash": protocol_hash(),
            **{one.name: getattr(self, one.name) for one in fields(self)},
            "cells": [cell.key for cell in self.cells],
            "seed": f"{self.seed:032x}",
            "left_out": [[cell.key, why] for cell, why in self.left_out],
        }


def from_json(told: Mapping[str, Any]) -> Plan:
    """A plan from `Plan.as_json`. Raises PlanError for another schema or another protocol."""
    if told.get("schema") != SCHEMA or told.get("protocol_hash") != protocol_hash():
        raise PlanError("this plan was made by another version of the protocol: make a new one")
    taken = {one.name: told[one.name] for one in fields(Plan)}
    cells = tuple(Cell(**key) for key in told["cells"])
    left_out = tuple((Cell(**key), why) for key, why in told["left_out"])
    return Plan(**taken | {"cells": cells, "left_out": left_out, "seed": int(told["seed"], 16)})


MAX_CELLS = 64


def plan(kind: str, seed: int, options: Options = Options(), *, context: int | None = None) -> Plan:
    """The run of a kind; `context` is the number of tokens that one stream may have, None when it is not known.

    Raises PlanError for an unknown kind, an option out of its limits, or when no cell fits into the context.
    """
    if kind not in KINDS:
        raise PlanError(f"there is no kind {kind!r}; there are {', '.join(KINDS)}")
    if kind == TASKS and (options.concurrency or options.prompt_tokens):
        raise PlanError("quality asks one task at a time, of its own length: leave out concurrency and prompt_tokens")
    base, asked = KINDS[kind], _filled(KINDS[kind], options)
    one = Cell(kind, asked.family or "prose", output_tokens=asked.output_tokens or 0, thinking=asked.thinking or False)
    fits, left_out = _fitting(base.spread(one, asked), context)
    return Plan(kind, fits, asked.repeats or 0, seed, asked.max_seconds or 0, base.soak_s, left_out)


def _filled(kind: Kind, options: Options) -> Options:
    """The options with the kind's own where nothing was asked."""
    given = {one.name: value for one in fields(options) if (value := getattr(options, one.name)) is not None}
    for name, (low, high) in LIMITS.items():
        values = given.get(name, low)
        for value in values if isinstance(values, tuple) else (values,):
            if not low <= value <= high:
                raise PlanError(f"{name} must lie between {low} and {high}, and {value} was asked for")
    levels, lengths = given.get("concurrency", (1,)), given.get("prompt_tokens", (1,))
    if isinstance(levels, tuple) and isinstance(lengths, tuple) and len(levels) * len(lengths) > MAX_CELLS:
        raise PlanError(f"at most {MAX_CELLS} cells are measured: name fewer concurrencies or prompt lengths")
    if () in given.values():
        raise PlanError("a list of no values measures nothing: leave the option out, or name values")
    if given.get("family", "prose") not in get_args(Family):
        raise PlanError(f"there is no family {given['family']!r}; there are {', '.join(FAMILIES)}")
    return Options(**{name: getattr(kind, name) for name in LIMITS} | given)


def _fitting(cells: Sequence[Cell], context: int | None) -> tuple[tuple[Cell, ...], tuple[tuple[Cell, str], ...]]:
    over = [cell for cell in cells if context is not None and cell.context_tokens > context]
    why = "it needs {} tokens of context, and one stream has {}"
    fits = tuple(cell for cell in dict.fromkeys(cells) if cell not in over)
    if not fits:
        raise PlanError(f"no cell fits: {why.format(over[0].context_tokens, context)}; ask for shorter prompts")
    return fits, tuple((cell, why.format(cell.context_tokens, context)) for cell in over)


def estimate_s(planned: Plan, rates: Rates) -> float | None:
    """About how long the run takes with its warm-up, in seconds; None when a rate is not known, and for tasks."""
    once_s = None if planned.kind == TASKS else bursts_s(planned.cells, rates)
    return None if once_s is None else START_OVERHEAD_S + planned.soak_s + (WARMUP_BURSTS + planned.repeats) * once_s


def capped(kind: str, options: Options, cap_s: int) -> Options:
    """The options with a `max_seconds` that the operator allows. Raises PlanError when more was asked for."""
    if options.max_seconds is not None and options.max_seconds > cap_s:
        raise PlanError(
            f"max_seconds = {options.max_seconds} was asked for, and the operator allows {cap_s}: ask for that, or let "
            "the operator raise max_seconds under [bench] in config.toml"
        )
    usual_s = KINDS[kind].max_seconds if kind in KINDS else cap_s
    return replace(options, max_seconds=options.max_seconds or min(usual_s, cap_s))


def within_budget(planned: Plan, rates: Rates) -> Plan:
    """The plan if its estimate is within `max_seconds`, or cannot be made; a quick one is cut to what fits.

    A quick one keeps its repeats, as one burst alone proves nothing: it gives up streams first, then long answers.

    Raises PlanError when it is not.
    """
    needed_s = estimate_s(planned, rates)
    if needed_s is None or needed_s <= planned.max_seconds:
        return planned
    if planned.kind in TRIMMED and len(planned.cells) > 1:
        cut = (planned.cells[-1], f"there is no time for it within {planned.max_seconds} s")
        fewer = replace(planned, cells=planned.cells[:-1], left_out=(*planned.left_out, cut))
        return within_budget(fewer, rates)
    if planned.kind in TRIMMED and planned.cells[0].output_tokens > SHORTEST_ANSWER:
        return within_budget(with_answers(planned, SHORTEST_ANSWER), rates)
    fits = what_fits(planned, lambda other: estimate_s(other, rates))
    raise PlanError(
        f"it would take about {needed_s:.0f} s, and max_seconds is {planned.max_seconds}: raise it, or {fits}"
    )


def for_upper_bound(planned: Plan) -> Plan:
    """The plan for a server that can only be told the most: prose becomes a text too long to end early."""
    return replace(planned, cells=tuple(map(_long_form, planned.cells)))


def _long_form(cell: Cell) -> Cell:
    return replace(cell, family="long_form") if cell.enforced and cell.family == "prose" else cell
