"""The event loop of the door process: sockets that wait, and a look at the clock each second.

asyncio would do it as well, and costs 7 MB more of the memory that models need.
"""

from __future__ import annotations

import select
from collections.abc import Callable
from time import monotonic

SWEEP_S = 1.0
_READ, _WRITE, _GONE = select.EPOLLIN, select.EPOLLOUT, select.EPOLLHUP


class Loop:
    """Calls what waits, until `ended` is set; `sweep` once in a while."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._channels: dict[int, Channel] = {}
        self.ended = False
        self.now_s = monotonic()

    def run(self, sweep: Callable[[], None], settle: Callable[[], None]) -> None:
        """`settle` is called after each round of events."""
        swept_s = self.now_s
        while not self.ended:
            ready = self._epoll.poll(max(0.0, swept_s + SWEEP_S - monotonic()))
            self.now_s = monotonic()
            # Whom an event is for: a descriptor may be another's before its turn comes.
            for channel, events in [(self._channels.get(descriptor), events) for descriptor, events in ready]:
                if channel:
                    channel.called(events)
            if self.now_s - swept_s >= SWEEP_S:
                swept_s = self.now_s
                sweep()
            settle()

    def place(self, descriptor: int, old: int, new: int, channel: Channel) -> None:
        """Wait for what `new` says in place of what `old` said."""
        if not old:
            self._epoll.register(descriptor, new)
            self._channels[descriptor] = channel
        elif not new:
            self._epoll.unregister(descriptor)
            del self._channels[descriptor]
        else:
            self._epoll.modify(descriptor, new)


class Channel:
    """One descriptor in the loop; `on_read` and `on_write` are called while it is wanted.

    A fault of theirs goes to `on_fault`, and through the loop where there is none.
    """

    def __init__(
        self,
        loop: Loop,
        descriptor: int,
        on_read: Callable[[], None],
        on_write: Callable[[], None] = lambda: None,
        on_fault: Callable[[Exception], None] | None = None,
    ) -> None:
        self._loop, self._descriptor, self._mask = loop, descriptor, 0
        self._on_read, self._on_write, self._on_fault = on_read, on_write, on_fault

    def want(self, *, read: bool = False, write: bool = False, gone: bool = False) -> None:
        """`gone`: `on_read` is called when the other side is gone, though nothing is read any more."""
        mask = (_READ if read else 0) | (_WRITE if write else 0) | (_GONE if gone else 0)
        if mask != self._mask:
            self._loop.place(self._descriptor, self._mask, mask, self)
            self._mask = mask

    def called(self, events: int) -> None:
        """An end or a fault is seen by reading and by writing; what is not wanted any more is left out."""
        try:
            if events & ~_WRITE and self._mask & (_READ | _GONE):
                self._on_read()
            if events & ~_READ and self._mask & _WRITE:
                self._on_write()
        except Exception as error:
            if self._on_fault is None:
                raise
            self._on_fault(error)
