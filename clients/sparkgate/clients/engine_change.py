"""`sparkgate engine plan|load|swap|unload|jobs|confirm|cancel`: changing engines from a terminal."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.text import Text

from sparkgate import paths
from sparkgate.clients.engine_options import CONFIG, JSON
from sparkgate.clients.output import console, fail, print_json

if TYPE_CHECKING:
    from sparkgate.change.control import Control
    from sparkgate.change.jobs import Kind
    from sparkgate.clients.host import HostSession
    from sparkgate.policy.audit import Caller

YES = click.option("--yes", is_flag=True, help="Confirm, where an agent lives on the engine that is stopped.")
UNFINISHED = "\nit goes on in the gate; `sparkgate engine jobs` tells how far it is"


@click.command()
@click.argument("name")
@click.option("--unload", is_flag=True, help="Plan to stop NAME, not to put it in the place of what runs.")
@click.option("--confirm", is_flag=True, help="Keep the plan, and print the plan_id an agent may use once.")
@click.option("--after-idle", "after_idle_s", default=0.0, help="Wait until nothing was asked for so many seconds.")
@CONFIG
@JSON
def plan(name: str, unload: bool, confirm: bool, after_idle_s: float, config_file: str | None, as_json: bool) -> None:
    """Show what swapping to NAME would do now: what is stopped, memory, outage, who lives on it, what is against it.

    Exit code 1 when something is against it.

    \b
    Examples:
      sparkgate engine plan qwen
      sparkgate engine plan qwen --confirm --after-idle 30
    """
    from sparkgate.change.jobs import JobsUnavailable
    from sparkgate.change.plan import plan_as_json
    from sparkgate.runtimes.spec import RuntimeFault
    from sparkgate.services import NotReady

    kind: Kind = "unload" if unload else "swap"
    try:
        made, stored = _control(config_file).plan(kind, name, _caller(), after_idle_s=after_idle_s, keep=confirm)
    except KeyError:
        fail(f"there is no [engines.{name}]; `sparkgate engine status` shows those there are")
    except (NotReady, JobsUnavailable, RuntimeFault) as error:
        fail(str(error))
    told = plan_as_json(made) | ({"plan_id": stored.id} if stored else {})
    print_json(told) if as_json else _show_plan(told, console())
    raise SystemExit(1 if made.refusals else 0)


def _control(config_file: str | None) -> Control:
    """What plans in this process. It changes nothing itself: that is the gate's."""
    from sparkgate.policy.guard import Guard
    from sparkgate.services import Services

    return Services(Path(paths.config_path(config_file)), Path(paths.state_dir()), Guard()).control


def _caller() -> Caller:
    """The person at this terminal, for the log."""
    from sparkgate.policy.audit import Caller

    pid = os.getpid()
    return Caller(f"cli-{pid}", "sparkgate-cli", pid=pid, uid=os.getuid(), gid=os.getgid(), cwd=str(Path.cwd()))


def _show_plan(told: dict[str, Any], out: Console) -> None:
    for step in told["steps"]:
        out.print(Text(f"  {step}"), soft_wrap=True)
    if told.get("nothing_to_do"):
        out.print("nothing is to be done")
    if memory := told.get("memory"):
        numbers = ", ".join(
            f"{key.removesuffix('_gib')} {memory[key]} GiB" for key in MEMORY if memory[key] is not None
        )
        out.print(Text(f"memory: {numbers}"))
    if told.get("outage_s"):
        out.print(f"outage: about {told['outage_s']:.0f} s, as last time")
    for who in told.get("protected_for", ()):
        out.print(Text(f"lives on it: {who}", style="yellow"))
    for warning in told.get("warnings", ()):
        out.print(Text(f"warning: {warning}", style="yellow"))
    for refusal in told.get("refusals", ()):
        out.print(Text(f"against it: {refusal['message']}", style="red"))
    if told.get("plan_id"):
        out.print(Text(f"plan_id: {told['plan_id']}", style="bold"))


MEMORY = ("available_gib", "credit_gib", "need_gib", "left_gib", "headroom_gib")


@click.command()
@click.argument("name")
@CONFIG
@JSON
def load(name: str, config_file: str | None, as_json: bool) -> None:
    """Start NAME when no other engine runs, and wait until it is ready. Exit code 1 when it does not become so.

    \b
    Example:
      sparkgate engine load qwen
    """
    change("load", name, config_file, as_json)


@click.command()
@click.argument("name")
@YES
@CONFIG
@JSON
def swap(name: str, yes: bool, config_file: str | None, as_json: bool) -> None:
    """Stop what runs, start NAME in its place, and wait; when that fails, the old engine is brought back.

    Exit code 1 when NAME is not ready in the end.

    \b
    Example:
      sparkgate engine swap gemma
    """
    change("swap", name, config_file, as_json, yes=yes)


@click.command()
@click.argument("name")
@YES
@CONFIG
@JSON
def unload(name: str, yes: bool, config_file: str | None, as_json: bool) -> None:
    """Stop NAME and see that its memory comes back.

    \b
    Example:
      sparkgate engine unload qwen
    """
    change("unload", name, config_file, as_json, yes=yes)


