"""How the engine that is measured was started: what drafts, how many sequences it runs at once, how long it loaded."""

from __future__ import annotations

import json
import re
import shlex
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from sparkgate.change.jobs import BUSY_TIMEOUT_S
from sparkgate.engines.spec import line
from sparkgate.runtimes.spec import Look

SEQUENCES: Mapping[str, tuple[str, ...]] = {
    "vllm": ("max-num-seqs",),
    "sglang": ("max-running-requests",),
    "llamacpp": ("parallel", "np", "n-parallel"),
    "trtllm": ("max-batch-size",),
}
"""Engine → its options for the most sequences at once, without dashes in front and with dashes for underscores."""
SEQUENCES_VARIABLE = {"ollama": "OLLAMA_NUM_PARALLEL", "llamacpp": "LLAMA_ARG_N_PARALLEL"}
DRAFTED = (
    "num-speculative-tokens",
    "speculative-num-draft-tokens",
    "draft-max",
    "draft",
    "draft-n",
    "num-drafts",
)
"""Options for how many tokens are drafted at a time."""
DRAFTER = ("speculative-algorithm", "spec-type", "speculative-model", "model-draft", "md", "hfd", "hf-repo-draft")
"""Options that name what drafts; that of a model is told as `draft`."""
METHODS = {"speculative-algorithm", "spec-type"}
CONFIG = ("speculative-config", "sc")
PROGRAMS: Mapping[str, str] = {"vllm": "vllm", "sglang": "sglang", "llamacpp": "llama-server"}
"""Engine → what its command says; without speculation on such a command, there is none."""
SLACK_S = 2.0
"""Clocks of owners tell whole seconds."""

Options = Mapping[str, str]


def launch_facts(engine: str, look: Look | None) -> dict[str, Any]:
    """`speculation` ("" for none, otherwise as "MTP k=3") and `max_sequences`; only what the owner's words tell."""
    if look is None or look.state != "running":
        return {}
    options = _options(look.argv)
    sequences = _sequences(engine, options, look.environment)
    told = {"speculation": _speculation(engine, options, look.argv), "max_sequences": sequences}
    return {name: value for name, value in told.items() if value is not None}


def _options(argv: Sequence[str]) -> dict[str, str]:
    """Option → its value, "" for one that stands alone; the last one counts. A shell's line is read as its words."""
    words = [word for text in argv for word in _split(text)]
    found: dict[str, str] = {}
    for place, word in enumerate(words):
        if not re.match(r"--?[A-Za-z]", word):
            continue
        name, given, value = word.lstrip("-").partition("=")
        after = words[place + 1] if place + 1 < len(words) else ""
        path, _, rest = name.partition(".")
        found[".".join(filter(None, (path.replace("_", "-"), rest)))] = (
            value if given else "" if re.match(r"--?[A-Za-z]", after) else after
        )
    return found


def _split(text: str) -> list[str]:
    if " -" not in text:
        return [text]
    try:
        return shlex.split(text)
    except ValueError:
        return [text]


def _sequences(engine: str, options: Options, environment: Mapping[str, str]) -> int | None:
    given = [options[name] for name in SEQUENCES.get(engine, ()) if name in options]
    variable = environment.get(SEQUENCES_VARIABLE.get(engine, ""), "")
    return next((int(text) for text in (*given, variable) if text.isascii() and text.isdigit() and int(text)), None)


def _speculation(engine: str, options: Options, argv: Sequence[str]) -> str | None:
    config = _config(options)
    if config is None or "config" in options:
        return None
    named = [options[name] if name in METHODS else "draft" for name in DRAFTER if name in options]
    method = config.get("method") or next(iter(named), None) or ("draft" if config.get("model") else "")
    drafted = config.get("num_speculative_tokens") or next((options[one] for one in DRAFTED if one in options), "")
    if str(method).lower() == "none" or str(drafted) == "0":
        return ""
    if method or drafted:
        return _told(line(str(method or "draft")), str(drafted))
    program = PROGRAMS.get(engine)
    shown = program and any(re.search(rf"(?:^|[/\s]){program}(?:$|[.\s])", word) for word in argv)
    return "" if shown else None


def _told(method: str, drafted: str) -> str:
    """The way in which published numbers tell it."""
    name = "MTP" if re.search(r"(?:^|[_-])mtp(?:$|[_-])", method, re.IGNORECASE) else method
    return f"{name} k={int(drafted)}" if drafted.isascii() and drafted.isdigit() else name


def _config(options: Options) -> dict[str, Any] | None:
    """vLLM takes one JSON object, or its fields one by one; None where it cannot be read."""
    found: dict[str, Any] = {}
    for name in CONFIG:
        found |= {key.partition(".")[2]: value for key, value in options.items() if key.startswith(f"{name}.")}
        try:
            told = json.loads(options.get(name, "{}"))
        except (ValueError, RecursionError):
            return None
        if not isinstance(told, dict):
            return None
        found |= told
    return found


def load_facts(jobs_file: Path, engine: str, launch: str, look: Look | None) -> dict[str, Any]:
    """`load_s` and `load_source` of the load that started the process that runs now; {} where that is not known.

    Args:
        jobs_file: the file of the engine jobs.
        engine, launch: entry of the catalogue, and the digest of how it is started.
    """
    if look is None or look.state != "running" or look.since_s is None:
        return {}
    for load_s, at_s in _loads(jobs_file, engine, launch):
        if at_s - load_s - SLACK_S <= look.since_s <= at_s + SLACK_S:
            when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_s))
            return {"load_s": load_s, "load_source": f"the job of sparkgate that was ready at {when}"}
    return {}


def _loads(jobs_file: Path, engine: str, launch: str) -> Iterator[tuple[float, float]]:
    """(seconds of a load, when it was ready in seconds since the epoch), the newest first."""
    query = "SELECT load_s, at_s FROM learnt WHERE engine = ? AND launch = ? ORDER BY at_s DESC"
    try:
        with closing(sqlite3.connect(f"{jobs_file.as_uri()}?mode=ro", uri=True, timeout=BUSY_TIMEOUT_S)) as connection:
            yield from connection.execute(query, (engine, launch)).fetchall()
    except sqlite3.Error:
        return
