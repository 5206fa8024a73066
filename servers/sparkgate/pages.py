"""read_page: one page of the web as text, in parts that a small model can read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import anyio.to_thread
from mcp.server.context import ServerRequestContext

from sparkgate.asked_by import Tell, teller, with_host
from sparkgate.page_answer import Asked, answer
from sparkgate.page_fetch import Fetcher, Page
from sparkgate.page_ledger import Ledger
from sparkgate.page_problems import problem
from sparkgate.policy.audit import Caller
from sparkgate.policy.egress import Refused
from sparkgate.reading.reader import Body, Read, Unreadable
from sparkgate.refusals import refusal
from sparkgate.searxng import Problem
from sparkgate.services import Live, NotReady, Services
from sparkgate.toolset import Arguments, Parameter, Tool, failure

MAX_START = 100_000_000
PARAMETERS = (
    Parameter("url", "string", "Address of the page, as a search or a page of the same site gave it.", required=True),
    Parameter("start", "integer", "Character to begin at.", default=1, low=1, high=MAX_START),
    Parameter(
        "max_chars", "integer", "Characters to show, up to 40000; 0 for about 8 KB.", default=0, low=0, high=40_000
    ),
    Parameter("section", "string", "Show this section: a heading of the page, or a part of one.", default=""),
    Parameter("find", "string", "Show only the places where these words stand.", default=""),
)
LITE = (
    Parameter("url", "string", "From a search.", required=True),
    Parameter("start", "integer", "Character to begin at.", default=1, low=1, high=MAX_START),
    Parameter("find", "string", "Only places with these words.", default=""),
)


async def read_page(
    services: Services, caller: Caller, ledger: Ledger, arguments: Arguments, progress: Tell
) -> dict[str, Any]:
    """The page, or an answer with `ok: false`, a code and the way out."""
    try:
        live = await anyio.to_thread.run_sync(services.live)
    except NotReady as error:
        return failure(error.code, str(error))
    url = arguments["url"].strip()
    if live.settings.pages.links == "results":
        given = ledger.given(url)
        if given is None:
            return refusal(problem("not_from_results"))
        url = given
    page = await fetched(services, live, caller, url, progress)
    if not isinstance(page, Page):
        return refusal(page, "address")
    await progress(f"reading {len(page.body):,} bytes")
    read = await made_text(services, live, page)
    if isinstance(read, Unreadable):
        return failure(read.code, read.message)
    ledger.found([page.url])
    ledger.linked(page.url, read.links)
    return answer(page, read, Asked.of(arguments), live.settings.pages.answer_bytes)


async def fetched(services: Services, live: Live, caller: Caller, url: str, progress: Tell) -> Page | Problem | Refused:
    services.reader.warm()
    robots = services.robots.objection if live.settings.pages.robots else None
    return await Fetcher(live.egress, caller, live.settings.pages, robots, progress).page(url)


async def made_text(services: Services, live: Live, page: Page) -> Read | Unreadable:
    """The text of the page, made in a limited process, with what is to be said of the way to it."""
    read = await services.reader.read(Body(page.body, page.content_type, page.url), live.settings.pages.read_s)
    return read if isinstance(read, Unreadable) else replace(read, notes=(*page.notes, *read.notes))


def read_page_tool(services: Services, caller: Caller, ledger: Ledger, lite: bool = False) -> Tool:
    parameters = LITE if lite else PARAMETERS
    unasked = {one.name: one.default for one in PARAMETERS}

    async def handle(arguments: Arguments, context: ServerRequestContext[Any, Any]) -> dict[str, Any]:
        who = with_host(caller, context)
        return await read_page(services, who, ledger, {**unasked, **arguments}, teller(context))

    return Tool(
        name="read_page",
        title="Read a page",
        meaning="Read a page that a search found."
        if lite
        else "Read a web page or PDF as text: one that a search of this session found, or that a page of the same site "
        "links to. Long pages come in parts; `next` says where to go on.",
        parameters=parameters,
        handler=handle,
        read_only=True,
        destructive=False,
        idempotent=True,
        open_world=True,
    )
