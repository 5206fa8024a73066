"""What the bursts of a cell show: its statistics, and the facts by which they are believed or not."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import mean, median, stdev
from typing import Any

from sparkgate.measure import engine_facts
from sparkgate.measure.cell_facts import CellFacts
from sparkgate.measure.engine_counters import difference
from sparkgate.measure.gpu import drift_facts, gpu_facts, while_all_ran
from sparkgate.measure.lengths import LengthClass, shortest_allowed
from sparkgate.measure.metrics import median_metrics
from sparkgate.measure.plan import Cell
from sparkgate.measure.roofline import BITS_PER_WEIGHT, bandwidth_gb_s, gb_per_token
from sparkgate.measure.sample import Sample
from sparkgate.measure.seen import BurstRecord, median_of
from sparkgate.measure.statistics import gated_percentile, summarise
from sparkgate.measure.timeline import stream_of

__all__ = ["Around", "BurstRecord", "as_json", "facts", "headline_metric", "median_of", "settled", "stats"]

FIRST_TOKEN_KINDS = ("prefill", "prefix")
"""Kinds that are about the first token: what they generate is short."""
SETTLED = 0.2
"""Two first-token times of the warm-up that differ by less have settled."""


@dataclass(frozen=True, slots=True)
class Around:
    """What is known of a run beside the bursts of a cell.

    Attributes:
        template_tokens: that all prompts of this cell share.
        single_tok_s: of the same cell with one stream.
        weights_gib, quantization: of the model, as the gate knows them.
        speculation: what drafts, as the engine's command line tells it; "" for nothing, None when not known.
    """

    model: str
    aliases: tuple[str, ...] = ()
    context: int | None = None
    gpu: str = ""
    shown: LengthClass = "unknown"
    thinks: bool = True
    rtt_ms: float | None = None
    template_tokens: int | None = None
    single_tok_s: float | None = None
    remeasured_tok_s: float | None = None
    canary_before_tok_s: float | None = None
    canary_after_tok_s: float | None = None
    reference_prefill_tok_s: float | None = None
    weights_gib: float | None = None
    quantization: str = ""
    speculation: str | None = None


def varying_metric(cell: Cell) -> str:
    """What must not vary from burst to burst: the rate that stands for a cell, or its first token."""
    return "ttft_any_ms" if cell.kind in FIRST_TOKEN_KINDS else headline_metric(cell)


def headline_metric(cell: Cell) -> str:
    """The rate that stands for a cell."""
    return "decode_tok_s" if cell.concurrency == 1 else "agg_decode_tok_s"


def stats(bursts: Sequence[BurstRecord], seed: int) -> tuple[dict[str, Any], dict[str, str]]:
    """(metric → its statistics over the bursts, metric → why it has none). Percentiles are over all requests."""
    several = [burst.metrics for burst in bursts]
    columns = median_metrics(several)
    pooled = [one.values for burst in bursts for one in burst.requests]
    told: dict[str, Any] = {}
    for name, value in columns.values.items():
        if value is None:
            continue
        summary = summarise([one.values[name] or 0.0 for one in several if one.values.get(name) is not None], seed=seed)
        over = [one for values in pooled if (one := values.get(name)) is not None]
        ends = {f"p{percent}": gated_percentile(over, percent) for percent in (95, 99)}
        whole = asdict(summary) | ends | {"requests": len(over) or None}
        told[name] = {key: one for key, one in whole.items() if one is not None and key != "nulls"}
    return told, dict(columns.why_null)


def facts(cell: Cell, bursts: Sequence[BurstRecord], around: Around) -> CellFacts:
    """All that is known of a measured cell."""
    samples = [sample for burst in bursts for sample in burst.samples]
    answered = [sample for burst in bursts for sample in burst.answered]
    known: dict[str, Any] = {
        "concurrency": cell.concurrency,
        "cold": cell.cache_mode == "cold",
        "warm": cell.cache_mode == "warm",
        "thinking": cell.thinking if around.thinks else None,
        "requests": len(samples),
        "failed_requests": sum(sample.outcome == "failed" for sample in samples),
        "context_tokens": around.context,
        "template_tokens": around.template_tokens,
        "rtt_ms": around.rtt_ms,
        "canary_before_tok_s": around.canary_before_tok_s,
        "canary_after_tok_s": around.canary_after_tok_s,
        "remeasured_tok_s": around.remeasured_tok_s,
        "reference_prefill_tok_s": around.reference_prefill_tok_s,
    }
    parts = (
        _lengths(cell, answered, around),
        _prompts(cell, bursts, answered),
        _cache(cell, bursts, answered),
        _rates(cell, bursts, around),
        _engine(cell, bursts, samples),
        _client(bursts),
        _stream(answered),
        _gpu(bursts),
    )
    return CellFacts(**known | {name: value for part in parts for name, value in part.items()})


def _least(values: Iterable[int | None]) -> int | None:
    return min((value for value in values if value is not None), default=None)


def _most(values: Iterable[float | None]) -> Any:
    return max((value for value in values if value is not None), default=None)


def _lengths(cell: Cell, answered: Sequence[Sample], around: Around) -> dict[str, Any]:
    outputs = [sample.counts.completion for sample in answered]
    forced = cell.enforced
    return {
        "asked_output_tokens": cell.output_tokens,
        "shortest_allowed_tokens": shortest_allowed(cell.output_tokens, around.shown) if forced else 1,
        "output_tokens_min": _least(outputs),
        "output_tokens_max": _most(outputs),
        "ends_early": any(sample.finish not in ("length", "") for sample in answered) if forced else None,
        "reasoning_tokens": _reasoning(answered),
        "model_asked": around.model,
        "model_aliases": around.aliases,
        "models_answered": tuple(
            dict.fromkeys(name for sample in answered for name in (sample.model, sample.notes.other_model) if name)
        ),
    }


def _reasoning(answered: Sequence[Sample]) -> int | None:
    """Of one request, the most; chunks are counted where the engine does not tell."""
    told = [
        sum(event.kind == "reasoning" for event in sample.events) or (sample.counts.reasoning or 0)
        for sample in answered
    ]
    return max(told, default=None)


def _prompts(cell: Cell, bursts: Sequence[BurstRecord], answered: Sequence[Sample]) -> dict[str, Any]:
    prompts = [sample.counts.prompt for sample in answered]
    known = any(tokens is not None for tokens in prompts)
    ttfts = [value for burst in bursts for one in burst.requests if (value := one.values["ttft_any_ms"])]
    return {
        "asked_prompt_tokens": cell.whole_prompt_tokens if known else None,
        "prompt_tokens_min": _least(prompts),
        "prompt_tokens_max": _most(prompts),
        "ttft_spread": max(ttfts) / min(ttfts) if ttfts else None,
    }


def _cache(cell: Cell, bursts: Sequence[BurstRecord], answered: Sequence[Sample]) -> dict[str, Any]:
    """From the answers; where none of them tells, from the counters of each burst, divided by its requests."""
    told: list[float | None] = [sample.counts.cached for sample in answered]
    if all(tokens is None for tokens in told):
        told = [burst.metrics.values.get("cached_tokens") for burst in bursts]
    known = [tokens for tokens in told if tokens is not None]
    chosen = max if cell.cache_mode == "cold" else min
    return {
        "cached_tokens": round(chosen(known)) if known else None,
        "cached_told": bool(known) if answered else None,
        "unprimed_bursts": sum(bool(burst.unprimed) for burst in bursts) if cell.cache_mode == "warm" else None,
    }


def _rates(cell: Cell, bursts: Sequence[BurstRecord], around: Around) -> dict[str, Any]:
    headline = headline_metric(cell)
    values = [value for burst in bursts if (value := burst.metrics.values.get(headline)) is not None]
    told = [burst.metrics.values.get(varying_metric(cell)) for burst in bursts]
    varying = [value for value in told if value is not None]
    alone = cell.concurrency == 1
    per_chunk = median_of(bursts, "tokens_per_chunk")
    unproven = cell.cache_mode == "warm" and all(
        one.counts.cached is None for burst in bursts for one in burst.answered
    )
    return {
        "decode_tok_s": median_of(bursts, "decode_tok_s"),
        "engine_decode_tok_s": median_of(bursts, "engine_decode_tok_s"),
        "aggregate_tok_s": median_of(bursts, "agg_decode_tok_s"),
        "single_tok_s": None if alone else around.single_tok_s,
        "prefill_tok_s": median_of(bursts, "pp_tok_s") if alone and not unproven else None,
        "ttft_ms": median_of(bursts, "ttft_any_ms") if alone else None,
        "engine_prefill_ms": median_of(bursts, "engine_prompt_ms") if alone else None,
        "headline_tok_s": median(values) if values else None,
        "bursts": len(bursts),
        "burst_variation": stdev(varying) / mean(varying) if len(varying) > 1 else None,
        "tokens_per_chunk": per_chunk,
        "accepted_per_step": _accepted_per_step(bursts, per_chunk, around.speculation),
        "decode_span_ms": _decode_span_ms(cell, bursts),
        "bandwidth_gb_s": bandwidth_gb_s(around.gpu) if around.gpu else None,
        "gb_per_token": gb_per_token(around.model, _width(around), around.weights_gib),
    }


def _width(around: Around) -> str:
    """Of the weights, as the model's name or else that of its weights tells it."""
    named = [name for name in BITS_PER_WEIGHT if name in around.model.upper()]
    return max(named, key=len, default=around.quantization)


