"""`sparkgate register`: the entry for a host's configuration."""

from __future__ import annotations

from pathlib import Path

import click

from sparkgate import paths
from sparkgate.clients.hosts import HOSTS
from sparkgate.clients.hosts.entry import launches
from sparkgate.clients.output import fail
from sparkgate.settings import SettingsError, load


@click.command(short_help="The entry for a host's configuration.")
@click.option(
    "--print",
    "host_name",
    required=True,
    type=click.Choice(sorted(HOSTS)),
    help="Host to print the entry for.",
)
@click.option("--config", "config_file", type=click.Path(dir_okay=False), help="Another config.toml.")
def register(host_name: str, config_file: str | None) -> None:
    """Print what to paste into the host's configuration; nothing is written.

    The engine and benchmark servers are among it when config.toml has engines. The entry goes to standard output,
    where it belongs and what to mind goes to standard error.

    \b
    Example:
      sparkgate register --print hermes
    """
    host, config = HOSTS[host_name], paths.config_path(config_file)
    try:
        toolsets = ("search", "engine", "bench") if load(Path(config)).engines else ("search",)
    except SettingsError as error:
        fail(str(error))
    click.echo(f"# {host.title}: merge this into {host.file}", err=True)
    click.echo(host.snippet(launches(host.name, config, toolsets)), nl=False)
    click.echo(f"# {host.advice}", err=True)
