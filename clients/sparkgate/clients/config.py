"""`sparkgate config`: the effective settings and where each comes from."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from sparkgate import paths
from sparkgate.clients.output import console, fail, print_json


@click.command(short_help="The effective settings and where each comes from.")
@click.option("--config", "config_file", type=click.Path(dir_okay=False), help="Another config.toml.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def config(config_file: str | None, as_json: bool) -> None:
    """Print every setting with its value, unit, origin and meaning.

    \b
    Example of a config.toml:
      [searxng]
      url = "http://127.0.0.1:8888"
    """
    from sparkgate.settings import SettingsError, load, rows

    path = Path(paths.config_path(config_file))
    try:
        found = list(rows(load(path), path))
    except SettingsError as error:
        fail(str(error))
    if as_json:
        print_json([asdict(row) for row in found])
        return
    shown = Table("setting", "value", "from", "meaning", box=None)
    for row in found:
        value = f"{row.value!s} {row.unit}" if row.unit not in ("", "URL") else str(row.value) or "(none)"
        shown.add_row(row.key, value, Text(row.origin, style="dim"), row.meaning)
    console().print(shown)
