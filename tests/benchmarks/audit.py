"""What the log costs: a row, many writers, a million rows, and a reader that stays. Not a test.

Run it on an idle machine, from the top of the checkout:

    python tests/benchmarks/audit.py                           # everything, with 1,000,000 rows
    python tests/benchmarks/audit.py --rows 50000 --only big   # one part: append, writers, gate, big or wal
    python tests/benchmarks/audit.py --folder /mnt/disk        # on another disk: a tmpfs costs nothing to sync

append   what a row costs, beside a bare INSERT of the same values into a table without anything, in turns of 100
writers  eight processes on one log by the library, all at once
gate     eight stdio clients through one gate, against a server that answers at once
big      size, reading, verifying and exporting; short ones are the median of seven
wal      how long the WAL gets while somebody keeps a read transaction open

Times are of this machine and its disk; the ratios are what may be compared.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import random
import secrets
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from sparkgate.policy import audit
from sparkgate.policy.audit import AuditLog, Caller, Intent, LogUnavailable, Outcome
from sparkgate.policy.trail.chain import OUTBOUND, OUTCOME, Chain, Head
from sparkgate.policy.trail.export import TEXT, Source
from sparkgate.policy.trail.head import HeadFile
from sparkgate.policy.trail.read import Filter, newest, oldest_first, reading
from sparkgate.policy.trail.stats import stats
from sparkgate.policy.trail.verify import Proof, verify

KEY = b"k" * 32
TURN, TURNS = 100, 20
WRITERS, EACH = 8, 500
CALLS = 62
LATENT_ROWS = 5000
REPEATS = 7
SPAWN = multiprocessing.get_context("spawn")
WORDS = (
    *("vllm", "sglang", "llama.cpp", "nvfp4", "spark", "gb10", "kv", "cache", "fp8", "mtp", "speculative", "decoding"),
    *("error", "cuda", "driver", "docker", "tokens", "batch", "gpu", "memory", "qwen", "gated", "how", "to", "raise"),
)
RULES = (("email-address", "pii"), ("home-path", "local"), ("huggingface-token", "secret"), ("term-1", "client"))
ANSWERED = Outcome("answered", 200, 4000, 300_000)


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the table."""

    name: str
    value: float
    unit: str
    note: str = ""

    def line(self) -> str:
        shown = f"{self.value:,.0f}" if self.value >= 100 or self.value == int(self.value) else f"{self.value:.2f}"
        return f"{self.name:52} {shown:>14} {self.unit:9} {self.note}"


class BigLog(AuditLog):
    """Writes as the log does, many rows in one transaction, with a time of their own."""

    def _keep_head(self, head: Head) -> None:
        self.last = head

    def append(self, rows: Iterable[tuple[int, Intent]]) -> None:
        """Rows with their time in microseconds, each with its outcome."""
        with self._transaction(full=False) as connection:
            for at_us, intent in rows:
                columns = {**audit._columns(intent), "at_us": at_us}
                row = connection.execute(audit._insert("outbound", columns), columns).lastrowid or 0
                self._link(connection, OUTBOUND, {"id": row, **columns})
                end = Outcome("withheld") if intent.verdict == "block" else ANSWERED
                ended = {"outbound_id": row, "at_us": at_us, "outcome": end.outcome, "status": end.status}
                ended |= {"bytes": end.size_bytes, "elapsed_us": end.elapsed_us}
                connection.execute(audit._insert("outcome", ended), ended)
                self._link(connection, OUTCOME, ended)

    def keep(self) -> None:
        """Keep the head of the last transaction, and put everything into the file."""
        super()._keep_head(self.last)
        self.shrink(0)


