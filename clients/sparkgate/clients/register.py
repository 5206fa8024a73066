"""`sparkgate register`: our servers in the configuration of hosts."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import click

from sparkgate import paths
from sparkgate.clients import register_options as options
from sparkgate.clients.hosts import HOSTS
from sparkgate.clients.hosts.entry import SERVER_NAMES, Launch, launches
from sparkgate.clients.output import fail
from sparkgate.clients.register_look import print_entry, print_status
from sparkgate.clients.registering.interpreter import is_temporary, passing
from sparkgate.clients.registering.jobs import Place, adding_jobs, open_doors, restoring_job
from sparkgate.clients.registering.plan import Wish
from sparkgate.settings import SettingsError, load

ALL = ",".join(SERVER_NAMES)


@click.command(short_help="Our servers in the configuration of a host.")
@options.HOST
@click.option("--all-detected", is_flag=True, help="Every host that is here.")
@options.PROFILE
@click.option("--server", "servers", help="Of search,engine,bench; all for which config.toml has a use.")
@click.option("--close-doors/--leave-doors", default=None, help="Turn the host's own web tools off in its file; asks.")
@options.REPLACE
@click.option("--any-interpreter", is_flag=True, help="Also an interpreter that will soon be gone.")
@options.YES
@options.DRY_RUN
@click.option("--status", is_flag=True, help="Only tell what is registered where.")
@click.option("--restore", is_flag=True, help="Put the newest copy of the host's file back.")
@click.option("--print", "printed", type=click.Choice(sorted(HOSTS)), metavar="HOST", help="Only print the entry.")
@click.option("--config", "config_file", type=click.Path(dir_okay=False), help="Another config.toml.")
@options.JSON
def register(
    host_names: tuple[str, ...],
    all_detected: bool,
    profile: str,
    servers: str | None,
    close_doors: bool | None,
    replace: bool,
    any_interpreter: bool,
    yes: bool,
    dry_run: bool,
    status: bool,
    restore: bool,
    printed: str | None,
    config_file: str | None,
    as_json: bool,
) -> None:
    """Put the entries of sparkgate's servers into the configuration of HOST, and leave every other byte of it alone.

    Shows the change and asks first. What you have changed in an entry stays. A copy of the file from before each
    change is kept in the state folder, and `sparkgate unregister` takes the entries out again.

    Exit code 0 when all is as it should be, 1 when something was refused or failed, 2 when --dry-run found a change.

    \b
    Examples:
      sparkgate register --host hermes
      sparkgate register --all-detected --dry-run
      sparkgate register --print openclaw
      sparkgate register --status
      sparkgate register --restore --host hermes
    """
    if status:
        named = dict.fromkeys(host_names)
        return print_status(named, _launches_for(config_file, servers), _launches_for(config_file, ALL), as_json)
    if printed:
        return print_entry(HOSTS[printed], _launches_for(config_file, servers))
    found = options.places(host_names, all_detected, profile)
    if restore:
        return options.run([[restoring_job(place)] for place in found], yes=yes, dry_run=dry_run, as_json=as_json)
    if (why := passing(sys.executable)) and not any_interpreter:
        fail(f"{sys.executable} will not last: {why}. Install sparkgate (pipx, uv tool, a venv), or --any-interpreter")
    if is_temporary(sys.executable) and not any_interpreter:
        click.echo(f"note: {sys.executable} is in a temporary folder; hosts find no server when it is gone", err=True)
    asks = close_doors is None and not yes and not dry_run and sys.stdin.isatty()
    started = _launches_for(config_file, servers)
    closes = _closes if asks else lambda _: bool(close_doors)
    jobs = (adding_jobs(place, started(place.host.name), Wish(replace, closes(place))) for place in found)
    options.run(jobs, yes=yes, dry_run=dry_run, as_json=as_json)


def _launches_for(config_file: str | None, servers: str | None) -> Callable[[str], tuple[Launch, ...]]:
    """Name of a host → how it starts each of our servers; ends the command when config.toml cannot be read."""
    config = paths.config_path(config_file)
    toolsets = [word.strip() for word in servers.split(",")] if servers else None
    if unknown := [word for word in toolsets or () if word not in SERVER_NAMES]:
        raise click.UsageError(f"there is no server {unknown[0]!r}; there are {', '.join(SERVER_NAMES)}")
    try:
        usual = list(SERVER_NAMES) if load(Path(config)).engines else ["search"]
    except SettingsError as error:
        if not paths.means_system():
            fail(str(error))
        usual = ["search"]  # its configuration is not to be read by others
    return lambda host: launches(host, config, toolsets or usual)


def _closes(place: Place) -> bool:
    """Ask about what the host's own files can turn off."""
    doors = [door for door in open_doors(place) if door.changes]
    for door in doors:
        click.echo(f"{place.host.title}: {door.what} Closing it: {door.way_out}.", err=True)
    return bool(doors) and click.confirm("Close these in its file?", default=True, err=True)
