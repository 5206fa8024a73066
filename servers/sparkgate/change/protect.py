"""Which agents live on an engine: what the operator says, and what the configurations of known hosts point at.

An engine that an agent lives on looks idle while the agent's tool call runs: its turn is over. So nothing but
configuration tells that stopping it ends the agent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from sparkgate.change.scene import Scene
from sparkgate.fleet import Fleet
from sparkgate.machine.files import text_of
from sparkgate.machine.origins import origin
from sparkgate.paths import home
from sparkgate.routes import may_reach

HOST_FILES: tuple[tuple[str, str], ...] = (
    ("Hermes", ".hermes/config.yaml"),
    ("Hermes", ".hermes/.env"),
    ("OpenClaw", ".openclaw/openclaw.json"),
    ("OpenCode", ".config/opencode/opencode.json"),
    ("OpenCode", ".config/opencode/opencode.jsonc"),
    ("Codex", ".codex/config.toml"),
    ("Claude Code", ".claude/settings.json"),
    ("Qwen Code", ".qwen/settings.json"),
    ("Qwen Code", ".qwen/.env"),
    ("Crush", ".config/crush/crush.json"),
    ("Goose", ".config/goose/config.yaml"),
    ("nanobot", ".nanobot/config.json"),
)
"""(host, its configuration below the home folder): files in which a host names the model it asks."""
URL = re.compile(r"""https?://[^\s"'<>,}\])]+""")
WORD = re.compile(r"[^\s\"',{}\[\]]+")
"""Names of models have no blanks or brackets in any of these files."""
FILE_MAX_CHARS = 2_000_000


@dataclass(frozen=True, slots=True)
class Served:
    """An agent that lives on an engine: the URL by which it asks, and the model names its configuration holds."""

    host: str
    url: str
    models: tuple[str, ...] = ()


def served_by(name: str, fleet: Fleet, scene: Scene, folder: Path | None = None) -> tuple[Served, ...]:
    """Who lives on this engine, directly or through a router; `folder` is the home folder.

    A router that does not tell its routes may lead to any engine, and a name of a service to any port here.
    """
    url = fleet.catalogue[name].url
    names = {origin(url): {model.id for model in scene.statuses[name].models or ()}}
    for router, routes in scene.routers.items():
        leading = [route.name for route in routes or () if may_reach(route, url)]
        if routes is None or leading:
            names.setdefault(origin(fleet.catalogue[router].url), set()).update(leading)
    said = [
        Served("the agent that config.toml protects", one.url)
        for one in fleet.catalogue.values()
        if one.protect and origin(one.url) in names
    ]
    hosts = [one for one in host_urls(folder or Path(home())) if origin(one.url) in names]
    return (*(_named(one, names[origin(one.url)]) for one in hosts), *said)


def _named(served: Served, names: set[str]) -> Served:
    """With those of the names that stand in its host's configuration: the ones it asks by."""
    return replace(served, models=tuple(sorted(names & set(served.models))))


def host_urls(folder: Path) -> Iterable[Served]:
    """Every URL that a known host's configuration names, with all its words."""
    for host, file in HOST_FILES:
        text = text_of(folder / file, FILE_MAX_CHARS)
        for url in sorted(set(URL.findall(text))):
            yield Served(host, url, tuple(WORD.findall(text)))
