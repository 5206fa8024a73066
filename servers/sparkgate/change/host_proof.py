"""Whether an agent reaches its new engine by the URL it had before: a chat with a tool in it, as hosts send them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sparkgate.change.scene import leads_to
from sparkgate.fleet import PROOF_S, Fleet
from sparkgate.machine.origins import origin
from sparkgate.policy.local import LocalDoorError

CHAT = "/v1/chat/completions"
ASK = {
    "messages": [{"role": "user", "content": "What time is it?"}],
    "max_tokens": 16,
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "clock",
                "description": "Tells the time.",
                "parameters": {"type": "object", "properties": {}},
            },
        }
    ],
    "disable_fallbacks": True,
}
"""A router that honours `disable_fallbacks` (LiteLLM) does not answer from somewhere else."""


def prove_host(url: str, asked: Sequence[str], name: str, fleet: Fleet) -> bool:
    """Whether a chat with a tool, sent to the host's URL by its own model names, is answered by the engine `name`.

    `asked` are the names in the host's configuration; without any, the engine's own name at that URL is tried. Nothing
    is asked of a router while sparkgate is locked.
    """
    door = next((one for one, entry in fleet.catalogue.items() if origin(entry.url) == origin(url)), "")
    there = _models(door, name, fleet) if door else []
    if door and fleet.locked(door, fleet.status(door)):
        return False
    direct = bool(door) and origin(url) == origin(fleet.catalogue[name].url)
    wanted = list(asked) or there[:1]
    known = all(model in there for model in wanted) or direct
    return bool(wanted) and known and all(_answers(door, model, fleet) for model in wanted)


def _models(door: str, name: str, fleet: Fleet) -> list[str]:
    """Names under which the engine is asked at this door: its own, or those that a router gives it."""
    url = fleet.catalogue[name].url
    if origin(fleet.catalogue[door].url) == origin(url):
        return [model.id for model in fleet.status(name).models or () if model.loaded is not False][:1]
    routes = fleet.routes(door, fleet.status(door).engine) or ()
    return [route.name for route in routes if leads_to(route, url) and not route.catch_all]


def _answers(door_name: str, model: str, fleet: Fleet) -> bool:
    try:
        answer = fleet.door(door_name, PROOF_S).post_json(
            fleet.catalogue[door_name].base + CHAT, ASK | {"model": model}
        )
        return answer.status == 200 and bool(json.loads(answer.text).get("choices"))
    except (LocalDoorError, ValueError, AttributeError):
        return False
