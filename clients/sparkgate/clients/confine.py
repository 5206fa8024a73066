"""`sparkgate confine`: a command without a network, but for the gate and the model endpoints."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import click

from sparkgate import paths
from sparkgate.clients.confining.planning import both, planned
from sparkgate.confine.plan import Plan, Wall
from sparkgate.confine.view import BadView
from sparkgate.confine.wire import CANNOT_START
from sparkgate.setting_tables import ConfineSettings
from sparkgate.settings import Settings, SettingsError, load


@click.command(short_help="Run an agent without a network, but for the gate and the models.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--write", "write", multiple=True, metavar="PATH", help="A folder or file that it may change.")
@click.option("--read", "read", multiple=True, metavar="PATH", help="A folder or file to show that would be hidden.")
@click.option("--env", "names", multiple=True, metavar="NAME", help="A variable to pass on, whatever it holds.")
@click.option(
    "--socket",
    "sockets",
    multiple=True,
    metavar="PATH",
    help="A Unix socket of others that it may use: a way out, as far as who listens there goes.",
)
@click.option("--read-only", is_flag=True, help="The folder it starts in cannot be changed.")
@click.option("--best-effort", is_flag=True, help="Go on without what this machine cannot close, and say what that is.")
@click.option(
    "--wall",
    type=click.Choice(["bubblewrap", "unshare"]),
    help="bubblewrap, or sparkgate's own system calls; else what works here.",
)
@click.option("--config", "config_file", type=click.Path(dir_okay=False), help="Another config.toml.")
def confine(
    command: tuple[str, ...],
    write: tuple[str, ...],
    read: tuple[str, ...],
    names: tuple[str, ...],
    sockets: tuple[str, ...],
    read_only: bool,
    best_effort: bool,
    wall: Wall | None,
    config_file: str | None,
) -> None:
    """Run COMMAND with two ways out and no others: the gate's tools, and the engines of config.toml.

    Inside, each engine is at 127.0.0.1 and its usual port. There is no other network, no Unix socket of others, no
    process of others, no variable that is not known to be harmless; the files are there to be read, but for secrets and
    sparkgate's own; what can be changed is the folder it starts in, the host's own folder, and what --write names.

    What is always to be so stands in [confine] of config.toml. The exit code is that of COMMAND; 126 when it was not
    started, with the reason on standard error.

    \b
    Examples:
      sparkgate confine -- hermes
      sparkgate confine --write ~/sites --env OPENAI_API_KEY -- openclaw agent
      sparkgate confine -- sparkgate doctor --attack     # try every escape
      sparkgate confine -- bash                          # look around
    """
    config = paths.config_path(config_file)
    try:
        settings = load(Path(config)) if _is_readable(config) else Settings()
        asked = both(settings.confine, ConfineSettings(write=write, read=read, env=names, sockets=sockets))
        settings = replace(settings, confine=asked)
        plan = planned(command, settings, config, read_only=read_only, best_effort=best_effort, wall=wall)
    except (BadView, SettingsError) as error:
        click.echo(f"sparkgate: not started: {error}", err=True)
        raise SystemExit(CANNOT_START) from None
    _become_supervisor(plan)


def _is_readable(config: str) -> bool:
    """That of a gate of its own is not, for those who may ask it; what it hides is hidden from them anyway."""
    return not paths.means_system() or os.access(config, os.R_OK)


def _become_supervisor(plan: Plan) -> None:
    """The rest needs no click and no settings: on unified memory, that is memory the model keeps."""
    handle = os.memfd_create("plan")
    os.write(handle, plan.dumped())
    os.lseek(handle, 0, os.SEEK_SET)
    os.set_inheritable(handle, True)
    os.execv(sys.executable, [sys.executable, "-I", "-m", "sparkgate.confine.supervisor", str(handle)])