def _accepted_per_step(bursts: Sequence[BurstRecord], per_chunk: float | None, speculation: str | None) -> float | None:
    """As the engine tells it; else as its chunks show it, and then as its command line has it."""
    told = [burst.drafting.accepted_per_step for burst in bursts if burst.drafting]
    if told:
        return median(told)
    shown = engine_facts.accepted_by_chunks(bursts[0].engine if bursts else "", per_chunk)
    return 0.0 if shown is None and speculation == "" else shown


def _decode_span_ms(cell: Cell, bursts: Sequence[BurstRecord]) -> float | None:
    """None for cells whose rate stands for nothing: those about the first token, and tasks that end when they like."""
    if cell.kind in FIRST_TOKEN_KINDS or not cell.enforced:
        return None
    rated = [
        stream_of(sample)
        for burst in bursts
        for sample, metrics in zip(burst.answered, burst.requests, strict=True)
        if metrics.values["decode_tok_s"] is not None
    ]
    return min(((one.last_ns - one.first_ns) / 1e6 for one in rated), default=None)


def _gpu(bursts: Sequence[BurstRecord]) -> dict[str, Any]:
    """A share of a model is told for the worst of its bursts."""
    steady = [one for burst in bursts for one in while_all_ran(burst.answered, burst.gpu)]
    return {
        **gpu_facts([one for burst in bursts for one in burst.gpu]),
        **drift_facts(steady),
        "gpu_share": min((burst.gpu_share for burst in bursts if burst.gpu_share is not None), default=None),
        "other_gpu_processes": _most(burst.other_gpu_processes for burst in bursts),
    }


