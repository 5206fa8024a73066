"""Why a page could not be read: a stable code each, and what to do instead."""

from __future__ import annotations

from collections.abc import Mapping

from sparkgate.policy.egress import Failed, Sent
from sparkgate.results import plain
from sparkgate.searxng import Problem

PROBLEMS: Mapping[str, str] = {
    "not_from_results": "No search of this session led to this address, and no page of the same site that it read. "
    "Search first, and use an address as it stands in the answer. Whoever runs this machine can allow more with "
    "pages.links in config.toml.",
    "links_used_up": "So many links of this site were followed that the choice among them could carry something out. "
    "Search for what you need instead; the pages that a search gives can be read.",
    "too_long": "An address has {most} characters at most.",
    "not_allowed": "Pages of {host} are not among those that may be read (pages.allow in config.toml).",
    "robots": "The robots.txt of {host} keeps programs from this page. Use another source, or the snippet of the "
    "search; whoever runs this machine can set pages.robots = false.",
    "bad_redirect": "The page leads elsewhere, and that was not followed: {why}",
    "too_many_redirects": "The page leads on more than {most} times; use another source.",
    "not_found": "{host} has no such page ({status}). Search for where it is now.",
    "login_needed": "{host} asks for a login ({status}). Use another source.",
    "refused_by_site": "{host} refuses to give this page to programs ({status}). Use another source, or the snippet "
    "of the search.",
    "rate_limited": "{host} limits this machine ({status}). {when}",
    "server_error": "{host} failed ({status}). Try again later, or use another source.",
    "unexpected_status": "{host} gave no page ({status}). Use another source.",
    "unknown_encoding": "{host} sent the page packed in a way that was not asked for. Use another source.",
    "empty_page": "{host} sent an empty page. Use another source.",
    "connect": "Nothing answers at {host}. Use another source.",
    "certificate": "The certificate of {host} is none that this machine trusts. Use another source.",
    "timeout": "{host} did not answer in time. Try again, or use another source.",
    "name_lookup": "The name {host} cannot be looked up. Check the address.",
    "special_address": "{host} leads to this machine or network, which is never asked. Use another source.",
    "too_large": "The page of {host} is longer than pages.max_bytes; use another source.",
    "bad_encoding": "{host} sent a page that cannot be unpacked. Use another source.",
    "exhausted": "This machine has no room for another connection now. Try again in a minute.",
    "busy": "Other pages are being read now, and none of them ended in time. Try again when they have.",
    "network": "The connection to {host} broke. Try again, or use another source.",
    "locked": "The operator has locked the way out, and the request to {host} was cut off. Go on without the web.",
    "unknown_section": "The page has no section of this name; it has those under sections.",
    "no_headings": "The page has no sections; read it with start, or use find.",
    "not_on_page": "These words are not on the page, which has {chars} characters. Try other words, or read it with "
    "start.",
    "past_the_end": "The page has {chars} characters; start must lie within them.",
}
STATUSES: Mapping[int, str] = {
    401: "login_needed",
    402: "login_needed",
    403: "refused_by_site",
    404: "not_found",
    407: "login_needed",
    410: "not_found",
    418: "refused_by_site",
    429: "rate_limited",
    451: "refused_by_site",
}
RETRY_AFTER_CHARS = 40


def problem(code: str, **facts: object) -> Problem:
    return Problem(code, PROBLEMS[code].format(**facts))


def status_problem(sent: Sent, host: str) -> Problem:
    """An HTTP status that is no page → the problem."""
    usual = "server_error" if sent.status >= 500 else "unexpected_status"
    after = plain(sent.headers.get("retry-after", ""), RETRY_AFTER_CHARS)
    when = f"Try again in {after} seconds." if after.isdigit() else "Try again later."
    return problem(STATUSES.get(sent.status, usual), host=host, status=sent.status, when=when)


def problem_of(failed: Failed, host: str) -> Problem:
    """A send without a whole answer → the problem."""
    return problem(failed.kind if failed.kind in PROBLEMS else "network", host=host)
