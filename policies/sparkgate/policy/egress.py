"""The way out: judge → intend → build → final scan → send → close. Nothing else in sparkgate reaches the network."""

from __future__ import annotations

import asyncio
import ipaddress
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter
from urllib.parse import parse_qsl, unquote, urlsplit

import anyio
import httpx

from sparkgate.policy.audit import AuditLog, Caller, Intent, LogUnavailable, Outcome
from sparkgate.policy.guard import ConnectionRefusedByPolicy, Guard
from sparkgate.policy.judge import Decision, Policy
from sparkgate.policy.syntax import Neutral, neutralise

Transport = httpx.AsyncBaseTransport
"""What a test puts in the place of the network."""


def _no_syntax(text: str) -> Neutral:
    return Neutral(text, ())


SYNTAX: dict[str, Callable[[str], Neutral]] = {"searxng": neutralise, "web": _no_syntax, "engine": _no_syntax}
"""What a destination class does to text that the policy released: its query syntax is taken out."""


@dataclass(frozen=True, slots=True)
class Permit:
    """Leave to send one request: who, with which tool, to which class of destination.

    Attributes:
        destination: class of destination, a key of `SYNTAX`.
        origin: base URL the request must go to; a request built for anywhere else is refused.
        timeout_s: seconds for look-up, connection, sending and reading together.
        max_bytes: longest answer read, in bytes after decoding.
    """

    caller: Caller
    tool: str
    destination: str
    origin: str
    timeout_s: float = 15.0
    max_bytes: int = 4_000_000


@dataclass(frozen=True, slots=True)
class Request:
    """What a tool builds from the released text. `operator_headers` come from settings and are not scanned."""

    url: str
    form: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    operator_headers: dict[str, str] = field(default_factory=dict, repr=False)
    method: str = "POST"


