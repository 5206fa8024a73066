"""`sparkgate audit ship`: every row reaches a collector, whatever happens to either of the two."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from box import PATIENCE_S, Box
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from otlp_receiver import Receiver, listening, row_of, text_of

from sparkgate.policy.audit import AuditLog, Caller, Intent, Outcome
from sparkgate.policy.trail.prune import Limits, prune
from sparkgate.policy.trail.read import Filter, reading
from sparkgate.policy.trail.ship import Answer, Row, advance, cursor, pause_s, ship, unsent

KEY = b"k" * 32
MINUTE_NS = 60 * 10**9


def an_intent(sent: str = "text", verdict: str = "allow") -> Intent:
    caller = Caller(session="s1", host="hermes", pid=4711, uid=1000, cwd="/w")
    return Intent(
        caller, "web_search", "searxng", "http://127.0.0.1:8888", verdict, sent, {"language": "en"}, [], [], "p", 7
    )


def a_log(box: Box, rows: int) -> AuditLog:
    """A log with so many ended rows."""
    log = AuditLog(box.state / "audit.db", KEY)
    add(log, rows)
    return log


def add(log: AuditLog, rows: int) -> None:
    for _ in range(rows):
        log.intend(an_intent("", "block"))


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with listening(Receiver()) as made:
        yield made


def once(box: Box, url: str, *more: str, code: int = 0) -> str:
    ran = box.command("audit", "ship", "--to", url, "--once", "--timeout", "30", *more)
    assert ran.returncode == code, ran.stderr
    assert "Traceback" not in ran.stderr
    return ran.stderr


@contextmanager
def shipping(box: Box, url: str, *more: str) -> Iterator[subprocess.Popen[str]]:
    """The command as a service runs it."""
    argv = [sys.executable, "-I", "-m", "sparkgate.clients.cli", "audit", "ship", "--to", url, "--interval", "0.05"]
    process = subprocess.Popen(
        [*argv, "--timeout", "30", *more], stderr=subprocess.PIPE, text=True, env=box.environment, cwd=box.root
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 2 * PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def place(box: Box, name: str) -> int:
    with reading(box.state / "audit.db") as connection:
        return cursor(connection, name)


def test_every_row_arrives_once_in_order_and_what_was_sent_is_not_sent_again(box: Box, receiver: Receiver) -> None:
    log = a_log(box, 25)
    assert "25 rows sent" in once(box, receiver.url, "--batch", "10")
    assert [len(one.ids) for one in receiver.told] == [10, 10, 5]
    assert receiver.accepted == list(range(1, 26))
    assert "0 rows sent" in once(box, receiver.url)
    add(log, 2)
    assert "2 rows sent" in once(box, receiver.url)
    assert receiver.accepted == list(range(1, 28))


def test_a_record_says_who_asked_what_left_and_how_it_ended(box: Box, receiver: Receiver) -> None:
    log = a_log(box, 0)
    log.close(log.intend(an_intent("nvfp4 on spark, ü")), Outcome("answered", 200, 4000, 312_456))
    once(box, receiver.url)
    [told] = receiver.told[0].request.resource_logs
    resource = {one.key: one.value.string_value for one in told.resource.attributes}
    assert resource["service.name"] == "sparkgate" and resource["host.name"] == os.uname().nodename
    [record] = told.scope_logs[0].log_records
    assert record.body.string_value == "nvfp4 on spark, ü" and record.event_name == "sparkgate.outbound"
    values = {one.key: one.value for one in record.attributes}
    assert values["session.id"].string_value == "s1" and values["http.response.status_code"].int_value == 200
    assert values["sparkgate.outcome"].string_value == "answered"
    assert values["sparkgate.fields"].kvlist_value.values[0].value.string_value == "en"
    assert receiver.told[0].headers["content-type"] == "application/x-protobuf"


def test_headers_come_from_the_command_line_and_from_a_file(box: Box, receiver: Receiver) -> None:
    a_log(box, 1)
    file = box.root / "headers"
    file.write_text("# for the collector\n\nAuthorization=Bearer a=b\nX-Scope=one\n")
    once(box, receiver.url, "--headers-file", str(file), "--header", "X-Scope=two")
    headers = receiver.told[0].headers
    assert headers["authorization"] == "Bearer a=b" and headers["x-scope"] == "two"


def test_a_collector_that_is_not_there_leaves_the_rows_waiting(box: Box) -> None:
    a_log(box, 3)
    with listening(Receiver()) as gone:
        pass
    said = once(box, gone.url, code=1)
    assert "cannot be reached" in said and "0 rows sent" in said
    with listening(gone):
        assert "3 rows sent" in once(box, gone.url)
    assert gone.accepted == [1, 2, 3]


@pytest.mark.parametrize("status", [400, 401, 429, 500, 503])
def test_a_batch_that_is_refused_is_sent_again(box: Box, receiver: Receiver, status: int) -> None:
    """Also where the protocol lets a client drop it: the cause may be on the collector's side."""
    a_log(box, 4)
    receiver.answers = [(200, {}, b""), (status, {"Retry-After": "3600"}, b"")]
    said = once(box, receiver.url, "--batch", "2", code=1)
    assert f"it answered {status}" in said and "2 rows sent" in said
    once(box, receiver.url)
    assert receiver.accepted == [1, 2, 3, 4]


