"""The log: written before anything leaves, never changed afterwards, never holding what was withheld."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sparkgate.policy.audit import AuditLog, Caller, Intent, LogUnavailable, Outcome
from sparkgate.policy.keys import load_key
from sparkgate.policy.trail.read import read_rows

PATIENCE_S = 60.0
KEY = b"k" * 32
COLUMNS = (
    "at_us, session, host, host_version, pid, uid, cwd, tool, destination, origin, verdict, sent, findings, withheld, "
    "policy, decision_us"
)

WRITER = """
import sys
from pathlib import Path
from sparkgate.policy.audit import AuditLog, Caller, Intent, LogUnavailable, Outcome
from sparkgate.policy.keys import load_key
path, count, name = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
log = AuditLog(path, b"k" * 32)
def intent(sent):
    return Intent(Caller(session=name), "t", "searxng", "http://h", "allow", sent, {}, [], [], "p", 1)
"""
WRITE_MANY = """
for number in range(count):
    row = log.intend(intent(f"{name} {number}"))
    print(row, flush=True)
    log.close(row, Outcome("answered", 200, 2, 3))
"""


def an_intent(verdict: str = "allow", sent: str = "text", **more: str) -> Intent:
    findings = [{"rule": "r", "class": "pii", "start": 0, "end": 3}]
    return Intent(Caller(**more), "web_search", "searxng", "http://h:1", verdict, sent, {}, findings, ["ab"], "p", 7)  # type: ignore[arg-type]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "audit.db"


@pytest.fixture
def log(path: Path) -> AuditLog:
    return AuditLog(path, KEY)


@pytest.fixture
def raw(log: AuditLog, path: Path) -> Iterator[sqlite3.Connection]:
    """Another program's connection to a log with an answered, an open and a blocked row."""
    log.close(log.intend(an_intent()), Outcome("answered", 200, 10, 20))
    log.intend(an_intent())
    log.intend(an_intent("block", ""))
    with closing(sqlite3.connect(path, isolation_level=None, timeout=PATIENCE_S)) as connection:
        yield connection


def writer(path: Path, count: int, name: str, program: str = WRITE_MANY) -> subprocess.Popen[str]:
    argv = [sys.executable, "-I", "-W", "ignore", "-c", WRITER + program, str(path), str(count), name]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def everything(connection: sqlite3.Connection) -> list[tuple[object, ...]]:
    return [
        *connection.execute("SELECT * FROM outbound ORDER BY id"),
        *connection.execute("SELECT * FROM outcome ORDER BY 1"),
    ]


# -- append-only

REWRITES = {
    "outbound": ("id", COLUMNS),
    "outcome": ("outbound_id", "at_us, outcome, status, bytes, elapsed_us"),
}
STATEMENTS = (
    "UPDATE {table} SET at_us = 1",
    "UPDATE OR IGNORE {table} SET at_us = 1",
    "UPDATE OR FAIL {table} SET at_us = 1",
    "UPDATE OR REPLACE {table} SET {key} = 3 WHERE {key} = 1",
    "UPDATE OR ROLLBACK {table} SET {key} = 77 WHERE {key} = 1",
    "DELETE FROM {table}",
    "DELETE FROM {table} WHERE {key} = 1",
    "REPLACE INTO {table} ({key}, {rest}) SELECT {key}, {rest} FROM {table}",
    "INSERT OR REPLACE INTO {table} ({key}, {rest}) SELECT {key}, {rest} FROM {table} WHERE {key} = 1",
    "INSERT OR IGNORE INTO {table} ({key}, {rest}) SELECT {key}, {rest} FROM {table} WHERE {key} = 1",
    "INSERT OR REPLACE INTO {table} (rowid, {rest}) SELECT {key}, {rest} FROM {table} WHERE {key} = 1",
    "REPLACE INTO {table} (_rowid_, {rest}) SELECT {key}, {rest} FROM {table} WHERE {key} = 1",
    "REPLACE INTO {table} (oid, {rest}) SELECT {key}, {rest} FROM {table} WHERE {key} = 1",
    "INSERT INTO {table} ({key}, {rest}) SELECT {key}, {rest} FROM {table} WHERE {key} = 1 "
    "ON CONFLICT ({key}) DO UPDATE SET at_us = 1",
    "INSERT INTO {table} ({key}, {rest}) SELECT {key}, {rest} FROM {table} WHERE {key} = 1 ON CONFLICT DO NOTHING",
    "WITH old AS (SELECT 1 AS i) UPDATE {table} SET at_us = 1 FROM old WHERE {key} = old.i",
)


