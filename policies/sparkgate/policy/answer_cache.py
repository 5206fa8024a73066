"""Answers kept in memory for a short while, so that what was just asked need not be asked again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic
from weakref import WeakValueDictionary

from sparkgate.policy.permit import Permit
from sparkgate.policy.request import Request

MAX_BYTES = 8_000_000
"""Of all bodies together."""
MAX_ANSWERS = 200


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer over HTTP, decoded."""

    status: int
    headers: dict[str, str]
    body: bytes


class AnswerCache:
    """The latest answers, the one not used for longest goes first.

    Args:
        max_bytes: of all bodies together; a longer one is not kept.
        now_s: seconds of a clock that does not go back.
    """

    def __init__(self, max_bytes: int = MAX_BYTES, now_s: Callable[[], float] = monotonic) -> None:
        self.max_bytes, self.now_s = max_bytes, now_s
        self._kept: dict[Hashable, tuple[Answer, float]] = {}
        self._turns: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()
        self.size_bytes = 0

    @asynccontextmanager
    async def turn(self, key: Hashable) -> AsyncIterator[None]:
        """One at a time for each key: who waits finds the answer of the one before, if that got one."""
        lock = self._turns.setdefault(key, asyncio.Lock())
        async with lock:
            yield

    def get(self, key: Hashable) -> Answer | None:
        answer, until_s = self._kept.pop(key, (None, 0.0))
        if answer is None:
            return None
        if until_s <= self.now_s():
            self.size_bytes -= len(answer.body)
            return None
        self._kept[key] = answer, until_s
        return answer

    def put(self, key: Hashable, answer: Answer, seconds: float) -> None:
        self.drop(key)
        if len(answer.body) > self.max_bytes:
            return
        self._kept[key] = answer, self.now_s() + seconds
        self.size_bytes += len(answer.body)
        while self.size_bytes > self.max_bytes or len(self._kept) > MAX_ANSWERS:
            self.drop(next(iter(self._kept)))

    def drop(self, key: Hashable) -> None:
        if held := self._kept.pop(key, None):
            self.size_bytes -= len(held[0].body)


def key_of(permit: Permit, request: Request) -> Hashable:
    """What two requests have in common when the answer of one serves the other."""
    sent = request.method, request.url, *sorted(request.form.items()), *sorted(permit.headers.items())
    return permit.destination, permit.public, permit.max_bytes, *sent