def test_a_redirection_is_not_followed_and_not_taken_for_success(box: Box, receiver: Receiver) -> None:
    a_log(box, 2)
    with listening(Receiver()) as elsewhere:
        receiver.answers = [
            (302, {"Location": f"{elsewhere.url}/v1/logs"}, b""),
            (307, {"Location": elsewhere.url}, b""),
        ]
        assert "it answered 302" in once(box, receiver.url, code=1)
        assert "it answered 307" in once(box, receiver.url, code=1)
    assert elsewhere.told == [] and receiver.told == []
    once(box, receiver.url)
    assert receiver.accepted == [1, 2]


def test_a_batch_that_is_too_large_is_sent_in_parts(box: Box, receiver: Receiver) -> None:
    a_log(box, 40)
    receiver.most_rows = 7
    once(box, receiver.url, "--batch", "40")
    assert receiver.accepted == list(range(1, 41)) and max(len(one.ids) for one in receiver.told) <= 7


def test_records_that_the_collector_drops_are_told(box: Box, receiver: Receiver) -> None:
    a_log(box, 2)
    answer = ExportLogsServiceResponse()
    answer.partial_success.rejected_log_records = 1
    answer.partial_success.error_message = "too old"
    receiver.answers = [(200, {}, answer.SerializeToString())]
    said = once(box, receiver.url)
    assert "refuses 1 of the 2 rows up to 2: too old" in said
    assert place(box, f"{receiver.url}/v1/logs") == 2


def test_an_outage_costs_no_row_and_is_told_once(box: Box, receiver: Receiver) -> None:
    log = a_log(box, 5)
    receiver.answers = [(503, {"Retry-After": "0"}, b"")] * 12
    with shipping(box, receiver.url) as process:
        wait_for(lambda: receiver.accepted == [1, 2, 3, 4, 5])
        add(log, 3)
        wait_for(lambda: receiver.accepted == list(range(1, 9)))
        wait_for(lambda: place(box, f"{receiver.url}/v1/logs") == 8)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert said.count("it answered 503") == 1 and said.count("takes rows again") == 1


def test_a_collector_that_dies_and_comes_back_misses_nothing(box: Box) -> None:
    log = a_log(box, 10)
    receiver = Receiver()
    with listening(receiver):
        pass
    with shipping(box, receiver.url, "--batch", "4"):
        with listening(receiver):
            wait_for(lambda: len(receiver.accepted) >= 10)
        add(log, 10)
        with listening(receiver):
            wait_for(lambda: set(receiver.accepted) == set(range(1, 21)))


def test_a_process_that_is_killed_in_the_middle_sends_every_row_at_least_once(box: Box, receiver: Receiver) -> None:
    """It dies while the collector has a batch that it has not answered: only that one comes twice."""
    a_log(box, 200)
    receiver.hold_at = 12
    with shipping(box, receiver.url, "--batch", "10", "--timeout", "60") as process:
        wait_for(lambda: len(receiver.told) == 12)
        process.kill()
        process.wait()
    receiver.held.set()
    assert place(box, f"{receiver.url}/v1/logs") == 110
    once(box, receiver.url, "--batch", "10")
    assert set(receiver.accepted) == set(range(1, 201))
    assert sorted(receiver.accepted) == sorted([*range(1, 201), *range(111, 121)])


def test_killed_again_and_again_while_rows_are_written_it_loses_none(box: Box, receiver: Receiver) -> None:
    log = a_log(box, 100)
    for _ in range(4):
        before = len(receiver.told)
        with shipping(box, receiver.url, "--batch", "5") as process:
            wait_for(lambda before=before: len(receiver.told) > before)  # type: ignore[misc]
            process.kill()
            process.wait()
        add(log, 20)
    once(box, receiver.url)
    assert set(receiver.accepted) == set(range(1, 181))
    assert "s1" in {text_of(one, "session.id") for one in receiver.records}
    uids = {(row_of(one), text_of(one, "log.record.uid")) for one in receiver.records}
    assert len(uids) == 180


def test_two_collectors_have_a_cursor_each(box: Box, receiver: Receiver) -> None:
    a_log(box, 3)
    once(box, receiver.url)
    with listening(Receiver()) as other:
        once(box, other.url)
        assert other.accepted == [1, 2, 3]
        once(box, other.url, "--cursor", f"{receiver.url}/v1/logs")
        assert other.accepted == [1, 2, 3]


def test_only_rows_from_a_moment_on_are_sent_when_that_is_wanted(box: Box, receiver: Receiver) -> None:
    a_log(box, 2)
    assert "0 rows sent" in once(box, receiver.url, "--since", "2100-01-01")
    assert "2 rows sent" in once(box, receiver.url, "--since", "1h")


