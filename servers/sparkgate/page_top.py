"""What stands on the pages of the first results, beside their snippets: the paragraphs that have most of the query."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anyio

from sparkgate.asked_by import Tell
from sparkgate.brief import size_bytes
from sparkgate.page_fetch import Page
from sparkgate.page_ledger import Ledger
from sparkgate.pages import fetched, made_text
from sparkgate.policy.audit import Caller
from sparkgate.policy.egress import Refused
from sparkgate.reading.reader import Read, Unreadable
from sparkgate.search_answer import BYTES_A_TOKEN
from sparkgate.searxng import Problem
from sparkgate.services import Live, Services
from sparkgate.untrusted import Incoming

TOTAL_S = 25.0
"""For all pages together; a host gives the whole search about a minute."""
PAGE_BYTES = 2000
"""Shown of each page."""
WORD = re.compile(r"\w{3,}")


@dataclass(frozen=True, slots=True)
class Top:
    """Reads the pages of results for one caller."""

    services: Services
    caller: Caller
    ledger: Ledger
    tell: Tell

    async def read(self, urls: Sequence[str], query: str) -> dict[str, dict[str, Any]]:
        """Address → `page`, the part of it that has most of the query, or `no_page`, the code for why not."""
        told: dict[str, dict[str, Any]] = {url: {"no_page": "timeout"} for url in urls}
        live = await anyio.to_thread.run_sync(self.services.live)

        async def one(url: str) -> None:
            told[url] = await self._one(live, url, query)

        with anyio.move_on_after(TOTAL_S):
            async with anyio.create_task_group() as group:
                for url in told:
                    group.start_soon(one, url)
        return told

    async def _one(self, live: Live, url: str, query: str) -> dict[str, Any]:
        page = await fetched(self.services, live, self.caller, url, self.tell)
        if isinstance(page, (Problem, Refused)):
            return {"no_page": page.code if isinstance(page, Problem) else "blocked"}
        read = await made_text(self.services, live, page)
        if isinstance(read, Unreadable):
            return {"no_page": read.code}
        self.ledger.linked(page.url, read.links)
        return told_of(page, read, query)


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


def told_of(page: Page, read: Read, query: str) -> dict[str, Any]:
    """The best paragraphs, and how long the page is."""
    text = best(read.markdown, query, PAGE_BYTES)
    return {"page": text, **({"page_chars": len(read.markdown)} if len(text) < len(read.markdown) else {})}


def best(text: str, query: str, size_bytes: int) -> str:
    """The paragraphs of a text that hold most words of the query, in their order, as many as fit.

    A heading goes with what follows it. Of equal ones the first counts.
    """
    wanted = set(WORD.findall(query.casefold()))
    pieces = _pieces(text)
    ranked = sorted(range(len(pieces)), key=lambda place: (-_score(pieces[place], wanted), place))
    kept, left = set[int](), size_bytes
    for place in ranked:
        left -= len(pieces[place].encode()) + 2
        if left < 0:
            break
        kept.add(place)
    if not kept:
        return pieces[ranked[0]].encode()[:size_bytes].decode("utf-8", "ignore") if pieces else ""
    shown = [(" […]\n\n" if place - 1 not in kept and place else "") + pieces[place] for place in sorted(kept)]
    return "\n\n".join(shown)


def _pieces(text: str) -> list[str]:
    """Paragraphs, each with the heading right before it."""
    pieces: list[str] = []
    heading = ""
    for paragraph in filter(None, (one.strip() for one in re.split(r"\n\s*\n", text))):
        if paragraph.startswith("#") and "\n" not in paragraph:
            heading = paragraph
            continue
        pieces.append(f"{heading}\n\n{paragraph}" if heading else paragraph)
        heading = ""
    return [*pieces, heading] if heading else pieces


def _score(piece: str, wanted: set[str]) -> int:
    return len(wanted & set(WORD.findall(piece.casefold())))
