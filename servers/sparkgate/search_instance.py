"""One search put to one instance: its names checked, its JSON read, or its web page where that is allowed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio.to_thread

from sparkgate import searxng
from sparkgate.asking import Asking
from sparkgate.policy.egress import Refused, Sent
from sparkgate.search_query import Search
from sparkgate.searxng import Problem, problem
from sparkgate.searxng_config import cannot, categories_of, engines_of
from sparkgate.searxng_html import read_results
from sparkgate.setting_tables import SearxngSettings

DEGRADED = "degraded: read from the web page of {url}, as it refuses JSON; dates, kinds and answers may be missing"
USUAL = "general"
"""The category that SearXNG searches when none is named (searx/webadapter.py)."""


@dataclass(frozen=True, slots=True)
class Named:
    """The fields with the exact names of engines and categories, and what these cannot do."""

    fields: dict[str, str]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """What one instance found, as the JSON of SearXNG has it."""

    data: dict[str, Any]
    sent: Sent
    warnings: tuple[str, ...] = ()


async def found_by(asking: Asking, url: str, search: Search) -> Found | Problem | Refused:
    """One instance: its names are checked, as another may have other engines, and then it is asked."""
    named = await _known_names(asking, url, search)
    if isinstance(named, (Problem, Refused)):
        return named
    settings = asking.live.settings
    post = partial(searxng.search_request, url)
    sent = await _search(asking, url, search.text, named.fields, post)
    if isinstance(sent, Sent) and sent.status == 405 and settings.searxng.allow_get:
        post = partial(searxng.search_request_by_get, url)
        sent = await _search(asking, url, search.text, named.fields, post)
    if isinstance(sent, (Problem, Refused)):
        return sent
    data = searxng.read_json(sent, url)
    if not isinstance(data, Problem):
        if data.get("results"):
            return Found(data, sent, named.warnings)
        if data.get("unresponsive_engines"):
            asking.live.egress.forget(sent)
        return Found(data, sent, named.warnings or await _why_nothing(asking, url, named.fields))
    asking.live.egress.forget(sent)
    if not _may_be_read(data, settings.searxng):
        return data
    return await _found_in_page(asking, url, search.text, named, post)


def _may_be_read(problem: Problem, settings: SearxngSettings) -> bool:
    return settings.html_fallback and problem.code in ("json_disabled", "wrong_content_type")


async def _found_in_page(
    asking: Asking, url: str, text: str, named: Named, build: partial[Any]
) -> Found | Problem | Refused:
    """The same search without `format`, which gives the page that a person sees."""
    await asking.tell("asking for the web page, as JSON is off")
    fields = {name: value for name, value in named.fields.items() if name != "format"}
    sent = await _search(asking, url, text, fields, build)
    if isinstance(sent, (Problem, Refused)):
        return sent
    refused = searxng.read_status(sent, url)
    data = None if refused else await anyio.to_thread.run_sync(read_results, sent.body)
    if data is not None:
        return Found(data, sent, (*named.warnings, DEGRADED.format(url=url)))
    asking.live.egress.forget(sent)
    return refused or problem("login_page" if searxng.is_login_page(sent) else "wrong_content_type", url)


async def _search(
    asking: Asking, url: str, text: str, fields: dict[str, str], build: partial[Any]
) -> Sent | Refused | Problem:
    build = partial(build, fields=fields)
    return await asking.send(url, text, searxng.SEARCH, fields, build, asking.live.settings.search.cache_s)


async def _known_names(asking: Asking, url: str, search: Search) -> Named | Problem | Refused:
    """SearXNG asks its default engines when a name is unknown, so names are checked against /config first."""
    if not search.engines and not search.categories:
        return Named(search.fields)
    await asking.tell("checking the names of engines and categories")
    config = await asking.config(url)
    if isinstance(config, (Problem, Refused)):
        return config
    engines, categories = engines_of(config), categories_of(config)
    exact = {name: facts.name for name, facts in engines.items()}
    for kind, asked, known in (("engine", search.engines, exact), ("category", search.categories, categories)):
        if any(name.lower() not in known for name in asked):
            return problem("unknown_engines", kind=kind, known=", ".join(sorted(known.values(), key=str.lower)[:60]))
    chosen = {name.lower() for name in search.categories}
    used = [engines[name.lower()] for name in search.engines]
    used += [one for one in engines.values() if one.enabled and not chosen.isdisjoint(one.categories)]
    fields = {
        "engines": ",".join(exact[name.lower()] for name in search.engines),
        "categories": ",".join(categories[name.lower()] for name in search.categories),
    }
    named = search.fields | {name: value for name, value in fields.items() if value}
    return Named(named, tuple(cannot(used, named)))


async def _why_nothing(asking: Asking, url: str, fields: dict[str, str]) -> tuple[str, ...]:
    """What the engines that nobody named cannot do of what was asked: SearXNG leaves them out in silence."""
    if fields["pageno"] == "1" and "time_range" not in fields:
        return ()
    config = await asking.config(url)
    if isinstance(config, (Problem, Refused)):
        return ()
    used = [one for one in engines_of(config).values() if one.enabled and USUAL in one.categories]
    return tuple(cannot(used, fields))
