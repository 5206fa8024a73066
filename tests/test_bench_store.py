"""Runs on disk: what goes in comes out, what was measured survives, and two runs side by side."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from sparkgate.measure.compare import Refusal, Verdict
from sparkgate.measure.plan import Cell, Options, Plan, for_upper_bound, plan
from sparkgate.measure.record import (
    burst_values,
    cell_lines,
    compare_stored,
    flag_lines,
    full_json,
    read_cells,
    result_json,
    sweep_finding,
)
from sparkgate.measure.sample import Counts, EngineClock, Sample, TokenEvent, to_json
from sparkgate.measure.store import CUT_OFF, Ending, Run, Store, StoredCell, StoreUnavailable

DONE = Ending("done", "valid")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "bench.db")
    yield made
    made.close()


def a_stream(rate_tok_s: float, tokens: int, ttft_ms: float = 100.0) -> Sample:
    first_ns, gap_ns = round(ttft_ms * 1e6), 1e9 / rate_tok_s
    times = [first_ns + round(number * gap_ns) for number in range(tokens)]
    events = tuple(TokenEvent(at_ns, "content", 1, 4) for at_ns in times)
    counts = Counts(512, tokens, 0, 0, "usage")
    return Sample(0, eof_ns=times[-1], events=events, finish="length", counts=counts, engine=EngineClock(queue_ms=0.0))


def begun(store: Store, planned: Plan, **provenance: Any) -> Run:
    asked = {"kind": planned.kind, "engine": "main", "options": {}}
    return store.begin("main", planned, asked, {"host": "testhost"}, {"engine": "vllm", **provenance})


def measured(
    store: Store, planned: Plan, rates: list[float], *, verified: bool = True, scale: dict[int, float] | None = None
) -> Run:
    """A run whose streams generate at these rates, one a repeat; `scale` by concurrency."""
    run = begun(store, planned)
    for repeat, rate in enumerate(rates):
        for cell in planned.cells:
            own = rate * (scale or {}).get(cell.concurrency, 1.0)
            streams = [to_json(a_stream(own, cell.output_tokens))] * cell.concurrency
            store.add_burst(run.id, cell.key, repeat, streams, {"cpu_share": 0.1}, {"tokens": 1}, {"tokens": 2})
    if verified:
        verify(store, run, planned, {})
        store.end(run.id, DONE)
    return store.run(run.id)


def verify(store: Store, run: Run, planned: Plan, flags: dict[int, list[dict[str, Any]]]) -> None:
    """Write what came of every cell; `flags` by concurrency."""
    for cell in planned.cells:
        several = [burst_values(one.samples) for one in store.bursts(run.id) if one.cell_hash == cell.hash]
        names = several[0]
        stats = {name: {"median": sorted(one[name] for one in several)[len(several) // 2]} for name in names}
        own = flags.get(cell.concurrency, [])
        invalid = any(flag["severity"] == "invalid" for flag in own)
        status = "invalid" if invalid else "tainted" if own else "valid"
        store.put_cell(run.id, StoredCell(cell.key, cell.hash, status, own, stats, {}, {"concurrency": 1}))


def a_plan(kind: str = "decode", **asked: Any) -> Plan:
    return plan(kind, 7, Options(output_tokens=64, **asked))


def test_what_is_written_is_read_as_it_was(store: Store) -> None:
    planned = a_plan(concurrency=(1, 2), repeats=2)
    run = begun(store, planned, gpu="NVIDIA GB10")
    assert (run.state, run.kind, run.engine, run.validity, run.ended_s) == ("running", "decode", "main", "", None)
    assert (run.plan_hash, run.seed, run.protocol) == (planned.hash, f"{7:032x}", planned.as_json()["protocol_hash"])
    assert run.plan == planned.as_json() and run.provenance == {"engine": "vllm", "gpu": "NVIDIA GB10"}
    store.note_probe(run.id, {"model": "m", "rates": {"decode_tok_s": 10.0}})
    store.note_progress(run.id, {"done": 1, "of": 4})
    sample = a_stream(50.0, 64)
    store.add_burst(run.id, planned.cells[0].key, 0, [to_json(sample)], {"cpu_share": 0.5}, {"a": 1.0}, {"a": 2.0})
    flag = {"id": "noisy", "severity": "warning", "text": "t", "advice": "a"}
    cell = StoredCell(
        planned.cells[0].key, planned.cells[0].hash, "tainted", [flag], {"x": {"median": 1.5}}, {"y": "no"}
    )
    store.put_cell(run.id, cell)
    assert store.end(run.id, Ending("done", "tainted", notes=("seen",))) and not store.end(run.id, DONE)
    found = store.run(run.id)
    assert (found.state, found.validity, found.notes, found.model) == ("done", "tainted", ["seen"], "m")
    assert found.progress == {"done": 1, "of": 4} and found.ended_s is not None
    assert store.cells(run.id) == [cell]
    [burst] = store.bursts(run.id)
    assert (burst.samples, burst.repeat, burst.cell_hash) == ((sample,), 0, cell.hash)
    assert (burst.sensors, burst.engine_before, burst.engine_after) == ({"cpu_share": 0.5}, {"a": 1.0}, {"a": 2.0})


def test_a_closed_run_is_not_changed_any_more(store: Store) -> None:
    run = begun(store, a_plan())
    store.end(run.id, Ending("failed", "failed", "not_reached", "it does not answer"))
    store.note_progress(run.id, {"done": 1})
    store.ask_to_cancel(run.id)
    found = store.run(run.id)
    assert (found.progress, found.cancel, found.code, found.message) == ({}, False, "not_reached", "it does not answer")


def test_runs_are_listed_newest_first_by_engine_and_kind(store: Store) -> None:
    ids = [begun(store, a_plan(kind)).id for kind in ("decode", "sweep", "decode")]
    assert [run.id for run in store.latest()] == ids[::-1]
    assert [run.id for run in store.latest(kind="decode")] == [ids[2], ids[0]]
    assert store.latest(engine="other") == [] and [run.id for run in store.latest(1)] == [ids[2]]
    with pytest.raises(KeyError):
        store.run(99)


def test_a_file_that_cannot_be_used_is_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "bench.db").write_text("this is no database, and it is long enough to be looked at as one" * 20)
    with pytest.raises(StoreUnavailable, match=r"bench\.db"):
        Store(tmp_path / "bench.db")


def test_a_burst_whose_bytes_were_changed_is_said_to_be_damaged(store: Store) -> None:
    run = measured(store, a_plan(repeats=1), [50.0])
    with closing(sqlite3.connect(store.path, isolation_level=None)) as connection:
        connection.execute("UPDATE burst SET samples = zeroblob(100)")
    with pytest.raises(StoreUnavailable, match=r"a row of .*bench\.db cannot be read .* damaged"):
        store.bursts(run.id)
    assert store.run(run.id).state == "done"


def test_the_file_is_for_its_user_alone(store: Store) -> None:
    assert store.path.stat().st_mode & 0o777 == 0o600


FILL = """
import sys
from pathlib import Path
from sparkgate.measure.plan import plan
from sparkgate.measure.store import Store, StoreUnavailable
store, planned, kept = Store(Path(sys.argv[1]) / "bench.db"), plan("decode", 7), 0
run = store.begin("main", planned, {}, {}, {})
try:
    while True:
        store.add_burst(run.id, planned.cells[0].key, kept, [sys.argv[2]], {}, {}, {})
        kept += 1
