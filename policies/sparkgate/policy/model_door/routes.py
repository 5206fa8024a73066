"""The routes that the door carries: asking models, and looking at what an engine serves. A route not in here is not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sparkgate.policy.model_door.refusal import Shape

Kind = Literal["look", "ask"]
"""`look` has no body and starts nothing; `ask` has a JSON body."""


@dataclass(frozen=True, slots=True)
class Route:
    """One route; `query` is a pattern of the query strings it takes, `router` whether routers are asked by it.

    Of LiteLLM's answers to /v1/messages many do not tell where they come from (seen in 1.108.7).
    """

    method: Literal["GET", "HEAD", "POST"]
    path: str
    shape: Shape = "openai"
    query: str = ""
    router: bool = False

    @property
    def kind(self) -> Kind:
        return "ask" if self.method == "POST" else "look"


_PAGES = r"(?:(?:limit|after_id|before_id|after)=[\w.-]*&?)*"

ROUTES: tuple[Route, ...] = (
    # what is served, and how it is: never LiteLLM's /health, which sends paid requests to every upstream
    Route("GET", "/v1/models", query=_PAGES, router=True),
    Route("GET", "/models", router=True),
    Route("GET", "/v1/models/*", router=True),
    Route("GET", "/models/*", router=True),
    Route("GET", "/", router=True),
    Route("HEAD", "/", "ollama", router=True),
    Route("GET", "/health/liveliness", router=True),
    Route("GET", "/health/readiness", router=True),
    Route("GET", "/health"),
    Route("GET", "/v1/health"),
    Route("GET", "/v1/health/live"),
    Route("GET", "/v1/health/ready"),
    Route("GET", "/ping"),
    Route("GET", "/version"),
    Route("GET", "/v1/version"),
    Route("GET", "/props"),
    Route("GET", "/v1/props"),
    Route("GET", "/api/tags", "ollama"),
    Route("GET", "/api/ps", "ollama"),
    Route("GET", "/api/version", "ollama"),
    Route("GET", "/api/v0/models"),
    Route("GET", "/api/v0/models/*"),
    Route("GET", "/api/v1/models"),
    # OpenAI's API, which nearly all speak
    Route("POST", "/v1/chat/completions", router=True),
    Route("POST", "/chat/completions", router=True),
    Route("POST", "/v1/completions", router=True),
    Route("POST", "/completions", router=True),
    Route("POST", "/v1/embeddings", router=True),
    Route("POST", "/embeddings", router=True),
    Route("POST", "/v1/responses", router=True),
    Route("POST", "/responses", router=True),
    # Anthropic's
    Route("POST", "/v1/messages", "anthropic", query=r"(?:beta=true)?"),
    Route("POST", "/v1/messages/count_tokens", "anthropic", query=r"(?:beta=true)?"),
    # Ollama's
    Route("POST", "/api/chat", "ollama"),
    Route("POST", "/api/generate", "ollama"),
    Route("POST", "/api/embed", "ollama"),
    Route("POST", "/api/embeddings", "ollama"),
    Route("POST", "/api/show", "ollama"),
    # LM Studio's
    Route("POST", "/api/v0/chat/completions"),
    Route("POST", "/api/v0/completions"),
    Route("POST", "/api/v0/embeddings"),
    # llama.cpp's and vLLM's own
    Route("POST", "/completion"),
    Route("POST", "/embedding"),
    Route("POST", "/infill"),
    Route("POST", "/apply-template"),
    Route("POST", "/tokenize"),
    Route("POST", "/detokenize"),
    Route("POST", "/v1/tokenize"),
    Route("POST", "/v1/detokenize"),
    Route("POST", "/rerank"),
    Route("POST", "/v1/rerank"),
    Route("POST", "/v2/rerank"),
    Route("POST", "/reranking"),
    Route("POST", "/v1/reranking"),
    Route("POST", "/score"),
    Route("POST", "/v1/score"),
    Route("POST", "/pooling"),
    Route("POST", "/classify"),
)

_NAME = re.compile(r"[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+){0,3}")
_RUNNER = re.compile(r"/engines(?:/(?:llama\.cpp|vllm|sglang|mlx|diffusers))?")
"""Before the routes of Docker Model Runner; at others it may be a model's name (LiteLLM)."""
_EXACT: Mapping[tuple[str, str], Route] = {(one.method, one.path): one for one in ROUTES if not one.path.endswith("*")}
_OPEN = tuple(one for one in ROUTES if one.path.endswith("*"))


def find(method: str, path: str, engine: str = "", base: str = "") -> Route | None:
    """The route of a request; `base` is the path in the engine's own URL, which clients put before it."""
    for prefix in _prefixes(path, engine, base):
        plain = path[len(prefix) :]
        if found := _EXACT.get((method, plain)) or _pattern(method, plain):
            return found
    return None


def _prefixes(path: str, engine: str, base: str) -> list[str]:
    found = [base] if base and path.startswith(f"{base}/") else []
    runner = _RUNNER.match(path) if engine == "docker-model-runner" else None
    return [*found, *([runner[0]] if runner else []), ""]


def _pattern(method: str, path: str) -> Route | None:
    for one in _OPEN:
        start = one.path[:-1]
        if method == one.method and path.startswith(start) and _NAME.fullmatch(path[len(start) :]):
            return one
    return None


def takes(route: Route, query: str) -> bool:
    """Whether a route takes this query string."""
    return not query or re.fullmatch(route.query, query) is not None
