"""llama.cpp's llama-server as a router over several models.

Asking /props, /metrics or /slots for a model loads it, so nothing here names one. A load is answered when it begins;
the context is a setting of the router, not of the request.
"""

from __future__ import annotations

from sparkgate.engines.llamacpp import STAGES
from sparkgate.engines.spec import JSON, Engine, Model, Phase, Route, Verb, entries, line, model

PHASES: dict[str, Phase] = {"loading": "loading", "downloading": "loading", "sleeping": "asleep"}


def _models(answer: JSON) -> list[Model]:
    """`{"data": [{"id", "path", "meta": {"n_ctx"}, "status": {"value", "failed", "exit_code"}}]}`.

    `meta` is there while a model is loaded. `failed` also stands after an unload that was asked for, so it says nothing
    while a model is loaded or loading.
    """
    return [_model(item) for item in entries(answer, "data") if "id" in item]


def _model(item: dict[str, JSON]) -> Model:
    status, meta = (told if isinstance(told := item.get(key), dict) else {} for key in ("status", "meta"))
    value = str(status.get("value", ""))
    failed = status.get("failed") is True and value not in ("loaded", *PHASES)
    return model(
        item["id"],
        item.get("path"),
        meta.get("n_ctx"),
        loaded=value == "loaded",
        phase="failed" if failed else PHASES.get(value, ""),
        detail=_ending(status.get("exit_code")) if failed else "",
    )


def _ending(exit_code: JSON) -> str:
    return f"its process ended with exit code {exit_code}" if isinstance(exit_code, int) else "its process ended"


def _refused(answer: JSON) -> str:
    """`{"success"}`."""
    done = isinstance(answer, dict) and answer.get("success") is True
    return "" if done else line(answer.get("error") if isinstance(answer, dict) else "") or "it did not say success"


LLAMACPP_ROUTER = Engine(
    name="llamacpp-router",
    title="llama.cpp router",
    port=8080,
    owned_by="llamacpp",
    proof=Route("/props", "max_instances"),
    version=Route("/props", "build_info"),
    models=Route("/models", "data"),
    read_models=_models,
    patience_s=600.0,
    stages=((r"\bspawning server instance with name=", "starting a server for the model"), *STAGES),
    load=Verb("/models/load", lambda name, context: {"model": name}, refusal=_refused),
    unload=Verb("/models/unload", lambda name, context: {"model": name}, refusal=_refused),
)
