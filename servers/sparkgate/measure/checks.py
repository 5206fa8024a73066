"""What can be wrong with a measured cell: limits, and predicates over its facts that hold for known facts only."""

from __future__ import annotations

from sparkgate.measure.cell_facts import CellFacts
from sparkgate.measure.roofline import MARGIN

MAX_SHARED = 0.01
MIN_WARM_HIT = 0.8
MAX_TTFT_SPREAD = 2.0
MAX_FAILED = 0.02
MIN_GPU_BUSY_PERCENT = 20.0
MIN_OF_CEILING = 0.25
MIN_CLOCK_SHARE = 0.8
MAX_DRIFT = 0.1
HOT_C = 85.0
MAX_FOREIGN = 0.05
SEEN_FOREIGN = 0.01
MAX_QUEUE_SHARE = 0.05
MAX_LAG_MS = 100.0
MAX_LAG_P99_MS = 25.0
MAX_CLIENT_CPU = 0.7
SEEN_LAG_SHARE = 0.003
MAX_LAG_SHARE = 0.01
MAX_CLOCKS_APART = 0.03
MAX_VARIATION = 0.05
MAX_PREFILL_TOK_S = 1_000_000.0
"""No GPU computes so many tokens of a prompt a second, whatever the model: they came from a cache."""
MAX_PREFILL_FACTOR = 10.0
MAX_GAIN_FACTOR = 1.1
MIN_GAIN = 1.15
MAX_CLOCK_STEP_MS = 50.0
MAX_RTT_MS = 5.0
OVERHEAD_MS = 25.0
OVERHEAD_SHARE = 0.05
MAX_REMEASURED_APART = 0.05
MANY_PER_CHUNK = 1.05


def above(value: float | None, limit: float | None) -> bool:
    return value is not None and limit is not None and value > limit


def apart(one: float | None, other: float | None, share: float) -> bool:
    """Whether two values differ by more than a share of the second."""
    return one is not None and bool(other) and other is not None and abs(one / other - 1) > share


def times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def short_output(f: CellFacts) -> bool:
    floor = f.shortest_allowed_tokens or f.asked_output_tokens
    must_run_out = floor is not None and floor == f.asked_output_tokens
    counted = f.output_tokens_min is not None
    return above(floor, f.output_tokens_min) or (counted and must_run_out and f.ends_early is True)


def shared_prefix(f: CellFacts) -> bool:
    """Without a count of cached tokens, first tokens of one stream that fall into fast and slow ones give it away."""
    if f.cached_tokens is None:
        return f.cold and f.concurrency == 1 and above(f.ttft_spread, MAX_TTFT_SPREAD)
    return f.cold and above(f.cached_tokens - (f.template_tokens or 0), times(f.prompt_tokens_max, MAX_SHARED))


def context_overflow(f: CellFacts) -> bool:
    asked = f.asked_prompt_tokens
    needed = None if f.prompt_tokens_max is None else f.prompt_tokens_max + (f.asked_output_tokens or 0)
    return above(needed, f.context_tokens) or (
        asked is not None and above(asked - f.prompt_slack_tokens, f.prompt_tokens_min)
    )


def prompt_length(f: CellFacts) -> bool:
    return f.asked_prompt_tokens is not None and above(
        f.prompt_tokens_max, f.asked_prompt_tokens + f.prompt_slack_tokens
    )


def wrong_model(f: CellFacts) -> bool:
    if f.model_asked is None or f.models_answered is None:
        return False
    expected = {name.removesuffix(":latest") for name in (f.model_asked, *f.model_aliases)}
    answered = {name.removesuffix(":latest") for name in f.models_answered if name}
    return bool(answered - expected)


def failed_share(f: CellFacts) -> float | None:
    return f.failed_requests / f.requests if f.failed_requests is not None and f.requests else None


def cpu_fallback(f: CellFacts) -> bool:
    return (
        above(1.0, f.gpu_share)
        or above(f.layers_total, f.layers_offloaded)
        or above(MIN_GPU_BUSY_PERCENT, f.gpu_busy_percent)
    )


def throttled(f: CellFacts) -> bool:
    return (
        bool(f.throttle_reasons)
        or above(times(f.sm_clock_p95_mhz, MIN_CLOCK_SHARE), f.sm_clock_median_mhz)
        or above(times(f.sm_clock_before_mhz, 1 - MAX_DRIFT), f.sm_clock_after_mhz)
        or above(times(f.power_before_w, 1 - 2 * MAX_DRIFT), f.power_after_w)
    )


def implausible(f: CellFacts) -> bool:
    return (
        above(f.decode_tok_s, times(f.ceiling_tok_s, MARGIN))
        or above(f.prefill_tok_s, times(f.reference_prefill_tok_s, MAX_PREFILL_FACTOR))
        or above(f.prefill_tok_s, MAX_PREFILL_TOK_S)
        or above(f.aggregate_tok_s, times(f.single_tok_s, f.concurrency * MAX_GAIN_FACTOR))
    )


def overhead(f: CellFacts) -> bool:
    if f.ttft_ms is None or f.engine_prefill_ms is None:
        return False
    waited_ms = (f.queue_share or 0) * f.ttft_ms
    return above(f.ttft_ms - f.engine_prefill_ms - waited_ms, OVERHEAD_MS + OVERHEAD_SHARE * f.ttft_ms)


def busy_host(f: CellFacts) -> bool:
    return above(f.host_load, f.host_cores) or above(f.other_gpu_processes, 0) or above(f.swapped_in_pages, 0)
