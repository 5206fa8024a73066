"""The way out: judge → intend → build → final scan → send → close. No other code carries an agent's text."""

from __future__ import annotations

import asyncio
import errno
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from ssl import SSLCertVerificationError, SSLContext, SSLError
from time import perf_counter
from urllib.parse import urlencode

import anyio
import h11
import httpx

from sparkgate.policy.answer_cache import Answer, AnswerCache
from sparkgate.policy.audit import AuditLog, Caller, Intent, LogUnavailable, Outcome
from sparkgate.policy.decision import Decision
from sparkgate.policy.finding import Class, Where
from sparkgate.policy.guard import ConnectionRefusedByPolicy, Guard, canonical
from sparkgate.policy.http_exchange import Broken, exchange
from sparkgate.policy.judge import Policy
from sparkgate.policy.outflow import Outflow
from sparkgate.policy.request import SYNTAX, Request, objections
from sparkgate.policy.response import TooLarge
from sparkgate.policy.web_address import special

__all__ = ["Ask", "Egress", "Failed", "Permit", "Refused", "Request", "Sent"]

PARALLEL = 8
"""Requests on the way at a time; more wait, within their own deadline."""
Ask = Callable[[Decision], Awaitable[bool]]
"""Asks a person whether `asked` of a decision may leave."""
Resolver = Callable[[str, int], Awaitable[list[str]]]
"""(host, port) → IP addresses."""


