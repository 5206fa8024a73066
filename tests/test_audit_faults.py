"""The log on bad days, as a search through a real gate meets them: nothing leaves without its row, nothing is lost."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from box import Box, Host, a_box
from fake_searxng import FakeSearxng

from sparkgate.policy.audit import AuditLog, Caller, Intent, LogUnavailable, Outcome
from sparkgate.policy.guard import Guard
from sparkgate.policy.trail.file import way_out
from sparkgate.policy.trail.read import newest, reading
from sparkgate.services import Services

KEY = b"k" * 32


@pytest.fixture
def searxng() -> Iterator[FakeSearxng]:
    with FakeSearxng() as made:
        yield made


@pytest.fixture
def box(searxng: FakeSearxng) -> Iterator[Box]:
    with a_box() as made:
        made.use(searxng.url)
        yield made


@pytest.fixture
def host(box: Box) -> Host:
    made = box.host()
    made.initialize()
    return made


def log_of(box: Box) -> Path:
    return box.state / "audit.db"


def verified(box: Box) -> dict[str, object]:
    told: dict[str, object] = json.loads(box.command("audit", "verify", "--json").stdout)
    return told


def faults(box: Box) -> list[str]:
    return [one["fault"] for one in verified(box)["broken"]]  # type: ignore[attr-defined]


def test_a_damaged_log_stops_every_query_and_says_what_to_do(box: Box, searxng: FakeSearxng) -> None:
    log_of(box).parent.mkdir(parents=True, exist_ok=True)
    log_of(box).write_bytes(b"this was a database once " * 200)
    host = box.host()
    host.initialize()
    answer = host.search("is anybody there")
    assert (answer["ok"], answer["code"]) == (False, "log_unavailable")
    assert "it is damaged: `sparkgate gate stop`, move it away" in answer["message"]
    assert searxng.requests == []
    log_of(box).rename(log_of(box).with_name("audit.db.damaged"))
    assert host.search("is anybody there")["ok"]
    assert [row["sent"] for row in box.rows()] == ["is anybody there"]


def test_a_log_that_is_replaced_under_the_gate_takes_no_rows_and_is_told_by_verify(
    box: Box, host: Host, searxng: FakeSearxng
) -> None:
    host.search("one")
    copy = box.state / "copy.db"
    with closing(sqlite3.connect(log_of(box))) as connection:
        connection.execute("VACUUM INTO ?", (str(copy),))
    host.search("two")
    asked = len(searxng.requests)
    for left in ("audit.db-wal", "audit.db-shm"):
        (box.state / left).unlink()
    copy.replace(log_of(box))
    answer = host.search("three")
    assert (answer["ok"], answer["code"]) == (False, "log_unavailable")
    assert len(searxng.requests) == asked
    assert faults(box) == ["truncated"]
    box.command("gate", "stop")
    again = box.host()
    again.initialize()
    assert again.search("four")["ok"]
    assert faults(box) == ["truncated"]
    accepted = box.command("audit", "accept", "--reason", "put back by hand")
    assert accepted.returncode == 0, accepted.stderr
    told = verified(box)
    assert told["intact"] and len(told["accepted"]) == 1  # type: ignore[arg-type]


def test_a_log_that_another_program_holds_stops_the_query_in_the_end_and_then_goes_on(
    box: Box, host: Host, searxng: FakeSearxng
) -> None:
    host.search("one")
    with closing(sqlite3.connect(log_of(box), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        answer = host.search("two")
        other.execute("ROLLBACK")
    assert (answer["ok"], answer["code"]) == (False, "log_unavailable")
    assert "another program holds it" in answer["message"]
    assert len(searxng.requests) == 1
    assert host.search("three")["ok"]
    assert [row["sent"] for row in box.rows()] == ["one", "three"]
    assert verified(box)["intact"]


def test_a_folder_that_vanished_stops_the_query(box: Box, host: Host, searxng: FakeSearxng) -> None:
    host.search("one")
    shutil.move(box.state, box.state.with_name("elsewhere"))
    assert host.search("two")["code"] == "log_unavailable"
    assert len(searxng.requests) == 1


def test_a_head_that_cannot_be_kept_is_said_with_every_answer_and_stops_nothing(box: Box, host: Host) -> None:
    host.search("one")
    head = box.state / "audit.head"
    head.unlink()
    head.mkdir()
    assert host.search("two")["ok"]
    assert "the head of the log cannot be kept" in json.dumps(host.search("three"))
    assert faults(box) == ["unanchored"]
    head.rmdir()
    assert "the head of the log" not in json.dumps([host.search("four"), host.search("five")][-1])
    assert verified(box)["intact"]


def test_a_reader_that_stays_makes_every_answer_say_so_and_costs_nothing_once_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparkgate.services.MAX_WAL_BYTES", 5_000_000)
    services = Services(tmp_path / "config.toml", tmp_path / "state", Guard())
    log = services.live().egress.log
    with closing(sqlite3.connect(log.path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM outbound").fetchone()
        for number in range(150):
            log.intend(an_intent(f"question {number}"))
        assert "another program keeps the log open" in services.warning()
    for number in range(3):
        log.intend(an_intent(f"after it {number}"))
    assert services.warning() == ""


def test_a_log_that_is_taken_away_with_its_head_kept_is_missed_for_good(box: Box, host: Host) -> None:
    host.search("one")
    host.search("two")
    box.command("gate", "stop")
    for name in ("audit.db", "audit.db-wal", "audit.db-shm"):
        (box.state / name).unlink(missing_ok=True)
    again = box.host()
    again.initialize()
    for number in range(6):
        again.search(f"question {number}")
    assert faults(box) == ["truncated"]


def test_an_old_state_of_log_and_head_together_is_told_by_the_journal(
    box: Box, host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program called journalctl stands in for the journal, and prints what the system's log was told."""
    host.search("one")
    box.command("gate", "stop")
    older = {name: (box.state / name).read_bytes() for name in ("audit.db", "audit.head")}
    again = box.host()
    again.initialize()
    again.search("two")
    box.command("gate", "stop")
    key = (box.state / "keys" / "audit.key").read_bytes()
    told: list[str] = []
    monkeypatch.setattr("sparkgate.policy.trail.head.syslog.syslog", lambda _priority, line: told.append(line))
    log = AuditLog(log_of(box), key, tell_syslog=True)
    log.anchor()
    del log
    for name, data in older.items():
        (box.state / name).write_bytes(data)
    for left in ("audit.db-wal", "audit.db-shm"):
        (box.state / left).unlink(missing_ok=True)
    assert verified(box)["intact"]
    script = tmp_path / "bin" / "journalctl"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in told))
    script.chmod(0o755)
    box.environment["PATH"] = f"{script.parent}:{box.environment['PATH']}"
    assert faults(box) == ["truncated"]


