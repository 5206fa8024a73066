"""Kills the gate and writers of the log at random moments under load, and counts what the log then lacks.

By hand, from the top of the checkout, as long as wanted:

    python tests/audit_kill.py --kills 200 --rounds 10

Several clients search through stdio pipes without a pause; every query is told apart. The server that stands where
SearXNG stands notes each query before it answers. The gate is killed with SIGKILL, the next call of a pipe starts
another one. Nothing may be missing afterwards: no row of a query that reached SearXNG, none of a call that a client
was told is done, and no link of the chain. Then the same with processes that write to one log by the library.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from box import Box, Host, a_box, wait_until_ended
from engine_box import until
from fake_searxng import FakeSearxng

from sparkgate.policy.audit import AuditLog
from sparkgate.policy.samples import fill
from sparkgate.policy.trail.chain import Chain
from sparkgate.policy.trail.head import HeadFile
from sparkgate.policy.trail.read import read_rows, reading
from sparkgate.policy.trail.verify import verify

PATIENCE_S = 60.0
ALL = 10_000_000
KEY = b"k" * 32
TOKEN = fill("hf_{mixed:34}")
WORDS = (
    *("kernel", "tensor", "cache", "driver", "router", "prefill", "decode", "batch"),
    *("sampler", "thread", "stream", "adapter", "shard", "logits", "config", "latency"),
)
KINDS = (
    "how do I tune the {} of an inference engine",
    "jane.doe@acme-robotics.io asks about the {} of an engine",
    "why is the {} slow on two nodes",
    f"{{}} and {TOKEN}",
)
"""What clients ask in turn: one of four is redacted and one is blocked."""
WIDE = """
[searxng]
url = "{url}"
per_minute = 0
[search]
cache_s = 0
[policy]
window_queries = 2
queries_per_hour = 100000
queries_per_day = 1000000
bytes_per_hour = 1000000000
bytes_per_day = 10000000000
bits_per_hour = 1000000000
bits_per_day = 10000000000
"""
"""A configuration whose budgets no run of these uses up."""

WRITER = """
import sys
from itertools import count
from pathlib import Path
from sparkgate.policy.audit import AuditLog, Caller, Intent, LogUnavailable, Outcome
log, name = AuditLog(Path(sys.argv[1]), b"k" * 32), sys.argv[2]
for number in count():
    verdict = "block" if number % 4 == 3 else "allow"
    sent = "" if verdict == "block" else f"{name} {number}"
    intent = Intent(Caller(session=name), "t", "searxng", "http://h", verdict, sent, {}, [], [], "p", 1)
    try:
        row = log.intend(intent)
        print("row", row, flush=True)
        if verdict == "allow":
            log.close(row, Outcome("answered", 200, 2, 3))
            print("end", row, flush=True)
    except LogUnavailable:
        print("refused", 0, flush=True)
