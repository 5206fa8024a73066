"""Which engine answers at a URL: a few GETs, none of which loads a model or costs anything."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sparkgate.engines import ENGINES
from sparkgate.engines.spec import Engine, Route
from sparkgate.policy.local import Answer

MAX_REQUESTS = 6
Get = Callable[[str], Answer]
"""path → answer; raises `LocalDoorError`."""


@dataclass
class Asked:
    """Answers by path; each path is asked once, and no more than `limit` in all."""

    get: Get
    answers: dict[str, Answer] = field(default_factory=dict)
    limit: int = MAX_REQUESTS

    def __call__(self, path: str) -> Answer | None:
        """The answer of a path; None when the requests are used up.

        Raises:
            LocalDoorError: nobody answers.
        """
        if path not in self.answers:
            if len(self.answers) >= self.limit:
                return None
            self.answers[path] = self.get(path)
        return self.answers[path]

    def json(self, path: str) -> Any:
        """The JSON of a path; None when it has none, or not with status 200."""
        answer = self(path)
        return _json(answer) if answer and answer.status == 200 else None


@dataclass(frozen=True, slots=True)
class Identity:
    """`certain` when a route that only this engine has answered; `because` names what spoke for it."""

    engine: Engine | None
    certain: bool
    because: tuple[str, ...]


def identify(asked: Asked) -> Identity:
    """Recognise an engine by what it says, by the owner of its models, and by a route that only it has.

    Raises:
        LocalDoorError: nobody answers.
    """
    root = asked("/")
    owners = _owners(asked.json("/v1/models"))
    hints = {engine.name: _hints(engine, root, owners) for engine in ENGINES.values()}
    likely = sorted((name for name in hints if hints[name]), key=lambda name: -len(hints[name]))
    for name in [*likely, *(name for name in ENGINES if not hints[name] and owners is not None and _unowned(name))]:
        engine = ENGINES[name]
        if engine.proof and proves(asked, engine.proof):
            return Identity(engine, True, (*hints[name], engine.proof.path))
    unproven = [name for name in likely if ENGINES[name].proof is None]
    if unproven:
        return Identity(ENGINES[unproven[0]], False, hints[unproven[0]])
    if owners is not None:
        return Identity(ENGINES["openai"], False, ("/v1/models",))
    return Identity(None, False, ())


def proves(asked: Asked, route: Route) -> bool:
    """Whether a route answers as only its engine does."""
    answer = asked.json(route.path)
    return answer is not None and (not route.key or (isinstance(answer, dict) and route.key in answer))


def _unowned(name: str) -> bool:
    """Engines that cannot be told by the owner of their models."""
    return not ENGINES[name].owned_by


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
