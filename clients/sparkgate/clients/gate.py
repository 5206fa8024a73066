"""`sparkgate gate`: the resident process."""

from __future__ import annotations

import json
import os
import time
from typing import Any

import click
from rich.table import Table

from sparkgate import paths, stdio
from sparkgate.clients.output import console, fail, print_json

CONFIG = click.option("--config", "config_file", type=click.Path(dir_okay=False), help="Another config.toml.")
STOP_PATIENCE_S = 60.0
CONTROL_TIMEOUT_S = 10.0


@click.group(short_help="The resident process: status, stop, run.")
def gate() -> None:
    """The one process with the network, the policy and the log. Hosts start it by themselves when it is absent."""


def ask(config: str, do: str) -> dict[str, Any]:
    """Ask the running gate; `{"running": False, …}` when none listens."""
    try:
        link = stdio.connect(paths.socket_path(config))
    except OSError:
        return {"running": False, "socket": paths.socket_path(config), "config": config}
    with link:
        link.settimeout(CONTROL_TIMEOUT_S)
        link.sendall(stdio.hello("control", do=do))
        with link.makefile("rb") as answers:
            return dict(json.loads(answers.readline() or b'{"running": false}'))


@gate.command()
@CONFIG
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(config_file: str | None, as_json: bool) -> None:
    """Tell whether a gate runs, with its process, version, sessions and jobs."""
    found = ask(paths.config_path(config_file), "status")
    if as_json:
        print_json(found)
        return
    table = Table(show_header=False, box=None)
    for name, value in found.items():
        table.add_row(name, str(value))
    console().print(table)


@gate.command()
@CONFIG
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def stop(config_file: str | None, as_json: bool) -> None:
    """Ask the gate to let its calls and jobs finish, then end; waits until it has."""
    found = ask(paths.config_path(config_file), "stop")
    ended = not found["running"] or _ends(found["pid"])
    if as_json:
        print_json({"stopped": bool(found["running"] and ended), "pid": found.get("pid")})
    else:
        console().print("no gate was running" if not found["running"] else f"gate {found['pid']} has ended")
    if not ended:
        fail(f"gate {found['pid']} is still finishing its jobs after {STOP_PATIENCE_S:.0f} s")


def _ends(pid: int) -> bool:
    deadline = time.monotonic() + STOP_PATIENCE_S
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


@gate.command()
@CONFIG
def run(config_file: str | None) -> None:
    """Run the gate in the foreground, for a service manager or for debugging. Its log goes to stderr."""
    from sparkgate import gate as process

    raise SystemExit(process.main(["--config", paths.config_path(config_file)]))
