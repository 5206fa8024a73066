"""`sparkgate engine`: what the engines of the catalogue say of themselves."""

from __future__ import annotations

from typing import Any

import anyio
import click
from rich.table import Table
from rich.text import Text

from sparkgate.clients import engine_change, engine_look
from sparkgate.clients.engine_discover import discover
from sparkgate.clients.engine_options import CONFIG, JSON, open_fleet
from sparkgate.clients.output import console, print_json
from sparkgate.engine_report import Rates, all_reports
from sparkgate.engines import ENGINES

COLOURS = {
    "ready": "green",
    "loading": "yellow",
    "starting": "yellow",
    "down": "red",
    "failed": "red",
    "wedged": "red",
    "unknown": "dim",
}


@click.group(short_help="The inference engines: state, load, swap, unload.")
def engine() -> None:
    """The engines of the catalogue: `[engines.NAME]` tables with a url in config.toml."""


@engine.command()
@click.argument("name", required=False)
@CONFIG
@JSON
def status(name: str | None, config_file: str | None, as_json: bool) -> None:
    """State, models and load of all engines, or of NAME, which is then asked for one token as well.

    Exit code 1 when an engine is neither ready nor stopped by its owner.

    \b
    Example:
      sparkgate engine status
    """

    async def ask() -> list[dict[str, Any]]:
        with open_fleet(config_file, name) as fleet:
            return await all_reports(fleet, [name] if name else list(fleet.catalogue), Rates(), prove=bool(name))

    found = anyio.run(ask)
    if as_json:
        print_json({"engines": found})
    else:
        console().print(_table(found) if found else "no engine is in the catalogue; add [engines.NAME] with a url")
    raise SystemExit(0 if all(_as_it_should_be(one) for one in found) else 1)


def _as_it_should_be(one: dict[str, Any]) -> bool:
    """Ready, or stopped by an owner that can start it again: of several engines only one is up."""
    stopped = one.get("runtime", {}).get("state") == "stopped"
    return bool(one["state"] == "ready" or (one["state"] == "down" and stopped))


def _table(found: list[dict[str, Any]]) -> Table:
    shown = Table("name", "engine", "state", "models", "running", "waiting", "memory", "warnings", box=None)
    for one in found:
        load_of: dict[str, Any] = one.get("load", {})
        held_gib = one.get("memory", {}).get("held_gib")
        title = ENGINES[one["engine"]].title if one["engine"] in ENGINES else one["engine"]
        shown.add_row(
            one["name"],
            f"{title} {one.get('version', '')}".strip(),
            Text(f"{one['state']} {one.get('stage', '')}".strip(), style=COLOURS.get(one["state"], "")),
            ", ".join(model["id"] for model in one.get("models", ()) if model.get("loaded") is not False),
            *(f"{load_of[key]:g}" if key in load_of else "–" for key in ("running", "waiting")),
            "–" if held_gib is None else f"{held_gib} GiB",
            "; ".join(one["warnings"]),
        )
    return shown


@engine.command()
@JSON
def kinds(as_json: bool) -> None:
    """The engines that are known, with their usual ports.

    \b
    Example:
      sparkgate engine kinds
    """
    if as_json:
        print_json([{"engine": one.name, "title": one.title, "port": one.port} for one in ENGINES.values()])
        return
    shown = Table("engine", "title", "usual port", box=None)
    for one in sorted(ENGINES.values(), key=lambda one: one.name):
        shown.add_row(one.name, one.title, str(one.port))
    console().print(shown)


for command in (*engine_change.COMMANDS, *engine_look.COMMANDS, discover):
    engine.add_command(command)
