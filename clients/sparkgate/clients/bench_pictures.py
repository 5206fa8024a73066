"""`sparkgate bench plot|report|export|import`: runs as pictures and text, and the way to other load generators."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sparkgate import paths
from sparkgate.clients.output import fail, print_json

if TYPE_CHECKING:
    from sparkgate.measure.interchange import Target
    from sparkgate.measure.plan import Plan

FILE = click.option("--file", "files", multiple=True, type=click.Path(), help="A run as JSON; - is standard input.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
OUTPUT = click.option("-o", "--output", type=click.Path(dir_okay=False), help="Where to write it.")
MAX_BYTES = 200_000_000


def read_runs(ids: Sequence[int], files: Sequence[str]) -> list[dict[str, Any]]:
    """Runs of the store and of files as JSON, without their requests; ends the command when one cannot be read."""
    found = [_from_file(name) for name in files]
    if ids:
        from sparkgate.clients.bench import opened
        from sparkgate.measure.record import full_json

        with opened() as store:
            found = [full_json(store, one) for one in ids] + found
    if not found:
        fail("name a run, such as the id that `sparkgate bench history` shows, or --file FILE")
    return [{name: value for name, value in run.items() if name != "bursts"} for run in found]


def _from_file(name: str) -> dict[str, Any]:
    try:
        told = json.loads(_bytes_of(name))
    except ValueError:
        fail(f"{name} is no JSON: `sparkgate bench show RUN --json` writes such a file")
    if not isinstance(told, dict) or not isinstance(told.get("cells"), list):
        fail(f"{name} is no run: it has no cells; `sparkgate bench show RUN --json` writes such a file")
    return told


def _bytes_of(name: str) -> bytes:
    try:
        with sys.stdin.buffer if name == "-" else Path(name).open("rb") as source:
            data: bytes = source.read(MAX_BYTES + 1)
    except OSError as error:
        fail(f"cannot read {name}: {error.strerror}")
    return data if len(data) <= MAX_BYTES else fail(f"{name} is larger than {MAX_BYTES} bytes")


def _write(output: str | None, data: bytes) -> None:
    """To a file, or to standard output."""
    if output is None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    try:
        Path(output).write_bytes(data)
    except OSError as error:
        fail(f"cannot write {output}: {error.strerror}")


@click.command(short_help="A picture of a run, or of two compared.")
@click.argument("runs", metavar="RUN [RUN]", type=int, nargs=-1)
@click.option("--picture", type=click.Choice(["sweep", "prefill", "compare"]), help="Left out, the one that suits.")
@FILE
@OUTPUT
@JSON
def plot(runs: tuple[int, ...], files: tuple[str, ...], picture: str | None, output: str | None, as_json: bool) -> None:
    """Draw RUN as PNG or SVG: rates against concurrency, or first token against prompt size; of two, both compared.

    It can be read in black and white. Needs the extra: pip install 'sparkgate[plot]'.

    \b
    Examples:
      sparkgate bench plot 12
      sparkgate bench plot 12 15 -o compared.svg
    """
    from sparkgate.measure.draw import drawn
    from sparkgate.measure.sheets import PictureError, picture_for

    found = read_runs(runs, files)
    chosen = picture or picture_for(found)
    name = output or f"bench-{'-'.join(map(str, runs)) or 'run'}-{chosen}.png"
    try:
        data = drawn(chosen, found, _format(name))
    except PictureError as error:
        fail(str(error))
    _write(name, data)
    print_json({"picture": chosen, "file": name, "size_bytes": len(data)}) if as_json else click.echo(name)


def _format(name: str) -> str:
    """By the end of a file's name."""
    ending = Path(name).suffix.lower().removeprefix(".")
    return ending if ending in ("png", "svg") else fail(f"{name} ends in neither .png nor .svg")


@click.command(short_help="A run as Markdown to publish.")
@click.argument("runs", metavar="[RUN]", type=int, nargs=-1)
@click.option("--picture", default="", help="Address or path of its picture, for the link.")
@FILE
@OUTPUT
@JSON
def report(runs: tuple[int, ...], files: tuple[str, ...], picture: str, output: str | None, as_json: bool) -> None:
    """Write RUN as Markdown: results, what speaks against them, published numbers, protocol and provenance.

    \b
    Example:
      sparkgate bench report 12 --picture sweep.svg -o report.md
    """
    from sparkgate.measure.markdown import report as written

    found = read_runs(runs, files)
    if len(found) > 1:
        fail("a report is of one run; `sparkgate bench plot A B` shows two side by side")
    text = written(found[0], picture)
    if as_json:
        print_json({"markdown": text})
    else:
        _write(output, text.encode())


