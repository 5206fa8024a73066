"""Rules over a cell's numbers, and over what was around them: the machine, other work, and this process."""

from __future__ import annotations

from sparkgate.measure import checks
from sparkgate.measure.rule import Rule, invalid, warning

REPEAT = "repeat it when the engine and the machine are idle"
LONGER = "the rate may be off by as much: ask for more output tokens, or stop other programs"

AROUND: tuple[Rule, ...] = (
    invalid(
        "cpu_fallback",
        "the CPU computes a part of the model",
        "free GPU memory or take a smaller context, and load it again with all layers on the GPU",
        checks.cpu_fallback,
    ),
    warning(
        "far_below_ceiling",
        "one stream is below a quarter of what the memory allows",
        "look whether CUDA graphs are off (enforce-eager), layers are on the CPU, or the GPU is held at a low clock",
        lambda f: (
            f.concurrency == 1 and checks.above(checks.times(f.ceiling_tok_s, checks.MIN_OF_CEILING), f.decode_tok_s)
        ),
    ),
    warning(
        "throttled",
        "the GPU ran slower or drew less power than it can",
        "let it cool down, look at its power supply, and repeat",
        checks.throttled,
    ),
    warning(
        "hot",
        "the GPU reached {f.gpu_temperature_max_c:.0f} °C",
        "let it cool down between runs",
        lambda f: checks.above(f.gpu_temperature_max_c, checks.HOT_C),
    ),
    invalid(
        "canary_drift",
        "the same short cell gave {f.canary_before_tok_s:.1f} tok/s before and {f.canary_after_tok_s:.1f} after",
        "the machine changed its state meanwhile, as a GB10 does without telling: repeat, after a restart if it stays",
        lambda f: checks.apart(f.canary_after_tok_s, f.canary_before_tok_s, checks.MAX_DRIFT),
    ),
    invalid(
        "foreign_load",
        "the engine generated {f.engine_tokens} tokens, of which {f.counted_tokens} are ours: others used it",
        f"an agent that runs on this engine disturbs its own measurement: {REPEAT}",
        lambda f: checks.above(f.foreign_share, checks.MAX_FOREIGN),
    ),
    warning(
        "foreign_requests",
        "other requests ran on the engine at the same time",
        REPEAT,
        lambda f: (
            checks.above(f.running_max, f.concurrency)
            or (
                checks.above(f.foreign_share, checks.SEEN_FOREIGN)
                and not checks.above(f.foreign_share, checks.MAX_FOREIGN)
            )
        ),
    ),
    invalid(
        "overcounted",
        "we counted {f.counted_tokens} tokens, and the engine says that it generated {f.engine_tokens}",
        "believe the engine: the stream says more than was generated, or another server answered",
        lambda f: checks.above(-checks.SEEN_FOREIGN, f.foreign_share),
    ),
    warning(
        "busy_host", "other programs used the machine at the same time", f"stop them, and {REPEAT}", checks.busy_host
    ),
    warning(
        "queued",
        "requests waited before the engine began them",
        "raise its limit of sequences (max-num-seqs, parallel, OLLAMA_NUM_PARALLEL) or that of the router",
        lambda f: checks.above(f.waiting_max, 0) or checks.above(f.queue_share, checks.MAX_QUEUE_SHARE),
    ),
    warning(
        "preempted",
        "the engine put {f.preemptions} requests aside for lack of KV cache",
        "give it more KV cache, or fewer and shorter streams",
        lambda f: checks.above(f.preemptions, 0),
    ),
    invalid(
        "client_saturated",
        "the measuring process could not keep up with the stream",
        "its own delay is in the numbers: stop other programs, or measure from another machine",
        lambda f: (
            checks.above(f.loop_lag_max_ms, checks.MAX_LAG_MS)
            or checks.above(f.loop_lag_p99_ms, checks.MAX_LAG_P99_MS)
            or checks.above(f.client_cpu_share, checks.MAX_CLIENT_CPU)
        ),
    ),
    invalid(
        "too_short_for_clock",
        "{f.decode_span_ms:.0f} ms of generation were timed by a process that was {f.loop_lag_p99_ms:.1f} ms late",
        LONGER,
        lambda f: checks.above(f.lag_share, checks.MAX_LAG_SHARE),
    ),
    warning(
        "short_for_clock",
        "{f.decode_span_ms:.0f} ms of generation were timed by a process that was {f.loop_lag_p99_ms:.1f} ms late",
        LONGER,
        lambda f: (
            checks.above(f.lag_share, checks.SEEN_LAG_SHARE) and not checks.above(f.lag_share, checks.MAX_LAG_SHARE)
        ),
    ),
    invalid(
        "clocks_disagree",
        "we measured {f.decode_tok_s:.1f} tok/s, and the engine's own clock says {f.engine_decode_tok_s:.1f}",
        "something between engine and client holds tokens back, or counts them differently: leave out the router",
        lambda f: checks.apart(f.decode_tok_s, f.engine_decode_tok_s, checks.MAX_CLOCKS_APART),
    ),
    warning(
        "noisy",
        "the bursts differ by more than 5 %",
        "ask for more repeats",
        lambda f: checks.above(f.burst_variation, checks.MAX_VARIATION),
    ),
    warning(
        "single_burst",
        "it was measured once: how much the number varies is not known",
        "ask for three repeats or more",
        lambda f: f.bursts == 1,
    ),
    invalid(
        "implausible",
        "the rate is higher than the memory, the published prefill or the number of streams allows",
        "distrust it: look for cached answers, several tokens counted twice, or a wrong clock",
        checks.implausible,
    ),
    warning(
        "serialised",
        "{f.concurrency} streams together are no faster than one",
        "look at max-num-seqs or parallel, at the router's limit, and whether the streams have equal lengths",
        lambda f: f.concurrency >= 3 and checks.above(checks.times(f.single_tok_s, checks.MIN_GAIN), f.aggregate_tok_s),
    ),
    warning(
        "unstable",
        "measured again it gave {f.remeasured_tok_s:.1f} instead of {f.headline_tok_s:.1f} tok/s",
        "believe neither: repeat the run",
        lambda f: checks.apart(f.remeasured_tok_s, f.headline_tok_s, checks.MAX_REMEASURED_APART),
    ),
    warning(
        "cold_compile",
        "the first-token times of the warm-up were still falling",
        "the engine may still compile: run it again",
        lambda f: f.warmup_settled is False,
    ),
    warning(
        "clock_step",
        "the wall clock was set by {f.clock_step_ms:.0f} ms during the run",
        "the numbers do not depend on it; times of day in the result do",
        lambda f: checks.above(abs(f.clock_step_ms or 0), checks.MAX_CLOCK_STEP_MS),
    ),
    warning(
        "rtt_high",
        "one way to the engine and back takes {f.rtt_ms:.1f} ms",
        "it is part of the first-token time: measure on the engine's machine",
        lambda f: checks.above(f.rtt_ms, checks.MAX_RTT_MS),
    ),
    warning(
        "overhead",
        "the first token took {f.ttft_ms:.0f} ms, of which prefill {f.engine_prefill_ms:.0f} ms",
        "the rest is spent outside the model: a router, a queue, or a slow tokenizer",
        checks.overhead,
    ),
)
