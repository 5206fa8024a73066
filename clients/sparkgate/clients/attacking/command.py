"""`sparkgate doctor --attack`: every escape tried, from inside."""

from __future__ import annotations

import os
from collections.abc import Iterator

from rich.table import Table

from sparkgate import paths
from sparkgate.clients.attacking import files, network, processes
from sparkgate.clients.attacking.attempt import Attack, Reach, Result, State, tried
from sparkgate.clients.output import console, fail, print_json
from sparkgate.confine.record import Record, found

ATTACKS: tuple[Attack, ...] = (*network.ATTACKS, *processes.ATTACKS, *files.ATTACKS)
NOT_CONFINED = (
    "this process is not confined, so it reaches whatever you reach: there is nothing to try. "
    "Run it inside: sparkgate confine -- sparkgate doctor --attack"
)
STYLES: dict[State, str] = {"closed": "green", "open": "bold red", "not tried": "yellow"}


def results(record: Record, config: str) -> Iterator[Result]:
    """Each escape, tried in the order of the tables."""
    reach = Reach(record.targets, config, paths.socket_path(config), paths.state_dir(), os.path.realpath(paths.home()))
    for attack in ATTACKS:
        yield tried(attack, reach)


def attack(config: str, as_json: bool) -> int:
    """Try all and show each; exit code 0 when none got through."""
    record = found(config)
    if record is None:
        fail(NOT_CONFINED)
    made = list(results(record, config))
    if as_json:
        print_json({"confinement": record.as_json(), "attacks": [one.as_json() for one in made]})
    else:
        _show(record, made)
    return int(any(one.state == "open" for one in made))


def _show(record: Record, made: list[Result]) -> None:
    table = Table("escape", "state", "how", box=None)
    for one in made:
        table.add_row(one.title, f"[{STYLES[one.state]}]{one.state}[/]", one.how)
    console().print(table)
    counts = {state: sum(one.state == state for one in made) for state in STYLES}
    console().print(f"{record.told}: " + ", ".join(f"{count} {state}" for state, count in counts.items() if count))