except StoreUnavailable as error:
    print(error)
store.close()
bursts = Store(Path(sys.argv[1]) / "bench.db").bursts(run.id)
assert 0 < kept == len(bursts), (kept, len(bursts))
"""
SMALL_DISK = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")
MOUNT = 'mount -t tmpfs -o size=400k tmpfs "$1"'


def test_a_disk_that_is_full_is_said_to_be_and_what_was_written_stays(tmp_path: Path) -> None:
    with suppress(FileNotFoundError):
        tried = subprocess.run([*SMALL_DISK, MOUNT, "sh", str(tmp_path)], capture_output=True, check=False)
        if tried.returncode == 0:
            script = [*SMALL_DISK, f'{MOUNT} && exec "$2" -I -c "$3" "$1" "$4"', "sh", str(tmp_path)]
            stream = to_json(a_stream(50.0, 512))
            done = subprocess.run([*script, sys.executable, FILL, stream], capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            assert "bench.db cannot be written, the disk is full" in done.stdout and "make room" in done.stdout
            return
    pytest.skip("this kernel lets no user mount a file system of its own")


BEGIN_AND_WAIT = """
import sys, time
from pathlib import Path
from sparkgate.measure.plan import plan
from sparkgate.measure.store import Store
store, planned = Store(Path(sys.argv[1])), plan("decode", 7)
run = store.begin("main", planned, {}, {}, {})
for repeat in range(1000):
    store.add_burst(run.id, planned.cells[0].key, repeat, sys.argv[2:], {}, {}, {})
    print(repeat, flush=True)