def change(kind: Kind, name: str, config_file: str | None, as_json: bool, *, yes: bool = False) -> None:
    """Ask the gate for a change and follow it to its end."""
    from sparkgate.change.jobs import JobsUnavailable
    from sparkgate.clients.host import HostError, HostSession
    from sparkgate.runtimes.spec import RuntimeFault
    from sparkgate.services import NotReady

    config = paths.config_path(config_file)
    out = console(to_stderr=True)
    try:
        with HostSession("engine", config) as session:
            answer = session.call(f"engine_{kind}", {"name": name})
            if answer.get("code") == "needs_confirmation" and _agrees(answer, yes, out):
                _, stored = _control(config_file).plan(kind, name, _caller(), keep=True)
                answer = session.call(f"engine_{kind}", {"name": name, "plan_id": stored.id if stored else ""})
            answer = _followed(session, answer, out)
    except (HostError, NotReady, JobsUnavailable, RuntimeFault) as error:
        fail(str(error))
    if as_json:
        print_json(answer)
    elif answer["ok"]:
        console().print(Text(answer.get("message", ""), style="green"))
    else:
        _show_failure(answer)
    raise SystemExit(0 if answer["ok"] else 1)


def _agrees(answer: dict[str, Any], yes: bool, out: Console) -> bool:
    """Whether the person at this terminal wants it all the same."""
    if yes or not os.isatty(0):
        return yes
    _show_plan(answer["plan"], out)
    return click.confirm("Go on?", default=False, err=True)


def _followed(session: HostSession, answer: dict[str, Any], out: Console) -> dict[str, Any]:
    """The answer at the end of a job, with its steps told as they come."""
    told: set[str] = set()
    try:
        while True:
            for step in answer.get("steps", ()):
                if step not in told:
                    out.print(Text(f"  {step}", style="dim"))
                told.add(step)
            if answer.get("state") != "running":
                return answer
            answer = session.call("engine_job", {"id": answer["job"], "wait_s": 1})
    except KeyboardInterrupt:
        fail(UNFINISHED)


def _show_failure(answer: dict[str, Any]) -> None:
    out = console(to_stderr=True)
    out.print(Text(f"{answer.get('code', 'failed')}: {answer.get('message', '')}", style="red"))
    for key in ("evidence", "advice"):
        if found := answer.get("diagnosis", {}).get(key):
            out.print(Text(f"  {key}: {found}"))


@click.command()
@click.argument("job", required=False, type=int)
@click.option("--limit", default=10, show_default=True, help="How many.")
@CONFIG
@JSON
def jobs(job: int | None, limit: int, config_file: str | None, as_json: bool) -> None:
    """The latest loads, swaps and unloads, newest first, or one of them with its steps.

    \b
    Examples:
      sparkgate engine jobs
      sparkgate engine jobs 12
    """
    from sparkgate.change.jobs import JobsUnavailable
    from sparkgate.change.story import job_as_json

    try:
        store = _control(config_file).jobs()
        found = [store.get(job)] if job else store.latest(limit)
        told = [job_as_json(one, store.steps(one.id) if job else ()) for one in found]
    except KeyError:
        fail(f"there is no job {job}")
    except JobsUnavailable as error:
        fail(str(error))
    if as_json:
        print_json(told)
        return
    for one in told:
        style = {"done": "green", "running": "yellow"}.get(one["state"], "red")
        line = f"{one['job']:>4}  {one['kind']} {one['engine']}  {one['state']}  {one['elapsed_s']} s  "
        console().print(Text(line + one.get("message", ""), style=style))
        for step in one.get("steps", ()):
            console().print(Text(f"      {step}"))
    if not told:
        console().print("nothing has been loaded, swapped or unloaded yet")


@click.command()
@click.argument("job", type=int)
@CONFIG
def confirm(job: int, config_file: str | None) -> None:
    """Keep the engine that JOB has put in the place of one an agent lived on; otherwise the old one comes back.

    \b
    Example:
      sparkgate engine confirm 12
    """
    _decide("confirm", job, config_file)


@click.command()
@click.argument("job", type=int)
@CONFIG
def cancel(job: int, config_file: str | None) -> None:
    """Ask JOB to end; what it has stopped is started again.

    \b
    Example:
      sparkgate engine cancel 12
    """
    _decide("cancel", job, config_file)


def _decide(what: str, job_id: int, config_file: str | None) -> None:
    """Say something of a running job, and what that comes to."""
    from sparkgate.change.jobs import JobsUnavailable
    from sparkgate.runtimes.spec import RuntimeFault
    from sparkgate.services import NotReady

    control = _control(config_file)
    try:
        job = (control.confirm if what == "confirm" else control.cancel)(job_id, _caller())
    except KeyError:
        fail(f"there is no job {job_id}; `sparkgate engine jobs` shows those there are")
    except (NotReady, JobsUnavailable, RuntimeFault) as error:
        fail(str(error))
    if job.state != "running":
        fail(f"job {job_id} has ended already ({job.state})")
    console().print(f"job {job_id}: {DECIDED[what].format(job=job)}")


DECIDED = {
    "confirm": "{job.target} stays",
    "cancel": "asked to end; `sparkgate engine jobs {job.id}` tells how",
}
COMMANDS = (plan, load, swap, unload, jobs, confirm, cancel)
