"""What the commands about engines share: their options, and the engines of the catalogue."""

from __future__ import annotations

from pathlib import Path

import click

from sparkgate import paths
from sparkgate.clients.output import fail
from sparkgate.fleet import Fleet
from sparkgate.machine.commands import runner, spawner
from sparkgate.settings import SettingsError, load

CONFIG = click.option("--config", "config_file", type=click.Path(dir_okay=False), help="Another config.toml.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def open_fleet(config_file: str | None, name: str | None = None) -> Fleet:
    """The engines of the catalogue; ends the command when it cannot be read, or has no engine `name`."""
    try:
        settings = load(Path(paths.config_path(config_file)))
    except SettingsError as error:
        fail(str(error))
    if name and name not in settings.engines:
        fail(f"there is no [engines.{name}]; there are {', '.join(settings.engines) or 'none'}")
    state = Path(paths.state_dir())
    return Fleet(settings.engines, state, runner(), spawner(), off_box=settings.control.off_box)
