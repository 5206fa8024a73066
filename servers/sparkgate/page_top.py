"""What stands on the pages of the first results, beside their snippets: the paragraphs that have most of the query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

import anyio

from sparkgate.asked_by import Tell
from sparkgate.brief import size_bytes
from sparkgate.page_ledger import Ledger
from sparkgate.pages import fetched, read
from sparkgate.policy.audit import Caller
from sparkgate.policy.egress import Refused
from sparkgate.reading.reader import Asked, Shown, Unreadable
from sparkgate.reading.shown import MAX_WORDS_CHARS
from sparkgate.search_answer import BYTES_A_TOKEN
from sparkgate.searxng import Problem
from sparkgate.services import Live, Services
from sparkgate.untrusted import Incoming

TOTAL_S = 55.0
"""For the search and all pages together; hosts give a call about a minute."""
PAGE_BYTES = 2000
"""Shown of each page."""


@dataclass(frozen=True, slots=True)
class Top:
    """Reads the pages of results for one caller, until so many seconds of time.monotonic."""

    services: Services
    caller: Caller
    ledger: Ledger
    tell: Tell
    until_s: float

    async def read(self, urls: Sequence[str], query: str) -> dict[str, dict[str, Any]]:
        """Address → `page`, the part of it that has most of the query, or `no_page`, the code for why not."""
        told: dict[str, dict[str, Any]] = {url: {"no_page": "timeout"} for url in urls}
        live = await anyio.to_thread.run_sync(self.services.live)

        async def one(url: str) -> None:
            told[url] = await self._one(live, url, query)

        with anyio.move_on_after(max(0.0, self.until_s - monotonic())):
            async with anyio.create_task_group() as group:
                for url in told:
                    group.start_soon(one, url)
        return told

    async def _one(self, live: Live, url: str, query: str) -> dict[str, Any]:
        page = await fetched(self.services, live, self.caller, url, self.tell, self.until_s)
        if isinstance(page, (Problem, Refused)):
            return {"no_page": page.code if isinstance(page, Problem) else "blocked"}
        asked = Asked(query=query[:MAX_WORDS_CHARS], budget_bytes=PAGE_BYTES)
        shown = await read(self.services, live, self.ledger, url, page, asked)
        return {"no_page": shown.code} if isinstance(shown, Unreadable) else told_of(shown)


def with_pages(shown: dict[str, Any], told: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """An answer of web_search with what is told of the pages of its first results, cleaned and inside its boundary."""
    boundary = str(shown["untrusted"]).partition(" ")[0]
    incoming = Incoming(boundary)
    results = [result | incoming.tree(told.get(result.get("url", ""), {})) for result in shown["results"]]
    more = shown | {"results": results}
    if notes := [*shown.get("notes", []), *incoming.notes()]:
        more["notes"] = notes
    more["about_tokens"] = round(size_bytes(more) / BYTES_A_TOKEN)
    return more


def told_of(shown: Shown) -> dict[str, Any]:
    """The best paragraphs, and how long the page is."""
    text = "".join(one.text for one in shown.pieces)
    return {"page": text, **({"page_chars": shown.chars} if len(text) < shown.chars else {})}
