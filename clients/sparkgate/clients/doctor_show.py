"""How the doctor's findings look to people."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click
from rich.text import Text

from sparkgate.clients.doctoring.case import Case
from sparkgate.clients.doctoring.child import Child, child_of
from sparkgate.clients.doctoring.finding import CONFINED, Finding, Report
from sparkgate.clients.hosts.entry import SERVER_NAMES
from sparkgate.clients.output import console, print_json
from sparkgate.clients.register_show import short
from sparkgate.failures.diagnosis import without_secrets

COLOURS = {"ok": "green", "warn": "yellow", "fail": "red", "skip": "dim"}
HARMLESS = re.compile(r"^(?:PATH|HOME|PWD|LANG|LC_\w+|XDG_\w+|USER|LOGNAME|SHELL|TERM|TMPDIR|TZ|CLAUDECODE)$")
MASK = "***"
SERVER = re.compile("|".join(SERVER_NAMES.values()))


def show(report: Report) -> None:
    """One block: what is well in one line, then everything else."""
    out = console()
    profile = f" ({report.profile})" if report.profile else ""
    title = Text.assemble((f"{report.title}{profile}", "bold"), f"  {short(report.file)}  ")
    out.print(title.append(report.state, COLOURS.get(report.state, "dim")), soft_wrap=True)
    for line in (*_well(report), *_told(report), *_in_one_line(report), *_notes(report)):
        out.print(line, soft_wrap=True)


def _well(report: Report) -> Iterator[Text]:
    """Levels of which every finding is good."""
    levels = dict.fromkeys(finding.level for finding in report.findings)
    good = [level for level in levels if {one.state for one in report.findings if one.level == level} == {"ok"}]
    if good:
        yield Text.assemble("  ", ("ok  ", COLOURS["ok"]), f" {', '.join(good)}")


def _told(report: Report) -> Iterator[Text]:
    """What is the same of several servers stands once."""
    alike: dict[tuple[str, ...], list[Finding]] = {}
    for finding in report.findings:
        if finding.state in ("warn", "fail") and finding.code != CONFINED:
            alike.setdefault(_kind(finding), []).append(finding)
    for findings in alike.values():
        yield _line(findings)


def _kind(finding: Finding) -> tuple[str, ...]:
    words = "" if finding.level == "grace" else SERVER.sub("", finding.words)
    return finding.level, finding.code, finding.state, words


def _line(findings: Sequence[Finding]) -> Text:
    first, *others = findings
    names = dict.fromkeys(name for one in others for name in [one.server, *SERVER.findall(one.words)] if name)
    also = f" The same with {' and '.join(names)}." if names else ""
    way_out = f" Way out: {first.way_out}." if first.way_out else ""
    words = f" {first.level} {first.code}: {first.words}{also}{way_out}"
    return Text.assemble("  ", (first.state, COLOURS[first.state]), words)


def _in_one_line(report: Report) -> Iterator[Text]:
    """What only confinement closes, and what was not looked at."""
    if confined := [str(one.facts["door"]) for one in report.findings if one.code == CONFINED]:
        words = f" doors: only confinement of the host closes {', '.join(confined)} (sparkgate confine)"
        yield Text.assemble("  ", ("warn", COLOURS["warn"]), words)
    for words in dict.fromkeys(f"{one.level}: {one.words}" for one in report.findings if one.state == "skip"):
        yield Text(f"  skip {words}", style=COLOURS["skip"])


def _notes(report: Report) -> Iterator[Text]:
    for sentence in report.notes:
        yield Text(f"  note {sentence}", style=COLOURS["skip"])


def print_as_host(case: Case, as_json: bool) -> None:
    """How each server of ours is started by a host: as its file says, else as it would be registered."""
    entries = case.ours() or {name: case.host.entry(case.launch(name)) for name in sorted(case.usual)}
    written = bool(case.ours())
    told = [_child(name, child_of(case.host, entry, case.place.where)) for name, entry in entries.items()]
    if as_json:
        return print_json([one | {"registered": written} for one in told])
    click.echo(f"{case.host.title}: {short(str(case.place.target.file))}" + ("" if written else " (not registered)"))
    for one in told:
        _print_child(one)


def _child(name: str, child: Child) -> dict[str, Any]:
    argv = [without_secrets(word) for word in child.argv]
    return {"server": name, "argv": argv, "folder": child.folder, "environment": masked(child.environment)}


def masked(environment: Mapping[str, str]) -> dict[str, str]:
    """Values only of variables that hold no secrets."""
    return {name: value if HARMLESS.match(name) else MASK for name, value in sorted(environment.items())}


def _print_child(one: Mapping[str, Any]) -> None:
    click.echo(f"  {one['server']}\n    folder  {one['folder']}\n    argv    {' '.join(one['argv'])}")
    for name, value in one["environment"].items():
        click.echo(f"    {name}={value}")
