"""SearXNG's HTTP interface as a client meets it: requests, answers, and what each refusal means.

Facts behind the tables: searx/webapp.py, searx/webadapter.py and searx/webutils.py of SearXNG (2025.8 to 2026.8).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlencode, urlsplit

from sparkgate.instances import LIMITED_S
from sparkgate.policy.egress import Failed, Request, Sent
from sparkgate.version import __version__

SITE = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)(?:\.(?!-)[a-z0-9-]{1,63}(?<!-))+")
HEADERS = {
    "Accept": "application/json, text/html;q=0.9, */*;q=0.8",
    "Accept-Language": "en",
    "User-Agent": f"sparkgate/{__version__}",
}
JSON_OFF = 'add "json" to `formats` under `search:` in its settings.yml:\n  search:\n    formats: [html, json]'
LOGIN_WORDS = (
    "login",
    "signin",
    "sign-in",
    "sso",
    "auth",
    "oauth",
    "oauth2",
    "authorize",
    "authelia",
    "outpost",
    "saml",
)
LOGIN_PAGE = re.compile(
    rb"""type\s*=\s*["']?password"""
    rb"""|<title>[^<]{0,60}\b(?:sign[ -]?in|log[ -]?in|single sign-on|authelia|authentik|keycloak)\b"""
    rb"""|<form[^>]{0,300}\baction\s*=\s*["']?[^"'\s>]{0,200}[/.](?:login|signin|sso|saml|oauth2?|authorize)\b""",
    re.IGNORECASE,
)
PROXY_PAGE = re.compile(
    rb"\b(?:nginx|openresty|apache|caddy|traefik|haproxy|envoy|cloudflare|varnish)\b", re.IGNORECASE
)
"""How the page of a proxy that refuses is signed; SearXNG's own is not."""
LOOKED_AT_BYTES = 200_000


@dataclass(frozen=True, slots=True)
class Problem:
    """Why no results: a stable code, what happened, what to do. `rest_s`: how long the instance wants to be let be."""

    code: str
    message: str
    rest_s: float | None = None


PROBLEMS: dict[str, str] = {
    "not_configured": "No SearXNG is known. Run `sparkgate searxng up` for a private one, or set searxng.url in "
    "config.toml.",
    "connection_refused": "Nothing answers at {place}. Start SearXNG (`sparkgate searxng up`) or correct searxng.url; "
    "inside a container, localhost is the container itself.",
    "unknown_host": "The name of {place} cannot be looked up. Correct searxng.url in config.toml.",
    "timeout": "SearXNG at {place} did not answer in time. Try again, or raise searxng.timeout_s in config.toml.",
    "json_disabled": f"SearXNG at {{place}} refuses JSON (403). On that machine {JSON_OFF}\nthen restart it. A proxy "
    "that asks for a login can answer 403 as well; search_info tells which it is.",
    "proxy_refused": "A proxy before SearXNG at {place} refuses this client (403). Let it through there, or give it "
    "the credentials in searxng.auth_file.",
    "rate_limited": "SearXNG at {place} limits this client (429). Wait a minute; on a private instance set "
    "`limiter: false` under `server:`, or add this machine to pass_ip in limiter.toml.",
    "limiter": "SearXNG at {place} sends this client to its start page, as its limiter does with one it suspects. On a "
    "private instance set `limiter: false` under `server:`, or add this machine to pass_ip in limiter.toml.",
    "blocked_address": "This machine is on the block list of SearXNG at {place} (429). Take it off block_ip in its "
    "limiter.toml.",
    "login_page": "A login page stands before SearXNG at {place}. Use an address that reaches SearXNG itself, or give "
    "its proxy a token in searxng.auth_file.",
    "login_required": "{place} wants credentials ({status}), or others than those it got. Put them into the file of "
    "searxng.auth_file.",
    "auth_file": "Nothing was sent: {fault}.",
    "certificate": "The certificate of {place} is none that this machine trusts. One of an authority of your own needs "
    "searxng.ca_file in config.toml.",
    "ca_file": "Nothing was sent: searxng.ca_file cannot be read, or holds no certificate in PEM.",
    "instances_down": "No instance of SearXNG can be asked now; nothing was sent.",
    "redirected": "SearXNG at {place} answered with a redirect to {target}; it was not followed, as that would carry "
    "the query elsewhere. Set searxng.url to the final address.",
    "wrong_content_type": "{place} answered with a web page instead of JSON. Check that searxng.url is the base "
    f"address of SearXNG, and {JSON_OFF}",
    "not_found": "There is no /search at {place} (404). Set searxng.url to the base address of SearXNG, with its "
    "path if it has one.",
    "post_refused": "A proxy before SearXNG at {place} refuses POST (405). Allow POST to /search there; or set "
    "searxng.allow_get = true, and accept that queries stand in its access log.",
    "query_too_long": "The query is too long for GET (414), and POST does not reach SearXNG at {place}. Ask with fewer "
    "words, or allow POST to /search there.",
    "bad_request": "SearXNG at {place} refused this search (400){which}.",
    "server_error": "SearXNG at {place} failed ({status}). Its own log says why; try again, or other engines.",
    "invalid_answer": "SearXNG at {place} sent something that is not the JSON of a search.",
    "too_large": "The answer of SearXNG at {place} is longer than searxng.max_answer_bytes; ask for less.",
    "network": "The connection to SearXNG at {place} broke.",
    "locked": "The operator has locked the way out, and the request to SearXNG at {place} was cut off. Go on without "
    "the web.",
    "engines_failed": "No results, and these search engines failed: {engines}. Try again later, or choose others.",
    "busy": "This machine has no room for another request now. Try again in a minute.",
    "bad_site": "{site!r} is no host name. sites takes names such as docs.vllm.ai, or -pinterest.com to leave one out.",
    "unknown_engines": "This SearXNG has no such {kind}; nothing was sent. It has {known}.",
}

