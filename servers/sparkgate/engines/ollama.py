"""Ollama: /api/ps lists what is loaded; part of a model outside GPU memory is computed by the CPU.

A completion without the options of the load may load the model anew, so none is asked for.
"""

from __future__ import annotations

from sparkgate.engines.spec import JSON, Engine, Model, Route, entries, model


def _models(answer: JSON) -> list[Model]:
    """`{"models": [{"name", "size", "size_vram", "context_length"}]}`, sizes in bytes."""
    return [
        model(item["name"], None, item.get("context_length"), gpu_share=_gpu_share(item))
        for item in entries(answer, "models")
        if "name" in item
    ]


def _gpu_share(item: dict[str, JSON]) -> float | None:
    size, in_gpu = item.get("size"), item.get("size_vram")
    return in_gpu / size if isinstance(size, int) and isinstance(in_gpu, int) and size > 0 else None


OLLAMA = Engine(
    name="ollama",
    title="Ollama",
    port=11434,
    says="Ollama is running",
    owned_by="library",
    proof=Route("/api/ps", "models"),
    version=Route("/api/version", "version"),
    ready="/api/version",
    models=Route("/api/ps", "models"),
    read_models=_models,
    completions="",
)
