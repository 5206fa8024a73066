"""The way to a page: its address checked, its robots.txt asked, each redirect a send of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from time import monotonic
from urllib.parse import urljoin, urlsplit

from sparkgate.asked_by import Tell, silent
from sparkgate.page_problems import problem, problem_of, status_problem
from sparkgate.policy.audit import Caller
from sparkgate.policy.egress import Egress, Failed, Permit, Refused, Request, Sent
from sparkgate.policy.web_address import BLANK, PORTS, BadAddress, WebAddress, target, web_address
from sparkgate.searxng import Problem
from sparkgate.setting_tables import PagesSettings
from sparkgate.version import __version__

MAX_HOPS = 5
LEAST_S = 0.1
REDIRECTS = (301, 302, 303, 307, 308)
AGENT = "sparkgate"
"""The name that rules of a robots.txt are looked up under."""
HEADERS = {
    "Accept": "text/html, application/xhtml+xml, application/pdf, application/json, text/plain, */*;q=0.5",
    "Accept-Language": "en, *;q=0.5",
    "User-Agent": f"Mozilla/5.0 (compatible; {AGENT}/{__version__})",
}
ENCODINGS = ("", "identity", "gzip", "x-gzip", "deflate")
"""Content-Encodings that are asked for, and so the only ones that are unpacked."""


@dataclass(frozen=True, slots=True)
class Page:
    """The bytes of a page, from where they came in the end."""

    url: str
    content_type: str
    body: bytes
    notes: tuple[str, ...] = ()
    redirected: bool = False


@dataclass(frozen=True, slots=True)
class Address:
    """An address that may be asked for; `inner` when the operator has opened one of this machine or network."""

    web: WebAddress
    inner: bool


Objection = Callable[["Fetcher", Address], Awaitable["str | Problem"]]
"""What a robots.txt has against a page: "" for nothing, a problem, or words when that is not known."""


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Fetches pages for one caller.

    Attributes:
        until_s: when the call must be over, in seconds of time.monotonic.
        robots: asks the site's robots.txt; None when it is not looked at.
    """

    egress: Egress
    caller: Caller
    settings: PagesSettings
    until_s: float
    robots: Objection | None = None
    progress: Tell = silent

    async def page(self, url: str) -> Page | Problem | Refused:
        """The page at an address, or behind its redirects."""
        notes: list[str] = []
        came_from: Address | None = None
        for _ in range(MAX_HOPS + 1):
            address = self.next(url, came_from)
            if isinstance(address, Problem):
                return address
            told = await self._objection(address)
            if isinstance(told, Problem):
                return told
            notes += [told] if told else []
            await self.progress(f"asking {address.web.host}")
            sent = await self.send(address, self.settings.timeout_s, self.settings.max_bytes, self.settings.cache_s)
            if not isinstance(sent, Sent):
                return problem_of(sent, address.web.host) if isinstance(sent, Failed) else sent
            location = sent.headers.get("location", "")
            if sent.status not in REDIRECTS or not location:
                return _page(sent, address, notes, redirected=came_from is not None)
            url, came_from = joined(address.web.url, location), address
        return problem("too_many_redirects", most=MAX_HOPS)

    async def _objection(self, address: Address) -> str | Problem:
        """Nothing is asked of a site for an address that the policy will keep from it."""
        if self.robots is None or not await self.egress.lets(self._permit(address), address.web.url):
            return ""
        return await self.robots(self, address)

    def next(self, url: str, came_from: Address | None) -> Address | Problem:
        """Where a page, or the redirect of one, may lead; what is wrong with it otherwise."""
        address = checked(url, self.settings)
        if isinstance(address, Problem):
            return problem("bad_redirect", why=address.message) if came_from else address
        if came_from and came_from.web.scheme == "https" and address.web.scheme == "http":
            return problem("bad_redirect", why="it leads from https to http")
        if came_from and address.inner and not came_from.inner:
            return problem("bad_redirect", why="it leads from the web to this machine or network")
        return address

    async def send(self, address: Address, timeout_s: float, max_bytes: int, cache_s: float) -> Sent | Refused | Failed:
        """Ask for exactly this address."""
        timeout_s = max(LEAST_S, min(timeout_s, self.until_s - monotonic()))
        permit = replace(self._permit(address), timeout_s=timeout_s, max_bytes=max_bytes, cache_s=cache_s)
        return await self.egress.send(permit, address.web.url, _get)

    def _permit(self, address: Address) -> Permit:
        public = not address.inner
        return Permit(self.caller, "read_page", "web", address.web.origin, headers=HEADERS, public=public, whole=True)


def joined(base: str, location: str) -> str:
    """Where a redirect leads; "" for what is no address, which then is refused as one."""
    try:
        return urljoin(base, location)
    except ValueError:
        return ""


def checked(url: str, settings: PagesSettings) -> Address | Problem:
    """An address in one spelling, as far as the operator lets it be read."""
    inner = _inner(url, settings.inner)
    if inner:
        return Address(inner, inner=True)
    try:
        web = web_address(url, PORTS | set(map(int, settings.more_ports)))
    except BadAddress as error:
        return Problem("bad_address" if error.code == "no_address" else error.code, f"{error}.")
    if settings.links == "allowlist" and not any(is_below(web.host, host) for host in settings.allow):
        return problem("not_allowed", host=web.host)
    return Address(web, inner=False)


def _inner(url: str, origins: tuple[str, ...]) -> WebAddress | None:
    """The address when it lies at exactly one of the origins."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if "@" in parts.netloc or not parts.hostname or BLANK.search(url):
        return None
    for origin in map(urlsplit, origins):
        usual = {"http": 80, "https": 443}[origin.scheme]
        at = (origin.scheme, origin.hostname, origin.port or usual)
        if (parts.scheme, parts.hostname, port or usual) == at:
            return WebAddress(parts.scheme, parts.hostname, port or usual, target(parts.path, parts.query))
    return None


def is_below(host: str, above: str) -> bool:
    return host == above.lower() or host.endswith(f".{above.lower()}")


def _get(address: str) -> Request:
    return Request(address, method="GET")


def _page(sent: Sent, address: Address, notes: list[str], *, redirected: bool) -> Page | Problem:
    host = address.web.host
    if not 200 <= sent.status < 300:
        return status_problem(sent, host)
    if sent.headers.get("content-encoding", "").strip().lower() not in ENCODINGS:
        return problem("unknown_encoding", host=host)
    if not sent.body.strip():
        return problem("empty_page", host=host)
    return Page(address.web.url, sent.headers.get("content-type", ""), sent.body, tuple(notes), redirected)
