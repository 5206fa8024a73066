"""Wandler (transformers.js)."""

from __future__ import annotations

from sparkgate.engines.spec import Engine, Route

WANDLER = Engine(name="wandler", title="Wandler", port=8000, owned_by="wandler", proof=Route("/admin/metrics"))
