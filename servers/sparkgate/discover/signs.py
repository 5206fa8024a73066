"""What a command line or the image of a container says of the engine in it, and what of it must not be shown."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from sparkgate.engines import ENGINES
from sparkgate.policy.decision import Decision
from sparkgate.runtimes.owner import without_flag_values

COMMANDS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("vllm", "serve"), "vllm"),
    (("vllm.entrypoints.openai.api_server",), "vllm"),
    (("vllm.entrypoints.cli.main", "serve"), "vllm"),
    (("sglang.launch_server",), "sglang"),
    (("sglang", "serve"), "sglang"),
    (("llama-server",), "llamacpp"),
    (("mlxcel-server",), "mlx"),
    (("mlx_lm.server",), "mlx"),
    (("mlx_lm", "server"), "mlx"),
    (("ollama", "serve"), "ollama"),
    (("trtllm-serve",), "trtllm"),
    (("max", "serve"), "max"),
    (("litellm",), "litellm"),
    (("litellm.proxy.proxy_cli",), "litellm"),
    (("llama-swap",), "llama-swap"),
    (("exo",), "exo"),
    (("exo.main",), "exo"),
    (("atlas", "serve"), "atlas"),
    (("spark", "serve"), "atlas"),
    (("dynamo.frontend",), "dynamo"),
    (("lmcache", "server"), "lmcache"),
    (("llmd",), "llmd"),
    (("wandler",), "wandler"),
    (("lm-studio",), "lmstudio"),
    (("llmster",), "lmstudio"),
    (("model-runner",), "docker-model-runner"),
)
"""(first words of a command, engine); the first word is a program without its folder, or a module of Python."""
IMAGES: tuple[tuple[str, str], ...] = (
    ("vllm/vllm-openai", "vllm"),
    ("lmcache/vllm-openai", "vllm"),
    ("nvcr.io/nvidia/vllm", "vllm"),
    ("lmsysorg/sglang", "sglang"),
    ("ghcr.io/ggml-org/llama.cpp", "llamacpp"),
    ("ollama/ollama", "ollama"),
    ("avarok/atlas-gb10", "atlas"),
    ("docker/model-runner", "docker-model-runner"),
    ("nvcr.io/nvidia/tensorrt-llm", "trtllm"),
    ("nvcr.io/nim", "nim"),
    ("zmlai/llmd", "llmd"),
    ("modular/max", "max"),
    ("ghcr.io/berriai/litellm", "litellm"),
    ("docker.litellm.ai/berriai/litellm", "litellm"),
    ("ghcr.io/mostlygeek/llama-swap", "llama-swap"),
    ("nvcr.io/nvidia/ai-dynamo", "dynamo"),
)
"""(beginning of an image's name, engine)."""
ROUTER_FLAGS = ("--models-dir", "--models-preset")
PORT_FLAGS = ("--port", "--http-port", "--api-port", "--listen", "-listen")
WEIGHTS_FLAGS = ("-m", "--model", "--model-path", "--model_path")
TLS_FLAG = "--ssl"

_WRAPPER = re.compile(r"python[\d.]*|node|bun|npx|uvx?|env|nice|numactl|tini|dumb-init|(?:ba|da)?sh|.*\.sh")
_BEFORE_PROGRAM = re.compile(r"-.*|run|\w+=.*")
_NAMES_A_SECRET = re.compile(r"(?i)(?:keys?|token|secret|passw(?:or)?d|credentials?)[\"']?\s*[=:]\s*\S")
_USER_IN_URL = re.compile(r"//[^/\s@]+@")

Judge = Callable[[str], Decision]


@dataclass(frozen=True, slots=True)
class Sign:
    """An engine and what speaks for it, in words of ours; empty when nothing does."""

    engine: str = ""
    because: str = ""


NO_SIGN = Sign()


def sign_of(argv: Sequence[str], image: str = "") -> Sign:
    """The engine that a command line names, else the one that an image is made for."""
    words = program(argv)
    first, engine = _command(words)
    if engine:
        router = engine == "llamacpp" and any(_flag(word) in ROUTER_FLAGS for word in words)
        return Sign("llamacpp-router" if router else engine, f"its command line says {' '.join(first)}")
    name = image.removeprefix("docker.io/")
    for start, engine in IMAGES:
        if re.match(rf"{re.escape(start)}(?![a-z0-9_])", name):
            return Sign(engine, f"its image is {start}")
    return NO_SIGN


def program(argv: Sequence[str]) -> Sequence[str]:
    """A command from its program, or its module, on: without interpreters and wrappers before it."""
    at = 0
    while at < len(argv) and _WRAPPER.fullmatch(PurePath(argv[at]).name):
        at += 1
        while at < len(argv) and _BEFORE_PROGRAM.fullmatch(argv[at]):
            at += 1
    return argv[at:]


def value_of(argv: Sequence[str], flags: Sequence[str]) -> str:
    """The value of the first of these flags, as its next word or behind `=`; "" when there is none."""
    words = program(argv)
    for word, after in zip(words, (*words, "")[1:], strict=True):
        name, equals, value = word.partition("=")
        if name in flags:
            return value if equals else after
    return ""


def port_of(argv: Sequence[str]) -> int | None:
    """The port that a command line names."""
    digits = re.search(r"(\d{1,5})$", value_of(argv, PORT_FLAGS))
    return int(digits[1]) if digits else None


def usual_port(argv: Sequence[str], engine: str) -> int:
    """The port that a command line names, else where its engine usually listens."""
    return port_of(argv) or ENGINES[engine].port


def weights_of(argv: Sequence[str], folder: str = "") -> str:
    """The weights a command line names, as an absolute path; "" when it names none, or not by a path.

    `folder` is where it was started; names relative to it count when they are there.
    """
    words = program(argv)
    first, engine = _command(words)
    positional = words[len(first) : len(first) + 1] if engine else ()
    for place in (value_of(argv, WEIGHTS_FLAGS), *positional):
        if place.startswith(("/", "~/")):
            return place
        if folder and place and not place.startswith("-") and (Path(folder) / place).exists():
            return str(Path(folder) / place)
    return ""


def wants_tls(argv: Sequence[str]) -> bool:
    return any(word.startswith(TLS_FLAG) for word in argv)


def holds_secret(words: Sequence[str], judge: Judge) -> bool:
    """Whether a key, a token or a password stands in these words: by its flag, by its name, or by its looks."""
    if without_flag_values(words) != tuple(words):
        return True
    if any(_NAMES_A_SECRET.search(word) or _USER_IN_URL.search(word) for word in words):
        return True
    return any(_is_secret(judge(text)) for text in (*words, " ".join(words)))


def _is_secret(decision: Decision) -> bool:
    """What cannot be judged counts as one."""
    return bool(decision.reason) or any(finding.cls == "secret" for finding in decision.findings)


def _command(words: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """The row of `COMMANDS` that a command is; empty when it is none."""
    for first, engine in COMMANDS:
        if words and (_bare(words[0]), *words[1 : len(first)]) == first:
            return first, engine
    return (), ""


def _bare(word: str) -> str:
    return PurePath(word).name.removesuffix(".exe")


def _flag(word: str) -> str:
    return word.partition("=")[0]
