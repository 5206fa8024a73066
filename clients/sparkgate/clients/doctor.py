"""`sparkgate doctor`: whether hosts can use our servers, level by level."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from sparkgate import paths
from sparkgate.clients import register_options as options
from sparkgate.clients.attacking.command import attack
from sparkgate.clients.doctor_show import print_as_host, show
from sparkgate.clients.doctoring.case import Case
from sparkgate.clients.doctoring.choice import chosen, concerns_us, looked_for
from sparkgate.clients.doctoring.examination import Cold, Means, examine
from sparkgate.clients.doctoring.files import examine_file
from sparkgate.clients.doctoring.finding import Finding, Report, only_warned
from sparkgate.clients.hosts import HOSTS
from sparkgate.clients.hosts.entry import SERVER_NAMES
from sparkgate.clients.output import fail, print_json
from sparkgate.clients.registering.jobs import Place
from sparkgate.clients.registering.record import Record, default_file, load
from sparkgate.clients.registering.refusal import Refused
from sparkgate.confine.record import found
from sparkgate.settings import SettingsError
from sparkgate.settings import load as load_settings


@click.command(short_help="Whether hosts can use our servers, level by level.")
@options.HOST
@click.option("--profile", default="", help="Only this profile or scope of the hosts.")
@click.option("--no-spawn", is_flag=True, help="Start nothing: only look into files.")
@click.option(
    "--trust",
    is_flag=True,
    help="Start whatever program the files name, with your rights: also what sparkgate has not written there, as in "
    "the files of a project that you have cloned.",
)
@click.option("--native", is_flag=True, help="Also ask the host's own program, which may take a minute.")
@click.option(
    "--as-host",
    type=click.Choice(sorted(HOSTS)),
    metavar="HOST",
    help="Only print command, environment and folder of the servers as HOST starts them.",
)
@click.option("--attack", "attacks", is_flag=True, help="Only try every escape from the confinement this runs in.")
@click.option("--config", "config_file", type=click.Path(dir_okay=False), help="Another config.toml.")
@options.JSON
def doctor(
    host_names: tuple[str, ...],
    profile: str,
    no_spawn: bool,
    trust: bool,
    native: bool,
    as_host: str | None,
    attacks: bool,
    config_file: str | None,
    as_json: bool,
) -> None:
    """Look whether the hosts of this machine, or HOST, can use sparkgate's servers, and what goes past them.

    \b
    Levels: file, entry, interpreter, spawn (as the host starts it: its part of the environment, its folder, its
    revision of the protocol), grace (how long a start takes against how long the host waits), gates (what hides the
    tools), doors (its own ways to the network), native (what the host itself says).

    Only what is known to be sparkgate's is started: a command that register has written there, or this sparkgate with
    nothing that changes it. Starting a server starts the gate, as a host would. Nothing is sent to the web, and no file
    is changed.

    Exit code 0 when all is well or only warned of, 1 when something is wrong, 2 for wrong usage.

    \b
    Examples:
      sparkgate doctor
      sparkgate doctor --host hermes --native
      sparkgate doctor --as-host openclaw
      sparkgate confine -- sparkgate doctor --attack
    """
    if attacks:
        raise SystemExit(attack(paths.config_path(config_file), as_json))
    doctored = Doctored(paths.config_path(config_file), Means(spawns=not no_spawn, asks=native), profile, trust)
    if as_host:
        return print_as_host(doctored.case_of(as_host), as_json)
    reports = list(doctored.reports(host_names))
    if as_json:
        print_json([report.as_json() for report in reports])
    elif reports:
        _show_confinement(paths.config_path(config_file))
        for report in reports:
            show(report)
    elif profile:
        fail(f"no host here has a profile {profile!r}")
    else:
        folders = "\n  ".join(looked_for(list(HOSTS.values()), doctored.where))
        click.echo(f"No host that sparkgate knows is installed here. Looked for:\n  {folders}")
    raise SystemExit(int(any(report.failed for report in reports)))


def _show_confinement(config: str) -> None:
    """Inside one, which it is; outside, nothing: most are."""
    if record := found(config):
        click.echo(f"This is {record.told}.")


class Doctored:
    """The hosts of this machine.

    Args:
        config: path of config.toml.
        profile: only this one; "" for all.
        trust: whether what the files name may be started, whatever it is.
    """

    def __init__(self, config: str, means: Means, profile: str, trust: bool) -> None:
        self.where = options.this_machine()
        self._config, self._means, self._profile, self._trust = config, means, profile, trust
        self._usual = _usual(config)
        self._record = _record()
        self._cold: Cold = {}

    def reports(self, names: tuple[str, ...]) -> Iterator[Report]:
        for host in [HOSTS[name] for name in dict.fromkeys(names)] or HOSTS.values():
            places = list(chosen(host, self.where, self._record, self._profile, bool(names)))
            if names and not places:
                known = ", ".join(one.profile for one in host.targets(self.where) if one.profile)
                fail(f"{host.title} has no profile {self._profile!r} here" + (f"; there are {known}" if known else ""))
            for place in places:
                yield self._report(place, bool(names))

    def case_of(self, name: str) -> Case:
        """The file of a host with something of ours, or its usual one; broken ones end the command."""
        places = list(chosen(HOSTS[name], self.where, self._record, self._profile, True))
        if not places:
            fail(f"{HOSTS[name].title} has no profile {self._profile!r} here")
        text, data, found = _file(places[0])
        if problem := next((one for one in found if one.state == "fail" and one.code != "not_installed"), None):
            fail(problem.words)
        return self._case(places[0], text, data)

    def _report(self, place: Place, named: bool) -> Report:
        text, data, found = _file(place)
        target = place.target
        if any(one.code in STOPS for one in found):
            ours = named or concerns_us(place.host, target, self._record)
            state = "not installed" if found[0].code == "not_installed" else "fail" if ours else "not registered"
            told = tuple(found) if ours else only_warned(found)
            return Report(place.host.name, place.host.title, target.profile, str(target.file), state, told)
        return examine(self._case(place, text, data), found, self._means, self._cold, named)

    def _case(self, place: Place, text: str, data: object) -> Case:
        known = self._record.of(place.host.name, place.target.file, place.target.profile)
        return Case(place, text, data if isinstance(data, dict) else {}, known, self._config, self._usual, self._trust)


STOPS = {"not_installed", "unreadable", "broken"}
"""Findings of a file behind which there is nothing to look at."""


def _file(place: Place) -> tuple[str, object, list[Finding]]:
    folder: Path = place.target.folder
    if folder.is_dir():
        return examine_file(place.target)
    words = f"{place.host.title} is not installed: there is no folder {folder}."
    return "", {}, [Finding("file", "not_installed", "fail", words, "install it, or start it once")]


def _usual(config: str) -> frozenset[str]:
    """Servers for which config.toml has a use; one that cannot be read is told by the start of a server."""
    try:
        engines = bool(load_settings(Path(config)).engines)
    except SettingsError:
        engines = False
    return frozenset(SERVER_NAMES.values()) if engines else frozenset({SERVER_NAMES["search"]})


def _record() -> Record:
    try:
        return load(default_file())
    except Refused as error:
        fail(str(error))
