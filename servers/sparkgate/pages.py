"""read_page: one page of the web as text, in parts that a small model can read."""

from __future__ import annotations

from time import monotonic
from typing import Any

import anyio.to_thread
from mcp.server.context import ServerRequestContext

from sparkgate.asked_by import Tell, teller, with_host
from sparkgate.page_answer import answer, asked_of
from sparkgate.page_fetch import Fetcher, Page
from sparkgate.page_ledger import Ledger, UsedUp
from sparkgate.page_problems import problem
from sparkgate.policy.audit import Caller
from sparkgate.policy.egress import Refused
from sparkgate.policy.web_address import MAX_CHARS
from sparkgate.reading.reader import Asked, Body, Shown, Unreadable
from sparkgate.refusals import refusal
from sparkgate.searxng import Problem
from sparkgate.services import Live, NotReady, Services
from sparkgate.setting_tables import PagesSettings
from sparkgate.toolset import Arguments, Parameter, Tool, failure

MAX_START = 100_000_000
TOTAL_S = 40.0
"""For robots.txt, redirects and reading together; hosts give a call about a minute."""
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
    url, until_s = arguments["url"].strip(), monotonic() + TOTAL_S
    address = opened(ledger, url, live.settings.pages)
    if isinstance(address, Problem):
        return refusal(address)
    page = await fetched(services, live, caller, address, progress, until_s)
    if not isinstance(page, Page):
        return refusal(page, "address")
    await progress(f"reading {len(page.body):,} bytes")
    asked = asked_of(arguments, live.settings.pages.answer_bytes)
    shown = await read(services, live, ledger, url, page, asked)
    if isinstance(shown, Unreadable):
        return failure(shown.code, shown.message)
    return answer(url, page, shown, asked)


def opened(ledger: Ledger, asked: str, settings: PagesSettings) -> str | Problem:
    """The address to ask for: the one that the web gave, where nothing else may be asked for."""
    if len(asked) > MAX_CHARS:
        return problem("too_long", most=MAX_CHARS)
    if settings.links != "results":
        return asked
    try:
        return ledger.open(asked) or problem("not_from_results")
    except UsedUp:
        return problem("links_used_up")


async def fetched(
    services: Services, live: Live, caller: Caller, url: str, progress: Tell, until_s: float
) -> Page | Problem | Refused:
    services.reader.warm()
    robots = services.robots.objection if live.settings.pages.robots else None
    return await Fetcher(live.egress, caller, live.settings.pages, until_s, robots, progress).page(url)


async def read(
    services: Services, live: Live, ledger: Ledger, url: str, page: Page, asked: Asked
) -> Shown | Unreadable:
    """What is asked of a page, found in a limited process; where its links lead to may be opened from now on."""
    body = Body(page.body, page.content_type, page.url)
    shown = await services.reader.read(body, asked, live.settings.pages.read_s)
    if isinstance(shown, Shown):
        ledger.read(url, page.url, shown.links)
    return shown


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
