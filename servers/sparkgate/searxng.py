"""SearXNG's HTTP interface as a client meets it: requests, answers, and what each refusal means.

Facts behind the tables: searx/webapp.py, searx/webadapter.py and searx/webutils.py of SearXNG (2025.8 to 2026.8).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from sparkgate.policy.egress import Failed, Request, Sent
from sparkgate.results import as_list, plain
from sparkgate.version import __version__

_LANGUAGES = """
    aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da
    de dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz
    ia id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln
    lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi
    pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti
    tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu ckb dsb fil gsw hsb
"""
LANGUAGES = frozenset(_LANGUAGES.split())
"""ISO 639-1, and the longer codes SearXNG uses."""
SITE = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)(?:\.(?!-)[a-z0-9-]{1,63}(?<!-))+")
REGION = re.compile(r"[A-Z]{2}")
HEADERS = {
    "Accept": "application/json, text/html;q=0.9, */*;q=0.8",
    "Accept-Language": "en",
    "User-Agent": f"sparkgate/{__version__}",
}
JSON_OFF = 'add "json" to `formats` under `search:` in its settings.yml:\n  search:\n    formats: [html, json]'
LOGIN_WORDS = ("login", "signin", "sign-in", "sso", "auth", "oauth")


@dataclass(frozen=True, slots=True)
class Problem:
    """Why no results: a stable code, what happened, what to do."""

    code: str
    message: str


PROBLEMS: dict[str, str] = {
    "not_configured": "No SearXNG is known. Run `sparkgate searxng up` for a private one, or set searxng.url in "
    "config.toml.",
    "connection_refused": "Nothing answers at {place}. Start SearXNG (`sparkgate searxng up`) or correct searxng.url; "
    "inside a container, localhost is the container itself.",
    "unknown_host": "The name of {place} cannot be looked up. Correct searxng.url in config.toml.",
    "timeout": "SearXNG at {place} did not answer in time. Try again, or raise searxng.timeout_s in config.toml.",
    "json_disabled": f"SearXNG at {{place}} refuses JSON (403). On that machine {JSON_OFF}\nthen restart it. A proxy "
    "that asks for a login can answer 403 as well.",
    "rate_limited": "SearXNG at {place} limits this client (429). Wait a minute; on a private instance set "
    "`limiter: false` under `server:`, or add this machine to pass_ip in limiter.toml.",
    "login_page": "A login page stands before SearXNG at {place}. Use an address that reaches SearXNG itself.",
    "redirected": "SearXNG at {place} answered with a redirect to {target}; it was not followed, as that would carry "
    "the query elsewhere. Set searxng.url to the final address.",
    "wrong_content_type": "{place} answered with a web page instead of JSON. Check that searxng.url is the base "
    f"address of SearXNG, and {JSON_OFF}",
    "not_found": "There is no /search at {place} (404). Set searxng.url to the base address of SearXNG, with its "
    "path if it has one.",
    "post_refused": "A proxy before SearXNG at {place} refuses POST (405). Allow POST to /search there; or set "
    "searxng.allow_get = true, and accept that queries stand in its access log.",
    "bad_request": "SearXNG at {place} refused the parameters of this search (400).",
    "server_error": "SearXNG at {place} failed ({status}). Its own log says why; try again, or other engines.",
    "invalid_answer": "SearXNG at {place} sent something that is not the JSON of a search.",
    "too_large": "The answer of SearXNG at {place} is longer than searxng.max_answer_bytes; ask for less.",
    "network": "The connection to SearXNG at {place} broke.",
    "engines_failed": "No results, and these search engines failed: {engines}. Try again later, or choose others.",
    "busy": "This machine has no room for another connection now. Try again in a minute.",
    "bad_site": "{site!r} is no host name. sites takes names such as docs.vllm.ai, or -pinterest.com to leave one out.",
    "unknown_engines": "This SearXNG has no such {kind}; nothing was sent. It has {known}.",
}

FAILURE_CODES: dict[str, str] = {
    "connect": "connection_refused",
    "timeout": "timeout",
    "name_lookup": "unknown_host",
    "too_large": "too_large",
    "bad_encoding": "invalid_answer",
    "bad_url": "not_configured",
    "exhausted": "busy",
}
STATUS_CODES: dict[int, str] = {
    400: "bad_request",
    401: "login_page",
    403: "json_disabled",
    404: "not_found",
    405: "post_refused",
    407: "login_page",
    429: "rate_limited",
}


def problem(code: str, base_url: str = "", **facts: object) -> Problem:
    """The problem of this code, told for the SearXNG at `base_url`."""
    return Problem(code, PROBLEMS[code].format(place=base_url.rstrip("/"), **facts))


def language_of(text: str) -> str | None:
    """A language as SearXNG takes it: "" for any, `de`, `pt-BR`, `all`; None when it is none.

    Only known languages pass: five free letters a call would be a way to carry something out.
    """
    language, _, region = text.strip().replace("_", "-").partition("-")
    language, region = language.lower(), region.upper()
    if not region:
        return language if language in LANGUAGES or language in ("", "all", "auto") else None
    return f"{language}-{region}" if language in LANGUAGES and REGION.fullmatch(region) else None


def site_of(text: str) -> str | None:
    """A host name, with `-` before one to leave out; None when it is none. `www.` is no part of a site."""
    sign = "-" if text.startswith("-") else ""
    host = text.removeprefix("-").strip().lower().removeprefix("https://").removeprefix("http://")
    host = host.rstrip("/").removeprefix("www.")
    return f"{sign}{host}" if SITE.fullmatch(host) and len(host) <= 253 else None


def search_request(base_url: str, query: str, fields: Mapping[str, str]) -> Request:
    """POST, so that the query stands in no URL and no access log."""
    return Request(url=f"{base_url.rstrip('/')}/search", form={"q": query, **fields})


def search_request_by_get(base_url: str, query: str, fields: Mapping[str, str]) -> Request:
    """The same search with its fields in the URL, for a proxy that lets nothing else through."""
    posted = search_request(base_url, query, fields)
    return Request(url=f"{posted.url}?{urlencode(posted.form)}", method="GET")


def config_request(base_url: str) -> Request:
    """Engines and categories of the instance; carries nothing of the caller."""
    return Request(url=f"{base_url.rstrip('/')}/config", method="GET")


def read_failure(failed: Failed, base_url: str) -> Problem:
    """A send without an answer → the problem."""
    return problem(FAILURE_CODES.get(failed.kind, "network"), base_url)


def read_json(sent: Sent, base_url: str) -> dict[str, Any] | Problem:
    """The JSON object of an answer, or what stands in its way."""
    content_type = sent.headers.get("content-type", "").partition(";")[0].strip().lower()
    if 300 <= sent.status < 400:
        return _redirect(sent.headers.get("location", ""), base_url)
    if sent.status >= 500:
        return problem("server_error", base_url, status=sent.status)
    if sent.status != 200:
        return problem(STATUS_CODES.get(sent.status, "server_error"), base_url, status=sent.status)
    if content_type != "application/json":
        login = re.search(rb"type\s*=\s*[\"']?password", sent.body[:200_000], re.IGNORECASE)
        return problem("login_page" if login else "wrong_content_type", base_url)
    try:
        data = json.loads(sent.body.decode("utf-8", "replace"), parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return problem("invalid_answer", base_url)
    return data if isinstance(data, dict) else problem("invalid_answer", base_url)


def _redirect(location: str, base_url: str) -> Problem:
    """Only the host of the target is told: the rest of it may hold the query."""
    target = urlsplit(location)
    words = re.split(r"[^a-z0-9-]+", f"{target.hostname or ''} {target.path}".lower())
    if any(word in LOGIN_WORDS for word in words):
        return problem("login_page", base_url)
    return problem("redirected", base_url, target=target.hostname or "another path of the same host")


# -- what is in an answer


def read_unresponsive(item: object) -> dict[str, str] | None:
    """`[engine, reason]` → a record."""
    if not isinstance(item, (list, tuple)) or len(item) < 2:
        return None
    return {"engine": plain(item[0], 60), "reason": plain(item[1], 120)}


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What `/config` tells of one engine. An instance that does not say whether it can do something is taken to."""

    name: str
    categories: frozenset[str]
    enabled: bool
    paging: bool
    time_range: bool


