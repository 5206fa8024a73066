"""Prompts of an exact length without a tokenizer, and such that no two of them share a beginning.

A prompt is a nonce, filler words, a tail and an instruction. An engine's prefix cache compares from the first token on,
so the nonce stands first: two requests differ from there. A warm prompt takes the nonce and the filler of another
request, and only tail and instruction are its own.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

_WORDS = """the of and to in is that for it was on are as with his they at be this from have or by one had not but
what all when we there can an your which if do will each about how up out then she some so other into more her like
him see time no make than first its who now people"""
VOCABULARY = tuple(_WORDS.split())
"""64 words, each one token with and without a leading space in the 17 tokenizers of llama.cpp's own test set."""

NONCE_WORDS = 16
TAIL_WORDS = 8
MAX_REFINEMENTS = 4
TOLERANCE_TOKENS = 1

Family = Literal["prose", "code", "json", "repeat", "long_form"]
FAMILIES: tuple[Family, ...] = get_args(Family)

INSTRUCTIONS: Mapping[Family, str] = {
    "prose": "Ignore the words above. Describe a walk through an old harbour town, in plain prose without headings.",
    "code": "Ignore the words above. Write a Python module with a priority queue, an LRU cache and tests for both.",
    "json": "Ignore the words above. Write a JSON array of invented book records with title, author, year and tags.",
    "repeat": "Ignore the words above. Write the line 'red green blue yellow' again and again, one copy a line.",
    "long_form": (
        "Ignore the words above. Write at least 3000 words on the history of sailing ships: thirty sections of a "
        "hundred words or more, each with a number. Do not sum up and do not stop before section thirty is done."
    ),
}
"""What is asked for; speculation depends on it. `long_form` is for servers that cannot forbid an early end."""


class PromptError(Exception):
    """A prompt that cannot be built as asked; the message says why."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request of a run.

    Attributes:
        number: of the request in its run, counted from 0, warm-up included; no two requests share it.
        words: filler words between nonce and tail.
        prefix_of: number of the request whose nonce and filler it repeats, for a warm prefix; None for its own.
    """

    number: int
    words: int
    family: Family = "prose"
    prefix_of: int | None = None


