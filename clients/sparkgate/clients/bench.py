"""`sparkgate bench`: measuring engines from a terminal, and reading what was measured."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table
from rich.text import Text

from sparkgate import paths
from sparkgate.clients.output import console, fail, print_json

if TYPE_CHECKING:
    from sparkgate.clients.host import HostSession
    from sparkgate.measure.store import Store, StoredCell

CONFIG = click.option("--config", "config_file", type=click.Path(dir_okay=False), help="Another config.toml.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
PICTURES = "sparkgate.clients.bench_pictures"
PICTURE_COMMANDS = {"plot": "plot", "report": "report", "export": "export", "import": "bench_import"}
UNFINISHED = "\nit goes on in the gate; `sparkgate bench job` tells how far it is, with --cancel it ends"
STYLES = {"valid": "green", "tainted": "yellow", "invalid": "red"}


class BenchTable(click.Group):
    """A group that reads the commands that draw only when one of them is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        drawing = PICTURE_COMMANDS if importlib.util.find_spec(PICTURES) else ()
        return [*super().list_commands(ctx), *drawing]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in PICTURE_COMMANDS and importlib.util.find_spec(PICTURES):
            command: Any = getattr(importlib.import_module(PICTURES), PICTURE_COMMANDS[cmd_name], None)
            return command if isinstance(command, click.Command) else None
        return super().get_command(ctx, cmd_name)


@click.group(cls=BenchTable, short_help="Benchmarks: run, compare, history, published numbers.")
def bench() -> None:
    """Measure the engines of the catalogue, and read what was measured.

    \b
    Examples:
      sparkgate bench run quick --engine qwen
      sparkgate bench compare 3 7
    """


@contextmanager
def opened() -> Iterator[Store]:
    """The file of the runs; ends the command when it cannot be used."""
    from sparkgate.measure.store import Store, StoreUnavailable

    try:
        store = Store(Path(paths.state_dir()) / "bench.db")
        try:
            yield store
        finally:
            store.close()
    except StoreUnavailable as error:
        fail(str(error))
    except KeyError as missing:
        fail(f"there is no run {missing.args[0]}; `sparkgate bench history` shows those there are")


@bench.command()
@click.argument("kind")
@click.option("--engine", default="", help="Engine of the catalogue; may be left out when only one is ready.")
@click.option("--concurrency", default="", help="Streams at once, such as 1,4,16.")
@click.option("--prompt-tokens", default="", help="Lengths of prompts, such as 512,8192.")
@click.option("--output-tokens", default=0, help="Tokens of each answer.")
@click.option("--repeats", default=0, help="Repeats of each measurement.")
@click.option("--max-seconds", default=0, help="Longest time it may take.")
@click.option("--thinking", is_flag=True, help="Let the model think.")
@CONFIG
@JSON
def run(config_file: str | None, as_json: bool, **asked: Any) -> None:
    """Measure, wait for the end and show the numbers; what is left out is as usual for KIND.

    Exit code 0 when it was done, whatever the numbers are worth: that is its validity.

    \b
    Examples:
      sparkgate bench run quick
      sparkgate bench run sweep --engine qwen --concurrency 1,16 --output-tokens 400 --repeats 5 --json
    """
    from sparkgate.clients.host import HostError, HostSession

    out = console(to_stderr=True)
    try:
        with HostSession("bench", paths.config_path(config_file)) as session:
            answer = session.call("bench_run", asked)
            if not answer["ok"]:
                refuse(answer, as_json)
            for key in filter(answer.get, ("note", "left_out")):
                out.print(Text(f"{key.replace('_', ' ')}: {answer[key]}", style="yellow"), soft_wrap=True)
            ended = followed(session, answer["run"])
    except HostError as error:
        fail(str(error))
    with opened() as store:
        show_run(store, ended["run"], as_json)


