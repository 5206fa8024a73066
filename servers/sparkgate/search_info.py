"""search_info: what each instance can do, whether it can be asked now, and if not, what stands in the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import anyio

from sparkgate import searxng
from sparkgate.asking import Asking, wait_words
from sparkgate.brief import size_bytes
from sparkgate.policy.egress import Refused, Sent
from sparkgate.refusals import refusal
from sparkgate.results import plain
from sparkgate.searxng import Problem, problem
from sparkgate.searxng_config import EngineFacts, categories_of, engines_of

MAX_BYTES = 6000
MOST_INSTANCES = 8
DEPTHS = (60, 30, 15, 8, 4, 0)
"""Names listed of each kind; the first that fits is taken."""
ON, OFF = "on", "off"


async def search_info(asking: Asking, category: str) -> dict[str, Any]:
    """Ask every instance for /config and for a search without a query, all at the same time."""
    live = asking.live
    if not live.searxng_urls:
        return refusal(problem("not_configured"))
    if live.logins.fault:
        return refusal(problem("auth_file", fault=live.logins.fault))
    urls = live.searxng_urls[:MOST_INSTANCES]
    await asking.tell(f"asking {', '.join(urls)}")
    looked: dict[str, tuple[Any, Any]] = {}

    async def look(url: str) -> None:
        looked[url] = await asking.config(url), await _probe(asking, url)

    async with anyio.create_task_group() as group:
        for url in urls:
            group.start_soon(look, url)
    if refused := next((one for pair in looked.values() for one in pair if isinstance(one, Refused)), None):
        return refusal(refused)
    found = [(url, *looked[url]) for url in urls]
    for depth in DEPTHS:
        shown = {"ok": True, "instances": [_instance(asking, *one, category, depth) for one in found]}
        if size_bytes(shown) <= MAX_BYTES:
            break
    left_out = len(live.searxng_urls) - len(urls)
    return shown | ({"instances_left_out": left_out} if left_out else {})


async def _probe(asking: Asking, url: str) -> Sent | Refused | Problem:
    return await asking.send(url, "", "/search", {"format": "json"}, lambda _: searxng.probe_request(url))


def _instance(
    asking: Asking,
    url: str,
    config: Mapping[str, Any] | Problem,
    probe: Sent | Problem,
    category: str,
    depth: int,
) -> dict[str, Any]:
    """One instance in words; empty parts are left out."""
    instances, json_on, wrong = asking.live.instances, *_diagnosis(url, config, probe)
    if wrong is None:
        instances.well(url)
    wait = instances.wait(url)
    told = {
        "place": url,
        "reachable": isinstance(probe, Sent) or not isinstance(config, Problem),
        "json": json_on,
        "problem": {"code": wrong.code, "message": wrong.message} if wrong else None,
        "not_asked_now": wait_words(wait) if wait else None,
        "searches_left_now": instances.tokens(url),
        "credentials_sent": bool(asking.live.logins.for_url(url)),
    }
    told |= {} if isinstance(config, Problem) else _abilities(config, category, depth)
    return {name: value for name, value in told.items() if value not in (None, "", [], {})}


def _diagnosis(url: str, config: Mapping[str, Any] | Problem, probe: Sent | Problem) -> tuple[str, Problem | None]:
    """(whether JSON is on, what is wrong). A 403 to the search alone is JSON off; to everything, it is a proxy."""
    if isinstance(probe, Problem):
        return "", probe
    if probe.status == 400 and searxng.content_type(probe) == "application/json":
        return ON, None
    wrong = searxng.read_status(probe, url)
    if wrong is None:
        page = "login_page" if searxng.is_login_page(probe) else "wrong_content_type"
        return "", problem(page, url)
    if wrong.code != "json_disabled":
        return "", wrong
    refused = isinstance(config, Problem) and config.code in ("json_disabled", "proxy_refused", "login_required")
    return ("", problem("proxy_refused", url)) if refused else (OFF, wrong)


def _abilities(config: Mapping[str, Any], category: str, depth: int) -> dict[str, Any]:
    """What `/config` says of it. Engines that are off are not told."""
    engines = [one for one in engines_of(config).values() if one.enabled]
    wanted = category.strip().lower()
    listed = [one for one in engines if not wanted or wanted in one.categories]
    limiter = config.get("limiter")
    limits = limiter.get("enabled") if isinstance(limiter, dict) else None
    counts = Counter(name for one in engines for name in one.categories)
    return {
        "version": plain(config.get("version"), 40),
        "limiter": (ON if limits else OFF) if isinstance(limits, bool) else "",
        "categories": {
            plain(exact, 40): counts[name] for name, exact in list(categories_of(config).items())[: max(depth, 8)]
        },
        "engines": _names(listed, depth),
        "no_pages": _names([one for one in listed if not one.paging], depth),
        "no_time_range": _names([one for one in listed if not one.time_range], depth),
    }


def _names(engines: Sequence[EngineFacts], depth: int) -> list[str] | str:
    """As many names as fit, and how many there are."""
    names = [plain(one.name, 40) for one in engines]
    if len(names) <= depth:
        return names
    return f"{depth} of {len(names)}: {', '.join(names[:depth])}" if depth else f"{len(names)}"