@dataclass(frozen=True, slots=True)
class Sent:
    """An answer came back. `notes` say what the policy changed on the way out."""

    decision: Decision
    notes: tuple[str, ...]
    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing left. `rules` name why; never the text."""

    rules: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Failed:
    """It was sent or tried, and no whole answer came back. `kind` is a value of `FAILURES` or timeout, too_large."""

    kind: str
    decision: Decision
    notes: tuple[str, ...]


FAILURES: tuple[tuple[type[Exception], str], ...] = (
    (ConnectionRefusedByPolicy, "refused_by_guard"),
    (httpx.ConnectTimeout, "timeout"),
    (httpx.ConnectError, "connect"),
    (httpx.TimeoutException, "timeout"),
    (httpx.RemoteProtocolError, "protocol"),
    (httpx.InvalidURL, "bad_url"),
    (httpx.HTTPError, "network"),
    (zlib.error, "bad_encoding"),
    (OSError, "name_lookup"),
)


class TooLarge(Exception):
    """The answer is longer than the permit allows."""


class Egress:
    """The one object that sends.

    Args:
        policy: judges every text.
        log: takes the intent before, the outcome after.
        guard: opened for exactly the addresses of one request while it runs.
        transport: an httpx transport, for tests that must not open a socket.
    """

    def __init__(
        self, policy: Policy, log: AuditLog, guard: Guard, transport: Transport | None = None
    ) -> None:
        self.policy = policy
        self.log = log
        self.guard = guard
        self.transport = transport

    async def send(
        self, permit: Permit, text: str, build: Callable[[str], Request]
    ) -> Sent | Refused | Failed:
        """Judge `text`, log it, and send what `build` makes of the part that may leave. Never raises on bad luck."""
        decision = await anyio.to_thread.run_sync(self.policy.judge, text)
        neutral = SYNTAX[permit.destination](decision.released)
        decision = _settled(decision, neutral)
        notes = tuple(form.note for form in neutral.forms)
        try:
            row = await anyio.to_thread.run_sync(self.log.intend, self._intent(permit, text, decision))
        except LogUnavailable as error:
            return Refused(("log-unavailable",), (str(error),))
        if decision.verdict == "block":
            return Refused(decision.rules, notes)
        request = build(decision.released)
        leak = self._final_scan(request, permit)
        if leak:
            await self._close(row, Outcome("refused"))
            return Refused(leak)
        return await self._exchange(permit, request, decision, notes, row)

    def _intent(self, permit: Permit, text: str, decision: Decision) -> Intent:
        return Intent(
            caller=permit.caller,
            tool=permit.tool,
            destination=permit.destination,
            origin=permit.origin,
            verdict=decision.verdict,
            sent=decision.released,
            findings=[finding.public() for finding in decision.findings]
            or [{"rule": r} for r in decision.rules],
            withheld=[self.log.fingerprint(text[f.start : f.end]) for f in decision.findings],
            policy=self.policy.digest,
            decision_us=decision.elapsed_us,
        )

    def _final_scan(self, request: Request, permit: Permit) -> tuple[str, ...]:
        """Rule ids that still object to the request as it would be serialised; () when it may go."""
        if _origin(request.url) != _origin(permit.origin):
            return ("other-origin",)
        for part in _parts(request):
            decision = self.policy.judge(part)
            if decision.verdict != "allow":
                return decision.rules
        live = SYNTAX[permit.destination](request.form.get("q", ""))
        return tuple(form.rule for form in live.forms)

    async def _exchange(
        self, permit: Permit, request: Request, decision: Decision, notes: tuple[str, ...], row: int
    ) -> Sent | Failed:
        start = perf_counter()
        try:
            with anyio.fail_after(permit.timeout_s):
                status, headers, body = await self._http(permit, request)
        except Exception as error:
            kind = failure_kind(error)
            await self._close(row, Outcome(kind, elapsed_us=_us_since(start)))
            return Failed(kind, decision, notes)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._close(row, Outcome("cancelled", elapsed_us=_us_since(start)))
            raise
        await self._close(row, Outcome("answered", status, len(body), _us_since(start)))
        return Sent(decision, notes, status, headers, body)

    async def _http(self, permit: Permit, request: Request) -> tuple[int, dict[str, str], bytes]:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._open_guard(request.url))
            client = await stack.enter_async_context(
                httpx.AsyncClient(
                    trust_env=False, follow_redirects=False, timeout=None, transport=self.transport
                )
            )
            answer = await stack.enter_async_context(
                client.stream(
                    request.method,
                    request.url,
                    data=request.form,
                    headers={
                        "Accept-Encoding": "gzip, deflate",
                        **request.headers,
                        **request.operator_headers,
                    },
                )
            )
            return answer.status_code, dict(answer.headers), await read_body(answer, permit.max_bytes)

    @asynccontextmanager
    async def _open_guard(self, url: str) -> AsyncIterator[None]:
        """Look the name up once and open the guard for exactly the addresses found."""
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        with self.guard.name(host):
            addresses = {host} if _is_address(host) or self.transport else await _look_up(host, port)
            with self.guard.addresses(frozenset((address, port) for address in addresses)):
                yield

    async def _close(self, row: int, outcome: Outcome) -> None:
        try:
            await anyio.to_thread.run_sync(self.log.close, row, outcome)
        except LogUnavailable:
            return  # the row stays open, which reads as "may have left, end unknown"


def _settled(decision: Decision, neutral: Neutral) -> Decision:
    if decision.verdict == "block" or not neutral.forms:
        return decision
    if neutral.refused:
        reason = next(form.rule for form in neutral.forms if form.rewrite is None)
        return replace(decision, verdict="block", released="", reason=reason)
    return replace(decision, verdict="redact", released=neutral.text, reason=neutral.forms[0].rule)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


def _parts(request: Request) -> list[str]:
    """Every string of the request that could carry something out, decoded, and the form values as one text."""
    url = urlsplit(request.url)
    values = [value for pair in parse_qsl(url.query, keep_blank_values=True) for value in pair]
    texts = [
        unquote(url.path),
        *values,
        *request.headers.values(),
        *request.form.keys(),
        *request.form.values(),
    ]
    return [*texts, " ".join(request.form.values())]


async def read_body(answer: httpx.Response, max_bytes: int) -> bytes:
    """Decode while reading, so that a small answer which unpacks to a huge one stops at `max_bytes`.

    Raises:
        TooLarge: past `max_bytes`.
        zlib.error: the body is not what Content-Encoding says, or is cut short.
    """
    encoding = answer.headers.get("content-encoding", "").strip().lower()
    unpack = zlib.decompressobj(zlib.MAX_WBITS | 32) if encoding in ("gzip", "x-gzip", "deflate") else None
    body = bytearray()
    async for chunk in answer.aiter_raw():
        body += unpack.decompress(chunk, max_bytes + 1 - len(body)) if unpack else chunk
        if len(body) > max_bytes:
            raise TooLarge
    if unpack and not unpack.eof:
        raise zlib.error("cut short")
    return bytes(body)


def failure_kind(error: BaseException) -> str:
    """The stable word for an exception of a send, without its text."""
    if isinstance(error, TimeoutError):
        return "timeout"
    if isinstance(error, TooLarge):
        return "too_large"
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ConnectionRefusedByPolicy):
            return "refused_by_guard"
        seen = seen.__cause__ or seen.__context__
    return next((kind for kind_of, kind in FAILURES if isinstance(error, kind_of)), "fault")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


async def _look_up(host: str, port: int) -> set[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port)
    return {str(entry[4][0]).partition("%")[0] for entry in found}


def _us_since(start: float) -> int:
    return round((perf_counter() - start) * 1e6)
