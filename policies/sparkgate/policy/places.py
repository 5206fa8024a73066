"""Who may be on the way: so many requests at a time to each class of destination, and so many of one session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakValueDictionary

import anyio

PLACES: Mapping[str, tuple[int, int]] = {"searxng": (8, 8), "web": (6, 3), "engine": (8, 8)}
"""Class of destination → requests of all sessions, and of one; slow pages keep no search from leaving."""
WAIT_S = 10.0


class NoPlace(Exception):
    """Others were on the way all the time; nothing left."""


class Places:
    """The places of one way out."""

    def __init__(self) -> None:
        self._all = {name: asyncio.Semaphore(most) for name, (most, _) in PLACES.items()}
        self._own: WeakValueDictionary[tuple[str, str], asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def place(self, destination: str, session: str, wait_s: float) -> AsyncIterator[None]:
        """One place while the context is open; waits for it so long at most.

        Raises:
            NoPlace: there was none.
        """
        own = self._own.setdefault((destination, session), asyncio.Semaphore(PLACES[destination][1]))
        async with AsyncExitStack() as taken:
            try:
                with anyio.fail_after(min(wait_s, WAIT_S)):
                    await taken.enter_async_context(own)
                    await taken.enter_async_context(self._all[destination])
            except TimeoutError:
                raise NoPlace from None
            yield
