"""What a search costs beside mcp-searxng, on one real SearXNG whose engines are on loopback. Not a test.

Run it on an idle machine, from the top of the checkout; it needs npm, and installs what it needs into the cache folder:

    python tests/benchmarks/search.py                  # every figure, with 100 searches of each
    python tests/benchmarks/search.py --searches 300 --json
    python tests/benchmarks/search.py --only start     # one part: added, again, answer, start, memory or listing

added    milliseconds that a search takes longer than the same request to SearXNG itself: each query is asked of
         SearXNG, of us and of them in turn, who is first changes, and a difference is of one query. None comes twice
again    the same query once more, which both may answer from memory
answer   bytes for the same ten results: text that a model reads, and the whole line a host reads
start    from the start of the process to the result of initialize and to the first list of tools; ours with the gate
         that runs already, as for every session but the first, and without
memory   PSS, what a process costs by itself and its share of what several have mapped, after the searches of `added`
listing  bytes of the tools a host tells its model of, in its shortest JSON

Times are of this machine; the ratios are what may be compared. Both run with their defaults, but for our limit of
searches a minute, which is off.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import httpx

sys.path.append(str(Path(__file__).parent.parent))
from box import Box, Host, a_box
from long_results import WORDS, searxng
from real_hosts import NODE_VERSION, Program, _installed, _run, cache_folder, on_path

MCP_SEARXNG_VERSION = "2.4.0"
RESULTS = 10
WARM_UP = 10
STARTS = 9
SESSIONS = 5
CONFIG = """
[searxng]
url = "{url}"
per_minute = 0
"""


# -- the two servers


def mcp_searxng() -> Program:
    """The pinned release of it, and a Node.js that it runs on; installed once a machine."""
    npm = shutil.which("npm")
    if npm is None:
        sys.exit("mcp-searxng is installed with npm, and there is none on PATH (it comes with Node.js)")
    folder = cache_folder() / f"mcp-searxng-{MCP_SEARXNG_VERSION}-node{NODE_VERSION}"
    node = folder / "node_modules" / "node" / "bin"

    def build() -> None:
        downloads = folder / "downloads"
        install = [npm, "install", "--prefix", str(folder), "--cache", str(downloads), "--no-audit", "--no-fund"]
        _run([*install, f"node@{NODE_VERSION}"])
        _run([*install, f"mcp-searxng@{MCP_SEARXNG_VERSION}"], path=node)
        shutil.rmtree(downloads)

    _installed(folder, build)
    return Program(folder / "node_modules" / ".bin" / "mcp-searxng", node)


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two: how it is started, and what its search is called."""

    box: Box
    command: tuple[str, ...]
    environment: dict[str, str]
    tool: str
    ten: str

    def start(self) -> Host:
        return self.box.host(*self.command, **self.environment)

    def search(self, host: Host, query: str, **more: Any) -> dict[str, Any]:
        answer = host.ask("tools/call", {"name": self.tool, "arguments": {"query": query, self.ten: RESULTS, **more}})
        assert not answer["result"].get("isError") and "URL" in str(answer).upper(), answer
        return answer


