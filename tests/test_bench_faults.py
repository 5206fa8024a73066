"""What befalls a run from outside: a file that is held, full or damaged, an engine that dies, one behind https."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import select
import sqlite3
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import sim_engine
from bench_box import BenchBox, a_bench_box
from box import PATIENCE_S, Host, is_running, wait_until_ended
from engine_box import until
from sim_engine import Scenario, running

from sparkgate.bench_process import COMMAND
from sparkgate.measure.plan import Options, plan

pytestmark = pytest.mark.measuring

SHORT = {"kind": "decode", "output_tokens": 64, "repeats": 2}
FILE = "bench.db"


@pytest.fixture
def bench() -> Iterator[BenchBox]:
    with a_bench_box() as made:
        yield made


def until_said(host: Host, event: str) -> None:
    """Wait for a line of the server's log."""
    seen = b""
    assert host.process.stderr
    while event.encode() not in seen:
        ready, _, _ = select.select([host.process.stderr], [], [], PATIENCE_S)
        assert ready, f"{event} was never logged: {seen!r}"
        seen += os.read(host.process.stderr.fileno(), 65_536)


def after_a_burst(bench: BenchBox) -> Host:
    """A host whose run has written its first burst, and goes on when `hold` is dropped."""
    bench.habit("hold")
    host = bench.host()
    assert host.call("bench_run", SHORT)["ok"]
    until(lambda: bench.pids() and bench.stored()[2], "a burst on disk")
    return host


# -- a file that another program holds

HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held(file: Path) -> Iterator[None]:
    """Another process writes to the file and does not come to an end."""
    command = [sys.executable, "-I", "-S", "-c", HOLDER, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout and process.stdout.readline() == b"held\n"
        try:
            yield
        finally:
            process.stdin.close()


def test_a_run_whose_file_is_held_for_long_waits_and_loses_nothing(bench: BenchBox) -> None:
    host = after_a_burst(bench)
    with held(bench.box.state / FILE):
        bench.drop("hold")
        wait_until_ended(bench.pids())
        until_said(host, "bench_store_waits")
        assert host.call("bench_job", {"id": 1})["state"] == "running"
    ended = host.call("bench_job", {"id": 1, "wait_s": 20})
    assert (ended["state"], ended["validity"], len(bench.stored()[2])) == ("done", "valid", 2)


def test_no_run_begins_while_the_file_is_held_and_the_answer_says_so(bench: BenchBox) -> None:
    host = bench.host()
    bench.ended(host, **SHORT)
    with held(bench.box.state / FILE):
        refused = host.call("bench_run", SHORT)
        assert (refused["ok"], refused["code"]) == (False, "store_unavailable")
        assert "held by another program" in refused["message"] and len(bench.pids()) == 1
        assert host.call("bench_history", {})["runs"][0].startswith("1: ")
    assert bench.ended(host, **SHORT)["run"] == 2


def test_a_run_whose_file_is_held_can_still_be_cancelled(bench: BenchBox) -> None:
    host = after_a_burst(bench)
    with held(bench.box.state / FILE):
        told = host.call("bench_job", {"id": 1, "cancel": True})
        assert told["code"] == "store_unavailable" and "held by another program" in told["message"]
        wait_until_ended(bench.pids())
    ended = host.call("bench_job", {"id": 1, "wait_s": 20})
    assert (ended["state"], len(bench.stored()[2])) == ("cancelled", 1)


# -- a disk that is full


def limit_files(host: Host, size_bytes: int) -> None:
    """No file of this process may grow beyond that: a write fails as on a full disk, by EFBIG and SIGXFSZ."""
    resource.prlimit(host.process.pid, resource.RLIMIT_FSIZE, (size_bytes, resource.RLIM_INFINITY))


def test_a_full_disk_ends_the_run_with_words_and_keeps_what_was_measured(bench: BenchBox) -> None:
    host = after_a_burst(bench)
    limit_files(host, (bench.box.state / f"{FILE}-wal").stat().st_size)
    bench.drop("hold")
    wait_until_ended(bench.pids())

    def refused() -> dict[str, Any] | None:
        answer = host.call("bench_job", {"id": 1})
        return answer if answer.get("code") else None

    full = until(refused, "an answer that says what is wrong")
    assert (full["ok"], full["code"]) == (False, "store_unavailable")
    assert "run 1 has ended" in full["message"] and "disk is full" in full["message"]
    assert not host.call("bench_run", SHORT)["ok"] and is_running(host.process.pid)
    limit_files(host, resource.RLIM_INFINITY)
    told = host.call("bench_job", {"id": 1})
    assert (told["state"], told["code"]) == ("failed", "store_unavailable")
    assert "disk is full" in told["message"] and "what was measured before is kept" in told["message"]
    assert len(bench.stored()[2]) == 1 and "unverified" in told["flags"][0]
    assert bench.ended(host, **SHORT)["run"] == 2


# -- a file that is damaged

CALLS: dict[str, dict[str, Any]] = {
    "bench_run": SHORT,
    "bench_job": {},
    "bench_compare": {"a": 1, "b": 2},
    "bench_history": {},
    "bench_reference": {},
}


def settled(file: Path) -> None:
    """Bring every page into the file itself: good ones left in its write-ahead log would hide the damage."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert not file.with_name(f"{FILE}-wal").exists()


def garbage(file: Path) -> None:
    file.write_bytes(b"these are no pages of a database " * 1000)


def torn(file: Path) -> None:
    """A real one whose pages behind the first were overwritten."""
    data = file.read_bytes()
    file.write_bytes(data[:4096] + b"\xa5" * (len(data) - 4096))


@pytest.mark.parametrize("damage", [garbage, torn])
def test_a_damaged_file_is_told_with_the_way_out_and_left_as_it_is(bench: BenchBox, damage: Any) -> None:
    file = bench.box.state / FILE
    host = bench.host()
    bench.ended(host, **SHORT)
    host.close()
    settled(file)
    damage(file)
    before = file.read_bytes()
    host = bench.host()
    for tool, arguments in CALLS.items():
        refused = host.call(tool, arguments)
        assert (refused["ok"], refused["code"]) == (False, "store_unavailable"), tool
        assert str(file) in refused["message"] and "damaged" in refused["message"]
        assert "move it away" in refused["message"] and ".recover" in refused["message"]
    assert file.read_bytes() == before and len(bench.pids()) == 1
    host.close()
    for one in bench.box.state.glob(f"{FILE}*"):
        one.rename(one.with_name(f"old-{one.name}"))
    assert bench.ended(bench.host(), **SHORT)["run"] == 1


def test_a_file_that_is_a_folder_is_told_to_be_unusable(bench: BenchBox) -> None:
    (bench.box.state / FILE).mkdir(parents=True)
    refused = bench.host().call("bench_history", {})
    assert refused["code"] == "store_unavailable" and "must belong to the user" in refused["message"]


# -- an engine that dies


@contextmanager
def mortal(scenario: Scenario) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """URL and process of an engine that the test may kill."""
    command = [sys.executable, sim_engine.__file__, json.dumps(asdict(scenario))]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}", process
        finally:
            process.kill()


def test_an_engine_that_dies_between_leaves_a_run_that_is_not_valid_and_says_why() -> None:
    asked = {"kind": "decode", "output_tokens": 128, "prompt_tokens": "128", "repeats": 10}
    with mortal(Scenario(dialect="llamacpp", rate=400.0)) as (url, engine), a_bench_box(sim=url) as bench:
        host = bench.gate_host()
        assert host.call("bench_run", asked)["ok"]
        until(lambda: (bench.box.state / FILE).exists() and bench.stored()[2], "a burst on disk")
        engine.kill()
        ended = host.call("bench_job", {"wait_s": 20})
        while ended["state"] == "running":
            ended = host.call("bench_job", {"wait_s": 20})
        assert ended.get("validity") not in ("valid", ""), ended
        said = json.dumps(ended)
        assert ended["state"] == "failed" or ("errors" in said and "check before and after" in said), ended
        assert ended["state"] != "failed" or ended["message"]
        assert bench.stored()[2]


# -- an engine behind https


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    chain, key = folder / "chain.pem", folder / "key.pem"
    names = ("-subj", "/CN=test engine", "-addext", "subjectAltName=IP:127.0.0.1")
    command = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    files = ("-keyout", str(key), "-out", str(chain), "-days", "2")
    subprocess.run([*command, *names, *files], check=True, capture_output=True)
    return chain, key


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError, ssl.SSLError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


@contextmanager
def behind_tls(url: str, chain: Path, key: Path) -> Iterator[str]:
    """The same engine with TLS before it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)
    loop, port = asyncio.new_event_loop(), urlsplit(url).port

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, there = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pump(reader, there), pump(back, writer))

    server = loop.run_until_complete(asyncio.start_server(forward, "127.0.0.1", 0, ssl=context))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def end() -> None:
        server.close()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    try:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result(PATIENCE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


ONE_STREAM = plan("decode", 7, Options(output_tokens=64, prompt_tokens=(128,), repeats=1))


def measured(url: str, **environment: str) -> list[dict[str, Any]]:
    """What the measuring process tells of an engine."""
    told = {"url": url, "engine": "llamacpp", "plan": ONE_STREAM.as_json()}
    pipe, own = subprocess.PIPE, os.environ | environment
    with subprocess.Popen(COMMAND, env=own, stdin=pipe, stdout=pipe) as process:
        assert process.stdin and process.stdout
        process.stdin.write(json.dumps(told).encode() + b"\n")
        process.stdin.flush()
        return [json.loads(text) for text in process.stdout]


def test_an_engine_behind_https_is_measured_where_its_certificate_is_trusted(tmp_path: Path) -> None:
    chain, key = certificate(tmp_path)
    with running(Scenario(dialect="llamacpp", rate=400.0)) as sim, behind_tls(sim.url, chain, key) as url:
        events = measured(url, SSL_CERT_FILE=str(chain))
        [cell] = [event for event in events if event["event"] == "cell"]
        assert events[-1]["event"] == "end" and cell["facts"]["failed_requests"] == 0
        assert cell["stats"]["decode_tok_s"]["median"] == pytest.approx(400.0, rel=0.3)


def test_an_engine_whose_certificate_is_not_trusted_is_sent_nothing(tmp_path: Path) -> None:
    chain, key = certificate(tmp_path)
    with running() as sim, behind_tls(sim.url, chain, key) as url, a_bench_box(sim=url) as bench:
        [failed] = measured(url)
        assert (failed["event"], failed["code"]) == ("failed", "unreachable")
        assert "SSLCertVerificationError" in failed["message"]
        refused = bench.gate_host().call("bench_run", SHORT)
        assert (refused["ok"], refused["code"]) == (False, "not_ready") and sim.truths() == []
