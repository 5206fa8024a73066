"""Which agents live on an engine: what the operator says, and what the configurations of known hosts point at.

An engine that an agent lives on looks idle while the agent's tool call runs: its turn is over. So nothing but
configuration tells that stopping it ends the agent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sparkgate.fleet import Fleet
from sparkgate.machine.origins import origin
from sparkgate.paths import home
from sparkgate.routes import RoutedModel

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
FILE_MAX_BYTES = 2_000_000
Routes = tuple[RoutedModel, ...] | None


@dataclass(frozen=True, slots=True)
class Served:
    """An agent that lives on an engine, and the URL by which it asks."""

    host: str
    url: str


def served_by(name: str, fleet: Fleet, routers: Mapping[str, Routes], folder: Path | None = None) -> tuple[Served, ...]:
    """Who lives on this engine, directly or through a router; `routers` are those that answer, with their routes.

    A router that does not tell its routes may lead to any engine. `folder` is the home folder.
    """
    entry = fleet.catalogue[name]
    said = (Served("the agent that config.toml protects", entry.url),) if entry.protect else ()
    doors = {origin(entry.url)}
    for router, routes in routers.items():
        if routes is None or any(leads_to(route, entry.url) for route in routes):
            doors.add(origin(fleet.catalogue[router].url))
    return tuple(one for one in host_urls(folder or Path(home())) if origin(one.url) in doors) + said


def leads_to(route: RoutedModel, url: str) -> bool:
    """Whether a route goes to this engine at first."""
    return any(origin(f"http://{via}") == origin(url) for via in route.via)


def host_urls(folder: Path) -> Iterable[Served]:
    """Every URL that a known host's configuration names."""
    for host, file in HOST_FILES:
        for url in sorted(set(URL.findall(_text(folder / file)))):
            yield Served(host, url)


def _text(file: Path) -> str:
    try:
        with file.open(encoding="utf-8", errors="replace") as text:
            return text.read(FILE_MAX_BYTES)
    except OSError:
        return ""
