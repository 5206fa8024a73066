"""Numbers that others have published (reference.jsonl), and how near what they measured is to what was measured here.

Two numbers of one model differ for a reason more often than by mistake: speculation, the limit of sequences, the width
of the weights. The settings in which a published number differs are its protocol distance.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from sparkgate.measure.roofline import BITS_PER_WEIGHT, MARGIN, bandwidth_gb_s, ceiling_tok_s, gb_per_token

RowKind = Literal["measured", "third-party", "community", "derived", "estimate", "claim", "spec", "setting"]
TABLE = Path(__file__).with_name("reference.jsonl")

PROTOCOLS: Mapping[str, str] = {
    "P0": "75 prompt tokens, 256 output tokens, temperature 0, not streamed; one first and three warm requests, one at "
    "a time; rate = output tokens / time of the request, median of the warm ones",
    "P0-engine": "as P0, but timed by the engine's own clock",
    "P1": "exactly 400 output tokens, a unique beginning for each prompt, temperature 0, idle GPU; median of 3, "
    "warm-up left out; vLLM flags F",
    "P1-first-token": "as P1, streamed, until the first visible token",
    "P4": "shell timer round a request that is not streamed, thinking off; output length not fixed",
    "PL": "document of 11,342 tokens and a question, at most 64 output tokens, streamed, until the first visible token",
    "verbose": "ollama run --verbose: 22 prompt tokens, length not fixed, one run",
    "wrong-method": "the same prompt for all streams, so that the prefix cache answers: shows the artefact",
    "smoke": "one short request to see that it works",
    "older": "older build and date",
    "router": "through a router with a limit on parallel requests",
    "pull-request": "told by the author of a change to an engine",
    "collected": "from forums and vendors, one stream unless said otherwise",
    "estimate": "guessed from such reports",
    "statement": "told without a protocol",
    "arithmetic": "worked out from other numbers",
    "log": "from the engine's log",
    "counters": "from the engine's counters since its start",
    "start": "from the start of the process until it serves",
    "inspect": "told by the engine's own listing",
    "host": "told by tools of the host",
    "specification": "from the maker's data sheet",
    "manifest": "from a deployment file",
}
"""How a number came about. Flags F: half of the memory, context 131,072, 16,384 batched tokens, 16 sequences, prefix
cache, Marlin MoE, FlashInfer, KV cache in fp8, asynchronous scheduling, MTP with 3 drafted tokens."""

SPEED_ORDER: tuple[RowKind, ...] = ("measured", "third-party", "community", "derived", "estimate", "claim")
RELATED: Mapping[str, tuple[str, ...]] = {
    "decode_tok_s": ("decode_tok_s", "wall_tok_s"),
    "engine_decode_tok_s": ("decode_tok_s", "wall_tok_s"),
    "median_stream_tok_s": ("mean_stream_tok_s", "wall_tok_s"),
    "agg_decode_tok_s": ("agg_wall_tok_s",),
    "ttft_any_ms": ("ttft_content_ms",),
}
"""Published metrics that are near enough to one of ours to be shown beside it, the same one first."""


APART = frozenset({"engine", "hardware", "devices", "concurrency"})
"""Settings in which a published number is hardly comparable when they differ."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a number depends on; None: not told.

    Attributes:
        speculation: "" for none, otherwise what drafts ("MTP k=3").
        max_num_seqs: the most sequences that the engine runs at once.
        quantization: of the weights ("NVFP4", "Q4_K_M").
        devices: machines or GPUs that share the model.
    """

    hardware: str | None = None
    devices: int | None = None
    engine_version: str | None = None
    quantization: str | None = None
    speculation: str | None = None
    max_num_seqs: int | None = None
    cuda_graphs: bool | None = None
    thinking: bool | None = None
    concurrency: int | None = None
    prompt_tokens: int | None = None
    family: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One published number: `value`, or a range from `lo` to `hi`. `value` is text where it is no number.

    Attributes:
        source: who published it; `protocol` is a key of `PROTOCOLS`, `setting` what else was told.
        told: the settings that are known of it.
    """

    id: str
    source: str
    kind: RowKind
    protocol: str
    metric: str
    unit: str
    model: str
    engine: str
    setting: str
    value: float | str | None
    lo: float | None
    hi: float | None
    told: Setting

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The range, or the value twice; None where it is no number."""
        if self.lo is not None and self.hi is not None:
            return self.lo, self.hi
        return None if self.value is None or isinstance(self.value, str) else (self.value, self.value)


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting in which a published number differs from ours.

    `favours` is the one that it makes better, where that is known.
    """

    name: str
    theirs: object
    ours: object
    favours: Literal["theirs", "ours", ""]


@dataclass(frozen=True, slots=True)
class Near:
    """A published number and its protocol distance."""

    row: Row
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """A published rate that the memory does not allow; `ratio` is the rate over its ceiling."""

    row: Row
    ceiling_tok_s: float
    ratio: float


@cache
def load_reference() -> tuple[Row, ...]:
    """All published numbers, in the order of the file."""
    return tuple(_row(json.loads(line)) for line in TABLE.read_text(encoding="utf-8").splitlines())


def _row(told: Mapping[str, Any]) -> Row:
    settings = Setting(**{one.name: told[one.name] for one in fields(Setting) if one.name in told})
    texts: dict[str, Any] = dict.fromkeys(("unit", "model", "engine", "setting"), "")
    numbers: dict[str, Any] = dict.fromkeys(("value", "lo", "hi"))
    own = {one.name: told[one.name] for one in fields(Row) if one.name in told}
    return Row(**texts | numbers | own | {"told": settings})


