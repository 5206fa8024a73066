"""`sparkgate engine discover`: tables for the catalogue, from what runs on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sparkgate import paths
from sparkgate.clients.engine_options import CONFIG, JSON
from sparkgate.clients.output import fail, print_json
from sparkgate.policy.judge import Policy
from sparkgate.policy.rules import RuleError
from sparkgate.settings import SettingsError, load

if TYPE_CHECKING:
    from sparkgate.discover.discovery import Discovery

NOTHING = "no engine was found that is not in the catalogue"
NEXT = "paste what you want into {config}; set protect = true where an agent lives on an engine"


@click.command(short_help="Propose catalogue entries from what runs here.")
@CONFIG
@click.option(
    "--proc",
    default="/proc",
    show_default=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Where processes are looked for; in a container, the mounted /proc of its host.",
)
@JSON
def discover(config_file: str | None, proc: Path, as_json: bool) -> None:
    """Print `[engines.NAME]` tables for the engines of this machine that are not in the catalogue.

    Ports, processes, containers, units and pods are looked at; what listens is asked with at most six GET requests,
    without a key, none of which loads a model. Nothing is written and nothing is started.

    \b
    Example:
      sparkgate engine discover > proposed.toml
    """
    from sparkgate.discover.discovery import discover as look
    from sparkgate.discover.entry import proposals
    from sparkgate.machine.commands import runner

    config = Path(paths.config_path(config_file))
    try:
        catalogue = load(config).engines
        judge = Policy.from_folder(config.parent).judge
    except (SettingsError, RuleError) as error:
        fail(str(error))
    click.echo("looking at ports, processes, containers, units and pods …", err=True)
    seen = look(catalogue, runner(), proc=proc)
    found = proposals(seen.found, catalogue, judge)
    click.echo(_told(seen), err=True)
    if as_json:
        print_json([one.as_json() for one in found])
    else:
        click.echo("\n".join(one.as_toml() for one in found), nl=False)
    click.echo(NEXT.format(config=config) if found else NOTHING, err=True)


def _told(seen: Discovery) -> str:
    """What was done and left out, a line each."""
    known = f"; {seen.known} in the catalogue already" if seen.known else ""
    inner = f"; {seen.inner} started by another engine and left to it" if seen.inner else ""
    count = len(seen.found)
    first = f"asked {seen.asked} ports, found {count} {'engine' if count == 1 else 'engines'}{known}{inner}"
    return "\n".join((first, *seen.notes))
