"""Atlas: the listener is bound only once the model is loaded; its context is low at first, so it is read each time."""

from __future__ import annotations

from sparkgate.engines.spec import Engine

ATLAS = Engine(
    name="atlas",
    title="Atlas",
    port=8888,
    owned_by="avarok-spark",
    metrics="/metrics",
    patience_s=600.0,
    stages=((r"\bListening on\b", "ready"),),
)
