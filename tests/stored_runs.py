"""Runs as `sparkgate bench show --json` tells them, small enough to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparkgate.measure.plan import Cell

NOISY = {
    "id": "noisy",
    "severity": "warning",
    "text": "the bursts differ by more than 5 %",
    "advice": "ask for more repeats",
}
SHORT = {
    "id": "short_output",
    "severity": "invalid",
    "text": "an answer ended after 3 of 256 tokens",
    "advice": "use the family long_form",
}


def stat(value: float, repeats: int = 5) -> dict[str, Any]:
    ci = [value * 0.99, value * 1.01] if repeats >= 5 else None
    return {"median": value, "low": value * 0.97, "high": value * 1.03, "mad": value * 0.01, "n": repeats, "ci95": ci}


def cell(
    status: str = "valid", stats: Mapping[str, float] | None = None, repeats: int = 5, **key: Any
) -> dict[str, Any]:
    made = Cell("sweep", **key)
    told = {name: stat(value, repeats) for name, value in (stats or {}).items()}
    flags = {"tainted": [NOISY], "invalid": [SHORT]}.get(status, [])
    return {"key": made.key, "hash": made.hash, "status": status, "flags": flags, "stats": told, "why_null": {}}


def level(streams: int, together: float, status: str = "valid", **key: Any) -> dict[str, Any]:
    one = together / streams
    rates = {"agg_decode_tok_s": together, "agg_wall_tok_s": together * 0.9, "median_stream_tok_s": one}
    return cell(status, {**rates, "decode_tok_s": one, "ttft_any_ms": 100}, concurrency=streams, **key)


def run_of(cells: Sequence[dict[str, Any]], **told: Any) -> dict[str, Any]:
    return {
        "id": 12,
        "kind": "sweep",
        "engine": "main",
        "state": "done",
        "validity": "tainted",
        "provenance": {"engine": "vllm", "engine_version": "0.25.1", "model": "Qwen3.6-35B-A3B", "gpu": "NVIDIA GB10"},
        "plan": {"protocol_hash": "sha256:1", "repeats": 5, "seed": "ab"},
        "created_s": 1_795_989_548.0,
        "cells": list(cells),
    } | told


SWEEP = run_of(
    [level(1, 99), level(2, 170), level(4, 300), level(8, 330, "tainted"), level(16, 335), level(32, 340, "invalid")]
)
FASTER = run_of([level(1, 104), level(2, 180), level(4, 310)], id=13)
PREFILL = run_of(
    [
        cell(stats={"ttft_any_ms": ms * share, "pp_tok_s": 1e3 * tokens / ms}, prompt_tokens=tokens, cache_mode=mode)
        for tokens, ms in ((512, 230.0), (4096, 900.0), (32768, 5900.0))
        for mode, share in (("cold", 1.0), ("warm", 0.2))
    ],
    kind="prefill",
)
GIVEN = {"sweep": [SWEEP], "prefill": [PREFILL], "compare": [SWEEP, FASTER]}
