"""Which pages a session may open: those that the web itself has named to it.

An address that a model makes up can carry anything out in its path; one that a search engine or a page gave cannot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

from sparkgate.results import canonical

MOST = 4000
LINKS_OF_A_PAGE = 500


class Ledger:
    """The addresses that one session was given, the oldest forgotten first."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._given: dict[str, str] = {}

    def found(self, addresses: Iterable[str]) -> None:
        """A search has led to these."""
        for address in addresses:
            key = canonical(address)
            self._given.pop(key, None)
            self._given[key] = address
        while len(self._given) > self._most:
            del self._given[next(iter(self._given))]

    def linked(self, page: str, links: Iterable[str]) -> None:
        """A page that was read links to these; those of its own site count."""
        site = site_of(page)
        own = [link for link in links if site and site_of(link) == site]
        self.found(own[:LINKS_OF_A_PAGE])

    def given(self, asked: str) -> str | None:
        """The address as it was given, of which `asked` may be another spelling; None for one that was not.

        The one that was given is what is asked for, so that not even the spelling of a model goes out.
        """
        return self._given.get(canonical(asked))


def site_of(address: str) -> str:
    """Scheme-less origin without `www.`; "" when it has none. A host below it is another site."""
    try:
        parts = urlsplit(address)
        return f"{(parts.hostname or '').removeprefix('www.')}:{parts.port or ''}" if parts.hostname else ""
    except ValueError:
        return ""


def addresses_in(payload: Any) -> Iterator[str]:
    """Every text in a JSON-like tree that is a web address as a whole."""
    if isinstance(payload, str):
        if payload.startswith(("http://", "https://")) and not any(map(str.isspace, payload)):
            yield payload
    elif isinstance(payload, dict):
        for value in payload.values():
            yield from addresses_in(value)
    elif isinstance(payload, list):
        for value in payload:
            yield from addresses_in(value)