@dataclass(frozen=True, slots=True)
class Permit:
    """Leave to send one request: who, with which tool, where to.

    Attributes:
        destination: class of destination, a key of `SYNTAX`.
        origin: base URL of the destination, as it is logged.
        path: what follows it; a request built for anywhere else is refused.
        fields: everything that goes out beside the text, by name; logged with it, and nothing else may be added.
        headers: constant headers of the tool.
        timeout_s: seconds for look-up, connection, sending and reading together.
        max_bytes: longest answer read, in bytes, packed as well as unpacked.
        public: only addresses of the public web are connected to; one other among those of a name stops it.
        whole: the text leaves as it is or not at all, as an address with a part replaced is another address.
        ca_file: PEM file of authorities that are trusted beside the usual ones; "" for none.
        cache_s: seconds for which the answer may serve equal requests; those at the same time share one.
    """

    caller: Caller
    tool: str
    destination: str
    origin: str
    path: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 15.0
    max_bytes: int = 4_000_000
    public: bool = False
    whole: bool = False
    ca_file: str = ""
    cache_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Sent:
    """An answer came back. `key` is where it is kept, None when it is not; `cached` when it came from there."""

    decision: Decision
    status: int
    headers: dict[str, str]
    body: bytes
    key: Hashable = None
    cached: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing left. `rules` name why, and `classes` what kind of thing they found; never the text."""

    rules: tuple[str, ...]
    notes: tuple[str, ...] = ()
    classes: tuple[Class, ...] = ()


@dataclass(frozen=True, slots=True)
class Failed:
    """It was sent or tried, and no whole answer came back. `kind` is what `failure_kind` gives."""

    kind: str
    decision: Decision


class NoAuthorities(Exception):
    """The file of authorities cannot be read, or is none."""


class NotPublic(Exception):
    """A name of the web leads to an address of this machine or network. The address is not in the text."""


class Unreachable(Exception):
    """No connection to an address came about."""


class NotInTime(Unreachable):
    """Nor would it in the time that each address has."""


EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
FAILURES: tuple[tuple[type[BaseException], str], ...] = (
    (ConnectionRefusedByPolicy, "refused_by_guard"),
    (NotPublic, "special_address"),
    (NoAuthorities, "ca_file"),
    (TooLarge, "too_large"),
    (NotInTime, "timeout"),
    (TimeoutError, "timeout"),
    (Unreachable, "connect"),
    (h11.RemoteProtocolError, "protocol"),
    (httpx.InvalidURL, "bad_url"),
    (h11.LocalProtocolError, "network"),
    (Broken, "network"),
    (zlib.error, "bad_encoding"),
    (UnicodeError, "name_lookup"),
    (OSError, "name_lookup"),
)


class Egress:
    """The one object that sends.

    Args:
        policy: judges every text.
        log: takes the intent before, the outcome after.
        guard: opened for exactly one address while it is asked.
        resolver: gives the addresses of a host.
        outflow: knows what left before.
    """

    def __init__(
        self,
        policy: Policy,
        log: AuditLog,
        guard: Guard,
        resolver: Resolver | None = None,
        outflow: Outflow | None = None,
    ) -> None:
        self.policy = policy
        self.log = log
        self.guard = guard
        self.resolver = resolver or resolve
        self.outflow = outflow or Outflow()
        self._places = asyncio.Semaphore(PARALLEL)
        self._kept = AnswerCache()

    def forget(self, sent: Sent) -> None:
        """Serve no further request with this answer: it turned out to be none worth keeping."""
        self._kept.drop(sent.key)

    async def lets(self, permit: Permit, text: str) -> bool:
        """Whether the policy has nothing against all of `text`; nothing is sent, and nothing counts as having left."""
        return (await anyio.to_thread.run_sync(self._judge, permit, text)).verdict == "allow"

    async def send(
        self, permit: Permit, text: str, build: Callable[[str], Request], ask: Ask | None = None
    ) -> Sent | Refused | Failed:
        """Judge `text`, log it, and send what `build` makes of the part that may leave. Never raises on bad luck.

        Args:
            ask: asks a person where the policy wants that; without it, that is a block.
        """
        where = Where(permit.tool, permit.destination)
        decision = await anyio.to_thread.run_sync(self._judge, permit, text)
        if decision.asked and ask is not None and await ask(decision):
            decision = self.policy.agreed(decision, SYNTAX[permit.destination], where)
        decision, told = await anyio.to_thread.run_sync(
            self.outflow.admit, permit.caller, where, text, decision, self.policy
        )
        try:
            row = await anyio.to_thread.run_sync(self.log.intend, self._intent(permit, text, decision))
        except LogUnavailable as error:
            return Refused(("log-unavailable",), (str(error),))
        if decision.verdict == "block":
            classes = tuple(dict.fromkeys(finding.cls for finding in decision.findings))
            return Refused(decision.rules, (*decision.notes, *told), classes)
        try:
            request, objected = await anyio.to_thread.run_sync(self._build, permit, decision.released, build)
            if objected or request is None:
                await self._close(row, Outcome("refused"))
                return Refused(objected)
            return await self._exchange(permit, request, decision, row)
        except BaseException:  # cancelled
            with anyio.CancelScope(shield=True):
                await self._close(row, Outcome("cancelled"))
            raise

    def _judge(self, permit: Permit, text: str) -> Decision:
        """The text decides what leaves of it; a field leaves as it is, unless it holds a secret."""
        where = Where(permit.tool, permit.destination)
        decision = self.policy.judge_for(text, SYNTAX[permit.destination], where)
        if permit.whole and decision.verdict != "allow":
            decision = replace(decision, verdict="block", released="", asked="", askable=())
        for word in permit.fields.values():
            found = self.policy.judge(word, where)
            if found.reason or any(finding.cls == "secret" for finding in found.findings):
                return Decision("block", "", elapsed_us=decision.elapsed_us, reason=found.rules[0])
        return decision

    def _intent(self, permit: Permit, text: str, decision: Decision) -> Intent:
        return Intent(
            caller=permit.caller,
            tool=permit.tool,
            destination=permit.destination,
            origin=permit.origin,
            verdict=decision.verdict,
            sent=decision.released,
            fields={} if decision.verdict == "block" else permit.fields,
            findings=decision.told(),
            withheld=[self.log.fingerprint(text[start:end]) for start, end in decision.spans],
            policy=self.policy.digest,
            decision_us=decision.elapsed_us,
        )

    def _build(
        self, permit: Permit, released: str, build: Callable[[str], Request]
    ) -> tuple[Request | None, tuple[str, ...]]:
        """The request and what the final scan has against it; a mistake in either is an objection."""
        try:
            request = build(released)
            url = permit.origin.rstrip("/") + permit.path
            return request, objections(request, released, url, permit.fields, permit.destination)
        except Exception:
            return None, ("build-fault",)

    async def _exchange(self, permit: Permit, request: Request, decision: Decision, row: int) -> Sent | Failed:
        start = perf_counter()
        key = _key(permit, request) if permit.cache_s else None
        try:
            with anyio.fail_after(permit.timeout_s):
                how, answer = await self._answer(permit, request, key)
        except Exception as error:
            kind = failure_kind(error)
            await self._close(row, Outcome(kind, elapsed_us=_us_since(start)))
            return Failed(kind, decision)
        await self._close(row, Outcome(how, answer.status, len(answer.body), _us_since(start)))
        return Sent(decision, answer.status, answer.headers, answer.body, key, how == "cached")

    async def _answer(self, permit: Permit, request: Request, key: Hashable) -> tuple[str, Answer]:
        """(how the send ended, the answer): `cached` when an equal request has got it before."""
        async with self._kept.turn(key or object()):
            if key and (held := self._kept.get(key)):
                return "cached", held
            async with self._places:
                answer = await self._ask(permit, request)
            if key and answer.status == 200:
                self._kept.put(key, answer, permit.cache_s)
            return "answered", answer

    async def _ask(self, permit: Permit, request: Request) -> Answer:
        """Look the name up once and ask exactly the addresses found, one after another until one is reached."""
        url = httpx.URL(request.url)
        port = url.port or (443 if url.scheme == "https" else 80)
        addresses = await self._look_up(url.host, port)
        if permit.public and any(map(special, addresses)):
            raise NotPublic("a name of the web leads elsewhere")
        for number, address in enumerate(addresses, 1):
            try:
                with self.guard.addresses([(address, port)]):
                    return await self._http(permit, request, url, (address, port), permit.timeout_s / len(addresses))
            except Unreachable:
                if number == len(addresses):
                    raise
        raise OSError("no address")

    async def _look_up(self, host: str, port: int) -> list[str]:
        try:
            return [canonical(host)]
        except ValueError:
            with self.guard.name(host):
                return await self.resolver(host, port)

    async def _http(
        self, permit: Permit, request: Request, url: httpx.URL, place: tuple[str, int], connect_s: float
    ) -> Answer:
        """The address is connected to and the name in Host and SNI, so that no second look-up can give another."""
        secure = url.scheme == "https"
        tls = authorities(permit.ca_file) if secure or permit.ca_file else None
        body = urlencode(request.form).encode()
        asked = h11.Request(
            method=request.method, target=url.raw_path, headers=_headers(permit, request, url.netloc, len(body))
        )
        async with _connection(place, tls if secure else None, url.host, connect_s) as (reader, writer):
            return await exchange(reader, writer, asked, body, permit.max_bytes)

    async def _close(self, row: int, outcome: Outcome) -> None:
        try:
            await anyio.to_thread.run_sync(self.log.close, row, outcome)
        except LogUnavailable:
            return  # the row stays open, which reads as "may have left, end unknown"


@asynccontextmanager
async def _connection(
    place: tuple[str, int], tls: SSLContext | None, name: str, connect_s: float
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection for one exchange, closed at once when that is over, however it ends. Raises Unreachable."""
    try:
        with anyio.fail_after(connect_s):
            reader, writer = await asyncio.open_connection(*place, ssl=tls, server_hostname=name if tls else None)
    except TimeoutError as error:
        raise NotInTime from error
    except OSError as error:
        raise Unreachable from error
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


