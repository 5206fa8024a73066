"""`sparkgate gate`: the resident process."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from sparkgate import link, paths
from sparkgate.clients.command_table import CommandTable
from sparkgate.clients.output import console, fail, print_json
from sparkgate.daemon import last_gate
from sparkgate.policy.kill_switch import kill_switch_of

CONFIG = click.option("--config", "config_file", type=click.Path(dir_okay=False), help="Another config.toml.")
STOP_PATIENCE_S = 60.0
CONTROL_TIMEOUT_S = 5.0


COMMANDS: dict[str, str] = {
    "status": "sparkgate.clients.gate:status",
    "stop": "sparkgate.clients.gate:stop",
    "run": "sparkgate.clients.gate:run",
    "lock": "sparkgate.clients.gate_lock:lock",
    "unlock": "sparkgate.clients.gate_lock:unlock",
    "install": "sparkgate.clients.gate_install:install",
    "uninstall": "sparkgate.clients.gate_install:uninstall",
}
"""Name of a command → module:attribute."""


@click.group(cls=CommandTable, table=COMMANDS, short_help="The resident process: status, stop, run, lock.")
def gate() -> None:
    """The one process with the network, the policy and the log. Hosts start it by themselves when it is absent."""


def ask(config: str, do: str) -> dict[str, Any]:
    """Ask the running gate: its status, `{"running": False, …}`, or `{"running": True, "answers": False, "pid"}`."""
    silent = {"running": True, "answers": False, "pid": last_gate(config), "config": config}
    try:
        connection = link.connect(paths.socket_path(config))
    except BlockingIOError:
        return silent
    except OSError:
        return {"running": False, "socket": paths.socket_path(config), "config": config}
    except link.Barred as error:
        fail(str(error))
    with connection:
        connection.settimeout(CONTROL_TIMEOUT_S)
        try:
            connection.sendall(link.hello("control", do=do))
            with connection.makefile("rb") as answers:
                return dict(json.loads(answers.readline()))
        except TimeoutError:
            return silent
        except (OSError, ValueError):
            return {"running": False, "socket": paths.socket_path(config), "config": config}


@gate.command()
@CONFIG
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(config_file: str | None, as_json: bool) -> None:
    """Tell whether a gate runs, with its process, version, sessions and jobs."""
    locked = kill_switch_of(Path(paths.state_dir())).told()
    found = {"locked": locked.as_json() if locked else None} | ask(paths.config_path(config_file), "status")
    if as_json:
        print_json(found)
        return
    if found.get("gate") == "refused":
        fail(found["reason"])
    if found["locked"]:
        found["locked"] = ", ".join(filter(None, (found["locked"][name] for name in ("by", "since", "reason"))))
    confined = found.pop("confinements", [])
    found |= {f"confined {one['name']}": f"process {one['pid']}, models: {', '.join(one['doors'])}" for one in confined}
    table = Table(show_header=False, box=None)
    for name, value in found.items():
        table.add_row(name, str(value))
    console().print(table)


@gate.command()
@CONFIG
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def stop(config_file: str | None, as_json: bool) -> None:
    """Ask the gate to let its calls and jobs finish, then end; waits until it has."""
    config = paths.config_path(config_file)
    found = ask(config, "stop")
    if found.get("gate") == "refused":
        fail(found["reason"])
    pid = found.get("pid") or last_gate(config)
    if pid and found.get("answers") is False:
        click.echo(f"gate {pid} does not answer; killing it", err=True)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    ended = pid is None or _ends(pid)
    if as_json:
        print_json({"stopped": bool(pid and ended), "pid": pid})
    elif ended:
        console().print(f"gate {pid} has ended" if pid else "no gate was running")
    if not ended:
        fail(f"gate {pid} is still finishing its calls after {STOP_PATIENCE_S:.0f} s; kill {pid} cuts them off")


def _ends(pid: int) -> bool:
    """Wait for the end of a process that is not our child (pidfd_open(2))."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], STOP_PATIENCE_S)[0])
    finally:
        os.close(handle)


@gate.command()
@CONFIG
def run(config_file: str | None) -> None:
    """Run the gate in the foreground, for a service manager or for debugging. Its log goes to stderr."""
    from sparkgate import gate as process

    raise SystemExit(process.main(["--config", paths.config_path(config_file)]))