def _engine(cell: Cell, bursts: Sequence[BurstRecord], samples: Sequence[Sample]) -> dict[str, Any]:
    grown = [difference(burst.before, burst.after) for burst in bursts]
    counts = {name: _sum(one.get(name) for one in grown) for name in ("generated_tokens", "preemptions")}
    waited_s, first_s = _sum(one.get("queue_s") for one in grown), _sum(one.get("ttft_s") for one in grown)
    told = all(sample.counts.completion is not None for sample in samples)
    whole = told and counts["generated_tokens"] is not None
    return {
        "counted_tokens": sum(stream_of(sample).n for sample in samples) if whole else None,
        "engine_tokens": round(counts["generated_tokens"] or 0) if whole else None,
        "preemptions": None if counts["preemptions"] is None else round(counts["preemptions"]),
        "resent_requests": sum(sample.notes.reconnects > 0 for sample in samples),
        "running_max": _most(burst.peaks.get("running") for burst in bursts),
        "waiting_max": _most(burst.peaks.get("waiting") for burst in bursts),
        "queue_share": waited_s / first_s if waited_s is not None and first_s else None,
    }


def _sum(values: Iterable[float | None]) -> float | None:
    """None when one of them is not known."""
    found = list(values)
    return None if None in found or not found else sum(value or 0.0 for value in found)


def _client(bursts: Sequence[BurstRecord]) -> dict[str, Any]:
    runnable = [number for burst in bursts for number in burst.runnable]
    swapped = [burst.swapped_in_pages for burst in bursts]
    steps = [burst.sensors.clock_step_ms for burst in bursts]
    return {
        "loop_lag_max_ms": _most(burst.sensors.loop_lag_max_ms for burst in bursts),
        "loop_lag_p99_ms": _most(burst.sensors.loop_lag_p99_ms for burst in bursts),
        "client_cpu_share": _most(burst.sensors.cpu_share for burst in bursts),
        "clock_step_ms": max((step for step in steps if step is not None), key=abs, default=None),
        "host_load": median(runnable) if runnable else None,
        "host_cores": os.cpu_count(),
        "swapped_in_pages": _most(swapped),
    }


def _stream(answered: Sequence[Sample]) -> dict[str, Any]:
    if not answered:
        return {}
    flags = {flag for sample in answered for flag in stream_of(sample).flags}
    return {
        "streamed": not any(sample.notes.not_streaming for sample in answered),
        "tokens_counted_by_engine": "tokens_estimated" not in flags,
        "first_chunk_known": "first_chunk_assumed" not in flags,
        "first_chunk_estimated": "first_chunk_estimated" in flags,
        "counts_agree": "counts_disagree" not in flags,
    }


def settled(ttfts_ms: Sequence[float]) -> bool | None:
    """Whether the last two bursts of a warm-up agree; None when there were fewer."""
    if len(ttfts_ms) < 2:
        return None
    before, after = ttfts_ms[-2:]
    return abs(before - after) <= SETTLED * before


def as_json(found: CellFacts) -> Mapping[str, Any]:
    """What is known of a cell."""
    return {name: value for name, value in asdict(found).items() if value not in (None, ())}
