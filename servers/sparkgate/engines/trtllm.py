"""TensorRT-LLM serve: reading its /metrics takes the samples away from whoever measures, so it is not read."""

from __future__ import annotations

from sparkgate.engines.spec import Engine, Route

TRTLLM = Engine(
    name="trtllm",
    title="TensorRT-LLM serve",
    port=8000,
    owned_by="tensorrt_llm",
    version=Route("/version", "version"),
    patience_s=1800.0,
    stages=((r"\bLoading weights concurrently\b", "loading weights"),),
)
