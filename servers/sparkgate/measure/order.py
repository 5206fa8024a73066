"""What the measuring process is told on its first line, and how one request of it is written."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sparkgate.measure.chunk import Dialect
from sparkgate.measure.lengths import LengthForm, dialect, request_fields
from sparkgate.measure.plan import Cell, Plan, PlanError, from_json
from sparkgate.measure.prompts import Family, Prompt, messages

_SEED_MASK = 0x7FFFFFFF


class OrderError(Exception):
    """An order that cannot be followed; the message names the part and holds no value of it."""


@dataclass(frozen=True, slots=True)
class Order:
    """One run.

    Attributes:
        url: base of the engine, with or without "/v1".
        headers: that go with every request, such as a key.
        engine: name of the engine's kind.
        model: "" for the first that it lists.
        aliases: other names under which the same model may answer.
        context: tokens that one request may have; None when not known.
        gpu: its name, for the roofline; "" when not known.
        reference_prefill_tok_s: the fastest that is published for this model and hardware.
        weights_gib: size of the model's weights on disk.
        quantization: width of the weights, as their name tells it.
        speculation: what drafts, as the engine's command line tells it; "" for nothing, None when not known.
    """

    url: str
    engine: str
    plan: Plan
    model: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    aliases: tuple[str, ...] = ()
    context: int | None = None
    gpu: str = ""
    reference_prefill_tok_s: float | None = None
    weights_gib: float | None = None
    quantization: str | None = None
    speculation: str | None = None


_KINDS: Mapping[str, tuple[type, ...]] = {
    "url": (str,),
    "engine": (str,),
    "model": (str,),
    "headers": (dict,),
    "aliases": (list,),
    "context": (int, type(None)),
    "gpu": (str,),
    "reference_prefill_tok_s": (int, float, type(None)),
    "weights_gib": (int, float, type(None)),
    "quantization": (str, type(None)),
    "speculation": (str, type(None)),
}


def read(line: bytes) -> Order:
    """The order in one line of JSON; parts that are not known here are passed over.

    Raises:
        OrderError: it is none.
    """
    try:
        told = json.loads(line)
        for name in ("url", "engine", "plan"):
            if name not in told:
                raise OrderError(f"the order has no {name!r}")
        taken = {name: told[name] for name in _KINDS if name in told}
        for name, value in taken.items():
            if not isinstance(value, _KINDS[name]):
                raise OrderError(f"{name!r} of the order is of a wrong type")
        plan = from_json(told["plan"])
    except (ValueError, TypeError, KeyError, AttributeError, PlanError) as error:
        raise OrderError(str(error) if isinstance(error, PlanError) else "the order is not valid JSON") from error
    if "aliases" in taken:
        taken["aliases"] = tuple(map(str, taken["aliases"]))
    return Order(plan=plan, **taken)


def base_url(url: str) -> str:
    return url.rstrip("/").removesuffix("/v1")


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes the requests of a run. `numbers` gives each request a number that no other of the run has.

    Attributes:
        thinks: whether the switch for thinking may be sent: some servers refuse fields that they do not know.
    """

    engine: str
    model: str
    seed: int
    length: LengthForm
    numbers: Iterator[int] = field(default_factory=itertools.count)
    thinks: bool = True

    @property
    def path(self) -> str:
        return dialect(self.engine).path

    @property
    def dialect(self) -> Dialect:
        return "ollama" if self.path.startswith("/api/") else "openai"

    def prompt(self, words: int, family: Family, prefix_of: int | None = None) -> Prompt:
        """The next prompt of the run."""
        return Prompt(next(self.numbers), words, family, prefix_of)

    def chat(self, prompt: Prompt) -> list[dict[str, str]]:
        return messages(self.seed, prompt)

    def body(self, prompt: Prompt, tokens: int, thinking: bool | None, *, warm: bool = False) -> bytes:
        """One streamed request of that many output tokens."""
        own = request_fields(self.engine, self.length, tokens, thinking=thinking if self.thinks else None, warm=warm)
        usual: dict[str, Any] = {
            "model": self.model,
            "messages": self.chat(prompt),
            "stream": True,
            "temperature": 0,
            "seed": self.seed & _SEED_MASK,
        }
        return json.dumps({**usual, **own}, separators=(",", ":")).encode()

    def burst(self, cell: Cell, words: int, prefix_of: int | None) -> list[bytes]:
        """The requests of one burst of a cell; `prefix_of` is the number of the request whose prefix a warm one has."""
        prompts = [self.prompt(words, cell.family, prefix_of) for _ in range(cell.concurrency)]
        warm = cell.cache_mode == "warm"
        return [self.body(prompt, cell.output_tokens, cell.thinking, warm=warm) for prompt in prompts]
