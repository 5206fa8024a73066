"""llama.cpp's llama-server with one model. `n_ctx` of /v1/models is the context of one slot."""

from __future__ import annotations

from sparkgate.engines.spec import Engine, Route

GAUGES = {
    "running": "llamacpp:requests_processing",
    "waiting": "llamacpp:requests_deferred",
    "draft_tokens": "llamacpp:spec_decode_num_draft_tokens_total",
    "accepted_tokens": "llamacpp:spec_decode_num_accepted_tokens_total",
    "generated_tokens": "llamacpp:tokens_predicted_total",
}

STAGES = (
    (r"\bload_model: loading model\b|\bmain: loading model\b", "reading the weights"),
    (r"\boffloaded \d+/\d+ layers to GPU", "placing layers on the GPU"),
    (r"\binitializing, n_slots\b|\binitializing slots\b", "making the slots"),
    (r"\bmodel loaded\b", "ready"),
)

LLAMACPP = Engine(
    name="llamacpp",
    title="llama.cpp",
    port=8080,
    owned_by="llamacpp",
    proof=Route("/props", "total_slots"),
    version=Route("/props", "build_info"),
    metrics="/metrics",
    gauges=GAUGES,
    patience_s=600.0,
    stages=STAGES,
    asleep=r'"is_sleeping":\s*true',
)
