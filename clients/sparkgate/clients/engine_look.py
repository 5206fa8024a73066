"""`sparkgate engine doctor|logs|role`: looking closer at engines from a terminal."""

from __future__ import annotations

from typing import Any

import click
from rich.text import Text

from sparkgate.clients.engine_options import CONFIG, JSON, open_fleet
from sparkgate.clients.output import console, fail, print_json
from sparkgate.doctor.examination import examine, findings_as_json
from sparkgate.engines.spec import line
from sparkgate.failures.diagnosis import without_secrets
from sparkgate.machine.commands import runner
from sparkgate.runtimes.kubernetes import namespace_of, role_for

COLOURS = {"error": "red", "warning": "yellow", "info": "dim"}


@click.command()
@click.argument("name", required=False)
@CONFIG
@JSON
def doctor(name: str | None, config_file: str | None, as_json: bool) -> None:
    """Look for known traps of all engines and their machine, or of NAME, each with its evidence and what to do.

    Exit code 1 when there is an error among them.

    \b
    Example:
      sparkgate engine doctor
    """
    with open_fleet(config_file, name) as fleet:
        found = findings_as_json(examine(fleet, [name] if name else list(fleet.catalogue), runner()))
    print_json({"findings": found}) if as_json else _show(found)
    raise SystemExit(1 if any(one["level"] == "error" for one in found) else 0)


def _show(found: list[dict[str, Any]]) -> None:
    out = console()
    for one in found:
        out.print(Text(f"{one.get('engine') or 'machine'}: {one['id']}", style=COLOURS[one["level"]]))
        for key in ("evidence", "text", "advice"):
            out.print(Text(f"  {one[key]}"), soft_wrap=True)
    if not found:
        out.print("none of the known traps is there")


@click.command()
@click.argument("name")
@click.option("-n", "--lines", default=50, show_default=True, help="How many.")
@CONFIG
def logs(name: str, lines: int, config_file: str | None) -> None:
    """The last lines NAME has printed, without secrets; also those of a start that failed.

    \b
    Example:
      sparkgate engine logs qwen -n 200
    """
    with open_fleet(config_file, name) as fleet:
        for text in fleet.log(name, lines):
            click.echo(without_secrets(line(text)))


@click.command()
@click.argument("name")
@CONFIG
def role(name: str, config_file: str | None) -> None:
    """Print the Kubernetes Role that changing NAME needs, and no more than that.

    \b
    Example:
      sparkgate engine role vllm | kubectl apply -f -
    """
    with open_fleet(config_file, name) as fleet:
        entry = fleet.catalogue[name]
    if entry.runtime != "kubernetes":
        fail(f'engines.{name} has not runtime = "kubernetes"')
    click.echo(role_for(namespace_of(entry.unit)[0]))


COMMANDS = (doctor, logs, role)