"""


@dataclass
class Toll:
    """What a run came to. The fields from `unlogged` on are what went wrong.

    Attributes:
        reached: requests that the server saw.
        told: answers that clients got, by kind: `done`, `blocked`, `gone` (the gate ended), or another code.
        unknown_ends: rows without an outcome.
        unlogged: queries that the server saw more often than there are rows of them.
        lost: what a client was told is done or blocked, or a writer was told is written, without its row.
        unended: the same, with the row but without its outcome.
        broken: what `verify` finds.
    """

    kills: int = 0
    reached: int = 0
    told: dict[str, int] = field(default_factory=dict)
    rows: int = 0
    links: int = 0
    unknown_ends: int = 0
    unlogged: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    unended: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not (self.unlogged or self.lost or self.unended or self.broken)


# -- the gate


@dataclass
class Told:
    """What one client heard.

    Attributes:
        done: texts of which it was told that they were searched for.
        kinds: all answers, by kind.
    """

    pid: int
    done: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)


def query(client: int, turn: int) -> str:
    """A text like no other of the run, in words."""
    size = len(WORDS)
    digits = (client, turn // size**2, turn // size, turn)
    return KINDS[turn % len(KINDS)].format(" ".join(WORDS[digit % size] for digit in digits))


def ask_on(host: Host, client: int, stop: threading.Event) -> Told:
    """Search, one query after another, until told to stop."""
    told = Told(host.process.pid)
    host.initialize()
    turn = 0
    while not stop.is_set():
        words = query(client, turn)
        answer = host.ask("tools/call", {"name": "web_search", "arguments": {"query": words}})
        turn += 1
        if "error" in answer:
            told.kinds["gone"] += 1
            continue
        result: dict[str, Any] = answer["result"]["structuredContent"]
        told.kinds["done" if result["ok"] else result["code"]] += 1
        if result["ok"]:
            told.done.append(str(result.get("query", words)))
    return told


def kill_gate(box: Box, searxng: FakeSearxng, draw: random.Random) -> None:
    """Kill the gate that runs now, while it works."""
    pid = until(lambda: box.gate_status().get("pid"), "a gate runs")
    assert pid in box.gate_pids()
    goal = len(searxng.requests) + draw.randrange(12)
    until(lambda: len(searxng.requests) >= goal, "the gate works")
    threading.Event().wait(draw.random() * 0.05)
    os.kill(pid, signal.SIGKILL)
    wait_until_ended([pid])


@contextmanager
def asking(box: Box, clients: int) -> Iterator[list[Told]]:
    """Clients that search all the while; afterwards the list has what they heard."""
    heard: list[Told] = []
    stop = threading.Event()
    with ThreadPoolExecutor(clients) as pool:
        futures = [pool.submit(ask_on, box.host(), number, stop) for number in range(clients)]
        try:
            yield heard
        finally:
            stop.set()
        heard += [future.result(PATIENCE_S) for future in futures]


def kill_gates(kills: int, clients: int, *, quiet: bool = True) -> Toll:
    """Kill the gate of a box so many times while clients search through it."""
    draw = random.Random()
    with a_box() as box, FakeSearxng() as searxng:
        box.configure(WIDE.format(url=searxng.url))
        with asking(box, clients) as heard:
            until(lambda: searxng.requests, "the clients search")
            for number in range(kills):
                kill_gate(box, searxng, draw)
                if not quiet:
                    print(f"\r{number + 1} kills, {len(searxng.requests)} requests", end="", file=sys.stderr)
        proof = json.loads(box.command("audit", "verify", "--json").stdout)
        toll = gate_toll(read_rows(box.state / "audit.db", limit=ALL), searxng.queries(), heard)
        toll.kills, toll.links = kills, proof["records"]
        toll.broken = [one["told"] for one in proof["broken"]] + damage(box.state / "audit.db")
        return toll


def gate_toll(rows: Sequence[dict[str, Any]], reached: Sequence[str], heard: Sequence[Told]) -> Toll:
    """What is missing of what the server saw and the clients heard."""
    logged = Counter(row["sent"] for row in rows if row["verdict"] != "block")
    ended = Counter(row["sent"] for row in rows if row["outcome"] == "answered")
    blocked = Counter(row["pid"] for row in rows if (row["verdict"], row["outcome"]) == ("block", "withheld"))
    done = Counter(text for told in heard for text in told.done)
    unblocked = Counter({told.pid: told.kinds["blocked"] for told in heard}) - blocked
    return Toll(
        reached=len(reached),
        told=dict(sum((told.kinds for told in heard), Counter())),
        rows=len(rows),
        unknown_ends=sum(row["outcome"] is None for row in rows),
        unlogged=sorted((Counter(reached) - logged).elements()),
        lost=[*(done - logged).elements(), *(f"blocked, of {pid}" for pid in unblocked.elements())],
        unended=sorted((done - ended).elements()),
    )


# -- writers


def kill_writers(path: Path, writers: int, rounds: int) -> Toll:
    """Start writers on one log and kill them one after another while the others go on; again and again."""
    draw, toll = random.Random(), Toll()
    told: list[list[str]] = []
    for number in range(rounds):
        argv = [sys.executable, "-I", "-W", "ignore", "-c", WRITER, str(path)]
        running = [
            subprocess.Popen(
                [*argv, f"w{number}-{writer}"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            for writer in range(writers)
        ]
        for process in running:
            assert process.stdout
            lines = [process.stdout.readline() for _ in range(draw.randrange(1, 20))]
            process.send_signal(signal.SIGKILL)
            lines += process.stdout.readlines()
            process.stdout.close()
            process.wait(PATIENCE_S)
            told += [line.split() for line in lines if line.endswith("\n")]
            toll.kills += 1
    AuditLog(path, KEY).mark("looked-at", {})
    toll.told = dict(Counter(word for word, _ in told))
    found = {row["id"]: row["outcome"] for row in read_rows(path, limit=ALL)}
    toll.rows, toll.unknown_ends = len(found), sum(end is None for end in found.values())
    toll.lost = [f"row {row}" for word, row in told if word == "row" and int(row) not in found]
    toll.unended = [f"row {row}" for word, row in told if word == "end" and found.get(int(row)) != "answered"]
    toll.links, toll.broken = proven(path)
    toll.broken += damage(path)
    return toll


def proven(path: Path) -> tuple[int, list[str]]:
    """Links, and what does not hold, with the head that is kept beside the log."""
    chain = Chain(KEY)
    with reading(path) as connection:
        *_, proof = verify(connection, chain, HeadFile(path.with_suffix(".head"), chain).read())
    return proof.links, [one.told() for one in proof.broken]


def damage(path: Path) -> list[str]:
    """What SQLite has against the file and against the index of texts."""
    with closing(sqlite3.connect(path, timeout=PATIENCE_S)) as connection:
        found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check")]
        try:
            connection.execute("INSERT INTO outbound_text (outbound_text) VALUES ('integrity-check')")
        except sqlite3.DatabaseError as error:
            found.append(f"index of texts: {error}")
        connection.rollback()
    return [told for told in found if told != "ok"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200, help="kills of the gate")
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=10, help="times that eight writers are killed")
    parser.add_argument("--writers", type=int, default=8)
    given = parser.parse_args()
    tolls = []
    if given.kills:
        tolls.append(kill_gates(given.kills, given.clients, quiet=False))
        print(f"gate: {json.dumps(asdict(tolls[-1]), indent=2)}", flush=True)
    if given.rounds:
        with tempfile.TemporaryDirectory() as folder:
            tolls.append(kill_writers(Path(folder) / "audit.db", given.writers, given.rounds))
        print(f"writers: {json.dumps(asdict(tolls[-1]), indent=2)}")
    return 0 if all(toll.is_clean for toll in tolls) else 1


if __name__ == "__main__":
    sys.exit(main())