# -- below the gate


def an_intent(sent: str) -> Intent:
    return Intent(Caller(session="s"), "web_search", "searxng", "http://h:1", "allow", sent, {}, [], [], "p", 7)


def test_a_clock_that_goes_back_changes_neither_the_order_nor_the_proof(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = iter([3_000_000_000, 2_000_000_000, 1_000_000_000, *[500_000_000] * 20])
    monkeypatch.setattr("sparkgate.policy.audit.time.time_ns", lambda: next(moments) * 10**9)
    path = tmp_path / "audit.db"
    log = AuditLog(path, KEY)
    for number in range(3):
        log.intend(an_intent(f"question {number}"))
    with reading(path) as connection:
        assert [row["sent"] for row in newest(connection, limit=9)] == ["question 2", "question 1", "question 0"]


def test_two_gates_on_one_log_by_mistake_make_one_chain(tmp_path: Path) -> None:
    from sparkgate.policy.trail.chain import Chain
    from sparkgate.policy.trail.head import HeadFile
    from sparkgate.policy.trail.verify import verify

    path = tmp_path / "audit.db"
    logs = [AuditLog(path, KEY), AuditLog(path, KEY)]
    for number in range(40):
        log = logs[number % 3 % 2]
        log.close(log.intend(an_intent(f"question {number}")), Outcome("answered", 200, 1, 1))
    chain = Chain(KEY)
    with reading(path) as connection:
        proof = list(verify(connection, chain, HeadFile(path.with_suffix(".head"), chain).read()))[-1]
    assert proof.intact and proof.links == 81


@pytest.mark.parametrize("name", ["SQLITE_BUSY", "SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_CORRUPT_VTAB"])
def test_each_fault_of_the_file_comes_with_a_way_out(name: str) -> None:
    error = sqlite3.OperationalError("x")
    error.sqlite_errorname = name
    assert way_out(error).startswith("; ")


def test_a_fault_without_a_known_way_out_says_no_more_than_it_knows() -> None:
    assert way_out(OSError(2, "No such file")) == ""
    assert way_out(LogUnavailable("x")) == ""
