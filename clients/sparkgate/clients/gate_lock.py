"""`sparkgate gate lock` and `unlock`: the kill switch."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from sparkgate import paths
from sparkgate.clients.gate import CONFIG, ask
from sparkgate.clients.output import fail, print_json
from sparkgate.policy.kill_switch import OPERATOR_FILE, KillSwitch, kill_switch_of, one_line

JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
BY_ROOT = f"`sudo mkdir -p {OPERATOR_FILE.parent} && sudo touch {OPERATOR_FILE}` locks every gate of this machine"
GATE_WORDS = {
    "told": "gate {pid} has cut {cut} calls that were under way",
    "absent": "no gate runs, and the next one starts locked",
    "silent": "gate {pid} does not answer and sends nothing new; `sparkgate gate stop` ends what it has under way",
    "elsewhere": "your own state folder",
    "refused": "your own state folder",
}
"""What has become of the gate → how the line that says `locked` goes on."""
NOT_LOCKED = {
    "elsewhere": "gate {pid} keeps its state in another folder, or is too old to know of locking",
    "refused": "it takes no orders from this user ({reason})",
}


@click.command()
@click.option("--reason", default="", metavar="TEXT", help="Why; every tool says it, so nothing that is a secret.")
@CONFIG
@JSON
def lock(reason: str, config_file: str | None, as_json: bool) -> None:
    """Stop every outbound call at once, until `gate unlock`. Holds across restarts, and needs no gate that answers.

    Searches, pages and engines of other machines are refused, what is under way is cut off, and every tool says so.
    Engines on this machine's loopback go on. /etc/sparkgate/locked, a file of root's, does the same, and `gate unlock`
    does not end it.

    \b
    Example:
      sparkgate gate lock --reason "strange queries since noon"
    """
    switch = kill_switch_of(Path(paths.state_dir()))
    new = _locked(switch, reason)
    found = ask(paths.config_path(config_file), "look")
    gate = _heard(found)
    if new:
        _mark(switch, config_file, "locked", reason=one_line(reason))
    told = switch.told()
    if as_json:
        more = {name: found[name] for name in ("pid", "cut", "not_cut") if name in found}
        print_json({"locked": told.as_json() if told else None, "gate": gate, **more})
    else:
        since = f" already, since {told.since}" if told and not new else ""
        click.echo(f"locked{since}: {GATE_WORDS[gate].format(pid=found.get('pid'), cut=found.get('cut'))}")
    if gate in NOT_LOCKED:
        fail(
            f"a gate is not locked by this: {NOT_LOCKED[gate].format(**{'pid': '?', 'reason': '?'} | found)}. {BY_ROOT}"
        )
    if found.get("not_cut"):
        fail(f"{found['not_cut']} calls have not ended yet; `sparkgate gate stop` twice cuts them off")


def _heard(found: dict[str, Any]) -> str:
    """What the gate made of it, a key of `GATE_WORDS`."""
    if "gate" in found:
        return "refused"
    if not found["running"]:
        return "absent"
    if found.get("answers") is False:
        return "silent"
    return "told" if found.get("locked") else "elsewhere"


def _locked(switch: KillSwitch, reason: str) -> bool:
    """Write the file; False when it was there. Exits 1 when nothing is locked by it."""
    try:
        paths.private_dir(os.path.realpath(paths.state_dir()))
        return switch.lock(reason)
    except OSError as error:
        if switch.told() is None:
            fail(f"{switch.own} cannot be written, so nothing is locked: {error}. {BY_ROOT}")
        click.echo(
            f"locked, although its file is not as it should be and may be lost with the power: {error}", err=True
        )
        return True


@click.command()
@CONFIG
@JSON
def unlock(config_file: str | None, as_json: bool) -> None:
    """End what `gate lock` began. Exits 1 while /etc/sparkgate/locked is there, which only root removes.

    \b
    Example:
      sparkgate gate unlock
    """
    end(kill_switch_of(Path(paths.state_dir())), config_file, as_json)


def end(switch: KillSwitch, config_file: str | None, as_json: bool) -> None:
    """Take our file away, and say whether that was enough; exits 1 when it is still locked."""
    removed = _unlocked(switch)
    if removed:
        _mark(switch, config_file, "unlocked")
    still = switch.told()
    if as_json:
        print_json({"removed": removed, "locked": still.as_json() if still else None})
    elif not still:
        click.echo("unlocked: what the policy allows may leave again" if removed else "it was not locked")
    if still:
        fail(f"still locked by {still.by}, which is the operator's: `sudo rm {still.by}` ends it")


def _unlocked(switch: KillSwitch) -> bool:
    try:
        return switch.unlock()
    except OSError as error:
        fail(f"still locked: {switch.own} cannot be removed ({error.strerror}); remove it by hand")


def _mark(switch: KillSwitch, config_file: str | None, what: str, **detail: str) -> None:
    """Write it into the log, where there is one. That this fails is told, and stops nothing."""
    from sparkgate.policy.audit import AuditLog, LogUnavailable
    from sparkgate.settings import SettingsError, load

    if switch.own is None or not (path := switch.own.with_name("audit.db")).exists():
        return
    try:
        head = load(Path(paths.config_path(config_file))).audit.head_file
        key = path.with_name("keys").joinpath("audit.key").read_bytes()
        log = AuditLog(path, key, head=Path(head).expanduser() if head else None)
        log.mark(what, {"by": str(switch.own), **detail, "uid": os.getuid()})
    except (OSError, SettingsError, LogUnavailable) as error:
        click.echo(f"{what}, but the log has no mark of it: {error}", err=True)
