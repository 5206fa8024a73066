"""`sparkgate register --print` and `--status`: what would stand in hosts' files, and what does."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace

import click

from sparkgate.clients.hosts import HOSTS
from sparkgate.clients.hosts.entry import Launch
from sparkgate.clients.hosts.host import Host
from sparkgate.clients.hosts.snippet import advice, snippet
from sparkgate.clients.output import fail, print_json
from sparkgate.clients.register_options import this_machine
from sparkgate.clients.register_show import short, show_plan
from sparkgate.clients.registering.jobs import Place, adding_jobs
from sparkgate.clients.registering.plan import Wish
from sparkgate.clients.registering.record import Registration, default_file, load
from sparkgate.clients.registering.refusal import Refused
from sparkgate.clients.registering.report import Report

Launches = Callable[[str], tuple[Launch, ...]]
STATES = {"same": "registered", "update": "outdated", "keep": "edited", "refuse": "foreign"}
"""What a registration would do now → what that says of the file."""


def print_entry(host: Host, launches: Launches) -> None:
    """What to paste goes to standard output; where it belongs, and what to mind, to standard error."""
    target = host.targets(this_machine())[0]
    if host.why:
        click.echo(f"# {host.title}: {host.why}", err=True)
    if not host.instead:
        click.echo(f"# {host.title}: merge this into {short(str(target.file))}", err=True)
    click.echo(snippet(host, target.format, target.key, launches(host.name)), nl=False)
    for sentence in advice(host):
        click.echo(f"# {sentence}", err=True)


def print_status(names: Collection[str], usual: Launches, every: Launches, as_json: bool) -> None:
    """Each installed host, or those of `names`; the exit code is 1 when something registered is not there, or dead."""
    try:
        reports = list(_all([HOSTS[name] for name in names] or HOSTS.values(), usual, every))
    except Refused as error:
        fail(str(error))
    if as_json:
        print_json([report.as_json() for report in reports])
    else:
        for report in reports:
            show_plan(report)
    raise SystemExit(int(any(report.failed for report in reports)))


def _all(hosts: Iterable[Host], usual: Launches, every: Launches) -> Iterator[Report]:
    where, record = this_machine(), load(default_file())
    for host in hosts:
        for target in host.targets(where):
            known = record.of(host.name, target.file)
            place = Place(host, target, where)
            if place.how != "print" and target.folder.is_dir() and (target.file.exists() or not known.is_empty):
                wanted = {launch.server for launch in usual(host.name)}
                yield _status(adding_jobs(place, every(host.name), Wish())[0].look(), known, wanted)


def _status(report: Report, known: Registration, wanted: set[str]) -> Report:
    """What the plan of a registration says of the file as it is."""
    servers = {}
    for server, action in report.servers.items():
        recorded = known.entry(server) is not None
        if server in report.dead:
            servers[server] = "dead"
        elif action != "add":
            servers[server] = STATES.get(action, action)
        elif recorded or server in wanted:
            servers[server] = "missing" if recorded else "absent"
    lost = not {"missing", "dead"}.isdisjoint(servers.values()) or (
        report.failed and not report.servers and not known.is_empty
    )
    return replace(report, servers=servers, failed=lost, would_change=False, diff="")
