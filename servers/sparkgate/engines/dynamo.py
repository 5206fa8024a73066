"""NVIDIA Dynamo: its frontend is healthy without any worker."""

from __future__ import annotations

from sparkgate.engines.spec import Engine, Route

DYNAMO = Engine(
    name="dynamo",
    title="NVIDIA Dynamo",
    port=8000,
    front=True,
    proof=Route("/metrics", says="dynamo_frontend_"),
    metrics="/metrics",
    patience_s=1800.0,
    gauges={"running": "dynamo_frontend_inflight_requests", "waiting": "dynamo_frontend_queued_requests"},
)
