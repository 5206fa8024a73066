"""Which engine answers at a URL: a few GETs, none of which loads a model or costs anything."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sparkgate.engines import ENGINES
from sparkgate.engines.spec import Engine, Route
from sparkgate.policy.local import Answer, LocalDoorError

MAX_REQUESTS = 6
NEEDS_KEY = (401, 403)
Get = Callable[[str], Answer]
"""path → answer; raises `LocalDoorError`."""


@dataclass
class Asked:
    """Answers by path; each path is asked once, and no more than `limit` in all.

    A route that fails is None, with its reason in `failures`; only when nobody answers at all is that an error.
    """

    get: Get
    answers: dict[str, Answer | None] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    limit: int = MAX_REQUESTS

    def __call__(self, path: str) -> Answer | None:
        """The answer of a path; None when it failed, or when the requests are used up.

        Raises:
            LocalDoorError: nobody answers.
        """
        if path not in self.answers and len(self.answers) < self.limit:
            try:
                self.answers[path] = self.get(path)
            except LocalDoorError as error:
                if error.reason in ("unreachable", "locked"):
                    raise
                self.answers[path], self.failures[path] = None, str(error)
        return self.answers.get(path)

    def json(self, path: str) -> Any:
        """The JSON of a path; None when it has none, or not with status 200."""
        answer = self(path)
        return _json(answer) if answer and answer.status == 200 else None

    def met(self, *statuses: int) -> bool:
        """Whether any answer so far had one of these statuses."""
        return any(answer is not None and answer.status in statuses for answer in self.answers.values())


@dataclass(frozen=True, slots=True)
class Identity:
    """`because` names what spoke for it: what it says, who owns its models, and the route that only it answers."""

    engine: Engine | None
    because: tuple[str, ...] = ()


def identify(asked: Asked) -> Identity:
    """Recognise an engine by what it says, by the owner of its models, and by a route that only it has.

    Raises:
        LocalDoorError: nobody answers.
    """
    root = asked("/")
    owners = _owners(asked.json("/v1/models"))
    hints = {name: found for name, engine in ENGINES.items() if (found := _hints(engine, root, owners))}
    likely = sorted(hints, key=lambda name: -len(hints[name]))
    for name in likely or _without_hint(owners):
        engine = ENGINES[name]
        if engine.proof and proves(asked, engine.proof):
            return Identity(engine, (*hints.get(name, ()), engine.proof.path))
    if likely:
        return Identity(ENGINES[likely[0]], hints[likely[0]])
    return Identity(ENGINES["openai"], ("/v1/models",)) if owners is not None else Identity(None)


def _without_hint(owners: frozenset[str] | None) -> list[str]:
    """Engines that a list of models does not speak against, although it does not speak for them either."""
    if owners is None:
        return []
    return [name for name, one in ENGINES.items() if not one.says and (not one.owned_by or not owners)]


def proves(asked: Asked, route: Route) -> bool:
    """Whether a route answers as only its engine does."""
    answer = asked(route.path)
    if answer is None or answer.status != 200 or route.says not in answer.text:
        return False
    found = _json(answer)
    if not route.key:
        return found is not None or bool(route.says)
    return isinstance(found, dict) and route.key in found


def _hints(engine: Engine, root: Answer | None, owners: frozenset[str] | None) -> tuple[str, ...]:
    says = bool(engine.says and root and root.status == 200 and engine.says in root.text)
    owns = bool(engine.owned_by and owners and engine.owned_by in owners)
    return ((f"/ says {engine.says}",) if says else ()) + ((f"owned_by {engine.owned_by}",) if owns else ())


def _owners(answer: Any) -> frozenset[str] | None:
    """Owners in an OpenAI list of models; None when it is no such list."""
    if not isinstance(answer, dict) or not isinstance(answer.get("data"), list):
        return None
    return frozenset(str(item.get("owned_by")) for item in answer["data"] if isinstance(item, dict))


def _json(answer: Answer) -> Any:
    try:
        return json.loads(answer.text)
    except (ValueError, RecursionError):
        return None