_AT_FAULT = """
    connection_refused unknown_host timeout network json_disabled proxy_refused rate_limited limiter blocked_address
    login_page login_required redirected wrong_content_type not_found post_refused server_error invalid_answer
    certificate
"""
AT_FAULT = frozenset(_AT_FAULT.split())
"""Codes that are about the instance, so that another may do better; the others are about the question or about us."""
SEARCH = "/search"
REFUSED_FIELD = re.compile(
    rb"(pageno|time_range|language|safesearch|timeout_limit|categories|engines)(?: parameter|\W{0,3}\})"
)
"""In `{"error": "Invalid value \"x\" for parameter pageno"}` and `"Empty pageno parameter"`."""

FAILURE_CODES: dict[str, str] = {
    "connect": "connection_refused",
    "timeout": "timeout",
    "name_lookup": "unknown_host",
    "too_large": "too_large",
    "bad_encoding": "invalid_answer",
    "bad_url": "not_configured",
    "exhausted": "busy",
    "busy": "busy",
    "ca_file": "ca_file",
    "certificate": "certificate",
    "locked": "locked",
}
STATUS_CODES: dict[int, str] = {
    400: "bad_request",
    401: "login_required",
    403: "json_disabled",
    404: "not_found",
    405: "post_refused",
    407: "login_required",
    414: "query_too_long",
    429: "rate_limited",
}


def problem(code: str, base_url: str = "", **facts: object) -> Problem:
    """The problem of this code, told for the SearXNG at `base_url`."""
    return Problem(code, PROBLEMS[code].format(place=base_url.rstrip("/"), **facts))


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


def probe_request(base_url: str) -> Request:
    """A search without a query: SearXNG says whether JSON is on, and asks no engine."""
    return Request(url=f"{base_url.rstrip('/')}/search", form={"format": "json"})


def read_failure(failed: Failed, base_url: str) -> Problem:
    """A send without an answer → the problem."""
    return problem(FAILURE_CODES.get(failed.kind, "network"), base_url)


def read_json(sent: Sent, base_url: str) -> dict[str, Any] | Problem:
    """The JSON object of an answer, or what stands in its way."""
    refused = read_status(sent, base_url)
    if refused:
        return refused
    if content_type(sent) != "application/json":
        return problem("login_page" if is_login_page(sent) else "wrong_content_type", base_url)
    try:
        data = json.loads(sent.body.decode("utf-8", "replace"), parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return problem("invalid_answer", base_url)
    return data if isinstance(data, dict) else problem("invalid_answer", base_url)


def content_type(sent: Sent) -> str:
    return sent.headers.get("content-type", "").partition(";")[0].strip().lower()


def is_login_page(sent: Sent) -> bool:
    return LOGIN_PAGE.search(sent.body[:LOOKED_AT_BYTES]) is not None


def read_status(sent: Sent, base_url: str) -> Problem | None:
    """What stands in the way of an answer by its status; None when nothing does."""
    if sent.status == 200:
        return None
    location = sent.headers.get("location", "")
    if 300 <= sent.status < 400 and location:
        return _redirect(location, base_url)
    told = problem(_code(sent), base_url, status=sent.status, which=_which(sent))
    wanted_s = retry_after_s(sent.headers) if sent.status in (429, 503) else None
    return Problem(told.code, told.message, LIMITED_S if wanted_s is None and sent.status == 429 else wanted_s)


def _which(sent: Sent) -> str:
    """The parameter that SearXNG names in its refusal, if it is one of ours; nothing else of its words."""
    found = REFUSED_FIELD.search(sent.body[:LOOKED_AT_BYTES])
    return f" for its {found[1].decode()}" if found else ""


def _code(sent: Sent) -> str:
    start = sent.body[:LOOKED_AT_BYTES]
    if sent.status == 403 and (PROXY_PAGE.search(start) or is_login_page(sent)):
        return "proxy_refused"
    if sent.status == 429 and b"BLOCKLIST" in start:
        return "blocked_address"
    return STATUS_CODES.get(sent.status, "server_error")


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds of a Retry-After, which may be a date; it is taken by the clock of the answer where that has one."""
    told = headers.get("retry-after", "").strip()
    if told.isascii() and told.isdigit():
        return float(told[:9])
    try:
        until_s = parsedate_to_datetime(told).timestamp()
        now_s = parsedate_to_datetime(headers["date"]).timestamp() if "date" in headers else time.time()
    except (ValueError, OverflowError):
        return None
    return max(until_s - now_s, 1.0)


def _redirect(location: str, base_url: str) -> Problem:
    """Only the host of the target is told: the rest of it may hold the query."""
    try:
        target = urlsplit(location)
        host = target.hostname or ""
    except ValueError:
        return problem("redirected", base_url, target="something that is no address")
    words = re.split(r"[^a-z0-9-]+", f"{host} {target.path}".lower())
    if any(word in LOGIN_WORDS for word in words):
        return problem("login_page", base_url)
    here = urlsplit(base_url)
    starts = ("", "/", here.path.rstrip("/"), f"{here.path.rstrip('/')}/")
    if host in ("", here.hostname) and target.path in starts and not target.query:
        told = problem("limiter", base_url)
        return Problem(told.code, told.message, LIMITED_S)
    return problem("redirected", base_url, target=host or "another path of the same host")
