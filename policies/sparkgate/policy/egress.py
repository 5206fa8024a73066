"""The way out: judge → intend → build → final scan → send → close. No other code carries an agent's text."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from ssl import SSLCertVerificationError, SSLContext, SSLError
from threading import Event
from time import perf_counter

import anyio
import anyio.lowlevel
import httpx

from sparkgate.policy.answer_cache import Answer, AnswerCache, key_of
from sparkgate.policy.audit import AuditLog, Intent, LogUnavailable, Outcome
from sparkgate.policy.decision import Decision
from sparkgate.policy.failures import (
    BadCertificate,
    BadUrl,
    NoAuthorities,
    NotInTime,
    NotPublic,
    Unreachable,
    failure_kind,
)
from sparkgate.policy.finding import Where
from sparkgate.policy.guard import Guard, canonical
from sparkgate.policy.http_exchange import exchange, written
from sparkgate.policy.judge import Policy
from sparkgate.policy.kill_switch import CODE as LOCKED
from sparkgate.policy.kill_switch import KillSwitch
from sparkgate.policy.known.choice import SHORTEST
from sparkgate.policy.outflow import Outflow
from sparkgate.policy.permit import Failed, Permit, Refused, Sent
from sparkgate.policy.places import Places
from sparkgate.policy.request import SYNTAX, Request, objections
from sparkgate.policy.web_address import special

__all__ = ["Ask", "Egress", "Failed", "Permit", "Refused", "Request", "Sent"]

PORTS = {"http": 80, "https": 443}
SHORT_CHARS = 1000
"""Of a text that is scanned once more without leaving the loop."""
MOST_HARMLESS = 200
"""Words remembered, shorter than any known value: these change while a policy is in force, and nothing else does."""
CACHED = "cached"
Decided = tuple[Decision, tuple[str, ...], int | None]
"""What may leave, in words what is used up, and the row that says so; None as long as there is none."""
Ask = Callable[[Decision], Awaitable[bool]]
"""Asks a person whether `asked` of a decision may leave."""
Resolver = Callable[[str, int], Awaitable[list[str]]]
"""(host, port) → IP addresses."""


class Egress:
    """The one object that sends. Locked, it answers nothing from memory either, which would look as if it had sent.

    Args:
        policy: judges every text.
        log: takes the intent before, the outcome after.
        guard: opened for exactly one address while it is asked.
        resolver: gives the addresses of a host.
        outflow: knows what left before.
        switch: stops everything.
    """

    def __init__(
        self,
        policy: Policy,
        log: AuditLog,
        guard: Guard,
        resolver: Resolver | None = None,
        outflow: Outflow | None = None,
        switch: KillSwitch | None = None,
    ) -> None:
        self.policy = policy
        self.log = log
        self.guard = guard
        self.resolver = resolver or resolve
        self.outflow = outflow or Outflow()
        self.switch = switch or KillSwitch()
        self._places = Places()
        self._kept = AnswerCache()
        self._harmless: set[tuple[str, Where]] = set()

    def forget(self, sent: Sent) -> None:
        """Serve no further request with this answer: it turned out to be none worth keeping."""
        self._kept.drop(sent.key)

    async def lets(self, permit: Permit, text: str) -> bool:
        """Whether the policy has nothing against all of `text`; nothing is sent, and nothing counts as having left."""
        decision = await anyio.to_thread.run_sync(self._judge, permit, text)
        return self._unless_locked(decision).verdict == "allow"

    async def send(
        self, permit: Permit, text: str, build: Callable[[str], Request], ask: Ask | None = None
    ) -> Sent | Refused | Failed:
        """Judge `text`, log it, and send what `build` makes of the part that may leave. Never raises on bad luck.

        Args:
            ask: asks a person where the policy wants that; without it, that is a block.
        """
        try:
            decision, told, row = await self._row_of(partial(self._decide, permit, text, ask is not None))
            if row is None and ask is not None:
                if await ask(decision):
                    decision = self.policy.agreed(decision, SYNTAX[permit.destination], permit.where)
                decision, told, row = await self._row_of(partial(self._settle, permit, text, decision))
        except LogUnavailable as error:
            return Refused(("log-unavailable",), (str(error),))
        if decision.verdict == "block" or row is None:
            classes = tuple(dict.fromkeys(finding.cls for finding in decision.findings))
            return Refused(decision.rules, (*decision.notes, *told), classes)
        try:
            request, objected = await self._built(permit, decision.released, build)
            if objected or request is None:
                await self._close(row, Outcome("refused"))
                return Refused(objected)
            return await self._exchange(permit, request, decision, row)
        except BaseException:  # cancelled
            with anyio.CancelScope(shield=True):
                await self._close(row, Outcome("cancelled"))
            raise

    async def _row_of(self, decide: Callable[[Event], Decided]) -> Decided:
        """Done in one go beside the loop. Who is cancelled meanwhile leaves no row, or one that is closed."""
        left = Event()
        deciding = asyncio.ensure_future(anyio.to_thread.run_sync(decide, left))
        try:
            return await asyncio.shield(deciding)
        except asyncio.CancelledError:
            left.set()
            with anyio.CancelScope(shield=True), suppress(LogUnavailable):
                decision, _, row = await deciding
                if row is not None and decision.verdict != "block":
                    await self._close(row, Outcome("cancelled"))
            raise

    def _decide(self, permit: Permit, text: str, asks: bool, left: Event) -> Decided:
        """The policy's word and the row, which a person's answer must precede.

        Raises:
            LogUnavailable: nothing may leave.
        """
        decision = self._unless_locked(self._judge(permit, text))
        return (decision, (), None) if decision.asked and asks else self._settle(permit, text, decision, left)

    def _settle(self, permit: Permit, text: str, decision: Decision, left: Event) -> Decided:
        """The decision with what left before taken into account, and its row. Raises LogUnavailable."""
        if left.is_set():
            return decision, (), None
        decision = self._unless_locked(decision)
        decision, told = self.outflow.admit(permit.caller, permit.where, text, decision, self.policy)
        return decision, told, self.log.intend(self._intent(permit, text, decision))

    def _unless_locked(self, decision: Decision) -> Decision:
        if self.switch.told() is None:
            return decision
        return replace(decision, verdict="block", released="", asked="", askable=(), reason=LOCKED)

    def _judge(self, permit: Permit, text: str) -> Decision:
        """The text decides what leaves of it; a field leaves as it is, unless it holds a secret."""
        decision = self.policy.judge_for(text, SYNTAX[permit.destination], permit.where)
        if permit.whole and decision.verdict != "allow":
            decision = replace(decision, verdict="block", released="", asked="", askable=())
        for word in permit.fields.values():
            if (word, permit.where) not in self._harmless and (held := self._secret_in(word, permit.where)):
                return Decision("block", "", elapsed_us=decision.elapsed_us, reason=held)
        return decision

    def _secret_in(self, word: str, where: Where) -> str:
        """The rule that finds a secret in a field; the words that are in every search are judged once."""
        found = self.policy.judge(word, where)
        if found.reason or any(finding.cls == "secret" for finding in found.findings):
            return found.rules[0]
        if len(word) < SHORTEST and len(self._harmless) < MOST_HARMLESS:
            self._harmless.add((word, where))
        return ""

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

    async def _built(
        self, permit: Permit, released: str, build: Callable[[str], Request]
    ) -> tuple[Request | None, tuple[str, ...]]:
        """`_build`; for a short text it takes less time than to have it done elsewhere."""
        await anyio.lowlevel.checkpoint_if_cancelled()
        if len(released) <= SHORT_CHARS:
            return self._build(permit, released, build)
        return await anyio.to_thread.run_sync(self._build, permit, released, build)

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
        key = key_of(permit, request) if permit.cache_s else None
        try:
            async with self.switch.cuts():
                how, answer = await self._answer(permit, request, key)
        except Exception as error:
            kind = failure_kind(error)
            await self._close(row, Outcome(kind, elapsed_us=_us_since(start)))
            return Failed(kind, decision)
        if how == CACHED:
            self.outflow.give_back(permit.caller, permit.where, decision.released)
        await self._close(row, Outcome(how, answer.status, len(answer.body), _us_since(start)))
        return Sent(decision, answer.status, answer.headers, answer.body, key, how == CACHED)

    async def _answer(self, permit: Permit, request: Request, key: Hashable) -> tuple[str, Answer]:
        """(how the send ended, the answer): `cached` when an equal request has got it before."""
        async with self._kept.turn(key or object()):
            if key and (held := self._kept.get(key)):
                return CACHED, held
            async with self._places.place(permit.destination, permit.caller.session, permit.timeout_s):
                with anyio.fail_after(permit.timeout_s):
                    answer = await self._ask(permit, request)
            if key and answer.status == 200:
                self._kept.put(key, answer, permit.cache_s)
            return "answered", answer

    async def _ask(self, permit: Permit, request: Request) -> Answer:
        """Look the name up once and ask exactly the addresses found, one after another until one is reached."""
        try:
            url = httpx.URL(request.url)
        except httpx.InvalidURL as error:
            raise BadUrl from error
        if url.scheme not in PORTS:
            raise BadUrl
        port = url.port or PORTS[url.scheme]
        self.switch.check()
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
        host = url.netloc.decode("ascii")
        asked, body = written(request.method, url.raw_path, host, permit.headers, request.form)
        self.switch.check()
        async with _connection(place, tls if secure else None, url.host, connect_s) as (reader, writer):
            self.switch.check()
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
    except SSLCertVerificationError as error:
        raise BadCertificate from error
    except OSError as error:
        raise Unreachable from error
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


def authorities(ca_file: str) -> SSLContext:
    """The usual authorities and those of the file, which is read anew when it has changed. Raises NoAuthorities."""
    try:
        return _authorities(ca_file, Path(ca_file).stat().st_mtime_ns if ca_file else 0)
    except (OSError, SSLError) as error:
        raise NoAuthorities("no file of authorities") from error


@lru_cache(maxsize=4)
def _authorities(ca_file: str, _changed_ns: int) -> SSLContext:
    context = httpx.create_ssl_context(trust_env=False)
    context.set_alpn_protocols(["http/1.1"])
    if ca_file:
        context.load_verify_locations(ca_file)
    return context


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host, in the resolver's order. Raises OSError or UnicodeError when there are none."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port)
    return list(dict.fromkeys(canonical(str(entry[4][0])) for entry in found))


def _us_since(start: float) -> int:
    return round((perf_counter() - start) * 1e6)
