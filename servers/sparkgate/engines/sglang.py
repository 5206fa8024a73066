"""SGLang: it speaks Ollama's API too and may even say so at /, so its own /server_info decides.

/release_memory_occupation is no unload: the weights are dropped, and unless they are sent anew it answers nonsense.
"""

from __future__ import annotations

from sparkgate.engines.spec import Engine, Route

SGLANG = Engine(
    name="sglang",
    title="SGLang",
    port=30000,
    says="SGLang is running",
    owned_by="sglang",
    proof=Route("/server_info", "model_path"),
    version=Route("/server_info", "version"),
    metrics="/metrics",
    stages=(
        (r"\bLoad weight begin\b", "loading weights"),
        (r"\bLoad weight end\b", "making the KV cache"),
        (r"\bCapture cuda graph\b(?! failed)", "capturing CUDA graphs"),
        (r"\bThe server is fired up and ready to roll\b", "ready"),
    ),
    gauges={
        "running": "sglang:num_running_reqs",
        "waiting": "sglang:num_queue_reqs",
        "kv_usage": "sglang:token_usage",
        "prefix_hit_rate": "sglang:cache_hit_rate",
        "accept_rate": "sglang:spec_accept_rate",
        "generation_tok_s": "sglang:gen_throughput",
        "generated_tokens": "sglang:generation_tokens_total",
    },
)
