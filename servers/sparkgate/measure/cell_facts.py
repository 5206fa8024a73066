"""All that is known of a measured cell and decides whether its numbers may be believed. None: not known."""

from __future__ import annotations

from dataclasses import dataclass

from sparkgate.measure.roofline import ceiling_tok_s

EXTRA_TOKENS = 2
EXTRA_SHARE = 0.005


@dataclass(frozen=True, slots=True)
class CellFacts:
    """One cell over all its bursts; extremes and sums over its requests unless said otherwise.

    Attributes:
        cold, warm: what the cell asked of the prefix cache.
        asked_prompt_tokens, asked_output_tokens: of one request; output None when its end is free.
        shortest_allowed_tokens: the fewest output tokens of a request, as the length probe allows.
        ends_early: a request ended for another reason than its length.
        cached_tokens: of one request, the most (cold) or the fewest (warm) that came from the cache; from the engine's
            counters it is the mean of the burst with the most or the fewest.
        cached_told: the engine tells how many tokens came from its cache, in its answers or by its counters.
        unprimed_bursts: of a warm cell, those before which the request with their prefix failed.
        resent_requests: requests sent a second time, because a kept connection had gone.
        template_tokens: that all prompts share and that may be cached.
        ttft_spread: slowest over fastest first token of all requests.
        counted_tokens: sum of output tokens that we counted; `engine_tokens` by how much its counter grew meanwhile.
        running_max, waiting_max: requests the engine ran, and let wait, at once.
        queue_share: of the first-token time, that the engine says was spent waiting.
        gpu_share: of the model that lies in GPU memory, 0 to 1; layers as llama.cpp tells them.
        host_load: runnable processes of the host, without ours.
        other_gpu_processes: groups of processes that computed on the GPU before the run, beside the engine's.
        throttle_reasons: clock event reasons that mean heat or power.
        sm_clock_before_mhz, sm_clock_after_mhz: in the first and the last quarter of the time in which all streams of
            the cell's bursts generated; `power_before_w` and `power_after_w` likewise.
        canary_before_tok_s, canary_after_tok_s: decode of one short fixed cell before and after.
        decode_span_ms: the shortest time from the first to the last token of a request that has a rate.
        engine_decode_tok_s: of one stream from the engine's own clock, beside `decode_tok_s` of ours.
        single_tok_s: aggregate of the same cell with one stream.
        reference_prefill_tok_s: the fastest that is published for this model and hardware.
        accepted_per_step: drafted tokens kept on average; 0.0 without speculation, None where nobody tells.
        bursts: that were measured; None for tasks, each of which is its own repeat.
        burst_variation: standard deviation of the bursts over their mean.
        warmup_settled: the last two warm-up bursts agreed within 20 %.
        remeasured_tok_s: the cell's headline when measured again at the end, beside `headline_tok_s`.
        first_chunk_estimated: it holds more than one token by its text, and does not tell.
        first_chunk_known: it is known how many tokens the first chunk held.
    """

    concurrency: int
    cold: bool = False
    warm: bool = False
    thinking: bool | None = None
    requests: int | None = None
    failed_requests: int | None = None
    asked_prompt_tokens: int | None = None
    prompt_tokens_min: int | None = None
    prompt_tokens_max: int | None = None
    asked_output_tokens: int | None = None
    shortest_allowed_tokens: int | None = None
    output_tokens_min: int | None = None
    output_tokens_max: int | None = None
    ends_early: bool | None = None
    context_tokens: int | None = None
    cached_tokens: int | None = None
    cached_told: bool | None = None
    unprimed_bursts: int | None = None
    resent_requests: int | None = None
    template_tokens: int | None = None
    ttft_spread: float | None = None
    model_asked: str | None = None
    models_answered: tuple[str, ...] | None = None
    model_aliases: tuple[str, ...] = ()
    reasoning_tokens: int | None = None
    counted_tokens: int | None = None
    engine_tokens: int | None = None
    running_max: int | None = None
    waiting_max: int | None = None
    queue_share: float | None = None
    preemptions: int | None = None
    gpu_share: float | None = None
    layers_offloaded: int | None = None
    layers_total: int | None = None
    gpu_busy_percent: float | None = None
    other_gpu_processes: int | None = None
    host_load: float | None = None
    host_cores: int | None = None
    swapped_in_pages: int | None = None
    throttle_reasons: tuple[str, ...] | None = None
    sm_clock_median_mhz: float | None = None
    sm_clock_p95_mhz: float | None = None
    sm_clock_before_mhz: float | None = None
    sm_clock_after_mhz: float | None = None
    power_before_w: float | None = None
    power_after_w: float | None = None
    gpu_temperature_max_c: float | None = None
    canary_before_tok_s: float | None = None
    canary_after_tok_s: float | None = None
    loop_lag_max_ms: float | None = None
    loop_lag_p99_ms: float | None = None
    client_cpu_share: float | None = None
    clock_step_ms: float | None = None
    rtt_ms: float | None = None
    ttft_ms: float | None = None
    engine_prefill_ms: float | None = None
    decode_span_ms: float | None = None
    decode_tok_s: float | None = None
    engine_decode_tok_s: float | None = None
    aggregate_tok_s: float | None = None
    single_tok_s: float | None = None
    prefill_tok_s: float | None = None
    reference_prefill_tok_s: float | None = None
    headline_tok_s: float | None = None
    remeasured_tok_s: float | None = None
    bandwidth_gb_s: float | None = None
    gb_per_token: float | None = None
    accepted_per_step: float | None = None
    bursts: int | None = None
    burst_variation: float | None = None
    warmup_settled: bool | None = None
    streamed: bool | None = None
    tokens_counted_by_engine: bool | None = None
    first_chunk_known: bool | None = None
    first_chunk_estimated: bool | None = None
    tokens_per_chunk: float | None = None
    counts_agree: bool | None = None

    @property
    def ceiling_tok_s(self) -> float | None:
        """What memory allows one stream; None when speculation is on and what it accepts is not known."""
        if not self.bandwidth_gb_s or not self.gb_per_token or self.accepted_per_step is None:
            return None
        return ceiling_tok_s(self.bandwidth_gb_s, self.gb_per_token, self.accepted_per_step)

    @property
    def lag_share(self) -> float | None:
        """How late this process was, as a share of the shortest time that it measured a rate over."""
        if self.loop_lag_p99_ms is None or not self.decode_span_ms:
            return None
        return self.loop_lag_p99_ms / self.decode_span_ms

    @property
    def prompt_slack_tokens(self) -> float:
        """By how much a prompt may miss the length asked for: 2 tokens or 0.5 %."""
        return max(EXTRA_TOKENS, EXTRA_SHARE * (self.asked_prompt_tokens or 0))

    @property
    def foreign_share(self) -> float | None:
        """Tokens that the engine generated for others, as a share of ours; negative when it counted fewer than we."""
        if self.engine_tokens is None or not self.counted_tokens:
            return None
        return (self.engine_tokens - self.counted_tokens) / self.counted_tokens