"""


def test_what_was_measured_is_there_after_a_kill_and_the_run_reads_as_interrupted(tmp_path: Path) -> None:
    path, sample = tmp_path / "bench.db", a_stream(50.0, 64)
    command = [sys.executable, "-I", "-c", BEGIN_AND_WAIT, str(path), to_json(sample)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout
        while process.stdout.readline() != b"3\n":
            pass
        os.kill(process.pid, signal.SIGKILL)
    store = Store(path)
    [run] = store.unfinished()
    assert (run.state, run.validity, run.message) == ("interrupted", "interrupted", CUT_OFF)
    bursts = store.bursts(run.id)
    assert len(bursts) >= 4 and bursts[-1].samples == (sample,)
    [cell] = read_cells(store, run)
    told = result_json(run, [cell])["cells"][0]
    assert (told["valid"], told["flags"]) == (False, ["unverified"])
    assert told["stats"]["decode_tok_s"]["median"] == pytest.approx(50.0)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    store.close()


def test_cells_come_in_the_order_of_the_plan_whatever_was_measured_first(store: Store) -> None:
    planned = a_plan("sweep", repeats=1)
    run = begun(store, planned)
    for cell in reversed(planned.cells):
        store.put_cell(run.id, StoredCell(cell.key, cell.hash, "valid"))
    assert [cell.key for cell in store.cells(run.id)] == [cell.key for cell in planned.cells]


def test_cells_whose_text_was_made_longer_keep_their_order(store: Store) -> None:
    planned = a_plan("sweep", repeats=1)
    run = begun(store, planned)
    for cell in reversed(for_upper_bound(planned).cells):
        store.put_cell(run.id, StoredCell(cell.key, cell.hash, "valid"))
    assert [cell.key["concurrency"] for cell in store.cells(run.id)] == [1, 2, 4, 8, 16]


def test_the_contract_holds_for_scripts(store: Store) -> None:
    planned = a_plan(concurrency=(1, 16), repeats=2)
    run = measured(store, planned, [50.0, 51.0])
    told = json.loads(json.dumps(result_json(run, read_cells(store, run))))
    assert (told["run_id"], told["validity"]) == (run.id, "valid")
    assert [cell["key"]["concurrency"] for cell in told["cells"]] == [1, 16]
    assert all((cell["valid"], cell["flags"]) == (True, []) for cell in told["cells"])
    assert told["cells"][0]["stats"]["decode_tok_s"]["median"] == pytest.approx(51.0, rel=0.05)
    everything = json.loads(json.dumps(full_json(store, run.id)))
    assert everything["plan"]["seed"] == run.seed and len(everything["bursts"]) == 4
    assert everything["bursts"][0]["requests"][0]["metrics"]["output_tokens"] == 64


def test_a_cell_is_told_in_a_line_and_an_invalid_one_without_a_number(store: Store) -> None:
    planned = a_plan(concurrency=(1, 4), repeats=1)
    run = measured(store, planned, [50.0], verified=False)
    flags = [
        {"id": "noisy", "severity": "warning", "text": "bursts differ", "advice": "repeat"},
        {"id": "short_output", "severity": "invalid", "text": "it ended early", "advice": "enforce the length"},
    ]
    verify(store, run, planned, {1: flags[:1], 4: flags})
    cells = store.cells(run.id)
    assert cell_lines(cells) == [
        "1 stream: decode 50.0 tok/s a stream, first token 100 ms, tainted",
        "4 streams: no number, invalid",
    ]
    assert flag_lines(cells) == [
        "short_output (1 of 2 cells): it ended early; enforce the length",
        "noisy (2 of 2 cells): bursts differ; repeat",
    ]


def test_a_cell_that_came_from_the_cache_has_no_prefill_rate(store: Store) -> None:
    run = measured(store, plan("prefix", 7, Options(concurrency=(1,))), [50.0])
    cold, warm = cell_lines(store.cells(run.id))
    assert cold.startswith("1 stream, cold:") and cold.endswith("prefill 5120 tok/s")
    assert warm.startswith("1 stream, warm:") and warm.endswith("first token 100 ms")


def test_a_sweep_names_its_knee_from_valid_cells(store: Store) -> None:
    planned = a_plan("sweep", repeats=1)
    run = measured(store, planned, [50.0], scale={8: 0.5, 16: 0.25})
    finding = sweep_finding(run, read_cells(store, run))
    assert finding is not None and (finding.id, finding.value) == ("knee", 4)


def test_the_same_engine_twice_is_not_faster_and_a_slower_one_is_slower(store: Store) -> None:
    planned, draw = a_plan(repeats=10), random.Random(3)
    rates = [[100 * draw.gauss(scale, 0.002) for _ in range(10)] for scale in (1.0, 1.0, 0.9)]
    one, same, slow = (measured(store, planned, side) for side in rates)
    [(_, verdict)] = compare_stored(store, one, same)
    assert isinstance(verdict, Verdict) and verdict.kind == "same"
    [(_, verdict)] = compare_stored(store, one, slow)
    assert isinstance(verdict, Verdict) and verdict.kind == "slower"
    assert verdict.shift_percent == pytest.approx(-10, abs=1)
    [(_, verdict)] = compare_stored(store, slow, one)
    assert isinstance(verdict, Verdict) and verdict.kind == "faster"


def test_a_first_token_that_comes_later_is_slower(store: Store) -> None:
    planned = plan("prefill", 7, Options(prompt_tokens=(512,), repeats=5))
    runs = []
    for ttft_ms in (100.0, 150.0):
        run = begun(store, planned)
        for repeat in range(5):
            stream = a_stream(50.0, 16, ttft_ms + repeat / 10)
            store.add_burst(run.id, planned.cells[0].key, repeat, [to_json(stream)], {}, {}, {})
        verify(store, run, planned, {})
        store.end(run.id, DONE)
        runs.append(store.run(run.id))
    [(_, verdict)] = compare_stored(store, *runs)
    assert isinstance(verdict, Verdict) and verdict.kind == "slower"
    assert verdict.shift_percent == pytest.approx(50, abs=1)


def test_what_must_not_be_compared_is_refused(store: Store) -> None:
    short, long = a_plan(repeats=5), plan("decode", 7, Options(output_tokens=128, repeats=5))
    rates = [50.0, 50.1, 50.2, 50.3, 50.4]
    one, other, cut = (
        measured(store, short, rates),
        measured(store, long, rates),
        measured(store, short, rates, verified=False),
    )
    refused = [verdict for _, verdict in compare_stored(store, one, other)]
    assert [type(verdict) for verdict in refused] == [Refusal, Refusal] and "only run A" in refused[0].why
    [(_, verdict)] = compare_stored(store, one, cut)
    assert isinstance(verdict, Refusal) and "invalid in run B" in verdict.why


def test_a_run_of_another_protocol_is_not_compared(store: Store) -> None:
    planned = a_plan(repeats=5)
    one, other = (measured(store, planned, [50.0, 50.1, 50.2, 50.3, 50.4]) for _ in range(2))
    changed = json.dumps({**other.plan, "protocol_hash": "sha256:older"})
    with closing(sqlite3.connect(store.path, isolation_level=None)) as connection:
        connection.execute("UPDATE run SET plan = ? WHERE id = ?", (changed, other.id))
    [(_, verdict)] = compare_stored(store, one, store.run(other.id))
    assert isinstance(verdict, Refusal) and "protocols differ" in verdict.why


def test_cells_of_one_hash_have_one_row(store: Store) -> None:
    run = begun(store, a_plan())
    key = Cell("decode").key
    for repeat in (0, 1):
        store.add_burst(run.id, key, repeat, [], {}, {}, {})
    assert len(store.cells(run.id)) == 1 and len(store.bursts(run.id)) == 2
