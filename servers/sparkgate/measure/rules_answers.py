"""Rules over what was asked of an engine and what came back: lengths, prompts, cache, thinking, counts."""

from __future__ import annotations

from sparkgate.measure import checks
from sparkgate.measure.rule import Rule, invalid, warning

THINKS = "look whether this engine and the model's template know the switch"

ANSWERS: tuple[Rule, ...] = (
    invalid(
        "short_output",
        "an answer ended after {f.output_tokens_min} of {f.asked_output_tokens} tokens",
        "the length is not enforced here: ask for fewer output tokens, or measure an engine that knows ignore_eos",
        checks.short_output,
    ),
    invalid(
        "ended_early",
        "an answer ended by itself before {f.asked_output_tokens} tokens, and nobody counts them",
        "use an engine or a setting that tells usage; lengths that differ make rates that cannot be compared",
        lambda f: f.output_tokens_min is None and f.asked_output_tokens is not None and f.ends_early is True,
    ),
    invalid(
        "long_output",
        "an answer has {f.output_tokens_max} tokens, and {f.asked_output_tokens} was the most",
        "the server does not read the limit that was sent: probe which field it knows",
        lambda f: checks.above(f.output_tokens_max, f.asked_output_tokens),
    ),
    invalid(
        "shared_prefix",
        "a prompt that should be new was partly in the engine's cache",
        "the first-token times are those of a cache: look whether something on the way rewrites the prompts",
        checks.shared_prefix,
    ),
    invalid(
        "not_cached",
        "only {f.cached_tokens} of {f.prompt_tokens_max} prompt tokens came from the cache in a warm cell",
        "switch the prefix cache on, or give it more memory",
        lambda f: f.warm and checks.above(checks.times(f.prompt_tokens_max, checks.MIN_WARM_HIT), f.cached_tokens),
    ),
    warning(
        "cache_unproven",
        "the engine does not tell how much of a prompt came from its cache, and this cell is about that",
        "only the first-token times show whether it was: ask the server for cached tokens in its usage",
        lambda f: f.warm and f.cached_told is False,
    ),
    warning(
        "not_primed",
        "before {f.unprimed_bursts} bursts the request failed that shows the engine their prefix",
        "they may be those of a new prompt: see the note of the run, and repeat it",
        lambda f: checks.above(f.unprimed_bursts, 0),
    ),
    invalid(
        "context_overflow",
        "prompt and answer do not fit into the context, or the engine cut the prompt",
        "raise the context of one stream (max-model-len, ctx-size / parallel, num_ctx), or ask for shorter prompts",
        checks.context_overflow,
    ),
    invalid(
        "wrong_model",
        "another model than {f.model_asked} answered",
        "ask the engine behind the router, or switch the router's fallbacks off",
        checks.wrong_model,
    ),
    invalid(
        "errors",
        "{f.failed_requests} of {f.requests} requests failed",
        "what is left is a choice of the survivors: see the errors in the full result first",
        lambda f: checks.above(checks.failed_share(f), checks.MAX_FAILED),
    ),
    warning(
        "some_errors",
        "{f.failed_requests} of {f.requests} requests failed; they are not in the statistics",
        "see the errors in the full result",
        lambda f: (
            checks.above(checks.failed_share(f), 0) and not checks.above(checks.failed_share(f), checks.MAX_FAILED)
        ),
    ),
    warning(
        "reconnected",
        "sent again, as a kept connection had gone, were {f.resent_requests} requests",
        "their times begin with the second try: something on the way closes idle connections; raise its keep-alive",
        lambda f: checks.above(f.resent_requests, 0),
    ),
    invalid(
        "thinking_leak",
        "it thought for {f.reasoning_tokens} tokens with thinking off",
        THINKS,
        lambda f: f.thinking is False and checks.above(f.reasoning_tokens, 0),
    ),
    invalid(
        "thinking_absent",
        "it did not think with thinking on",
        THINKS,
        lambda f: f.thinking is True and f.reasoning_tokens == 0,
    ),
    warning(
        "not_streaming",
        "the answer came in one piece",
        "first token and decode cannot be told: switch streaming on in the server or router",
        lambda f: f.streamed is False,
    ),
    warning(
        "tokens_estimated",
        "the engine does not count its tokens; chunks were counted instead",
        "rates are too low where a chunk holds several tokens: ask the server for usage",
        lambda f: f.tokens_counted_by_engine is False,
    ),
    warning(
        "first_chunk_assumed",
        "chunks hold several tokens each; how many the first ones hold is told by their text only",
        "decode may be off by a token or two: ask for more output tokens",
        lambda f: (
            f.first_chunk_known is False
            and (bool(f.first_chunk_estimated) or checks.above(f.tokens_per_chunk, checks.MANY_PER_CHUNK))
        ),
    ),
    warning(
        "counts_disagree",
        "the stream and its final usage count different numbers of tokens",
        "the stream's own count is used: compare with the engine's counter",
        lambda f: f.counts_agree is False,
    ),
    warning(
        "prompt_length",
        "a prompt has {f.prompt_tokens_max} tokens, and {f.asked_prompt_tokens} were asked for",
        "the template adds what the calibration did not see: calibrate again",
        checks.prompt_length,
    ),
)