def engines_of(config: Mapping[str, Any]) -> dict[str, EngineFacts]:
    """`/config` → engines by lower-cased name."""
    found = {}
    for entry in as_list(config.get("engines")):
        if isinstance(entry, dict) and isinstance(name := entry.get("name"), str):
            found[name.lower()] = EngineFacts(
                name,
                frozenset(one.lower() for one in as_list(entry.get("categories")) if isinstance(one, str)),
                entry.get("enabled") is not False,
                entry.get("paging") is not False,
                entry.get("time_range_support") is not False,
            )
    return found


def categories_of(config: Mapping[str, Any]) -> dict[str, str]:
    """`/config` → categories, each lower-cased name → the exact one."""
    return {name.lower(): name for name in as_list(config.get("categories")) if isinstance(name, str)}


def cannot(asked: Iterable[EngineFacts], fields: Mapping[str, str]) -> list[str]:
    """What the chosen engines cannot do of what is asked. SearXNG leaves such an engine out and says nothing."""
    engines = list(asked)
    lacking = (
        ("has no further pages", fields.get("pageno", "1") != "1", [one.name for one in engines if not one.paging]),
        ("cannot filter by time", "time_range" in fields, [one.name for one in engines if not one.time_range]),
    )
    return [
        f"{', '.join(sorted(names)[:12])} {told}, and is not asked"
        for told, wanted, names in lacking
        if wanted and names
    ]
