"""Whether the numbers of a cell may be believed: one table of rules over what is known of it.

A rule whose facts are not known does not apply: nothing is held against a cell that nobody has seen. A cell that an
`invalid` rule applies to has no headline number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from sparkgate.measure import checks
from sparkgate.measure.cell_facts import CellFacts

Severity = Literal["invalid", "warning"]
Status = Literal["valid", "tainted", "invalid"]


@dataclass(frozen=True, slots=True)
class Rule:
    """What makes a cell doubtful.

    Attributes:
        text: what has been seen; `{f.NAME}` stands for a fact.
        advice: what to do about it.
        applies: whether it holds for the facts of a cell; never for facts that are not known.
    """

    id: str
    severity: Severity
    text: str
    advice: str
    applies: Callable[[CellFacts], bool]


@dataclass(frozen=True, slots=True)
class Flag:
    """A rule that applies, with the figures of the cell in its text."""

    id: str
    severity: Severity
    text: str
    advice: str


def _invalid(id_: str, text: str, advice: str, applies: Callable[[CellFacts], bool]) -> Rule:
    return Rule(id_, "invalid", text, advice, applies)


def _warning(id_: str, text: str, advice: str, applies: Callable[[CellFacts], bool]) -> Rule:
    return Rule(id_, "warning", text, advice, applies)


_THINKS = "look whether this engine and the model's template know the switch"
_REPEAT = "repeat it when the engine and the machine are idle"

RULES: tuple[Rule, ...] = (
    _invalid(
        "short_output",
        "an answer ended after {f.output_tokens_min} of {f.asked_output_tokens} tokens",
        "the length is not enforced here: use the family long_form, or an engine that knows ignore_eos",
        checks.short_output,
    ),
    _invalid(
        "ended_early",
        "an answer ended by itself before {f.asked_output_tokens} tokens, and nobody counts them",
        "use an engine or a setting that tells usage; lengths that differ make rates that cannot be compared",
        lambda f: f.output_tokens_min is None and f.asked_output_tokens is not None and f.ends_early is True,
    ),
    _invalid(
        "long_output",
        "an answer has {f.output_tokens_max} tokens, and {f.asked_output_tokens} was the most",
        "the server does not read the limit that was sent: probe which field it knows",
        lambda f: checks.above(f.output_tokens_max, f.asked_output_tokens),
    ),
    _invalid(
        "shared_prefix",
        "a prompt that should be new was partly in the engine's cache",
        "the first-token times are those of a cache: look whether something on the way rewrites the prompts",
        checks.shared_prefix,
    ),
    _invalid(
        "not_cached",
        "only {f.cached_tokens} of {f.prompt_tokens_max} prompt tokens came from the cache in a warm cell",
        "switch the prefix cache on, or give it more memory",
        lambda f: f.warm and checks.above(checks.times(f.prompt_tokens_max, checks.MIN_WARM_HIT), f.cached_tokens),
    ),
    _invalid(
        "context_overflow",
        "prompt and answer do not fit into the context, or the engine cut the prompt",
        "raise the context of one stream (max-model-len, ctx-size / parallel, num_ctx), or ask for shorter prompts",
        checks.context_overflow,
    ),
    _invalid(
        "wrong_model",
        "another model than {f.model_asked} answered",
        "ask the engine behind the router, or switch the router's fallbacks off",
        checks.wrong_model,
    ),
    _invalid(
        "errors",
        "{f.failed_requests} of {f.requests} requests failed",
        "what is left is a choice of the survivors: see the errors in the full result first",
        lambda f: checks.above(checks.failed_share(f), checks.MAX_FAILED),
    ),
    _warning(
        "some_errors",
        "{f.failed_requests} of {f.requests} requests failed; they are not in the statistics",
        "see the errors in the full result",
        lambda f: (
            checks.above(checks.failed_share(f), 0) and not checks.above(checks.failed_share(f), checks.MAX_FAILED)
        ),
    ),
    _invalid(
        "cpu_fallback",
        "the CPU computes a part of the model",
        "free GPU memory or take a smaller context, and load it again with all layers on the GPU",
        checks.cpu_fallback,
    ),
    _warning(
        "far_below_ceiling",
        "one stream is below a quarter of what the memory allows",
        "look whether CUDA graphs are off (enforce-eager), layers are on the CPU, or the GPU is held at a low clock",
        lambda f: (
            f.concurrency == 1 and checks.above(checks.times(f.ceiling_tok_s, checks.MIN_OF_CEILING), f.decode_tok_s)
        ),
    ),
    _warning(
        "throttled",
        "the GPU ran slower or drew less power than it can",
        "let it cool down, look at its power supply, and repeat",
        checks.throttled,
    ),
    _warning(
        "hot",
        "the GPU reached {f.gpu_temperature_max_c:.0f} °C",
        "let it cool down between runs",
        lambda f: checks.above(f.gpu_temperature_max_c, checks.HOT_C),
    ),
    _invalid(
        "canary_drift",
        "the same short cell gave {f.canary_before_tok_s:.1f} tok/s before and {f.canary_after_tok_s:.1f} after",
        "the machine changed its state meanwhile, as a GB10 does without telling: repeat, after a restart if it stays",
        lambda f: checks.apart(f.canary_after_tok_s, f.canary_before_tok_s, checks.MAX_DRIFT),
    ),
    _invalid(
        "foreign_load",
        "the engine generated {f.engine_tokens} tokens, of which {f.counted_tokens} are ours: others used it",
        f"an agent that runs on this engine disturbs its own measurement: {_REPEAT}",
        lambda f: checks.above(f.foreign_share, checks.MAX_FOREIGN),
    ),
    _warning(
        "foreign_requests",
        "other requests ran on the engine at the same time",
        _REPEAT,
        lambda f: (
            checks.above(f.running_max, f.concurrency)
            or (
                checks.above(f.foreign_share, checks.SEEN_FOREIGN)
                and not checks.above(f.foreign_share, checks.MAX_FOREIGN)
            )
        ),
    ),
    _invalid(
        "overcounted",
        "we counted {f.counted_tokens} tokens, and the engine says that it generated {f.engine_tokens}",
        "believe the engine: the stream says more than was generated, or another server answered",
        lambda f: checks.above(-checks.SEEN_FOREIGN, f.foreign_share),
    ),
    _warning(
        "busy_host", "other programs used the machine at the same time", f"stop them, and {_REPEAT}", checks.busy_host
    ),
    _warning(
        "queued",
        "requests waited before the engine began them",
        "raise its limit of sequences (max-num-seqs, parallel, OLLAMA_NUM_PARALLEL) or that of the router",
        lambda f: checks.above(f.waiting_max, 0) or checks.above(f.queue_share, checks.MAX_QUEUE_SHARE),
    ),
    _warning(
        "preempted",
        "the engine put {f.preemptions} requests aside for lack of KV cache",
        "give it more KV cache, or fewer and shorter streams",
        lambda f: checks.above(f.preemptions, 0),
    ),
    _invalid(
        "client_saturated",
        "the measuring process could not keep up with the stream",
        "its own delay is in the numbers: stop other programs, or measure from another machine",
        lambda f: (
            checks.above(f.loop_lag_max_ms, checks.MAX_LAG_MS)
            or checks.above(f.loop_lag_p99_ms, checks.MAX_LAG_P99_MS)
            or checks.above(f.client_cpu_share, checks.MAX_CLIENT_CPU)
        ),
    ),
    _invalid(
        "clocks_disagree",
        "we measured {f.decode_tok_s:.1f} tok/s, and the engine's own clock says {f.engine_decode_tok_s:.1f}",
        "something between engine and client holds tokens back, or counts them differently: leave out the router",
        lambda f: checks.apart(f.decode_tok_s, f.engine_decode_tok_s, checks.MAX_CLOCKS_APART),
    ),
    _warning(
        "noisy",
        "the bursts differ by more than 5 %",
        "ask for more repeats",
        lambda f: checks.above(f.burst_variation, checks.MAX_VARIATION),
    ),
    _invalid(
        "thinking_leak",
        "it thought for {f.reasoning_tokens} tokens with thinking off",
        _THINKS,
        lambda f: f.thinking is False and checks.above(f.reasoning_tokens, 0),
    ),
    _invalid(
        "thinking_absent",
        "it did not think with thinking on",
        _THINKS,
        lambda f: f.thinking is True and f.reasoning_tokens == 0,
    ),
    _invalid(
        "implausible",
        "the rate is higher than the memory, the published prefill or the number of streams allows",
        "distrust it: look for cached answers, several tokens counted twice, or a wrong clock",
        checks.implausible,
    ),
    _warning(
        "serialised",
        "{f.concurrency} streams together are no faster than one",
        "look at max-num-seqs or parallel, at the router's limit, and whether the streams have equal lengths",
        lambda f: f.concurrency >= 3 and checks.above(checks.times(f.single_tok_s, checks.MIN_GAIN), f.aggregate_tok_s),
    ),
    _warning(
        "unstable",
        "measured again it gave {f.remeasured_tok_s:.1f} instead of {f.headline_tok_s:.1f} tok/s",
        "believe neither: repeat the run",
        lambda f: checks.apart(f.remeasured_tok_s, f.headline_tok_s, checks.MAX_REMEASURED_APART),
    ),
    _warning(
        "not_streaming",
        "the answer came in one piece",
        "first token and decode cannot be told: switch streaming on in the server or router",
        lambda f: f.streamed is False,
    ),
    _warning(
        "tokens_estimated",
        "the engine does not count its tokens; chunks were counted instead",
        "rates are too low where a chunk holds several tokens: ask the server for usage",
        lambda f: f.tokens_counted_by_engine is False,
    ),
    _warning(
        "first_chunk_assumed",
        "a chunk holds {f.tokens_per_chunk:.2f} tokens on average, and that the first holds one is assumed",
        "decode is a little too high, most in short answers: ask for more output tokens",
        lambda f: f.first_chunk_known is False and checks.above(f.tokens_per_chunk, checks.MANY_PER_CHUNK),
    ),
    _warning(
        "counts_disagree",
        "the stream and its final usage count different numbers of tokens",
        "the stream's own count is used: compare with the engine's counter",
        lambda f: f.counts_agree is False,
    ),
    _warning(
        "cold_compile",
        "the first-token times of the warm-up were still falling",
        "the engine may still compile: run it again",
        lambda f: f.warmup_settled is False,
    ),
    _warning(
        "clock_step",
        "the wall clock was set by {f.clock_step_ms:.0f} ms during the run",
        "the numbers do not depend on it; times of day in the result do",
        lambda f: checks.above(abs(f.clock_step_ms or 0), checks.MAX_CLOCK_STEP_MS),
    ),
    _warning(
        "rtt_high",
        "one way to the engine and back takes {f.rtt_ms:.1f} ms",
        "it is part of the first-token time: measure on the engine's machine",
        lambda f: checks.above(f.rtt_ms, checks.MAX_RTT_MS),
    ),
    _warning(
        "overhead",
        "the first token took {f.ttft_ms:.0f} ms, of which prefill {f.engine_prefill_ms:.0f} ms",
        "the rest is spent outside the model: a router, a queue, or a slow tokenizer",
        checks.overhead,
    ),
    _warning(
        "prompt_length",
        "a prompt has {f.prompt_tokens_max} tokens, and {f.asked_prompt_tokens} were asked for",
        "the template adds what the calibration did not see: calibrate again",
        checks.prompt_length,
    ),
)


def flags(facts: CellFacts) -> tuple[Flag, ...]:
    """The rules that apply, in the order of the table."""
    return tuple(
        Flag(rule.id, rule.severity, rule.text.format(f=facts), rule.advice) for rule in RULES if rule.applies(facts)
    )


def status(found: Sequence[Flag]) -> Status:
    """`tainted` is a cell with warnings only."""
    if any(flag.severity == "invalid" for flag in found):
        return "invalid"
    return "tainted" if found else "valid"


def headline(value: float | None, found: Sequence[Flag]) -> float | None:
    """The number that may be shown for a cell; None for an invalid one."""
    return None if status(found) == "invalid" else value
