"""The chain of the log: what was done to a log shows, whatever it was, and pruning leaves it whole."""

from __future__ import annotations

import gc
import itertools
import json
import shutil
import sqlite3
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from sparkgate.policy.audit import AuditLog, Caller, Intent, LogUnavailable, Outcome
from sparkgate.policy.guard import Guard
from sparkgate.policy.trail.chain import ADDED, COVERED, FORM, OUTBOUND, UNKNOWN_GID, Chain
from sparkgate.policy.trail.head import HeadFile, heads_told
from sparkgate.policy.trail.index import reindex
from sparkgate.policy.trail.prune import Limits, prune
from sparkgate.policy.trail.read import Filter, newest, oldest_first, reading
from sparkgate.policy.trail.verify import Broken, Proof, verify
from sparkgate.services import Services

KEY = b"k" * 32
DAY_US = 86_400_000_000


def an_intent(
    verdict: str = "allow", sent: str = "text", rule: str = "r", withheld: tuple[str, ...] = (), gid: int = 7
) -> Intent:
    findings = [{"rule": rule, "class": "pii", "start": 0, "end": 3}]
    caller = Caller(session="s", host="hermes", gid=gid)
    return Intent(caller, "web_search", "searxng", "http://h:1", verdict, sent, {}, findings, withheld, "p", 7)


def written(path: Path, rows: int = 6, gid: int = 7) -> AuditLog:
    """A log with answered, blocked and open rows, one of each in turn."""
    log = AuditLog(path, KEY)
    for number in range(rows):
        blocked = number % 3 == 1
        verdict, sent = ("block", "") if blocked else ("allow", f"question {number}")
        row = log.intend(an_intent(verdict, sent, gid=gid))
        if number % 3 == 0:
            log.close(row, Outcome("answered", 200, 10, 20))
    return log


def proof(path: Path, key: bytes = KEY) -> Proof:
    chain = Chain(key)
    with reading(path) as connection:
        return list(verify(connection, chain, HeadFile(path.with_suffix(".head"), chain).read()))[-1]


def told(broken: list[Broken]) -> list[tuple[str, str, int]]:
    return [(one.fault, one.table, one.row) for one in broken]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.db"


def put_in_place(path: Path, data: bytes) -> None:
    """A file in the place of the log, which nobody has open."""
    gc.collect()
    for left in (path.with_name("audit.db-wal"), path.with_name("audit.db-shm")):
        left.unlink(missing_ok=True)
    path.write_bytes(data)


