"""What a number of ours depends on, read from what is stored of its run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sparkgate.measure.knee import CAP_SETTINGS
from sparkgate.measure.reference import Setting

KINDS: Mapping[str, type] = {
    **dict.fromkeys(("hardware", "engine_version", "quantization", "speculation", "family"), str),
    **dict.fromkeys(("devices", "max_num_seqs", "concurrency", "prompt_tokens"), int),
    **dict.fromkeys(("cuda_graphs", "thinking"), bool),
}
"""Each part of `Setting` and its type."""
FACTS: Mapping[str, str] = {
    "hardware": "gpu",
    "engine_version": "engine_version",
    "quantization": "quantization",
    "max_num_seqs": "max_sequences",
}
"""Setting of a published number → our fact."""
OWN = ("thinking", "concurrency", "prompt_tokens", "family")
"""Settings that the key of a cell tells."""
PROGRAMS: Mapping[str, str] = {
    "vllm": r"\bvllm\b|--model[ =]",
    "sglang": r"\bsglang\b",
    "llamacpp": r"\bllama-server\b",
}
"""Engine → what shows that a command line is the engine's own, and not that of a script that starts it."""
DRAFTS: Mapping[str, str] = {
    "vllm": r"--speculative[-_]config|--speculative[-_]model",
    "sglang": r"--speculative-algorithm",
    "llamacpp": r"--model-draft|--spec-type|\s-md\s",
}
"""Engine → its options that switch speculation on."""
CAPS: Mapping[str, str] = {"llamacpp": r"--parallel|-np"}
"""Other spellings of an engine's cap on requests at a time."""
ELSEWHERE = re.compile(r"--config[ =]")
"""A file beside the command line may hold any option."""
_DRAFTED = re.compile(r"(?:num_speculative_tokens\W+|--speculative-num-draft-tokens[ =]|--draft-max[ =])(\d+)")
_METHOD = re.compile(r"(?:method\W+|--speculative-algorithm[ =]|--spec-type[ =])(\w+)")


def own_setting(provenance: Mapping[str, Any], key: Mapping[str, Any] | None) -> Setting:
    """The setting of a cell, from the facts of its run; what is not known is None."""
    launched = _launched(str(provenance.get("engine", "")), provenance.get("argv"))
    facts = {name: provenance.get(fact) for name, fact in FACTS.items()}
    told = [*launched.items(), *facts.items(), *provenance.items(), *((name, (key or {}).get(name)) for name in OWN)]
    return Setting(**{name: value for name, value in told if name in KINDS and _usable(value, KINDS[name])})


def _usable(value: Any, kind: type) -> bool:
    """Of just this type, and a number above 0."""
    if isinstance(value, bool) or not isinstance(value, int):
        return type(value) is kind
    return kind is int and value > 0


def _launched(engine: str, argv: object) -> dict[str, Any]:
    """What the engine's command line tells."""
    if engine not in PROGRAMS or not isinstance(argv, str) or not re.search(PROGRAMS[engine], argv):
        return {}
    cap = re.search(rf"(?:{CAPS.get(engine) or re.escape(CAP_SETTINGS[engine])})[ =](\d+)", argv)
    told: dict[str, Any] = {"max_num_seqs": int(cap[1])} if cap else {}
    told |= {"cuda_graphs": False} if "--enforce-eager" in argv else {}
    if re.search(DRAFTS[engine], argv):
        return told | {"speculation": _speculation(argv)}
    return told if ELSEWHERE.search(argv) else told | {"speculation": ""}


def _speculation(argv: str) -> str:
    """Such as "MTP k=3", as published numbers have it."""
    method, drafted = _METHOD.search(argv), _DRAFTED.search(argv)
    name = "MTP" if method and "mtp" in method[1].lower() else method[1] if method else "speculation"
    return f"{name} k={drafted[1]}" if drafted else name