_PARTS = re.compile(r"a\d+b|\d+(?:\.\d+)?b?|[a-z]+")
_NOISE = re.compile(
    r"^.*/|@\w+|:latest|\(.*?\)|\+.*|\b(?:nvfp4|mxfp4|fp8|bf16|fp16|gguf|awq|gptq|instruct|chat|dense|q\d\w*)\b"
)


def model_parts(model: str) -> frozenset[str]:
    """What names a model, without owner, width and packaging: "nvidia/Qwen3.6-35B-A3B-NVFP4" → qwen, 3.6, 35b, a3b."""
    return frozenset(_PARTS.findall(_NOISE.sub(" ", model.lower())))


def same_model(one: str, other: str) -> bool:
    """Whether two names mean one model: the same parts, or all the parts of the shorter name, which tells the size."""
    fewer, more = sorted((model_parts(one), model_parts(other)), key=len)
    sized = any(re.fullmatch(r"\d+(?:\.\d+)?b", part) for part in fewer)
    return bool(fewer) and (fewer == more or (sized and fewer <= more))


def nearest(model: str, engine: str, metric: str, setting: Setting) -> list[Near]:
    """Published numbers of this model and metric, the nearest first.

    Where `setting` does not tell the concurrency, it is 1, but for an aggregate (`agg_…`).
    """
    wanted = RELATED.get(metric, (metric,))
    if setting.concurrency is None and not metric.startswith("agg_"):
        setting = replace(setting, concurrency=1)
    rows = [row for row in load_reference() if row.metric in wanted and row.bounds and same_model(model, row.model)]
    found = [Near(row, _differences(row, engine, metric, setting)) for row in rows if row.kind in SPEED_ORDER]
    return sorted(found, key=lambda near: (*_distance(near, setting), wanted.index(near.row.metric)))


def _distance(near: Near, ours: Setting) -> tuple[int, int, int]:
    """Another engine or hardware weighs more than any flag; then what only one of the two tells."""
    names = {one.name for one in near.differences}
    weight = len(names) + 5 * len(names & APART)
    pairs = ((getattr(near.row.told, one.name), getattr(ours, one.name)) for one in fields(Setting))
    unknown = sum((theirs is None) is not (own is None) for theirs, own in pairs)
    return weight, SPEED_ORDER.index(near.row.kind), unknown


def _differences(row: Row, engine: str, metric: str, ours: Setting) -> tuple[Difference, ...]:
    found = [] if row.engine == engine else [Difference("engine", row.engine, engine, "")]
    for one in fields(Setting):
        theirs, own = getattr(row.told, one.name), getattr(ours, one.name)
        if theirs is not None and own is not None and not _equal(one.name, theirs, own):
            found.append(Difference(one.name, theirs, own, _favours(one.name, theirs, own, metric)))
    return tuple(found)


def _equal(name: str, theirs: Any, ours: Any) -> bool:
    """Prompts of nearly one length, and spellings of one GPU, are equal."""
    if name == "prompt_tokens":
        return bool(0.8 <= ours / theirs <= 1.25)
    if name == "hardware":
        return bool(str(theirs).upper() in str(ours).upper())
    return bool(str(theirs).lower() == str(ours).lower())


def _favours(name: str, theirs: Any, ours: Any, metric: str) -> Literal["theirs", "ours", ""]:
    values = (_merit(name, theirs, metric), _merit(name, ours, metric))
    if values[0] is None or values[1] is None or values[0] == values[1]:
        return ""
    return "theirs" if values[0] > values[1] else "ours"


def _merit(name: str, value: Any, metric: str) -> float | None:
    """The higher, the better is what `metric` shows; None where the setting does not tell that."""
    together = metric.startswith("agg_")
    merits: Mapping[str, Callable[[], float | None]] = {
        "speculation": lambda: float(bool(value)),
        "max_num_seqs": lambda: float(value),
        "cuda_graphs": lambda: float(value),
        "devices": lambda: float(value),
        "hardware": lambda: bandwidth_gb_s(str(value)),
        "quantization": lambda: -BITS_PER_WEIGHT[value] if value in BITS_PER_WEIGHT else None,
        "concurrency": lambda: float(value if together else -value),
        "prompt_tokens": lambda: -float(value) if metric.startswith("ttft") else None,
    }
    return merits[name]() if name in merits else None


def implausible(rows: Sequence[Row] | None = None) -> list[Claim]:
    """Rates of one stream above what memory allows, the worst first; a number of drafted tokens raises the ceiling.

    Models whose active weights are not known are left out.
    """
    judged = ((row, _ceiling(row)) for row in (load_reference() if rows is None else rows))
    claims = [
        Claim(row, ceiling, row.bounds[0] / ceiling)
        for row, ceiling in judged
        if ceiling and row.bounds and row.bounds[0] > ceiling * MARGIN
    ]
    return sorted(claims, key=lambda claim: -claim.ratio)


def _ceiling(row: Row) -> float | None:
    """Of a decode rate of one stream; with speculation every drafted token may have been kept."""
    told = row.told
    if row.metric not in ("decode_tok_s", "wall_tok_s") or not told.hardware or (told.concurrency or 1) > 1:
        return None
    memory, weights = bandwidth_gb_s(told.hardware, told.devices or 1), gb_per_token(row.model, told.quantization or "")
    drafted = re.search(r"=(\d+)", told.speculation or "")
    if memory is None or weights is None or (told.speculation and not drafted):
        return None
    return ceiling_tok_s(memory, weights, float(drafted[1]) if drafted else 0.0)
