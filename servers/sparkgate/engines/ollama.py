"""Ollama: /api/ps lists what is loaded; part of a model outside GPU memory is computed by the CPU.

A completion without the options of the load may load the model anew, so none is asked for. A load is answered when it
is done, an unload at once: the row in /api/ps goes later.
"""

from __future__ import annotations

from sparkgate.engines.spec import JSON, Engine, Model, Route, Verb, entries, line, model


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


def _load(name: str, context: int) -> dict[str, object]:
    options: dict[str, object] = {"options": {"num_ctx": context}} if context else {}
    return {"model": name, "keep_alive": -1, "stream": False} | options


def _generate(name: str, context: int) -> dict[str, object]:
    """One token with the options of the load: with others it would be loaded anew."""
    options = {"num_predict": 1} | ({"num_ctx": context} if context else {})
    return {"model": name, "messages": [{"role": "user", "content": "1"}], "stream": False, "options": options}


def _refused(answer: JSON) -> str:
    return line(answer.get("error")) if isinstance(answer, dict) else ""


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
    patience_s=600.0,
    generate=Verb("/api/chat", _generate),
    load=Verb("/api/generate", _load, blocks=True, refusal=_refused),
    unload=Verb(
        "/api/generate", lambda name, context: {"model": name, "keep_alive": 0, "stream": False}, refusal=_refused
    ),
)