@pytest.mark.parametrize(
    ("to", "warned"),
    [("http://collector.invalid:4318", True), ("http://127.0.0.1:9", False), ("http://localhost:9", False)],
)
def test_an_open_way_over_the_network_is_warned_of(box: Box, to: str, warned: bool) -> None:
    a_log(box, 0)
    assert ("unencrypted" in once(box, to)) is warned


@pytest.mark.parametrize(
    "arguments",
    [
        ("--to", "collector:4318"),
        ("--to", "ftp://collector"),
        ("--to", "http://me:secret@collector"),
        ("--to", "http://h:99999"),
        ("--to", "http://127.0.0.1:9", "--header", "no sign"),
        ("--to", "http://127.0.0.1:9", "--since", "some day"),
    ],
)
def test_a_mistake_of_usage_is_told_before_anything_is_sent(box: Box, arguments: tuple[str, ...]) -> None:
    a_log(box, 1)
    ran = box.command("audit", "ship", "--once", *arguments)
    assert ran.returncode == 2 and "secret" not in ran.stderr


def test_without_a_log_it_waits_for_one(box: Box, receiver: Receiver) -> None:
    assert "no log yet" in once(box, receiver.url, code=1)
    with shipping(box, receiver.url):
        a_log(box, 1)
        wait_for(lambda: receiver.accepted == [1])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.db"


def taken(path: Path, batch: int = 10, wanted: Filter = Filter(), send: Any = None) -> list[int]:  # noqa: B008
    """Rows that a collector took that always takes."""
    got: list[int] = []

    def take(rows: Sequence[Row]) -> Answer:
        got.extend(row["id"] for row in rows)
        return Answer(True)

    list(ship(path, "c", send or take, batch=batch, wanted=wanted))
    return got


def test_a_row_waits_for_its_end_and_those_behind_it_with_it(path: Path) -> None:
    log = AuditLog(path, KEY)
    add(log, 1)
    open_row = log.intend(an_intent())
    add(log, 1)
    assert taken(path) == [1]
    log.close(open_row, Outcome("answered", 200, 1, 1))
    assert taken(path) == [2, 3]


@pytest.mark.parametrize("away_ns", [-MINUTE_NS, MINUTE_NS + 5 * 10**9])
def test_a_row_without_an_end_goes_after_a_minute_or_when_the_clock_was_set_back(
    path: Path, monkeypatch: pytest.MonkeyPatch, away_ns: int
) -> None:
    log = AuditLog(path, KEY)
    now_ns = time.time_ns()
    monkeypatch.setattr("sparkgate.policy.audit.time.time_ns", lambda: now_ns + away_ns)
    log.intend(an_intent())
    monkeypatch.undo()
    assert taken(path) == [1]


def test_rows_that_were_pruned_behind_the_cursor_stop_nothing(path: Path) -> None:
    log = AuditLog(path, KEY)
    add(log, 30)
    assert len(taken(path)) == 30
    list(prune(log, Limits(max_bytes=1)))
    assert list(unsent(path, "c")) == []
    add(log, 2)
    assert taken(path) == [31, 32]


def test_rows_that_were_pruned_before_they_were_sent_are_told(path: Path) -> None:
    log = AuditLog(path, KEY)
    add(log, 5)
    taken(path)
    add(log, 5)
    list(prune(log, Limits(max_bytes=1)))
    assert unsent(path, "c") == range(6, 10)
    assert taken(path) == [10]


def test_the_cursor_never_goes_back(path: Path) -> None:
    add(AuditLog(path, KEY), 1)
    for number in (5, 3):
        advance(path, "c", number)
    with reading(path) as connection:
        assert cursor(connection, "c") == 5 and cursor(connection, "other") == 0


def test_what_is_not_taken_ends_the_round_and_is_offered_again(path: Path) -> None:
    add(AuditLog(path, KEY), 9)
    offered: list[int] = []

    def refuse_the_second(rows: Sequence[Row]) -> Answer:
        offered.append(rows[-1]["id"])
        return Answer(len(offered) == 1)

    taken(path, batch=3, send=refuse_the_second)
    assert offered == [3, 6]
    assert taken(path) == [4, 5, 6, 7, 8, 9]


def test_a_single_row_that_is_too_large_is_never_dropped(path: Path) -> None:
    add(AuditLog(path, KEY), 2)
    sizes: list[int] = []

    def refuse(rows: Sequence[Row]) -> Answer:
        sizes.append(len(rows))
        return Answer(False, too_large=True)

    taken(path, send=refuse)
    assert sizes == [2, 1]
    assert taken(path) == [1, 2]


def test_the_pause_grows_to_a_minute_and_is_as_long_as_was_asked() -> None:
    pauses = [pause_s(failures, Answer(False)) for failures in range(1, 40)]
    assert 0.5 <= pauses[0] <= 1 and all(30 <= pause <= 60 for pause in pauses[8:])
    assert pause_s(1, Answer(False, retry_after_s=120)) == 120
    assert pause_s(1, Answer(False, retry_after_s=10**9)) == 3600