def tampered(path: Path, *statements: str) -> None:
    """Somebody who may write the file and knows how, but does not have the key; he leaves no trigger behind or away."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        refusing = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND name LIKE '%_no_%'"
        triggers = connection.execute(refusing).fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            connection.execute(statement)
        for _, statement in triggers:
            connection.execute(statement)


def test_a_log_that_nobody_touched_is_intact(path: Path) -> None:
    log = written(path)
    found = proof(path)
    assert found.intact and found.links == 1 + 6 + 4
    log.intend(an_intent())
    assert proof(path).head.seq == 12


BEGINNING = (
    "DELETE FROM chain WHERE seq < 4",
    "DELETE FROM outbound WHERE id = 1",
    "DELETE FROM outcome WHERE outbound_id = 1",
    "DELETE FROM mark",
)
END = (
    "DELETE FROM chain WHERE seq > 8",
    "DELETE FROM outbound WHERE id > 4",
    "DELETE FROM outcome WHERE outbound_id > 4",
)
COPIED = ", ".join(name for name in COVERED[FORM][OUTBOUND] if name != "id")
MADE_UP = json.dumps({"seq": 3, "mac": "00112233445566778899aabbccddeeff", "loose": []})
Places = list[tuple[str, str, int]]
TAMPERED: dict[str, tuple[tuple[str, ...], Places]] = {
    "an edited text": (("UPDATE outbound SET sent = 'other' WHERE id = 3",), [("edited", "outbound", 3)]),
    "an edited verdict": (("UPDATE outbound SET verdict = 'redact' WHERE id = 1",), [("edited", "outbound", 1)]),
    "an edited time": (("UPDATE outbound SET at_us = at_us + 1 WHERE id = 4",), [("edited", "outbound", 4)]),
    "an edited end": (("UPDATE outcome SET outcome = 'refused' WHERE outbound_id = 1",), [("edited", "outcome", 1)]),
    "an edited note": (("UPDATE mark SET detail = '{}'",), [("edited", "mark", 1)]),
    "an edited MAC": (
        ("UPDATE chain SET mac = zeroblob(16) WHERE seq = 4",),
        [("edited", "outbound", 2), ("edited", "outcome", 2)],
    ),
    "edited ids of a call": (
        ('UPDATE outbound SET call_ids = \'{"turn": "7"}\' WHERE id = 3',),
        [("edited", "outbound", 3)],
    ),
    "an edited group": (("UPDATE outbound SET gid = 8 WHERE id = 3",), [("edited", "outbound", 3)]),
    "an edited confinement": (("UPDATE outbound SET confined = 'c' WHERE id = 3",), [("edited", "outbound", 3)]),
    "a deleted row": (("DELETE FROM outbound WHERE id = 3",), [("missing", "outbound", 3)]),
    "a deleted end": (("DELETE FROM outcome WHERE outbound_id = 4",), [("missing", "outcome", 4)]),
    "a row deleted with its link": (
        ("DELETE FROM outbound WHERE id = 3", "DELETE FROM chain WHERE kind = 1 AND ref = 3"),
        [("missing", "", 0)],
    ),
    "a written row": (
        (f"INSERT INTO outbound (id, {COPIED}) SELECT 77, {COPIED} FROM outbound WHERE id = 1",),
        [("inserted", "outbound", 77)],
    ),
    "a written end": (("INSERT INTO outcome VALUES (3, 1, 'refused', 1, 1, 1)",), [("inserted", "outcome", 3)]),
    "two rows in each other's place": (
        (
            "UPDATE outbound SET id = 99 WHERE id = 3",
            "UPDATE outbound SET id = 3 WHERE id = 6",
            "UPDATE outbound SET id = 6 WHERE id = 99",
        ),
        [("edited", "outbound", 3), ("edited", "outbound", 6)],
    ),
    "two links in each other's place": (
        (
            "UPDATE chain SET seq = 99 WHERE seq = 4",
            "UPDATE chain SET seq = 4 WHERE seq = 6",
            "UPDATE chain SET seq = 6 WHERE seq = 99",
        ),
        [("edited", "outbound", 3), ("edited", "outcome", 2), ("edited", "outbound", 2), ("edited", "outbound", 4)],
    ),
    "the last rows cut off": (END, [("truncated", "", 0)]),
    "everything cut off": (
        ("DELETE FROM chain", "DELETE FROM outbound", "DELETE FROM outcome", "DELETE FROM mark"),
        [("truncated", "", 0)],
    ),
    "the beginning cut off": (BEGINNING, [("missing", "", 0)]),
    "a made-up pruning": (
        (*BEGINNING, f"INSERT INTO mark VALUES (2, 1, 'pruned', '{MADE_UP}')"),
        [("edited", "outbound", 2), ("inserted", "mark", 2)],
    ),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_what_was_done_to_the_log_is_told(path: Path, name: str) -> None:
    statements, broken = TAMPERED[name]
    written(path)
    tampered(path, *statements)
    found = proof(path)
    assert not found.intact
    assert told(found.broken) == broken


LATER: Mapping[str, str] = {
    "call_ids": 'UPDATE outbound SET call_ids = \'{"turn": "8"}\' WHERE id = 1',
    "gid": "UPDATE outbound SET gid = 0 WHERE id = 1",
    "confined": "UPDATE outbound SET confined = 'c' WHERE id = 1",
}


def write_in_form(path: Path, form: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rows as an earlier version wrote them."""
    with monkeypatch.context() as older:
        older.setattr("sparkgate.policy.audit.FORM", form)
        older.setattr("sparkgate.policy.trail.chain.FORM", form)
        written(path, 2, gid=UNKNOWN_GID)
    gc.collect()


