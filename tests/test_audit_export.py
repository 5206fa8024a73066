"""`sparkgate audit export`: every row, whole, in formats that others read, and never a half file."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pyarrow.parquet
import pytest
from box import PATIENCE_S, Box
from google.protobuf import json_format
from jsonschema import Draft202012Validator
from ocsf_json_schema import OcsfJsonSchemaEmbedded, get_ocsf_schema
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from sparkgate.policy.audit import AuditLog, Caller, Intent, Outcome
from sparkgate.policy.trail.columns import COLUMNS
from sparkgate.policy.trail.export import TEXT, Source, endpoint
from sparkgate.policy.trail.read import read_rows

KEY = b"k" * 32
WITHHELD = "jane.roe@alder.com"
CALLER = Caller("s1", "hermes", "2.1", 4711, 1000, "/home/ü/work")
SOURCE = Source("spark-1", "0.1")
DAY_S = 86_400
FORMATS = ("jsonl", "csv", "ocsf", "otlp")


def an_intent(verdict: str = "allow", sent: str = "why does nvfp4 overflow", **more: Any) -> Intent:
    said: dict[str, Any] = {
        "fields": {"language": "en"},
        "findings": [],
        "withheld": [],
        "origin": "http://127.0.0.1:8888",
    }
    said |= more
    withheld, origin = said["withheld"], said["origin"]
    findings, fields = said["findings"], said["fields"]
    return Intent(CALLER, "web_search", "searxng", origin, verdict, sent, fields, findings, withheld, "p16", 210)


def new_log(box: Box) -> AuditLog:
    return AuditLog(box.state / "audit.db", KEY)


@pytest.fixture
def log(box: Box) -> AuditLog:
    """Five rows: answered, redacted, blocked, without an end, and one that failed far away."""
    made = new_log(box)
    found = {"rule": "email-address", "class": "pii", "start": 9, "end": 27}
    digests = [made.fingerprint(WITHHELD)]
    made.close(made.intend(an_intent()), Outcome("answered", 200, 4000, 312_456))
    redacted = an_intent("redact", "why does [email] bounce", findings=[found], withheld=digests)
    made.close(made.intend(redacted), Outcome("answered", 200, 9, 1000))
    blocked = [found | {"shadow": True}, {"rule": "too-long"}]
    made.intend(an_intent("block", "", findings=blocked, withheld=digests, fields={}))
    made.intend(an_intent(sent='=HYPERLINK("http://x")', origin=""))
    made.close(made.intend(an_intent(sent='a "quote", a\nline, ü', origin="https://[::1]/x")), Outcome("timeout"))
    return made


def exported(box: Box, *arguments: str) -> str:
    ran = box.command("audit", "export", *arguments)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def rows_of(box: Box) -> list[dict[str, Any]]:
    return read_rows(box.state / "audit.db", limit=1000)[::-1]


def as_rows(table: pyarrow.Table) -> list[dict[str, Any]]:
    """Parquet back in the shape of the log."""
    rows: list[dict[str, Any]] = table.to_pylist()
    for row in rows:
        row.pop("day", None)
        row["at_us"] = round(row["at"].timestamp() * 1e6)
        row |= {name: dict(row[name]) for name in ("fields", "call_ids")}
        for one in row["findings"]:
            one |= {"shadow": one["shadow"] or None}
        row["findings"] = [{name: value for name, value in one.items() if value is not None} for one in row["findings"]]
        row["at"] = row["at"].strftime("%Y-%m-%dT%H:%M:%SZ")
    return rows


def test_json_lines_hold_every_row_whole_and_in_order(box: Box, log: AuditLog) -> None:
    lines = exported(box, "--format", "jsonl").splitlines()
    assert [json.loads(line) for line in lines] == rows_of(box)


def test_only_the_rows_that_are_meant_are_exported(box: Box, log: AuditLog) -> None:
    def ids(*options: str) -> list[int]:
        return [json.loads(line)["id"] for line in exported(box, "--format", "jsonl", *options).splitlines()]

    assert ids("--verdict", "block") == [3]
    assert ids("--rule", "email-address") == [2, 3]
    assert ids("--outcome", "unknown") == [4]
    assert ids("--until", "2020-01-01") == []


def test_csv_reads_back_and_no_cell_is_a_formula(box: Box, log: AuditLog) -> None:
    text = exported(box, "--format", "csv", "--output", str(box.root / "rows.csv"))
    assert text == ""
    raw = (box.root / "rows.csv").read_bytes()
    assert raw.count(b"\r\n") == 6
    read = list(csv.DictReader(io.StringIO(raw.decode(), newline="")))
    assert [row["sent"] for row in read][3:] == ['\'=HYPERLINK("http://x")', 'a "quote", a\nline, ü']
    assert json.loads(read[2]["findings"]) == rows_of(box)[2]["findings"]
    assert read[3]["outcome"] == "" and read[0]["elapsed_us"] == "312456"


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t", "\r", "\n", "＝"])
def test_a_text_that_begins_like_a_formula_has_an_apostrophe_in_front(begin: str) -> None:
    row: dict[str, Any] = dict.fromkeys([*COLUMNS, "at_us"], 1) | {"sent": f"{begin}1+1", "decision_us": -5}
    line = "".join(TEXT["csv"]([row], SOURCE))
    [read] = csv.DictReader(io.StringIO(line, newline=""))
    assert read["sent"] == f"'{begin}1+1" and read["decision_us"] == "-5"


def test_parquet_holds_the_same_rows_with_types(box: Box, log: AuditLog) -> None:
    path = box.root / "rows.parquet"
    exported(box, "--format", "parquet", "--output", str(path))
    table = pyarrow.parquet.read_table(path)
    assert as_rows(table) == rows_of(box)
    types = {field.name: str(field.type) for field in table.schema}
    assert types["at"] == "timestamp[us, tz=UTC]" and types["status"] == "int64"
    assert types["fields"].startswith("map<string, string")
    assert types["findings"].startswith("list<element: struct<rule: string, class: string")


def test_an_empty_answer_is_a_file_without_rows(box: Box, log: AuditLog) -> None:
    path = box.root / "rows.parquet"
    exported(box, "--format", "parquet", "--until", "2020-01-01", "--output", str(path))
    assert pyarrow.parquet.read_table(path).num_rows == 0
    assert exported(box, "--format", "csv", "--until", "2020-01-01").count("\n") == 1
    assert exported(box, "--format", "otlp", "--until", "2020-01-01") == ""


def test_days_are_folders_that_other_programs_read_as_a_column(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two days, and a clock that went back to the first one in between."""
    made = new_log(box)
    start = 1_795_910_400  # 2026-11-29
    for offset_s in (1, DAY_S - 1, DAY_S, DAY_S - 2, DAY_S + 5):
        at_ns = (start + offset_s) * 10**9
        monkeypatch.setattr("sparkgate.policy.audit.time.time_ns", lambda at_ns=at_ns: at_ns)
        made.intend(an_intent(sent=str(offset_s)))
    out = box.root / "trail"
    exported(box, "--format", "parquet", "--partition", "day", "--output", str(out))
    files = sorted(str(path.relative_to(out)) for path in out.rglob("*.parquet"))
    days = ["day=2026-11-29", "day=2026-11-30"]
    assert files == [f"{day}/part-{part}.parquet" for day in days for part in (0, 1)]
    table = pyarrow.parquet.read_table(out)
    assert sorted(as_rows(table), key=lambda row: row["id"]) == rows_of(box)
    assert {str(day) for day in table["day"].to_pylist()} == {"2026-11-29", "2026-11-30"}


