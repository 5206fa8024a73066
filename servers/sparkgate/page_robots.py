"""robots.txt as RFC 9309 wants it: asked for once in a while, with a short wait, and read in the limited process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from weakref import WeakValueDictionary

from sparkgate.page_fetch import AGENT, MAX_HOPS, REDIRECTS, Address, Fetcher, joined
from sparkgate.page_problems import problem
from sparkgate.policy.egress import Sent
from sparkgate.reading.reader import Reader, Unreadable
from sparkgate.searxng import Problem

MAX_BYTES = 512_000
"""RFC 9309 asks for 500 kibibytes at least."""
MAX_TABLE_BYTES = 2_000_000
KEPT_S, KEPT_UNKNOWN_S = 3600.0, 60.0
MOST = 200
EVERYTHING = b""
UNKNOWN = "its robots.txt could not be read"


@dataclass(frozen=True, slots=True)
class _Known:
    """The rules of an origin; None when they could not be had."""

    rules: bytes | None
    until_s: float


class Robots:
    """The rules of sites, shared by all sessions.

    A site whose rules cannot be had is read, and that is told: a person asked for this one page, and nobody crawls.
    """

    def __init__(self, reader: Reader, now_s: Callable[[], float] = monotonic) -> None:
        self._reader, self._now_s = reader, now_s
        self._known: dict[str, _Known] = {}
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def objection(self, fetcher: Fetcher, address: Address) -> str | Problem:
        """ "" when the page may be read; a problem when not; words when that is not known."""
        rules = await self._rules(fetcher, address)
        if rules is None:
            return UNKNOWN
        if not rules.strip():
            return ""
        told = await self._reader.robots(rules, address.web.url, AGENT)
        if isinstance(told, Unreadable):
            return UNKNOWN
        return "" if told.allowed else problem("robots", host=address.web.host)

    async def _rules(self, fetcher: Fetcher, address: Address) -> bytes | None:
        origin = address.web.origin
        async with self._turns.setdefault(origin, asyncio.Lock()):
            known = self._known.pop(origin, None)
            if known is None or known.until_s <= self._now_s():
                rules = await self._ask(fetcher, address)
                known = _Known(rules, self._now_s() + (KEPT_UNKNOWN_S if rules is None else KEPT_S))
            self._known[origin] = known
        while len(self._known) > MOST or sum(len(one.rules or b"") for one in self._known.values()) > MAX_TABLE_BYTES:
            del self._known[next(iter(self._known))]
        return known.rules

    async def _ask(self, fetcher: Fetcher, address: Address) -> bytes | None:
        """What the site says, also where a redirect leads to; a site that has no such file allows everything."""
        url, at = f"{address.web.origin}/robots.txt", address
        for hop in range(MAX_HOPS + 1):
            found = fetcher.next(url, at if hop else None)
            if isinstance(found, Problem):
                return None
            at = found
            sent = await fetcher.send(at, fetcher.settings.robots_timeout_s, MAX_BYTES, 0.0)
            if not isinstance(sent, Sent) or sent.status >= 500:
                return None
            location = sent.headers.get("location", "")
            if sent.status not in REDIRECTS or not location:
                return sent.body if sent.status == 200 else EVERYTHING
            url = joined(at.web.url, location)
        return None
