"""`sparkgate gate install|uninstall`: a gate that systemd keeps, of the machine or of one user."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from typing import Any

import click

from sparkgate import paths
from sparkgate.clients.installing.directives import USERS_GROUP
from sparkgate.clients.installing.plans import (
    CONFIG,
    STATE,
    install_system,
    install_user,
    uninstall_system,
    uninstall_user,
)
from sparkgate.clients.installing.steps import Step, StepFailed, carry_out
from sparkgate.clients.installing.trusted import objection, of_this_python
from sparkgate.clients.output import fail, print_json

SYSTEM = click.option(
    "--system", is_flag=True, help="The gate of the machine, under an account of its own. Needs root."
)
DRY_RUN = click.option("--dry-run", is_flag=True, help="Show every step and do none.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
HINT = f"`usermod -aG {USERS_GROUP} NAME` lets NAME come as far as its socket, [access] of {CONFIG} to toolsets"
BESIDE = "this machine has a gate of its own; `sparkgate --own gate {verb}` means one of yours beside it"
NO_SYSTEMD = "systemctl is not on this machine; `sparkgate gate run` runs a gate in the foreground, for another manager"
AGAIN = "mend that and run it again: what is done is skipped"


@click.command(short_help="Put the gate in systemd's hands; again: upgrade it.")
@SYSTEM
@click.option("--config", "config_file", type=click.Path(dir_okay=False), help="Without --system: another config.toml.")
@DRY_RUN
@JSON
def install(system: bool, config_file: str | None, dry_run: bool, as_json: bool) -> None:
    """Write the units of the gate and start its socket; on a machine that has them, put this version in force.

    \b
    Examples:
      sparkgate gate install                     a gate of yours, which systemd keeps
      sudo sparkgate gate install --system       one of the machine: its rules, key and log are no agent's

    With --system the gate runs as the user `sparkgate`. Who is in the group `sparkgate-users` comes as far as its
    socket, and may use what [access] in /etc/sparkgate/config.toml gives. What belongs to others it cannot do: an
    engine with runtime = "process" would run as `sparkgate` within the gate's limits, so give engines another owner:
    runtime = "systemd" or "docker" in their tables. For "systemd" a polkit rule lets `sparkgate` manage their units;
    for "docker" `sparkgate` has to be in the group `docker`, which is as good as root. Homes are hidden from it:
    known_files, weights and terms belong in places that `sparkgate` may read.
    """
    if system and config_file:
        raise click.UsageError(f"the gate of the machine has its configuration at {CONFIG}")
    _check(system, "install", writes=not dry_run)
    if system:
        paths.use_system()
        if problem := objection(of_this_python()):
            fail(problem)
        plan, after = list(install_system()), HINT
    else:
        plan, after = list(install_user(paths.config_path(config_file))), "`sparkgate gate status` tells how it is"
    _carry_out(plan, after, dry_run, as_json, before=None if system or dry_run else lambda: _end_own(config_file))


@click.command(short_help="Take the gate out of systemd's hands.")
@SYSTEM
@click.option("--purge", is_flag=True, help="With --system: also the log, the keys, the configuration and the account.")
@DRY_RUN
@JSON
def uninstall(system: bool, purge: bool, dry_run: bool, as_json: bool) -> None:
    """Stop the gate, remove its units and its socket. The log stays where it is, unless --purge.

    \b
    Examples:
      sparkgate gate uninstall
      sudo sparkgate gate uninstall --system --dry-run
    """
    if purge and not system:
        raise click.UsageError(f"--purge goes with --system; what is yours lies in {paths.state_dir()}")
    _check(system, "uninstall", writes=not dry_run)
    if system:
        paths.use_system()
    plan = list(uninstall_system(purge) if system else uninstall_user())
    stays = STATE if system else paths.state_dir()
    _carry_out(plan, "nothing of it is left" if purge else f"the log stays in {stays}", dry_run, as_json)


def _check(system: bool, verb: str, writes: bool) -> None:
    if paths.means_system() and not system:
        fail(BESIDE.format(verb=verb))
    if writes and not shutil.which("systemctl"):
        fail(NO_SYSTEMD)
    if system and writes and os.geteuid() != paths.ROOT:
        fail("the gate of the machine is installed by root: put sudo before it; --dry-run shows what it would do")


def _end_own(config_file: str | None) -> None:
    """A gate that a pipe has started would keep the place of the socket."""
    from sparkgate.clients.gate import ask

    ask(paths.config_path(config_file), "stop")


def _carry_out(
    plan: list[Step], after: str, dry_run: bool, as_json: bool, before: Callable[[], Any] | None = None
) -> None:
    done: list[str] = []

    def told(step: Step) -> None:
        done.append(step.what)
        if not as_json:
            click.echo(step.what)

    problem = ""
    if dry_run and not as_json:
        _show(plan)
    elif not dry_run:
        try:
            if before:
                before()
            carry_out(plan, told)
        except StepFailed as error:
            problem = str(error)
    left = [step.what for step in plan[len(done) :]]
    if as_json:
        print_json({"ok": not problem, "done": done, "left": left, "problem": problem, "next": after})
    elif not dry_run and not problem:
        click.echo(after)
    if problem:
        fail(f"{problem}\n{len(done)} of {len(plan)} steps are done; {AGAIN}")


def _show(plan: Iterable[Step]) -> None:
    for step in plan:
        click.echo(f"would {step.what}")