def test_every_event_keeps_to_the_schema_of_ocsf(box: Box, log: AuditLog) -> None:
    made = OcsfJsonSchemaEmbedded(get_ocsf_schema(version="1.5.0"))
    schema = made.get_class_schema(class_name="http_activity", profiles=["host", "security_control"])
    events = [json.loads(line) for line in exported(box, "--format", "ocsf").splitlines()]
    validator = Draft202012Validator(schema)
    assert [error.message for event in events for error in validator.iter_errors(event)] == []
    told = [(event["action"], event["disposition"], event["severity"], event["status"]) for event in events[:4]]
    assert told == [
        ("Allowed", "Allowed", "Informational", "Success"),
        ("Modified", "Corrected", "Low", "Success"),
        ("Denied", "Blocked", "Medium", "Failure"),
        ("Allowed", "Allowed", "Informational", "Unknown"),
    ]
    assert events[0]["dst_endpoint"] == {"svc_name": "searxng", "ip": "127.0.0.1", "port": 8888}
    assert events[1]["firewall_rule"] == {"uid": "email-address", "category": "pii"}
    assert [one["value"] for one in events[2]["enrichments"]] == ["email-address", "too-long"]
    assert events[0]["actor"]["process"]["pid"] == 4711 and events[0]["duration"] == 312