@pytest.mark.parametrize("recursive", ["OFF", "ON"])
@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("table", REWRITES)
def test_no_statement_changes_or_takes_away_a_row(
    raw: sqlite3.Connection, table: str, statement: str, recursive: str
) -> None:
    key, rest = REWRITES[table]
    before = everything(raw)
    raw.execute(f"PRAGMA recursive_triggers = {recursive}")
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        raw.execute(statement.format(table=table, key=key, rest=rest))
    assert everything(raw) == before


def test_an_outcome_is_written_once(log: AuditLog, path: Path) -> None:
    row = log.intend(an_intent())
    log.close(row, Outcome("answered", 200, 5, 6))
    with pytest.raises(LogUnavailable):
        log.close(row, Outcome("timeout"))
    assert read_rows(path)[0]["outcome"] == "answered"


def test_an_outcome_needs_its_row(log: AuditLog, path: Path) -> None:
    with pytest.raises(LogUnavailable):
        log.close(4711, Outcome("answered"))
    assert read_rows(path) == []


def test_a_failed_write_leaves_the_log_usable(log: AuditLog, path: Path) -> None:
    with pytest.raises(LogUnavailable):
        log.intend(an_intent("maybe"))
    assert log.intend(an_intent()) == read_rows(path)[0]["id"]


def test_a_row_with_an_odd_id_of_another_program_does_not_stop_the_log(log: AuditLog, raw: sqlite3.Connection) -> None:
    """In a BEFORE trigger SQLite gives -1 for an id that is not chosen yet."""
    with pytest.raises(sqlite3.IntegrityError):
        raw.execute(f"INSERT INTO outbound (id, {COLUMNS}) SELECT -1, {COLUMNS} FROM outbound WHERE id = 1")
    assert log.intend(an_intent()) > 3


# -- what a row holds


def test_a_row_holds_who_asked_what_left_and_how_it_ended(log: AuditLog, path: Path) -> None:
    caller = {"session": "s-1", "host": "testhost", "host_version": "1", "cwd": "/w"}
    row = log.intend(an_intent("redact", "a [email]", **caller))
    log.close(row, Outcome("answered", 200, 10, 20))
    (found,) = read_rows(path)
    assert {key: found[key] for key in caller} == caller
    assert (found["verdict"], found["sent"], found["outcome"]) == ("redact", "a [email]", "answered")
    assert (found["status"], found["bytes"], found["elapsed_us"], found["decision_us"]) == (200, 10, 20, 7)
    assert found["findings"] == [{"rule": "r", "class": "pii", "start": 0, "end": 3}] and found["withheld"] == ["ab"]
    assert found["at"].endswith("Z") and found["policy"] == "p"


def test_a_blocked_row_is_closed_as_withheld_with_it(log: AuditLog, path: Path) -> None:
    log.intend(an_intent("block", ""))
    assert read_rows(path)[0]["outcome"] == "withheld"


def test_a_blocked_row_that_holds_text_is_refused_and_leaves_nothing(log: AuditLog, path: Path) -> None:
    with pytest.raises(LogUnavailable) as caught:
        log.intend(an_intent("block", "a secret text"))
    assert read_rows(path) == [] and "a secret text" not in str(caught.value)
    assert b"a secret text" not in b"".join(file.read_bytes() for file in path.parent.iterdir())


@pytest.mark.parametrize("field", ["session", "host", "host_version", "cwd"])
def test_bytes_of_a_caller_that_are_no_text_do_not_get_past_the_log(log: AuditLog, path: Path, field: str) -> None:
    """A folder name that is not UTF-8 reaches Python with lone surrogates."""
    try:
        row = log.intend(an_intent(**{field: "/w/\udcff"}))
    except LogUnavailable as error:
        assert "\udcff" not in str(error)
    else:
        assert read_rows(path, row_id=row)
    assert log.intend(an_intent())


def test_rows_without_an_outcome_read_as_open(log: AuditLog, path: Path) -> None:
    log.intend(an_intent())
    assert read_rows(path)[0]["outcome"] is None


# -- fingerprints and their key