@dataclass(frozen=True, slots=True)
class Bench:
    url: str
    ours: Side
    theirs: Side
    searches: int

    def sides(self) -> dict[str, Side]:
        return {"ours": self.ours, "theirs": self.theirs}


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the table; `ratio` is theirs to ours, so more is better for us."""

    name: str
    unit: str
    ours: float
    theirs: float
    note: str = ""

    @property
    def ratio(self) -> float:
        return round(self.theirs / self.ours, 2) if self.ours else 0.0

    def line(self) -> str:
        return f"{self.name:46} {self.ours:10,.1f} {self.theirs:10,.1f} {self.unit:5} {self.ratio:7.2f}  {self.note}"


@contextmanager
def bench(searches: int) -> Iterator[Bench]:
    program = mcp_searxng()
    with searxng() as url, a_box() as box:
        box.configure(CONFIG.format(url=url))
        path = on_path(program.path, box.environment)["PATH"]
        theirs = Side(
            box, (str(program.executable),), {"PATH": path, "SEARXNG_URL": url}, "searxng_web_search", "num_results"
        )
        yield Bench(url, Side(box, (), {}, "web_search", "max_results"), theirs, searches)


def spent_ms(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return 1e3 * (time.perf_counter() - begun)


def quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


# -- milliseconds a search


class Turns:
    """Each query asked of SearXNG, of us and of them."""

    def __init__(self, made: Bench, stack: ExitStack) -> None:
        self.made = made
        self.hosts = {name: side.start() for name, side in made.sides().items()}
        for host in self.hosts.values():
            host.initialize()
        self.client = stack.enter_context(httpx.Client(trust_env=False, timeout=30))
        self.times: dict[str, list[float]] = {"direct": [], "ours": [], "theirs": []}
        for number in range(WARM_UP):
            for name in self.times:
                self.ask(name, f"warm up {number}")

    def ask(self, name: str, query: str) -> None:
        if name == "direct":
            fields = {"q": query, "format": "json", "pageno": "1", "safesearch": "0"}
            found = self.client.post(f"{self.made.url}/search", data=fields).json()
            assert len(found["results"]) >= RESULTS
        else:
            self.made.sides()[name].search(self.hosts[name], query)

    def take(self, queries: Sequence[str]) -> None:
        names = list(self.times)
        for number, query in enumerate(queries):
            for name in names[number % 3 :] + names[: number % 3]:
                self.times[name].append(spent_ms(lambda name=name: self.ask(name, query)))  # type: ignore[misc]  # noqa: B023

    def added(self, name: str) -> list[float]:
        return [taken - direct for taken, direct in zip(self.times[name], self.times["direct"], strict=True)]


def queries(many: int) -> list[str]:
    draw = random.Random(7)
    return [f"{' '.join(draw.choices(WORDS, k=4))} {number}" for number in range(many)]


def added(made: Bench, turns: Turns) -> Iterator[Figure]:
    turns.take(queries(made.searches))
    direct = turns.times["direct"]
    note = (
        f"SearXNG itself {median(direct):.1f} ms, p95 {quantile(direct, 0.95):.1f} ms; {made.searches} searches of each"
    )
    yield Figure("added to a search, median", "ms", median(turns.added("ours")), median(turns.added("theirs")), note)
    ours, theirs = (quantile(turns.added(name), 0.95) for name in ("ours", "theirs"))
    yield Figure("added to a search, p95", "ms", ours, theirs, "SearXNG's own scatter is in it")
    yield Figure("a whole search, median", "ms", median(turns.times["ours"]), median(turns.times["theirs"]))
    ours, theirs = (quantile(turns.times[name], 0.95) for name in ("ours", "theirs"))
    yield Figure("a whole search, p95", "ms", ours, theirs)


def again(made: Bench, turns: Turns) -> Iterator[Figure]:
    taken: dict[str, list[float]] = {"ours": [], "theirs": []}
    for query in queries(40):
        for name, times in taken.items():
            turns.ask(name, f"again {query}")
            times.append(spent_ms(lambda name=name: turns.ask(name, f"again {query}")))  # type: ignore[misc]  # noqa: B023
    yield Figure("the same query again, median", "ms", median(taken["ours"]), median(taken["theirs"]), "a whole search")


# -- bytes


def answer(made: Bench, turns: Turns) -> Iterator[Figure]:
    query = "paged attention kernel"

    def of(name: str, **more: Any) -> tuple[int, int, str]:
        """Bytes of the text, bytes of the line, and how many results are in it."""
        told = made.sides()[name].search(turns.hosts[name], query, **more)
        text = told["result"]["content"][0]["text"]
        found = text.count('"url":') if name == "ours" else text.count("URL: ")
        line = json.dumps(told, ensure_ascii=False, separators=(",", ":"))
        return len(text.encode()), len(line.encode()), f"{found} results"

    brief, full, theirs_full = of("ours"), of("ours", detail="full"), of("theirs")
    compact = of("theirs", result_detail="compact")
    yield Figure("text: brief / compact", "bytes", brief[0], compact[0], f"{brief[2]} / {compact[2]}")
    yield Figure("text: brief / their default", "bytes", brief[0], theirs_full[0], f"{brief[2]} / {theirs_full[2]}")
    yield Figure("text: full / their default", "bytes", full[0], theirs_full[0], f"{full[2]} / {theirs_full[2]}")
    yield Figure("line: brief / their default", "bytes", brief[1], theirs_full[1], "ours holds it as structure too")


def listed(host: Host) -> tuple[int, int]:
    """Bytes of the list of tools, and how many they are."""
    tools = host.ask("tools/list")["result"]["tools"]
    return len(json.dumps(tools, ensure_ascii=False, separators=(",", ":")).encode()), len(tools)


def listing(made: Bench, turns: Turns) -> Iterator[Figure]:
    def of_few(side: Side, **environment: str) -> tuple[int, int]:
        host = replace(side, environment=side.environment | environment).start()
        host.initialize()
        return listed(host)

    ours, theirs = (listed(turns.hosts[name]) for name in ("ours", "theirs"))
    yield Figure("list of tools", "bytes", ours[0], theirs[0], f"{ours[1]} tools / {theirs[1]}")
    with a_box() as fresh:
        fresh.configure(f"{CONFIG.format(url=made.url)}[search]\nlite = true\n")
        ours, theirs = of_few(replace(made.ours, box=fresh)), of_few(made.theirs, SEARXNG_LITE_TOOLS="true")
    yield Figure("list of tools, for a small model", "bytes", ours[0], theirs[0], f"{ours[1]} tools / {theirs[1]}")


# -- start and memory


def started_ms(side: Side) -> tuple[float, float]:
    """To the result of initialize, and to the list of tools."""
    begun = time.perf_counter()
    host = side.start()
    host.initialize()
    ready = time.perf_counter()
    host.ask("tools/list")
    listed = time.perf_counter()
    host.close()
    return 1e3 * (ready - begun), 1e3 * (listed - begun)


def start(made: Bench, _: Turns) -> Iterator[Figure]:
    warm, theirs, cold = [], [], []
    for _number in range(STARTS):
        warm.append(started_ms(made.ours))
        theirs.append(started_ms(made.theirs))
        with a_box() as fresh:
            fresh.configure(CONFIG.format(url=made.url))
            cold.append(started_ms(Side(fresh, (), {}, made.ours.tool, made.ours.ten)))
    for place, name in enumerate(("initialize", "list of tools")):
        slow = median(times[place] for times in theirs)
        for label, ours in (("gate runs", warm), ("no gate yet", cold)):
            yield Figure(f"start to {name}, {label}", "ms", median(times[place] for times in ours), slow)


def held_mb(pid: int, kind: str = "Pss") -> float:
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except ProcessLookupError:  # a helper that has just ended
        return 0.0
    return int(rollup.partition(f"\n{kind}:")[2].split()[0]) / 1024


def with_children(pid: int) -> list[int]:
    below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(one for child in below for one in with_children(int(child)))]


def memory(made: Bench, turns: Turns) -> Iterator[Figure]:
    pipe = held_mb(turns.hosts["ours"].process.pid)
    [gate] = map(held_mb, made.ours.box.gate_pids())
    processes = with_children(turns.hosts["theirs"].process.pid)
    theirs = sum(map(held_mb, processes))
    resident = sum(held_mb(one, "Rss") for one in processes)
    yield Figure("memory of a session: our pipe", "MB", pipe, theirs, f"their RSS {resident:.1f} MB")
    yield Figure("memory of one session: pipe and gate", "MB", pipe + gate, theirs, f"the gate {gate:.1f} MB")
    more = {name: [side.start() for _ in range(SESSIONS - 1)] for name, side in made.sides().items()}
    for name, hosts in more.items():
        for host in hosts:
            host.initialize()
            host.ask("tools/list")
            made.sides()[name].search(host, f"memory {host.process.pid}")
    all_of = {name: [turns.hosts[name], *hosts] for name, hosts in more.items()}
    total = {
        name: sum(held_mb(one) for host in hosts for one in with_children(host.process.pid))
        for name, hosts in all_of.items()
    }
    total["ours"] += sum(map(held_mb, made.ours.box.gate_pids()))
    yield Figure(f"memory of {SESSIONS} sessions: pipes and gate", "MB", total["ours"], total["theirs"])


PARTS: dict[str, Callable[[Bench, Turns], Iterator[Figure]]] = {
    "added": added, "again": again, "answer": answer, "start": start, "memory": memory, "listing": listing,
}  # fmt: skip


def main(given: argparse.Namespace) -> None:
    load, figures = os.getloadavg()[0], []
    told = sys.stderr if given.json else sys.stdout
    print(f"load before the start: {load:.2f}", file=told)
    print(f"{'':46} {'ours':>10} {'theirs':>10} {'':5} {'ratio':>7}  mcp-searxng {MCP_SEARXNG_VERSION}", file=told)
    with bench(given.searches) as made, ExitStack() as stack:
        turns = Turns(made, stack)
        for name, part in PARTS.items():
            for figure in part(made, turns) if given.only in ("", name) else ():
                figures.append(asdict(figure) | {"part": name, "ratio": figure.ratio})
                print(figure.line(), file=told, flush=True)
    if given.json:
        print(json.dumps({"mcp_searxng": MCP_SEARXNG_VERSION, "load": load, "figures": figures}, indent=2))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--searches", type=int, default=100, help="searches of each, at least 60")
    parser.add_argument("--only", default="", choices=("", *PARTS))
    parser.add_argument("--json", action="store_true")
    main(parser.parse_args())