@click.command(short_help="The same plan for guidellm or aiperf.")
@click.argument("what", metavar="RUN|KIND")
@click.option("--tool", required=True, type=click.Choice(["guidellm", "aiperf"]), help="Whose command lines to write.")
@click.option("--engine", default="", help="Engine of the catalogue; that of RUN when left out.")
@click.option("--url", default="", help="Where the engine is; that of the catalogue when left out.")
@click.option("--model", default="", help="Model to ask for; that of RUN when left out.")
@click.option("--tokenizer", default="", help="Hugging Face name or folder of the model's tokenizer.")
@click.option("--config", "config_file", type=click.Path(dir_okay=False), help="Another config.toml.")
@OUTPUT
@JSON
def export(what: str, tool: str, output: str | None, config_file: str | None, as_json: bool, **asked: str) -> None:
    """Write the plan of RUN, or the usual one of KIND, as a shell script for another load generator.

    The script says how what it measures differs from ours. Nothing is run.

    \b
    Examples:
      sparkgate bench export 12 --tool guidellm -o run.sh
      sparkgate bench export sweep --tool aiperf --url http://127.0.0.1:8000 --model qwen
    """
    from sparkgate.measure import interchange

    run = read_runs([int(what)], ())[0] if what.isdecimal() else {}
    planned = _plan(what, run)
    try:
        made, left_out = interchange.commands(planned, _target(run, config_file, asked), tool)
    except interchange.ExportError as error:
        fail(str(error))
    if as_json:
        print_json(interchange.as_json(made, left_out))
    else:
        _write(output, interchange.script(made, left_out, tool).encode())


def _plan(what: str, run: Mapping[str, Any]) -> Plan:
    from sparkgate.measure.plan import PlanError, from_json, plan

    try:
        return from_json(run["plan"]) if run else plan(what, secrets.randbits(128))
    except PlanError as error:
        fail(str(error))


def _target(run: Mapping[str, Any], config_file: str | None, asked: Mapping[str, str]) -> Target:
    """Address, model and kind of the engine, from the options, the run and the catalogue."""
    from sparkgate.measure.interchange import Target
    from sparkgate.settings import SettingsError, load

    try:
        catalogue = load(Path(paths.config_path(config_file))).engines
    except SettingsError as error:
        fail(str(error))
    entry = catalogue.get(asked["engine"] or run.get("engine", ""))
    url = asked["url"] or (entry.base if entry else "")
    if not url:
        fail("where the engine is, is not known: give --url, or the --engine of an [engines.NAME] in config.toml")
    facts = run.get("provenance", {})
    kind = str(facts.get("engine") or (entry.engine if entry else ""))
    model = asked["model"] or str(facts.get("model") or (entry.model if entry else ""))
    return Target(url, model, kind, asked["tokenizer"])


@click.command("import", short_help="A result of guidellm or aiperf as a run.")
@click.argument("files", metavar="FILE…", type=click.Path(), nargs=-1, required=True)
@JSON
def bench_import(files: tuple[str, ...], as_json: bool) -> None:
    """Keep the cells of all FILEs as one run that names its origin.

    They are benchmarks.json of guidellm, or profile_export_aiperf.json of aiperf. It is never compared with a run of
    ours, whose protocol is another. With --json the run is printed and not kept.

    \b
    Example:
      sparkgate bench import guidellm-00.json guidellm-01.json
    """
    from sparkgate.clients.bench import opened
    from sparkgate.measure.adopt import adopt
    from sparkgate.measure.interchange_read import ImportRefused, read_results

    try:
        run = read_results([_bytes_of(name) for name in files])
    except ImportRefused as error:
        fail(f"{', '.join(files)}: {error}")
    if as_json:
        print_json(run)
        return
    with opened() as store:
        number = adopt(store, run)
    click.echo(f"run {number}: {len(run['cells'])} cells of {run['origin']}, {run['validity']}")