def refuse(answer: dict[str, Any], as_json: bool) -> None:
    """Say why nothing is done, and exit 1."""
    if as_json:
        print_json(answer)
    fail(f"{answer.get('code', 'failed')}: {answer.get('message', '')}")


def followed(session: HostSession, run_id: int) -> dict[str, Any]:
    """The answer at the end of a run, with its progress told on stderr as it comes."""
    out, told = console(to_stderr=True), ""
    try:
        while True:
            answer = session.call("bench_job", {"id": run_id, "wait_s": 1})
            if "state" not in answer:
                fail(f"{answer['code']}: {answer['message']}")
            if answer["state"] != "running":
                return answer
            numbers = ", ".join(f"{name} {value:g}" for name, value in answer.get("headline", {}).items())
            line = f"  run {run_id}: {answer['progress']}{'; ' * bool(numbers)}{numbers}"
            if line != told:
                out.print(Text(line, style="dim"), soft_wrap=True)
            told = line
    except KeyboardInterrupt:
        fail(UNFINISHED)


def show_run(store: Store, run_id: int, as_json: bool) -> None:
    """Print a run; ends the command with 1 when it did not come to its end."""
    from sparkgate.measure.record import read_cells, result_json, run_contrasts

    found = store.run(run_id)
    cells = read_cells(store, found)
    if as_json:
        against = [one.as_json() for one in run_contrasts(store, found, cells)]
        print_json(result_json(found, cells) | ({"contrasts": against} if against else {}))
    else:
        show_cells(store, run_id, cells)
    raise SystemExit(0 if found.state in ("done", "running") else 1)


def show_cells(store: Store, run_id: int, cells: list[StoredCell]) -> None:
    """A table of the cells, and in words what was wrong and what to do."""
    from sparkgate.measure.record import flag_lines, label, numbers, run_contrasts, sweep_finding

    found, out = store.run(run_id), console()
    ended = found.validity or found.state
    title = f"run {run_id}: {found.kind} on {found.engine} {found.model}, {ended}"
    out.print(Text(title, style=STYLES.get(ended, "")), soft_wrap=True)
    shown = Table("cell", "numbers", "flags", box=None)
    for cell in cells:
        style = STYLES.get(cell.status, "dim")
        shown.add_row(label(cell, cells), Text(numbers(cell), style=style), " ".join(f["id"] for f in cell.flags))
    if cells:
        out.print(shown)
    finding = sweep_finding(found, cells)
    words = [f"{finding.text}; {finding.advice}"] if finding else []
    failure = [f"{found.code}: {found.message}"] if found.code else []
    against = [one.text for one in run_contrasts(store, found, cells)]
    for text in (*against, *words, *flag_lines(cells), *found.notes, *failure):
        out.print(Text(text), soft_wrap=True)


@bench.command()
@click.argument("run_id", metavar="RUN", type=int, default=0)
@click.option("--cancel", is_flag=True, help="End it; what was measured is kept.")
@CONFIG
@JSON
def job(run_id: int, cancel: bool, config_file: str | None, as_json: bool) -> None:
    """How far RUN is, or how it ended; without RUN the latest.

    \b
    Examples:
      sparkgate bench job
      sparkgate bench job 12 --cancel
    """
    from sparkgate.bench_answers import job_answer
    from sparkgate.clients.host import HostError, HostSession

    try:
        if cancel:
            with HostSession("bench", paths.config_path(config_file)) as session:
                answer = session.call("bench_job", {"id": run_id, "wait_s": 20, "cancel": True})
        else:
            with opened() as store:
                answer = job_answer(store, run_id or latest(store))
    except HostError as error:
        fail(str(error))
    if not answer["ok"] and answer.get("code") == "unknown_run":
        refuse(answer, as_json)
    print_json(answer) if as_json else show_answer(answer)
    raise SystemExit(0 if answer["ok"] or cancel else 1)


def latest(store: Store) -> int:
    """Id of the latest run; ends the command when there is none."""
    found = store.latest(1)
    return found[0].id if found else fail("nothing has been measured yet")


