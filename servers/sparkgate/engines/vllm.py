"""vLLM (read in 0.32 and 0.33)."""

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