def test_what_the_scan_of_the_request_refused_counts_as_blocked() -> None:
    row: dict[str, Any] = dict.fromkeys([*COLUMNS, "at_us"], 0)
    row |= {"verdict": "allow", "outcome": "refused", "findings": [], "origin": "", "elapsed_us": None}
    [line] = TEXT["ocsf"]([row], SOURCE)
    assert json.loads(line)["action"] == "Denied"


def test_otlp_lines_are_what_a_collector_reads(box: Box, log: AuditLog) -> None:
    lines = exported(box, "--format", "otlp").splitlines()
    [request] = [json_format.Parse(line, ExportLogsServiceRequest()) for line in lines]
    [told] = request.resource_logs
    assert {one.key: one.value.string_value for one in told.resource.attributes}["service.name"] == "sparkgate"
    records = told.scope_logs[0].log_records
    assert [(one.severity_text, one.severity_number) for one in records][:3] == [
        ("INFO", 9),
        ("WARN", 13),
        ("ERROR", 17),
    ]
    assert [one.body.string_value for one in records] == [row["sent"] for row in rows_of(box)]
    assert [one.time_unix_nano for one in records] == [row["at_us"] * 1000 for row in rows_of(box)]
    assert {one.event_name for one in records} == {"sparkgate.outbound"}
    attributes = {one.key: one.value for one in records[1].attributes}
    assert attributes["http.response.status_code"].int_value == 200
    assert [one.string_value for one in attributes["sparkgate.rules"].array_value.values] == ["email-address"]
    assert isinstance(json.loads(lines[0])["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]["timeUnixNano"], str)


def test_a_line_of_otlp_holds_five_hundred_rows_at_most(log: AuditLog, box: Box) -> None:
    row = rows_of(box)[0]
    lines = list(TEXT["otlp"]([row] * 1201, SOURCE))
    sizes = [len(json.loads(line)["resourceLogs"][0]["scopeLogs"][0]["logRecords"]) for line in lines]
    assert sizes == [500, 500, 201]


def test_what_was_withheld_is_in_no_export_and_its_digest_is_in_all(box: Box, log: AuditLog) -> None:
    digest = log.fingerprint(WITHHELD)
    texts = [exported(box, "--format", form) for form in FORMATS]
    path = box.root / "rows.parquet"
    exported(box, "--format", "parquet", "--output", str(path))
    texts.append(str(pyarrow.parquet.read_table(path).to_pylist()))
    assert [digest in text for text in texts] == [True] * 5
    assert [WITHHELD in text for text in texts] == [False] * 5


@pytest.mark.parametrize(
    ("origin", "told"),
    [
        ("http://127.0.0.1:8888", ("127.0.0.1", 8888, True)),
        ("https://search.example/x", ("search.example", 443, False)),
        ("http://[::1]", ("::1", 80, True)),
        ("", ("", 0, False)),
        ("http://[bad", ("", 0, False)),
        ("http://h:99999", ("", 0, False)),
    ],
)
def test_host_and_port_are_read_from_an_origin(origin: str, told: tuple[str, int, bool]) -> None:
    assert endpoint(origin) == told


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_a_file_that_is_there_is_kept_unless_it_is_forced(box: Box, log: AuditLog, form: str) -> None:
    path = box.root / "rows"
    path.write_text("mine")
    refused = box.command("audit", "export", "--format", form, "--output", str(path))
    assert refused.returncode == 1 and "--force" in refused.stderr and path.read_text() == "mine"
    exported(box, "--format", form, "--output", str(path), "--force")
    assert path.read_bytes() != b"mine" and path.stat().st_mode & 0o777 == 0o600
    assert not list(box.root.glob(".rows*"))


def test_a_folder_is_written_over_only_when_it_holds_nothing_but_an_export(box: Box, log: AuditLog) -> None:
    out = box.root / "trail"
    arguments = ("--format", "parquet", "--partition", "day", "--output", str(out))
    exported(box, *arguments)
    exported(box, *arguments, "--force")
    assert pyarrow.parquet.read_table(out).num_rows == 5
    (out / "notes.txt").write_text("mine")
    refused = box.command("audit", "export", *arguments, "--force")
    assert refused.returncode == 1 and (out / "notes.txt").read_text() == "mine"
    assert [path.name for path in box.root.glob("*trail*")] == ["trail"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--format", "parquet"),
        ("--format", "csv", "--partition", "day", "--output", "x"),
        ("--format", "xml"),
        ("--format", "jsonl", "--since", "some day"),
    ],
)
def test_options_that_do_not_fit_are_a_mistake_of_usage(box: Box, log: AuditLog, arguments: tuple[str, ...]) -> None:
    assert box.command("audit", "export", *arguments).returncode == 2


def test_a_folder_that_is_not_there_is_told_and_nothing_is_left(box: Box, log: AuditLog) -> None:
    ran = box.command("audit", "export", "--format", "jsonl", "--output", str(box.root / "no" / "rows"))
    assert ran.returncode == 1 and "No such file" in ran.stderr and "Traceback" not in ran.stderr


def test_without_a_log_there_is_nothing_to_export(box: Box) -> None:
    ran = box.command("audit", "export", "--format", "jsonl")
    assert ran.returncode == 1 and "no log yet" in ran.stderr


def test_a_reader_that_has_enough_ends_the_export_quietly(box: Box) -> None:
    made = new_log(box)
    for _ in range(300):
        made.intend(an_intent("block", "", fields={"filler": "x" * 4000}))
    with running(box, "--format", "jsonl") as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert "Traceback" not in process.stderr.read()


def test_an_export_that_is_killed_leaves_no_file_of_that_name(box: Box) -> None:
    made = new_log(box)
    for _ in range(3000):
        made.intend(an_intent("block", "", fields={"filler": "x" * 2000}))
    out = box.root / "rows.jsonl"
    with running(box, "--format", "jsonl", "--output", str(out)) as process:
        wait_for(lambda: list(box.root.glob(".rows.jsonl.*")))
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
    if out.exists():  # it was faster
        assert len(out.read_text().splitlines()) == 3000


def wait_for(happened: Any) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class running:
    """An export that goes on while the test looks at it."""

    def __init__(self, box: Box, *arguments: str) -> None:
        argv = [sys.executable, "-I", "-m", "sparkgate.clients.cli", "audit", "export", *arguments]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(argv, stdout=pipe, stderr=pipe, text=True, env=box.environment, cwd=box.root)

    def __enter__(self) -> subprocess.Popen[str]:
        return self.process

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def numbered(row: dict[str, Any], count: int) -> Iterator[dict[str, Any]]:
    return (row | {"id": number} for number in range(count))


@pytest.mark.parametrize("form", FORMATS)
def test_what_an_export_holds_does_not_grow_with_the_log(box: Box, log: AuditLog, form: str) -> None:
    import tracemalloc

    row = rows_of(box)[1]
    peaks = []
    for count in (1_000, 4_000):
        tracemalloc.start()
        for _ in TEXT[form](numbered(row, count), SOURCE):
            pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 2 * peaks[0]