def test_equal_values_have_equal_fingerprints_under_one_key_only(log: AuditLog, path: Path) -> None:
    other = AuditLog(path.with_name("other.db"), b"o" * 32)
    assert log.fingerprint("jane") == AuditLog(path, KEY).fingerprint("jane")
    assert len({log.fingerprint("jane"), log.fingerprint("Jane"), other.fingerprint("jane")}) == 3
    assert len(log.fingerprint("\udcff🚀")) == 64 and "jane" not in log.fingerprint("jane")


def test_a_key_is_made_once_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "audit.key"
    old = os.umask(0)
    try:
        key = load_key(path)
    finally:
        os.umask(old)
    assert len(key) == 32 and len(set(key)) > 8
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
    assert load_key(path) == key and [file.name for file in path.parent.iterdir()] == ["audit.key"]


@pytest.mark.parametrize("content", [b"", b"x", b"x" * 31])
def test_a_damaged_key_is_refused_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "audit.key"
    path.write_bytes(content)
    with pytest.raises(LogUnavailable, match="damaged"):
        load_key(path)
    assert path.read_bytes() == content


def test_a_folder_in_the_place_of_the_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LogUnavailable):
        load_key(tmp_path)


def test_what_a_crash_left_beside_the_key_does_not_stop_the_next_start(tmp_path: Path) -> None:
    """Process ids come again, in a container with every start."""
    program = "import sys; from pathlib import Path; from sparkgate.policy.keys import load_key; import os\n"
    crash = "os.link = lambda *_: os._exit(9)\nload_key(Path(sys.argv[1]))"
    path = tmp_path / "audit.key"
    crashed = subprocess.run([sys.executable, "-I", "-c", program + crash, str(path)], check=False)
    assert crashed.returncode == 9 and not path.exists()
    for left in tmp_path.iterdir():
        left.rename(left.with_name(left.name.rpartition(".")[0] + f".{os.getpid()}"))
    assert len(load_key(path)) == 32