def intent_of(draw: random.Random, verdict: str = "") -> Intent:
    verdict = verdict or draw.choices(["allow", "redact", "block"], [85, 10, 5])[0]
    rule, cls = draw.choice(RULES)
    found = [] if verdict == "allow" else [{"rule": rule, "class": cls, "start": 3, "end": 9}]
    host = draw.choice(["hermes", "openclaw", "claude-code"])
    caller = Caller(f"{draw.randrange(300):012x}", host, "1.2", 1234, 1000, "/home/x/project")
    tool = draw.choice(["web_search", "web_search", "engine_load"])
    sent = "" if verdict == "block" else " ".join(draw.choices(WORDS, k=12))
    fields = {"format": "json", "pageno": "1", "safesearch": "0"}
    digests = [secrets.token_hex(32) for _ in found]
    origin, spent = "http://127.0.0.1:8888", draw.randrange(80, 900)
    return Intent(caller, tool, "searxng", origin, verdict, sent, fields, found, digests, "p" * 16, spent)


def spent_ms(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return 1e3 * (time.perf_counter() - begun)


def quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def peak_mb() -> float:
    """The most memory of this process; getrusage would count what its parent had."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def last_proof(path: Path) -> Proof:
    """The whole proof of a log, with the head beside it."""
    chain = Chain(KEY)
    with reading(path) as connection:
        *_, proof = verify(connection, chain, HeadFile(path.with_suffix(".head"), chain).read())
    return proof


# -- append


def bare(path: Path, synchronous: str, columns: dict[str, Any]) -> Callable[[dict[str, Any]], object]:
    """What inserts into a table of the same columns that has no index, no trigger and no chain."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute(f"CREATE TABLE plain (id INTEGER PRIMARY KEY, {', '.join(columns)})")
    return partial(connection.execute, audit._insert("plain", columns))


def append(folder: Path, _: argparse.Namespace) -> Iterator[Figure]:
    draw, log = random.Random(1), AuditLog(folder / "append.db", KEY)
    leaving, stopping = ([intent_of(draw, verdict) for _ in range(TURN)] for verdict in ("redact", "block"))
    leave, stop = map(itertools.cycle, (leaving, stopping))
    ended = {"outbound_id": 1, "at_us": time.time_ns() // 1000, "outcome": "answered"}
    ended |= {"status": 200, "bytes": 4000, "elapsed_us": 300_000}
    ids: list[int] = []
    work: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {}
    for name, synchronous, columns, write in (
        ("a row that leaves", "FULL", audit._columns(leaving[0]), lambda: ids.append(log.intend(next(leave)))),
        ("an outcome", "NORMAL", ended, lambda: log.close(ids.pop(), ANSWERED)),
        ("a block, with its outcome", "NORMAL", audit._columns(stopping[0]), lambda: log.intend(next(stop))),
    ):
        work[name] = write, partial(bare(folder / f"{len(work)}.db", synchronous, columns), columns)
    taken: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in work}
    for _turn in range(TURNS):
        for name, pair in work.items():
            for times, one in zip(taken[name], pair, strict=True):
                times += [spent_ms(one) for _ in range(TURN)]
    for name, (ours, plain) in taken.items():
        for label, share in (("p50", 0.5), ("p99", 0.99)):
            here, there = quantile(ours, share), quantile(plain, share)
            yield Figure(f"{name}, {label}", here, "ms", f"bare INSERT {there:.3f} ms: {here / there:.2f} times")
        rate, plain_rate = 1e3 * len(ours) / sum(ours), 1e3 * len(plain) / sum(plain)
        yield Figure(f"{name}, together", rate, "rows/s", f"bare INSERT {plain_rate:,.0f} rows/s")


# -- several writers


def write_many(path: Path, number: int, start: Any) -> tuple[list[int], list[float], int]:
    """Ids, milliseconds for each row and its outcome, and how often the log could not be written."""
    draw, log = random.Random(number), AuditLog(path, KEY)
    ids, waits, errors = [], [], 0
    start.wait()
    for _ in range(EACH):
        begun = time.perf_counter()
        try:
            ids.append(log.intend(intent_of(draw, "redact")))
            log.close(ids[-1], ANSWERED)
        except LogUnavailable:
            errors += 1
        waits.append(1e3 * (time.perf_counter() - begun))
    return ids, waits, errors


def together(name: str, path: Path, told: int, errors: int, waits: Sequence[float], seconds: float) -> Iterator[Figure]:
    with reading(path) as connection:
        rows = connection.execute("SELECT count(*) FROM outbound").fetchone()[0]
    proof = last_proof(path)
    yield Figure(f"{name}: acknowledged", told, "rows", f"{rows:,} in the log, {errors} errors")
    yield Figure(f"{name}: breaks of the chain", len(proof.broken), "breaks", f"of {proof.links:,} links")
    yield Figure(f"{name}: together", told / seconds, "rows/s")
    for label, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
        yield Figure(f"{name}: a row and its outcome, {label}", quantile(waits, share), "ms")


def writers(folder: Path, _: argparse.Namespace) -> Iterator[Figure]:
    path = folder / "writers.db"
    AuditLog(path, KEY)
    with SPAWN.Manager() as manager, SPAWN.Pool(WRITERS) as pool:
        start = manager.Barrier(WRITERS + 1)
        running = pool.starmap_async(write_many, [(path, number, start) for number in range(WRITERS)], chunksize=1)
        start.wait()
        begun = time.perf_counter()
        done = running.get()
        seconds = time.perf_counter() - begun
    ids = {row for found, _, _ in done for row in found}
    waits = [wait for _, found, _ in done for wait in found]
    errors = sum(failed for *_, failed in done)
    yield from together(f"{WRITERS} processes × {EACH}", path, len(ids), errors, waits, seconds)


def gate(_: Path, given: argparse.Namespace) -> Iterator[Figure]:
    sys.path.append(str(Path(__file__).parent.parent))
    from box import a_box
    from fake_searxng import FakeSearxng

    with a_box() as box, FakeSearxng() as searxng, ThreadPoolExecutor(WRITERS) as pool:
        box.use(searxng.url)
        hosts = [box.host() for _ in range(WRITERS)]
        for host in hosts:
            host.initialize()

        def calls(number: int) -> list[float]:
            draw = random.Random(number)
            return [
                spent_ms(lambda: hosts[number].search(" ".join(draw.choices(WORDS, k=6)))) for _ in range(given.calls)
            ]

        begun = time.perf_counter()
        waits = [wait for found in pool.map(calls, range(WRITERS)) for wait in found]
        seconds = time.perf_counter() - begun
        rows = box.rows()
        proof = json.loads(box.command("audit", "verify", "--json").stdout)
    name, ended = f"gate, {WRITERS} clients × {given.calls}", sum(row["outcome"] == "answered" for row in rows)
    yield Figure(f"{name}: calls answered", len(waits), "calls", f"{len(rows):,} rows, {ended:,} answered")
    yield Figure(f"{name}: reached SearXNG", len(searxng.queries()), "queries")
    yield Figure(f"{name}: breaks of the chain", len(proof["broken"]), "breaks", f"of {proof['records']:,} links")
    yield Figure(f"{name}: together", len(waits) / seconds, "calls/s")
    for label, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
        yield Figure(f"{name}: a whole call, {label}", quantile(waits, share), "ms")


# -- a long log


def big(folder: Path, given: argparse.Namespace) -> Iterator[Figure]:
    path, rows = folder / "big.db", given.rows
    draw, log = random.Random(1), BigLog(path, KEY)
    step_us = 200 * 86_400_000_000 // rows
    now_us = time.time_ns() // 1000
    times = iter(range(now_us - rows * step_us, now_us, step_us))
    begun = time.perf_counter()
    for first in range(0, rows, 5000):
        log.append((next(times), intent_of(draw)) for _ in range(min(5000, rows - first)))
    log.keep()
    seconds = time.perf_counter() - begun
    size = path.stat().st_size
    name = f"{rows:,} rows"
    yield Figure(f"{name}: filled, 5,000 in a transaction", seconds, "s", f"{rows / seconds:,.0f} rows/s")
    yield Figure(f"{name}: file", size / 1e6, "MB", f"{size / rows:.0f} bytes a row, with its outcome and two links")
    month_us = now_us - 30 * 86_400_000_000
    asked = {
        "newest 50": Filter(),
        "newest 50 blocked": Filter(verdict="block"),
        "newest 50 of a rule": Filter(rule="huggingface-token"),
        "newest 50 of a host, last 30 days": Filter(host="hermes", since_us=month_us),
        "newest 50 with a word": Filter(text="spark"),
        "newest 50 with three words": Filter(text="spark nvfp4 error"),
        "newest 50 with a word nobody sent": Filter(text="zebra"),
        "newest 50 that failed (there are none)": Filter(outcome="timeout"),
    }
    with reading(path) as connection:
        for label, wanted in asked.items():
            taken = [spent_ms(partial(newest, connection, wanted, limit=50)) for _ in range(REPEATS)]
            yield Figure(f"{name}: {label}", median(taken), "ms")
        for label, wanted in (("stats", Filter()), ("stats, last 30 days", Filter(since_us=month_us))):
            taken = [spent_ms(partial(stats, connection, wanted)) for _ in range(REPEATS)]
            yield Figure(f"{name}: {label}", median(taken), "ms")
    heavy: dict[str, Callable[[Path], Heavy]] = {"verify": verified}
    heavy |= {f"export {form}": partial(exported, form) for form in TEXT}
    for label, work in heavy.items():
        with SPAWN.Pool(1) as pool:
            before, after, count, spent = pool.apply(work, (path,))
        yield Figure(f"{name}: {label}", count / spent, "a second", f"{count:,} in {spent:.1f} s")
        yield Figure(f"{name}: {label}, peak memory", after, "MB", f"{after - before:.1f} MB more than before it")


Heavy = tuple[float, float, int, float]
"""Megabytes before and at the most, links or rows, seconds."""


def verified(path: Path) -> Heavy:
    before, begun = peak_mb(), time.perf_counter()
    proof = last_proof(path)
    assert proof.intact
    return before, peak_mb(), proof.links, time.perf_counter() - begun


def exported(form: str, path: Path) -> Heavy:
    before, begun, rows = peak_mb(), time.perf_counter(), itertools.count()
    with reading(path) as connection, path.with_suffix(f".{form}").open("w") as file:
        counted = (row for row, _ in zip(oldest_first(connection), rows, strict=False))
        file.writelines(TEXT[form](counted, Source("spark", "1")))
    return before, peak_mb(), next(rows), time.perf_counter() - begun


# -- a reader that stays


def wal(folder: Path, _: argparse.Namespace) -> Iterator[Figure]:
    path, draw = folder / "wal.db", random.Random(1)
    log, file = AuditLog(path, KEY), folder / "wal.db-wal"

    def write(rows: int) -> float:
        for _ in range(rows):
            log.close(log.intend(intent_of(draw, "redact")), ANSWERED)
        return file.stat().st_size / 1e6

    yield Figure(f"WAL, {LATENT_ROWS:,} rows, nobody reads", write(LATENT_ROWS), "MB")
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM outbound").fetchone()
        yield Figure(f"WAL, {LATENT_ROWS:,} rows under a reader", write(LATENT_ROWS), "MB")
        reader.execute("COMMIT")
    yield Figure("WAL, one row after the reader ended", write(1), "MB")
    yield Figure("WAL, 500 rows after the reader ended", write(500), "MB")
    log.shrink(0)
    yield Figure("WAL, after a checkpoint that truncates it", file.stat().st_size / 1e6, "MB")


PARTS = {"append": append, "writers": writers, "gate": gate, "big": big, "wal": wal}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the long log")
    parser.add_argument("--calls", type=int, default=CALLS, help="of each client of the gate")
    parser.add_argument("--only", action="append", choices=PARTS, help="may be given several times")
    parser.add_argument("--folder", help="where the files lie; else the usual temporary folder")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = []
    for name in given.only or PARTS:
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            for figure in PARTS[name](Path(folder), given):
                found.append(asdict(figure))
                if not given.json:
                    print(figure.line(), flush=True)
    if given.json:
        print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
