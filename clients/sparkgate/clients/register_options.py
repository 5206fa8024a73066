"""What register and unregister share: which hosts, which servers, and how a change is shown and asked for."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import click

from sparkgate import paths
from sparkgate.clients.hosts import HOSTS
from sparkgate.clients.hosts.host import Host, System, Target, Where
from sparkgate.clients.output import fail, print_json
from sparkgate.clients.register_show import show_plan, show_result
from sparkgate.clients.registering.jobs import Place
from sparkgate.clients.registering.report import Job, Report

SYSTEMS: dict[str, System] = {"darwin": "darwin", "win32": "windows"}
WOULD_CHANGE = 2
USUAL = "default"
"""Name of the profile that has none."""
OF_THE_SYSTEM = frozenset({"XDG_CONFIG_HOME", "APPDATA", "LOCALAPPDATA"})
"""Variables that move the folders of all programs."""

HOST = click.option(
    "--host",
    "host_names",
    multiple=True,
    type=click.Choice(sorted(HOSTS)),
    metavar="HOST",
    help="Which host; may repeat.",
)
PROFILE = click.option("--profile", default="", help="Another profile or scope of the host than the usual one.")
YES = click.option("--yes", is_flag=True, help="Do not ask.")
DRY_RUN = click.option("--dry-run", is_flag=True, help="Only show the change; exit code 2 when there is one.")
REPLACE = click.option("--replace", is_flag=True, help="Also what you have changed, and an entry of another program.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def this_machine() -> Where:
    return Where(Path(paths.home()), dict(os.environ), SYSTEMS.get(sys.platform, "linux"), Path.cwd())


def places(names: Iterable[str], all_detected: bool, profile: str) -> list[Place]:
    """The places that the options name; ends the command when they name none."""
    where = this_machine()
    chosen = [HOSTS[name] for name in dict.fromkeys(names)]
    found = [_place(host, where, profile) for host in chosen]
    if all_detected:
        found += [place for host in HOSTS.values() if host not in chosen for place in _detected(host, where, profile)]
    if not found and all_detected:
        fail("no host that sparkgate knows, and whose file it may write, is installed here" + _with(profile))
    if not found:
        raise click.UsageError(f"say which with --host: {', '.join(HOSTS)}")
    return found


def _with(profile: str) -> str:
    return f" with a profile {profile!r}" if profile else ""


def _detected(host: Host, where: Where, profile: str) -> list[Place]:
    """The place of a host that is here, where there is one that is not only printed."""
    target = _target(host, where, profile) if is_there(host, where) else None
    place = Place(host, target, where) if target else None
    return [place] if place and place.how != "print" else []


def is_there(host: Host, where: Where) -> bool:
    """Whether a host is installed: a variable alone is no proof, as other programs may mean something else by it."""
    system = {name: value for name, value in where.environment.items() if name in OF_THE_SYSTEM}
    usual = host.targets(replace(where, environment=system, project=None))
    program = any(shutil.which(name, path=where.environment.get("PATH")) for name in host.binaries)
    own = program or any(target.folder.is_dir() for target in usual)
    return own and any(target.folder.is_dir() for target in host.targets(replace(where, project=None)))


def _target(host: Host, where: Where, profile: str) -> Target | None:
    """The file of a profile; without one, the first whose folder is there, and never a project's."""
    targets: Sequence[Target] = host.targets(where)
    if profile:
        names = {profile, "" if profile == USUAL else profile}
        return next((one for one in targets if one.profile in names), None)
    own = host.targets(replace(where, project=None))
    return next((one for one in own if one.folder.is_dir()), targets[0])


def _place(host: Host, where: Where, profile: str) -> Place:
    found = _target(host, where, profile)
    if found is None:
        known = ", ".join(one.profile for one in host.targets(where) if one.profile)
        fail(f"{host.title} has no profile {profile!r} here" + (f"; there are {known}" if known else ""))
    return Place(host, found, where)


def run(hosts: Iterable[Sequence[Job]], *, yes: bool, dry_run: bool, as_json: bool) -> None:
    """Show each change, ask, carry it out; the exit code tells whether all went well."""
    if as_json and not (yes or dry_run):
        raise click.UsageError("--json shows no change to say yes to: add --yes, or --dry-run to see it first")
    reports = [report for jobs in hosts for report in _run_all(jobs, yes, dry_run, as_json)]
    if as_json:
        print_json([report.as_json() for report in reports])
    failed = any(report.failed for report in reports)
    raise SystemExit(1 if failed else WOULD_CHANGE if dry_run and any(one.would_change for one in reports) else 0)


def _run_all(jobs: Sequence[Job], yes: bool, dry_run: bool, as_json: bool) -> Iterator[Report]:
    """The files of one host, as long as all goes well: doors stay open where there is nothing in their place."""
    for job in jobs:
        report = _run(job, yes, dry_run, as_json)
        yield report
        if report.failed:
            return


def _run(job: Job, yes: bool, dry_run: bool, as_json: bool) -> Report:
    seen = job.look()
    if not as_json:
        show_plan(seen)
    if dry_run or seen.failed:
        return seen
    if seen.would_change and not yes and not _confirmed():
        return _left(seen, as_json)
    done = job.carry_out()
    if not as_json and (seen.would_change or done.failed):
        show_result(done)
    return done


def _confirmed() -> bool:
    try:
        return click.confirm("Write this?", err=True)
    except click.Abort:
        click.echo(err=True)
        return False


def _left(seen: Report, as_json: bool) -> Report:
    if not as_json:
        click.echo("nothing was written; --yes goes ahead without asking", err=True)
    return replace(seen, failed=True, why=(*seen.why, "Nobody said yes."))