def test_processes_that_make_the_key_at_once_agree_on_it(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from sparkgate.policy.keys import load_key\n"
        "print('ready', flush=True); sys.stdin.readline(); print(load_key(Path(sys.argv[1])).hex())"
    )
    argv = [sys.executable, "-I", "-c", program, str(tmp_path / "keys" / "audit.key")]
    made = [subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    for process in made:
        assert process.stdout and process.stdout.readline() == "ready\n"
    keys = {process.communicate("\n", PATIENCE_S)[0] for process in made}
    assert keys == {load_key(tmp_path / "keys" / "audit.key").hex() + "\n"}


def test_threads_that_make_the_key_at_once_agree_on_it(tmp_path: Path) -> None:
    found: list[bytes | LogUnavailable] = []
    start = threading.Barrier(8)

    def make() -> None:
        start.wait(PATIENCE_S)
        try:
            found.append(load_key(tmp_path / "audit.key"))
        except LogUnavailable as error:
            found.append(error)

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert set(found) == {load_key(tmp_path / "audit.key")}


def test_the_files_of_the_log_are_readable_by_their_owner_only(path: Path) -> None:
    old = os.umask(0)
    try:
        log = AuditLog(path, KEY)
        log.intend(an_intent())
    finally:
        os.umask(old)
    assert {file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {0o600}
    assert path.parent.stat().st_mode & 0o777 == 0o700


# -- several processes, and their ends


def test_processes_that_write_at_once_lose_nothing(path: Path) -> None:
    processes = [writer(path, 50, f"w{number}") for number in range(8)]
    ids = []
    for process in processes:
        out, errors = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, errors
        ids += [int(line) for line in out.split()]
    rows = read_rows(path, limit=10_000)
    assert len(ids) == len(set(ids)) == len(rows) == 400
    assert {row["sent"] for row in rows} == {f"w{writer} {number}" for writer in range(8) for number in range(50)}
    assert {row["outcome"] for row in rows} == {"answered"}


@pytest.mark.parametrize("after", [1, 7, 23])
def test_a_killed_writer_loses_no_row_it_was_told_is_written(path: Path, after: int) -> None:
    process = writer(path, 100_000, "w")
    assert process.stdout
    told = [int(process.stdout.readline()) for _ in range(after + random.randrange(5))]
    process.send_signal(signal.SIGKILL)
    # A last line without its end may be half a number.
    told += [int(line) for line in process.stdout.readlines() if line.endswith("\n")]
    process.communicate(timeout=PATIENCE_S)
    rows = read_rows(path, limit=100_000)
    assert {row["id"] for row in rows} >= set(told)
    assert AuditLog(path, KEY).intend(an_intent()) > max(told)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_log_can_be_read_while_it_is_written(path: Path) -> None:
    process = writer(path, 200, "w")
    assert process.stdout
    seen = 0
    for line in process.stdout:
        rows = read_rows(path, limit=1)
        assert rows[0]["id"] >= int(line) >= seen
        seen = int(line)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0 and seen == 200


def test_threads_share_one_handle(log: AuditLog, path: Path) -> None:
    threads = [threading.Thread(target=lambda: [log.intend(an_intent()) for _ in range(20)]) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(read_rows(path, limit=1000)) == 120


# -- a log that cannot be used


def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"not a database, but long enough to be one " * 50)
    before = path.read_bytes()
    with pytest.raises(LogUnavailable):
        AuditLog(path, KEY)
    with pytest.raises(LogUnavailable):
        read_rows(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("create", ["CREATE TABLE bookmarks (url TEXT)", "CREATE TABLE outbound (a)"])
def test_the_database_of_another_program_is_refused_and_gets_no_tables_of_ours(path: Path, create: str) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(create)
        with pytest.raises(LogUnavailable):
            AuditLog(path, KEY)
        assert connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'outcome'").fetchone() == (0,)


@pytest.mark.parametrize("drop", ["TRIGGER outbound_no_update", "TRIGGER outcome_no_replace", "TABLE outcome"])
def test_a_log_whose_protection_was_taken_off_is_refused(raw: sqlite3.Connection, path: Path, drop: str) -> None:
    raw.execute(f"DROP {drop}")
    with pytest.raises(LogUnavailable):
        AuditLog(path, KEY)


def test_a_damaged_log_is_refused(log: AuditLog, path: Path) -> None:
    for _ in range(50):
        log.intend(an_intent(sent="x" * 500))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    damaged = path.with_name("damaged.db")
    content = path.read_bytes()
    damaged.write_bytes(content[:100] + b"\xff" * (len(content) - 100))
    with pytest.raises(LogUnavailable):
        AuditLog(damaged, KEY)
    with pytest.raises(LogUnavailable):
        read_rows(damaged)


@pytest.mark.parametrize("place", ["a-file", "audit.db"], ids=["a file for the folder", "a folder for the file"])
def test_a_place_that_cannot_hold_the_log_is_refused(tmp_path: Path, place: str) -> None:
    if place == "a-file":
        (tmp_path / place).write_text("")
        target = tmp_path / place / "audit.db"
    else:
        target = tmp_path / place
        target.mkdir()
    with pytest.raises(LogUnavailable):
        AuditLog(target, KEY)


def test_a_log_that_this_user_may_not_write_is_refused(log: AuditLog, path: Path) -> None:
    log.intend(an_intent())
    program = (
        "import os, sys; from pathlib import Path; from sparkgate.policy.audit import AuditLog, LogUnavailable\n"
        "if os.getuid() == 0: os.setgid(65534); os.setuid(65534)\n"
        "try: AuditLog(Path(sys.argv[1]), b'k' * 32)\n"
        "except LogUnavailable: print('refused')"
    )
    copy = path.parent.parent / "copy"
    shutil.copytree(path.parent, copy)
    for file in copy.iterdir():
        file.chmod(0o444)
    copy.chmod(0o555)
    for folder in (copy, *copy.parents[:2]):
        folder.chmod(folder.stat().st_mode | 0o555)
    done = subprocess.run(
        [sys.executable, "-I", "-c", program, str(copy / "audit.db")], capture_output=True, text=True, check=False
    )
    assert done.stdout == "refused\n", done.stderr


def test_on_a_full_disk_the_row_is_refused_and_earlier_ones_stay(path: Path) -> None:
    """A limit on the size of files stands in for the disk; SQLite sees the same failed write."""
    program = """
import resource
rows = [log.intend(intent("x" * 1000)) for _ in range(5)]
size = max(file.stat().st_size for file in path.parent.iterdir())
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20_000, resource.RLIM_INFINITY))
refused = 0
for _ in range(100):
    try:
        rows.append(log.intend(intent("x" * 1000)))
    except LogUnavailable:
        refused += 1
try:
    log.close(rows[0], Outcome("answered"))
except LogUnavailable:
    pass
print(len(rows), refused)
"""
    process = writer(path, 0, "w", program)
    out, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors
    written, refused = map(int, out.split())
    assert refused > 0 and len(read_rows(path, limit=1000)) == written
    assert AuditLog(path, KEY).intend(an_intent()) > 0


def test_a_start_that_runs_out_of_space_does_not_spoil_the_next_one(path: Path) -> None:
    for limit in (0, 4096, 9000, 20_000, 45_000):
        program = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, resource.RLIM_INFINITY))
from pathlib import Path
from sparkgate.policy.audit import AuditLog, LogUnavailable
try: AuditLog(Path(sys.argv[1]), b"k" * 32)
except LogUnavailable: print("refused")
"""
        argv = [sys.executable, "-I", "-W", "ignore", "-c", program, str(path)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert AuditLog(path, KEY).intend(an_intent()) == 1


def test_a_log_that_was_removed_under_us_takes_no_rows_into_nowhere(log: AuditLog, path: Path) -> None:
    log.intend(an_intent())
    for file in path.parent.iterdir():
        file.unlink()
    try:
        row = log.intend(an_intent())
    except LogUnavailable:
        return
    assert [found["id"] for found in read_rows(path)] == [row]


def test_a_log_that_was_replaced_under_us_takes_no_rows_into_nowhere(log: AuditLog, path: Path) -> None:
    log.intend(an_intent())
    shutil.copytree(path.parent, path.parent.parent / "backup")
    for file in path.parent.iterdir():
        file.unlink()
        shutil.copy(path.parent.parent / "backup" / file.name, file)
    try:
        row = log.intend(an_intent())
    except LogUnavailable:
        return
    assert row in [found["id"] for found in read_rows(path)]


def test_a_log_that_somebody_holds_for_long_is_refused_in_the_end(
    log: AuditLog, raw: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparkgate.policy.audit.BUSY_TIMEOUT_S", 0.01)
    raw.execute("BEGIN IMMEDIATE")
    with pytest.raises(LogUnavailable):
        log.intend(an_intent())
    raw.execute("ROLLBACK")
    assert log.intend(an_intent())


# -- reading


def test_rows_come_newest_first_up_to_the_limit_or_by_id(log: AuditLog, path: Path) -> None:
    ids = [log.intend(an_intent(sent=str(number))) for number in range(30)]
    assert [row["id"] for row in read_rows(path)] == ids[:9:-1]
    assert [row["sent"] for row in read_rows(path, limit=2)] == ["29", "28"]
    assert [row["sent"] for row in read_rows(path, row_id=ids[3])] == ["3"]
    assert read_rows(path, row_id=4711) == [] and read_rows(path, limit=0) == []


def test_a_log_that_does_not_exist_has_no_rows_and_is_not_made_by_reading(tmp_path: Path) -> None:
    assert read_rows(tmp_path / "audit.db") == [] and list(tmp_path.iterdir()) == []


def test_reading_changes_nothing(raw: sqlite3.Connection, path: Path) -> None:
    before = everything(raw)
    read_rows(path)
    assert everything(raw) == before


@pytest.mark.parametrize("name", ["a b", "a?mode=rwc", "a#b", "a%20b", "ä"])
def test_the_folder_of_a_log_may_have_any_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / name / "audit.db"
    AuditLog(path, KEY).intend(an_intent())
    assert len(read_rows(path)) == 1


def test_what_rows_hold_can_be_written_as_json(log: AuditLog, path: Path) -> None:
    log.intend(an_intent(sent="🚀 \x00 \u2028"))
    assert json.loads(json.dumps(read_rows(path)))[0]["sent"] == "🚀 \x00 \u2028"


def test_a_log_made_before_the_last_migration_is_brought_up_to_date(log: AuditLog, path: Path) -> None:
    row = log.intend(an_intent())
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("ALTER TABLE outbound DROP COLUMN fields")
        raw.execute("DELETE FROM _sqlite_migrations WHERE name = 'add_fields'")
    again = AuditLog(path, KEY)
    assert again.intend(an_intent()) == row + 1
    assert [found["fields"] for found in read_rows(path)] == [{}, {}]