def show_answer(answer: dict[str, Any]) -> None:
    """An answer of a tool for a person: a line a fact, a line an item of a list."""
    out = console()
    for name, value in answer.items():
        if isinstance(value, list):
            out.print(f"{name}:")
            for item in value:
                out.print(Text(f"  {item}"), soft_wrap=True)
        elif name not in ("ok", "next"):
            out.print(Text(f"{name}: {value}"), soft_wrap=True)


@bench.command()
@click.argument("run_id", metavar="RUN", type=int)
@JSON
def show(run_id: int, as_json: bool) -> None:
    """The numbers of RUN; with --json all that is stored: provenance, plan, facts, every burst and request.

    \b
    Example:
      sparkgate bench show 12 --json
    """
    from sparkgate.measure.record import full_json

    with opened() as store:
        if as_json:
            print_json(full_json(store, run_id))
        else:
            show_run(store, run_id, as_json=False)


@bench.command()
@click.argument("a")
@click.argument("b")
@JSON
def compare(a: str, b: str, as_json: bool) -> None:
    """Whether run B is faster than run A, or passes more tasks, cell by cell.

    Two settings that were measured in turns, A B B A, have several runs each: name all of a side with commas between.
    As many on both sides are compared pair by pair, so that what drifts meanwhile cancels.

    \b
    Examples:
      sparkgate bench compare 3 7
      sparkgate bench compare 3,6 4,5
    """
    from sparkgate.bench_beside import WRONG_SIDES, comparison, sides_of

    if (sides := sides_of(a, b)) is None:
        raise click.UsageError(WRONG_SIDES)
    with opened() as store:
        answer = comparison(store, *sides)
    if not answer["ok"]:
        refuse(answer, as_json)
    if as_json:
        print_json(answer)
    else:
        show_answer({name: value for name, value in answer.items() if name != "judged"})


@bench.command()
@click.option("--engine", default="", help="Only runs of this engine.")
@click.option("--kind", default="", help="Only runs of this kind.")
@click.option("--limit", default=20, show_default=True, help="How many.")
@JSON
def history(engine: str, kind: str, limit: int, as_json: bool) -> None:
    """The latest runs, newest first.

    \b
    Example:
      sparkgate bench history --engine qwen
    """
    from sparkgate.measure.record import read_cells, result_json, when

    with opened() as store:
        found = store.latest(limit, engine=engine, kind=kind)
        told = [
            {"at": when(one), "kind": one.kind, "engine": one.engine, "model": one.model}
            | result_json(one, read_cells(store, one))
            for one in found
        ]
    if as_json:
        print_json(told)
    elif told:
        console().print(_history_table(told))
    else:
        console().print("nothing has been measured yet")


def _history_table(told: list[dict[str, Any]]) -> Table:
    shown = Table("run", "begun", "kind", "engine", "model", "valid cells", "validity", box=None)
    for one in told:
        cells = f"{sum(cell['valid'] for cell in one['cells'])} of {len(one['cells'])}"
        ended = one["validity"] or one["state"]
        words = (str(one["run_id"]), one["at"], one["kind"], one["engine"], one["model"], cells)
        shown.add_row(*words, Text(ended, style=STYLES.get(ended, "dim")))
    return shown


@bench.command()
@click.argument("model", default="")
@JSON
def reference(model: str, as_json: bool) -> None:
    """Published numbers of MODEL beside what was measured here; without MODEL, of the one measured last.

    Those that break the roofline are listed too; with --json all of them, and how many times the ceiling they are.

    \b
    Example:
      sparkgate bench reference qwen3.6-35b-a3b
    """
    from sparkgate.bench_beside import published

    with opened() as store:
        answer = published(store, model)
    if not answer["ok"]:
        refuse(answer, as_json)
    if as_json:
        print_json(answer)
    else:
        show_answer(answer | {"implausible": [claim["text"] for claim in answer["implausible"]]})
