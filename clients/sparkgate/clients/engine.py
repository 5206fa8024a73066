"""`sparkgate engine`: what the engines of the catalogue say of themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from sparkgate import paths
from sparkgate.clients.output import console, fail, print_json
from sparkgate.engine_state import Status, as_json
from sparkgate.engines import ENGINES
from sparkgate.settings import EngineSettings, SettingsError, load

COLOURS = {"ready": "green", "loading": "yellow", "down": "red", "wedged": "red", "unknown": "dim"}


@click.group(short_help="What the inference engines say of themselves.")
def engine() -> None:
    """The engines of the catalogue: `[engines.NAME]` tables with a url in config.toml."""


@engine.command()
@click.argument("name", required=False)
@click.option("--config", "config_file", type=click.Path(dir_okay=False), help="Another config.toml.")
@click.option("--json", "as_json_", is_flag=True, help="Print JSON.")
def status(name: str | None, config_file: str | None, as_json_: bool) -> None:
    """State, models and load of all engines, or of NAME, which is then asked for one token as well.

    Exit code 1 when an engine is not ready.

    \b
    Example:
      sparkgate engine status
    """
    import anyio

    from sparkgate.engine import all_states

    catalogue = _catalogue(config_file)
    if name and name not in catalogue:
        fail(f"there is no [engines.{name}]; there are {', '.join(catalogue) or 'none'}")
    chosen = {name: catalogue[name]} if name else catalogue

    async def ask() -> list[Status]:
        return await all_states(chosen, prove=bool(name))

    found = anyio.run(ask)
    if as_json_:
        print_json({"engines": [as_json(one) for one in found]})
    else:
        console().print(_table(found) if found else "no engine is in the catalogue; add [engines.NAME] with a url")
    raise SystemExit(0 if all(one.state == "ready" for one in found) else 1)


def _catalogue(config_file: str | None) -> dict[str, EngineSettings]:
    try:
        return load(Path(paths.config_path(config_file))).engines
    except SettingsError as error:
        fail(str(error))


def _table(found: list[Status]) -> Table:
    shown = Table("name", "engine", "state", "models", "running", "waiting", "warnings", box=None)
    for one in found:
        load_of: dict[str, Any] = dict(one.load or {})
        shown.add_row(
            one.name,
            f"{one.title} {one.version or ''}".strip() or one.engine,
            Text(one.state, style=COLOURS[one.state]),
            ", ".join(model.id for model in one.models or () if model.loaded is not False),
            *(f"{load_of[key]:g}" if key in load_of else "–" for key in ("running", "waiting")),
            "; ".join(one.warnings),
        )
    return shown


@engine.command()
@click.option("--json", "as_json_", is_flag=True, help="Print JSON.")
def kinds(as_json_: bool) -> None:
    """The engines that are known, with their usual ports.

    \b
    Example:
      sparkgate engine kinds
    """
    if as_json_:
        print_json([{"engine": one.name, "title": one.title, "port": one.port} for one in ENGINES.values()])
        return
    shown = Table("engine", "title", "usual port", box=None)
    for one in sorted(ENGINES.values(), key=lambda one: one.name):
        shown.add_row(one.name, one.title, str(one.port))
    console().print(shown)