def nonce(seed: int, number: int) -> tuple[str, ...]:
    """16 words that no other request begins with; `seed` is the run's 128-bit number.

    The first word differs among any 64 requests in a row of a run and the first two among 4,096; the others are 84 bits
    of a hash, so that runs do not repeat each other. Raises PromptError for numbers out of range.
    """
    if not 0 <= seed < 1 << 128 or number < 0:
        raise PromptError("a nonce needs a seed of 128 bits and a request number from 0 on")
    start = _hash(seed, "order", 0)
    place = (start + number * (start >> 16 | 1)) % 4096
    drawn = _hash(seed, "nonce", number)
    rest = (VOCABULARY[drawn >> 6 * i & 63] for i in range(NONCE_WORDS - 2))
    return VOCABULARY[place % 64], VOCABULARY[place // 64], *rest


def filler(seed: int, number: int, words: int) -> tuple[str, ...]:
    """`words` words in an order of their own; every 64 hold each word once, so that equal lengths cost equal tokens."""
    drawn = random.Random(_hash(seed, "filler", number))
    blocks = (sorted(VOCABULARY, key=lambda _: drawn.random()) for _ in range(-(-words // 64)))
    return tuple(word for block in blocks for word in block)[:words]


def text(seed: int, prompt: Prompt) -> str:
    """The whole text of a prompt. Raises PromptError for a negative number of words."""
    if prompt.words < 0:
        raise PromptError("a prompt cannot have fewer than 0 filler words")
    own = prompt.number if prompt.prefix_of is None else prompt.prefix_of
    start = (*nonce(seed, own), *filler(seed, own, prompt.words))
    tail = nonce(seed, prompt.number)[:TAIL_WORDS]
    return f"{' '.join((*start, *tail))}\n\n{INSTRUCTIONS[prompt.family]}"


def messages(seed: int, prompt: Prompt) -> list[dict[str, str]]:
    """The messages of a chat request; one user message, so that the nonce is the first text of all."""
    return [{"role": "user", "content": text(seed, prompt)}]


@dataclass(frozen=True, slots=True)
class Fit:
    """prompt tokens = a · filler words + b; `b` holds template, nonce, tail and instruction."""

    a: float
    b: float

    def tokens(self, words: int) -> float:
        return self.a * words + self.b

    def words(self, tokens: int) -> int:
        """Filler words for a prompt of about that many tokens; 0 when even none is too long."""
        return max(0, round((tokens - self.b) / self.a))


def least_squares(seen: tuple[tuple[int, int], ...]) -> Fit | None:
    """The line through (words, tokens); None while it is not fixed, or does not rise."""
    if len({words for words, _ in seen}) < 2:
        return None
    mean_words = sum(words for words, _ in seen) / len(seen)
    mean_tokens = sum(tokens for _, tokens in seen) / len(seen)
    spread = sum((words - mean_words) ** 2 for words, _ in seen)
    a = sum((words - mean_words) * (tokens - mean_tokens) for words, tokens in seen) / spread
    return Fit(a, mean_tokens - a * mean_words) if a > 0 else None


@dataclass(frozen=True, slots=True)
class Calibration:
    """The search for the number of filler words that makes a prompt of `target_tokens`, one request at a time.

    Send a request of `next_words()` words and one output token, and hand what the engine counted to `observed`, until
    `next_words()` is None: at most 5 requests. Each needs a request number of its own.

    Attributes:
        seen: (filler words, prompt tokens as the engine counted them), in order.
        known: the fit of an earlier length of the same model, template and family; saves requests.
    """

    target_tokens: int
    seen: tuple[tuple[int, int], ...] = ()
    known: Fit | None = None

    def observed(self, words: int, prompt_tokens: int) -> Calibration:
        """The search after one more answer."""
        return replace(self, seen=(*self.seen, (words, prompt_tokens)))

    @property
    def best(self) -> tuple[int, int] | None:
        """The (words, tokens) nearest to the target; None before the first answer."""
        return min(self.seen, key=lambda one: abs(one[1] - self.target_tokens), default=None)

    @property
    def error_tokens(self) -> int | None:
        """How many tokens the best is too long, or too short when negative."""
        return None if self.best is None else self.best[1] - self.target_tokens

    @property
    def fit(self) -> Fit | None:
        """The line through all that was seen; the known one until two lengths were seen."""
        return least_squares(self.seen) or (self.known if len({words for words, _ in self.seen}) < 2 else None)

    @property
    def exact(self) -> bool:
        return self.error_tokens is not None and abs(self.error_tokens) <= TOLERANCE_TOKENS

    @property
    def fault(self) -> str:
        """Why this length cannot be had from this engine, in one sentence; "" while nothing speaks against it."""
        if self.fit is None and len({words for words, _ in self.seen}) > 1:
            return "the prompt tokens it counts do not grow with the prompt: it leaves out cached ones, or cuts prompts"
        if self.best is not None and self.best[0] == 0 and self.best[1] > self.target_tokens + TOLERANCE_TOKENS:
            return f"template and instruction alone take {self.best[1]} tokens: ask for longer prompts"
        return ""

    def next_words(self) -> int | None:
        """Filler words of the next request; None when it is done: exact, impossible, or after 4 refinements."""
        if self.exact or self.fault or len(self.seen) > MAX_REFINEMENTS:
            return None
        words = self._guess()
        return None if words in {tried for tried, _ in self.seen} else words

    def _guess(self) -> int:
        if self.best is None:
            return self.known.words(self.target_tokens) if self.known else min(16, self.target_tokens)
        words, tokens = self.best
        # Half the way at first: words may cost two tokens, and a prompt over the context is refused.
        tokens_per_word = self.fit.a if self.fit else 2.0
        return max(0, words + round((self.target_tokens - tokens) / tokens_per_word))


def template_tokens(fit: Fit, family: Family) -> int:
    """About how many tokens of a prompt are neither nonce, tail nor filler nor instruction: those all prompts share."""
    own = NONCE_WORDS + TAIL_WORDS + len(INSTRUCTIONS[family].split())
    return max(0, round(fit.b - fit.a * own))


def _hash(seed: int, purpose: str, number: int) -> int:
    told = f"{seed:032x} {purpose} {number}".encode()
    return int.from_bytes(hashlib.sha256(told).digest(), "big")
