"""vLLM (read in 0.32 and 0.33).

Its sleep is no unload: level 1 moves the weights into CPU memory, which is the same memory on a Spark, and level 2
drops them, so that it answers nonsense until they are sent anew.
"""

from __future__ import annotations

from sparkgate.engines.spec import Engine, Route

VLLM = Engine(
    name="vllm",
    title="vLLM",
    port=8000,
    owned_by="vllm",
    proof=Route("/version", "version"),
    version=Route("/version", "version"),
    metrics="/metrics",
    patience_s=1800.0,
    stages=(
        (r"\bStarting to load model\b", "loading weights"),
        (r"\bLoading weights took\b", "weights loaded"),
        (r"\bLoading drafter model\b", "loading the draft model"),
        (r"\bModel loading took\b", "measuring the memory it needs"),
        (r"\bEstimated CUDA graph memory\b", "sizing the KV cache"),
        (r"\bAvailable KV cache memory\b", "making the KV cache"),
        (r"\bMaximum concurrency for\b", "warming up"),
        (r"\bGraph capturing finished\b", "graphs captured"),
        (r"\binit engine\b.*\btook\b", "starting its server"),
        (r"\bApplication startup complete\b", "ready"),
    ),
    asleep=r'engine_sleep_state\{[^}]*sleep_state="(?:weights_offloaded|discard_all)"[^}]*\}\s+1',
    gauges={
        "running": "vllm:num_requests_running",
        "waiting": "vllm:num_requests_waiting",
        "kv_usage": "vllm:kv_cache_usage_perc",
        "prefix_queries": "vllm:prefix_cache_queries_total",
        "prefix_hits": "vllm:prefix_cache_hits_total",
        "draft_tokens": "vllm:spec_decode_num_draft_tokens_total",
        "accepted_tokens": "vllm:spec_decode_num_accepted_tokens_total",
        "generated_tokens": "vllm:generation_tokens_total",
    },
)
