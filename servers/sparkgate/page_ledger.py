"""Which pages a session may open: those that the web itself has named to it.

An address that a model makes up can carry anything out in its path. One that a search or a page gave can carry out only
which of those given was chosen, so following the links of a site is limited as well: in depth, and in what it can tell.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from sparkgate.results import canonical

MOST = 4000
LINKS_OF_A_PAGE = 500
MAX_DEPTH = 4
"""Links followed from a page that a search gave."""
SITE_BITS = 128.0
"""What a session may tell a site by the choice among its links; the choice among n tells log2(n) bits."""
ADDRESS_FIELDS = ("url", "pdf", "homepage", "source")
"""Fields of results and infoboxes that are addresses of pages."""


class UsedUp(Exception):
    """So many links of the site were followed that their choice could carry something out."""


@dataclass(slots=True)
class Given:
    """One address as it was given. `bits` is what opening it tells its site; nothing once it was opened."""

    address: str
    depth: int
    bits: float = 0.0


class Ledger:
    """The addresses that one session was given, the oldest forgotten first."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._given: dict[str, Given] = {}
        self._told: dict[str, float] = {}

    def found(self, addresses: Iterable[str]) -> None:
        """A search has led to these."""
        for address in addresses:
            self._add(Given(address, 0))

    def read(self, asked: str, page: str, links: Iterable[str]) -> None:
        """The page at `asked` was read, at `page` in the end; links of it that stay on its site may be opened."""
        before = self._given.get(canonical(asked))
        depth = before.depth if before else 0
        self._add(Given(page, depth))
        site = site_of(page)
        own = [link for link in links if site and site_of(link) == site][:LINKS_OF_A_PAGE]
        if depth < MAX_DEPTH:
            bits = math.log2(len(own) + 1)
            for link in own:
                self._add(Given(link, depth + 1, bits))

    def open(self, asked: str) -> str | None:
        """The address as it was given, of which `asked` may be another spelling; None for one that was not.

        The one that was given is what is asked for, so that not even the spelling of a model goes out.

        Raises:
            UsedUp: it was given by its own site, as too many before.
        """
        given = self._given.get(canonical(asked))
        if given is None:
            return None
        site = site_of(given.address)
        told = self._told.get(site, 0.0) + given.bits
        if told > SITE_BITS:
            raise UsedUp
        self._told[site] = told
        given.bits = 0.0
        return given.address

    def _add(self, new: Given) -> None:
        """What is known already is kept as it first was, unless it is nearer to a search now."""
        key = canonical(new.address)
        old = self._given.pop(key, None)
        if old is not None:
            new = Given(old.address, min(old.depth, new.depth), min(old.bits, new.bits))
        self._given[key] = new
        if len(self._given) > self._most:
            del self._given[next(iter(self._given))]


def site_of(address: str) -> str:
    """Host without `www.`, and port; "" when it has none. A host below it is another site."""
    try:
        parts = urlsplit(address)
        return f"{(parts.hostname or '').removeprefix('www.')}:{parts.port or ''}" if parts.hostname else ""
    except ValueError:
        return ""


def addresses_in(payload: Any) -> Iterator[str]:
    """The addresses of pages in results and infoboxes as they are shown."""
    for item in payload if isinstance(payload, list) else [payload]:
        if isinstance(item, dict):
            yield from (value for name in ADDRESS_FIELDS if isinstance(value := item.get(name), str))