@pytest.mark.parametrize("column", LATER)
@pytest.mark.parametrize("form", [1, 2])
def test_rows_of_an_older_form_stay_proven_also_in_what_came_later(
    path: Path, form: int, column: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if column in COVERED[form][OUTBOUND]:
        return
    write_in_form(path, form, monkeypatch)
    newer = replace(an_intent(), caller=Caller(session="new", call_ids={"turn": "7"}, gid=3, confined="c"))
    AuditLog(path, KEY).intend(newer)
    gc.collect()
    assert proof(path).intact
    with reading(path) as connection:
        assert {row[0] for row in connection.execute("SELECT form FROM chain")} == {form, FORM}
    tampered(path, LATER[column])
    assert told(proof(path).broken) == [("edited", "outbound", 1)]


def test_a_log_from_before_groups_were_kept_gets_the_columns_and_stays_intact(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_in_form(path, 2, monkeypatch)
    tampered(
        path,
        "ALTER TABLE outbound DROP COLUMN gid",
        "ALTER TABLE outbound DROP COLUMN confined",
        "DELETE FROM _sqlite_migrations WHERE name = 'add_confinement'",
    )
    AuditLog(path, KEY).intend(an_intent(gid=5))
    gc.collect()
    assert proof(path).intact
    with reading(path) as connection:
        assert [(row["gid"], row["confined"]) for row in oldest_first(connection)] == [(-1, ""), (-1, ""), (5, "")]


def test_earlier_forms_are_the_beginning_of_later_ones() -> None:
    for earlier, later in itertools.pairwise(COVERED.values()):
        for kind, names in earlier.items():
            assert later[kind][: len(names)] == names and set(later[kind][len(names) :]) <= ADDED.keys()


def test_a_copy_that_was_written_on_in_the_place_of_the_log_is_a_fork(path: Path, tmp_path: Path) -> None:
    """Each of the two is intact by itself, under the same key."""
    log = written(path, 3)
    log.shrink(0)
    copy = tmp_path / "copy.db"
    shutil.copy(path, copy)
    shutil.copy(path.with_suffix(".head"), copy.with_suffix(".head"))
    log.intend(an_intent(sent="ours"))
    del log
    theirs = AuditLog(copy, KEY)
    for number in range(3):
        theirs.intend(an_intent(sent=f"theirs {number}"))
    assert proof(copy).intact
    theirs.shrink(0)
    put_in_place(path, copy.read_bytes())
    assert told(proof(path).broken) == [("fork", "outbound", 4)]


def accepting(*told: str) -> str:
    detail = json.dumps({"reason": "mine", "broken": [*told, *BROKEN]})
    return f"INSERT INTO mark (at_us, what, detail) VALUES (1, 'accepted', '{detail}')"


BROKEN = (
    ["edited", 4, "outbound", 3, "", ""],
    "outbound 3: its content is not what was written",
    "mark 2: it was not written by the log",
)
HIDDEN: dict[str, tuple[str, ...]] = {
    "an acceptance that somebody made up": ("UPDATE outbound SET sent = 'x' WHERE id = 3", accepting()),
    "a mark that is no JSON": ("INSERT INTO mark (at_us, what, detail) VALUES (1, 'accepted', 'x')",),
    "a pruning that is no JSON": ("INSERT INTO mark (at_us, what, detail) VALUES (1, 'pruned', '[]')",),
    "a row that hides behind a pruned one": (
        "DELETE FROM outcome WHERE outbound_id = 58",
        "DELETE FROM outbound WHERE id = 58",
        "UPDATE chain SET ref = 1 WHERE ref = 58 AND kind <> 3",
    ),
    "an outcome that hides behind a pruned one": (
        "DELETE FROM outcome WHERE outbound_id = 58",
        "UPDATE chain SET ref = 1 WHERE ref = 58 AND kind = 2",
    ),
    "an index that finds nothing": ("DELETE FROM withheld",),
    "an index that finds no rule": ("DELETE FROM finding WHERE outbound_id = 58",),
    "an index that finds no words": (
        "INSERT INTO outbound_text (outbound_text, rowid, sent) SELECT 'delete', id, sent FROM outbound WHERE id = 58",
    ),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_nothing_that_is_written_beside_the_chain_hides_what_was_done(path: Path, name: str) -> None:
    log = written(path, 60)
    log.intend(an_intent("block", "", "r", ("ab",)))
    with reading(path) as connection:
        middle = connection.execute("SELECT at_us FROM outbound WHERE id = 30").fetchone()[0]
    list(prune(log, Limits(before_us=middle)))
    assert proof(path).intact
    tampered(path, *HIDDEN[name])
    assert not proof(path).intact
    log.intend(an_intent())
    list(prune(log, Limits(before_us=middle + 1)))
    assert not proof(path).intact


def test_an_index_is_made_anew(path: Path) -> None:
    log = written(path)
    tampered(
        path,
        "DELETE FROM withheld",
        "DELETE FROM finding",
        "INSERT INTO outbound_text (outbound_text) VALUES ('delete-all')",
    )
    assert {one.table for one in proof(path).broken} == {"finding", "outbound_text"}
    log.change(lambda connection, _: reindex(connection))
    assert proof(path).intact


def test_an_end_that_is_cut_off_under_the_log_stays_known_when_it_grows_again(path: Path) -> None:
    log = written(path, 9)
    tampered(path, *(statement.replace("> 8", "> 11").replace("> 4", "> 6") for statement in END))
    for _ in range(9):
        log.intend(an_intent())
    assert [one.fault for one in proof(path).broken] == ["truncated"]
    assert "noticed at link" in proof(path).broken[0].detail


def test_rows_that_were_made_anew_under_the_log_stay_known_when_it_grows_again(path: Path, tmp_path: Path) -> None:
    log = written(path, 3)
    log.shrink(0)
    copy = tmp_path / "copy.db"
    for suffix in (".db", ".head"):
        shutil.copy(path.with_suffix(suffix), copy.with_suffix(suffix))
    log.intend(an_intent(sent="ours"))
    theirs = AuditLog(copy, KEY)
    for number in range(3):
        theirs.intend(an_intent(sent=f"theirs {number}"))
    theirs.shrink(0)
    del log
    put_in_place(path, copy.read_bytes())
    reopened = AuditLog(path, KEY)
    for _ in range(5):
        reopened.intend(an_intent())
    assert [one.fault for one in proof(path).broken] == ["fork"]


def test_a_break_that_cannot_be_kept_outside_lets_nothing_leave(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = written(path, 9)
    tampered(path, *(statement.replace("> 8", "> 11").replace("> 4", "> 6") for statement in END))

    def refused(*_: object) -> None:
        raise PermissionError(13, "not yours")

    monkeypatch.setattr("sparkgate.policy.trail.head.HeadFile.rewind", refused)
    with pytest.raises(LogUnavailable):
        log.intend(an_intent())


def test_who_opens_a_new_log_before_its_first_head_is_kept_calls_nothing_removed(path: Path) -> None:
    AuditLog(path, KEY)
    path.with_suffix(".head").unlink()  # as if it had been killed between the two
    AuditLog(path, KEY).intend(an_intent())
    assert not proof(path).broken


def test_a_head_that_was_removed_is_known_of_after_the_log_was_opened_again(path: Path) -> None:
    log = written(path)
    del log
    path.with_suffix(".head").unlink()
    AuditLog(path, KEY).intend(an_intent())
    assert [one.fault for one in proof(path).broken] == ["unanchored"]


DROPPING = (
    "DROP TABLE chain",
    "DROP TABLE mark",
    "DELETE FROM _sqlite_migrations WHERE name = 'chain_the_rows'",
)


@pytest.mark.parametrize("dropped", [False, True])
def test_rows_without_a_chain_are_not_linked_by_opening_the_log(path: Path, dropped: bool) -> None:
    """Somebody who empties the chain, or makes the log look older than it, would have it sign what he left there."""
    log = written(path)
    del log
    tampered(path, "DELETE FROM chain", "DELETE FROM mark", "UPDATE outbound SET sent = 'x' WHERE id = 3")
    path.with_suffix(".head").unlink()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in DROPPING if dropped else ():
            connection.execute(statement)
    AuditLog(path, KEY)
    assert {one.fault for one in proof(path).broken} == {"inserted"}


def test_pruning_while_the_log_is_proven_breaks_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparkgate.policy.trail.verify.BATCH", 20)
    log = written(path, 60)
    chain = Chain(KEY)
    with reading(path) as connection:
        middle = connection.execute("SELECT at_us FROM outbound WHERE id = 40").fetchone()[0]
        proofs = verify(connection, chain, HeadFile(path.with_suffix(".head"), chain).read())
        next(proofs)
        list(prune(log, Limits(before_us=middle)))
        *_, last = proofs
    assert last.intact, last.broken


def test_what_is_accepted_is_what_stands_there_and_nothing_that_is_put_there_later(path: Path) -> None:
    log = written(path, 9)
    tampered(path, "UPDATE outbound SET sent = 'one' WHERE id = 4", "DELETE FROM chain WHERE seq = 9")
    broken = proof(path).broken
    log.mark("accepted", {"reason": "x", "broken": [one.key() for one in broken]})
    found = proof(path)
    assert found.intact and found.accepted == broken
    for statement in (
        "UPDATE outbound SET sent = 'two' WHERE id = 4",
        "UPDATE outcome SET status = 500 WHERE outbound_id = 4",
    ):
        tampered(path, statement)
        assert not proof(path).intact


def test_an_old_copy_in_the_place_of_the_log_is_told_before_and_after_more_is_written(path: Path) -> None:
    log = written(path)
    log.shrink(0)
    kept = path.read_bytes()
    for _ in range(3):
        log.intend(an_intent())
    del log
    put_in_place(path, kept)
    before = proof(path)
    assert [one.fault for one in before.broken] == ["truncated"]
    reopened = AuditLog(path, KEY)
    for _ in range(9):
        reopened.intend(an_intent())
    after = proof(path)
    assert [one.fault for one in after.broken] == ["truncated"]
    assert "records 12 to 14" in after.broken[0].detail


def test_another_log_in_the_place_of_this_one_is_told(path: Path, tmp_path: Path) -> None:
    written(path)
    other = tmp_path / "other" / "audit.db"
    written(other, 12)
    written_over = AuditLog(other, KEY)
    written_over.shrink(0)
    put_in_place(path, other.read_bytes())
    assert [one.fault for one in proof(path).broken] == ["fork"]


def test_without_the_head_the_end_is_not_proven(path: Path) -> None:
    written(path)
    path.with_suffix(".head").unlink()
    assert [one.fault for one in proof(path).broken] == ["unanchored"]


def test_a_head_that_somebody_made_up_counts_as_none(path: Path) -> None:
    written(path)
    head = path.with_suffix(".head")
    line = json.loads(head.read_text())
    head.write_text(json.dumps({**line, "seq": 1}))
    assert [one.fault for one in proof(path).broken] == ["unanchored"]


def test_with_another_key_nothing_holds(path: Path) -> None:
    written(path)
    assert len(proof(path, b"x" * 32).broken) == 12


def test_old_rows_are_pruned_and_the_rest_is_still_proven(path: Path) -> None:
    log = written(path, 300)
    with reading(path) as connection:
        middle = connection.execute("SELECT at_us FROM outbound WHERE id = 200").fetchone()[0]
    taken = list(prune(log, Limits(before_us=middle)))
    assert sum(batch.rows for batch in taken) == 199 and {batch.why for batch in taken} == {"age"}
    found = proof(path)
    assert found.intact and found.pruned > 0
    with reading(path) as connection:
        assert [row["id"] for row in oldest_first(connection)] == list(range(200, 301))
        assert connection.execute("SELECT count(*) FROM outbound_text").fetchone()[0] > 0
        assert newest(connection, Filter(text="question 3"), limit=9) == []


def test_what_is_done_to_a_pruned_log_shows_as_well(path: Path) -> None:
    log = written(path, 60)
    with reading(path) as connection:
        middle = connection.execute("SELECT at_us FROM outbound WHERE id = 30").fetchone()[0]
    list(prune(log, Limits(before_us=middle)))
    tampered(path, "DELETE FROM outbound WHERE id = 31", "UPDATE outbound SET sent = 'x' WHERE id = 43")
    assert told(proof(path).broken) == [("missing", "outbound", 31), ("edited", "outbound", 43)]


def test_a_log_is_pruned_to_its_size_and_gives_the_space_back(path: Path) -> None:
    log = AuditLog(path, KEY)
    for _ in range(2500):
        log.close(log.intend(an_intent(sent="x " * 400)), Outcome("answered", 200, 1, 1))
    log.shrink(0)
    before = path.stat().st_size
    taken = list(prune(log, Limits(max_bytes=before // 4)))
    assert {batch.why for batch in taken} == {"size"}
    assert path.stat().st_size <= before // 2
    assert proof(path).intact
    assert log.intend(an_intent()) == 2501


def test_the_newest_row_is_never_pruned(path: Path) -> None:
    log = written(path, 9)
    list(prune(log, Limits(before_us=2**60, max_bytes=1)))
    with reading(path) as connection:
        assert [row["id"] for row in newest(connection, limit=99)] == [9]
    assert proof(path).intact


FILTERS: dict[str, tuple[Filter, Callable[[dict[str, object]], bool]]] = {
    "verdict": (Filter(verdict="block"), lambda row: row["verdict"] == "block"),
    "rule": (Filter(rule="r1"), lambda row: row["id"] == 2),
    "class": (Filter(cls="pii"), lambda row: True),
    "text": (Filter(text="gated model"), lambda row: row["id"] == 3),
    "text with signs": (Filter(text='"gated" OR -model*'), lambda row: False),
    "session": (Filter(session="other"), lambda row: False),
    "outcome": (Filter(outcome="unknown"), lambda row: row["id"] == 3),
    "withheld": (Filter(withheld="ab"), lambda row: row["id"] == 2),
    "all at once": (Filter(verdict="block", rule="r1", cls="pii", host="hermes"), lambda row: row["id"] == 2),
}


@pytest.mark.parametrize("name", FILTERS)
def test_rows_are_found_by_what_they_hold(path: Path, name: str) -> None:
    log = AuditLog(path, KEY)
    log.close(log.intend(an_intent(sent="a gated repo")), Outcome("answered", 200, 1, 1))
    log.intend(an_intent("block", "", "r1", ("ab",)))
    log.intend(an_intent(sent="the gated Model, please"))
    wanted, meant = FILTERS[name]
    with reading(path) as connection:
        rows = newest(connection, limit=99)
        assert newest(connection, wanted, limit=99) == [row for row in rows if meant(row)]
        assert list(oldest_first(connection, wanted)) == [row for row in reversed(rows) if meant(row)]


def test_the_gate_prunes_what_the_settings_keep_no_longer(tmp_path: Path) -> None:
    config, state = tmp_path / "config.toml", tmp_path / "state"
    config.write_text("[audit]\nkeep_days = 30\n")
    services = Services(config, state, Guard())
    assert services.prune_log(0) == 0
    log = services.live().egress.log
    for number in range(5):
        log.intend(an_intent(sent=f"question {number}"))
    now_us = time.time_ns() // 1000
    assert services.prune_log(now_us + 29 * DAY_US) == 0
    assert services.prune_log(now_us + 31 * DAY_US) == 4
    key = (state / "keys" / "audit.key").read_bytes()
    assert proof(state / "audit.db", key).intact


def test_the_head_is_told_to_the_system_log_now_and_then_and_when_asked(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr("sparkgate.policy.trail.head.syslog.syslog", lambda _priority, line: told.append(line))
    log = AuditLog(path, KEY, tell_syslog=True)
    for _ in range(20):
        log.intend(an_intent())
    assert len(told) == 1
    log.anchor()
    heads = heads_told("\n".join(told), Chain(KEY))
    assert [one.head.seq for one in heads] == [1, 21]
    assert heads[-1].head == proof(path).head
    assert heads_told("\n".join(told), Chain(b"x" * 32)) == []
