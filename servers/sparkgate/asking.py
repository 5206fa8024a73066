"""One question to the set of instances: to the first that can answer, and to the next when that one does not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from sparkgate import searxng
from sparkgate.asked_by import Tell, silent
from sparkgate.instances import Wait
from sparkgate.policy.audit import Caller
from sparkgate.policy.decision import Decision
from sparkgate.policy.egress import Ask, Failed, Permit, Refused, Request, Sent
from sparkgate.searxng import Problem, problem
from sparkgate.services import Live

TOTAL_S = 45.0
"""For all instances together: hosts give a call about a minute."""
LEAST_S = 1.0
CONFIG_S = 600.0
"""For which `/config` serves again."""
T = TypeVar("T")
Tried = tuple[str, Problem]


@dataclass(frozen=True, slots=True)
class Answered(Generic[T]):
    """What an attempt gave, and what those before it did not."""

    told: T
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class Asking:
    """Sends the requests of one call of a tool.

    Attributes:
        ask: asks a person whether a text may leave.
        tell: hears what is being done.
    """

    live: Live
    caller: Caller
    tool: str
    ask: Ask | None = None
    tell: Tell = silent
    _until_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.ask = _once(self.ask) if self.ask else None
        total_s = max(TOTAL_S, self.live.settings.searxng.timeout_s)
        self._until_s = self.live.instances.now_s() + total_s

    @property
    def left_s(self) -> float:
        return self._until_s - self.live.instances.now_s()

    async def send(
        self,
        url: str,
        text: str,
        path: str,
        fields: Mapping[str, str],
        build: Callable[[str], Request],
        cache_s: float = 0.0,
    ) -> Sent | Refused | Problem:
        """One request to one instance, through the policy and the log."""
        limits = self.live.settings.searxng
        permit = Permit(
            caller=self.caller,
            tool=self.tool,
            destination="searxng",
            origin=url,
            path=path,
            fields=fields,
            headers={**searxng.HEADERS, **self.live.logins.for_url(url)},
            timeout_s=max(LEAST_S, min(limits.timeout_s, self.left_s)),
            max_bytes=limits.max_answer_bytes,
            ca_file=limits.authorities,
            cache_s=cache_s,
        )
        sent = await self.live.egress.send(permit, text, build, self.ask)
        if isinstance(sent, Sent) and sent.cached and path == searxng.SEARCH:
            self.live.instances.give_back(url)
        return searxng.read_failure(sent, url) if isinstance(sent, Failed) else sent

    async def config(self, url: str) -> dict[str, Any] | Refused | Problem:
        """Engines and categories of one instance; carries nothing of the caller."""
        keep_s = CONFIG_S if self.live.settings.search.cache_s else 0.0
        sent = await self.send(url, "", "/config", {}, lambda _: searxng.config_request(url), keep_s)
        if isinstance(sent, (Problem, Refused)):
            return sent
        data = searxng.read_json(sent, url)
        if isinstance(data, Problem):
            self.live.egress.forget(sent)
        return data

    async def first(
        self, attempt: Callable[[str], Awaitable[T | Problem | Refused]]
    ) -> Answered[T] | Problem | Refused:
        """What the first instance that answers gives; one that does not is let rest, and the next is asked."""
        instances, tried = self.live.instances, list[Tried]()
        for url in instances.ready():
            if (tried and self.left_s < LEAST_S) or not instances.take(url):
                continue
            await self.tell(f"asking the next instance, {url}" if tried else f"asking {url}")
            told = await attempt(url)
            if isinstance(told, Refused):
                return told
            if not isinstance(told, Problem):
                instances.well(url)
                return Answered(told, self._instead(url, tried))
            if told.code in searxng.AT_FAULT:
                instances.rest(url, told.code, told.rest_s)
            elif not tried:
                return told
            tried.append((url, told))
        return self._nobody(tried)

    def _instead(self, url: str, tried: Sequence[Tried]) -> tuple[str, ...]:
        """Which others were the first choice, and why they did not answer."""
        why = dict(tried_words(tried))
        before = self.live.searxng_urls[: self.live.searxng_urls.index(url)] if url in self.live.searxng_urls else ()
        for other in before:
            waits = self.live.instances.wait(other)
            why.setdefault(other, wait_words(waits) if waits else "not asked")
        listed = ", ".join(f"{other} ({words})" for other, words in why.items())
        return (f"{url} answered instead of {listed}",) if listed else ()

    def _nobody(self, tried: Sequence[Tried]) -> Problem:
        """Why there is no answer, and when to ask again."""
        asked = {url for url, _ in tried}
        waits = [wait for url in self.live.searxng_urls if (wait := self.live.instances.wait(url))]
        others = [wait for wait in waits if wait.url not in asked]
        if len(tried) == 1 and not others:
            return tried[0][1]
        codes = {told.code for _, told in tried} or {"rate_limited" if _is_busy(waits) else "instances_down"}
        listed = "; ".join(f"{wait.url}: {wait_words(wait)}" for wait in others)
        said = [told.message for _, told in tried] or [problem("instances_down").message]
        words = [*dict.fromkeys(said), f"Not asked now: {listed}." if listed else "", LOOK if _has_fault(waits) else ""]
        soonest_s = min((wait.seconds for wait in waits), default=None)
        return Problem(codes.pop() if len(codes) == 1 else "instances_down", " ".join(filter(None, words)), soonest_s)


LOOK = "search_info looks at them now, and one that is mended is asked again."
LIMITS = ("per_minute", "rate_limited", "limiter", "blocked_address")


def _has_fault(waits: Sequence[Wait]) -> bool:
    return any(wait.why not in LIMITS for wait in waits)


def _is_busy(waits: Sequence[Wait]) -> bool:
    return any(wait.why in LIMITS for wait in waits)


def tried_words(tried: Sequence[Tried]) -> list[tuple[str, str]]:
    return [(url, told.code) for url, told in tried]


def wait_words(wait: Wait) -> str:
    """`timeout, in 20 s`; a full bucket is named by its setting."""
    why = "searxng.per_minute is used up" if wait.why == "per_minute" else wait.why
    return f"{why}, again in {wait.seconds} s"


def _once(ask: Ask) -> Ask:
    """The question of one call is put once, to however many instances its text goes."""
    said: dict[str, bool] = {}

    async def asked(decision: Decision) -> bool:
        if decision.asked not in said:
            said[decision.asked] = await ask(decision)
        return said[decision.asked]

    return asked