def _headers(permit: Permit, request: Request, host: bytes, size_bytes: int) -> list[tuple[bytes, bytes]]:
    headers = httpx.Headers({"Host": host, "Connection": "keep-alive", "Accept-Encoding": "gzip, deflate"})  # type: ignore[dict-item]
    headers.update(permit.headers)
    headers["Host"] = host.decode("ascii")
    if request.method == "POST":
        headers["Content-Length"] = str(size_bytes)
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    return headers.raw


def authorities(ca_file: str) -> SSLContext:
    """The usual authorities and those of the file, which is read anew when it has changed. Raises NoAuthorities."""
    try:
        return _authorities(ca_file, Path(ca_file).stat().st_mtime_ns if ca_file else 0)
    except (OSError, SSLError) as error:
        raise NoAuthorities("no file of authorities") from error


@lru_cache(maxsize=4)
def _authorities(ca_file: str, _changed_ns: int) -> SSLContext:
    context = httpx.create_ssl_context(trust_env=False)
    if ca_file:
        context.load_verify_locations(ca_file)
    return context


def _key(permit: Permit, request: Request) -> Hashable:
    """What two requests have in common when the answer of one serves the other."""
    sent = request.method, request.url, *sorted(request.form.items()), *sorted(permit.headers.items())
    return permit.destination, permit.public, permit.max_bytes, *sent


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host, in the resolver's order. Raises OSError or UnicodeError when there are none."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port)
    return list(dict.fromkeys(canonical(str(entry[4][0])) for entry in found))


def failure_kind(error: BaseException) -> str:
    """The stable word for an exception of a send, without its text; the guard's refusal counts wherever it hides."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ConnectionRefusedByPolicy):
            return "refused_by_guard"
        if isinstance(seen, SSLCertVerificationError):
            return "certificate"
        if isinstance(seen, OSError) and seen.errno in EXHAUSTED:
            return "exhausted"
        seen = seen.__cause__ or seen.__context__
    return next((kind for kind_of, kind in FAILURES if isinstance(error, kind_of)), "fault")


def _us_since(start: float) -> int:
    return round((perf_counter() - start) * 1e6)
