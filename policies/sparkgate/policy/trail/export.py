"""Rows of the log as other programs read them: JSON lines, CSV, OCSF and OTLP.

Every function here is pure: a row of `sparkgate.policy.trail.read` in, a record out. OCSF is version 1.5.0 of
https://schema.ocsf.io, class HTTP Activity (4002) with the profiles `host` and `security_control`. OTLP is the JSON
encoding of the OpenTelemetry protocol, one ExportLogsServiceRequest a line, as the file exporter of its specification
writes it (https://opentelemetry.io/docs/specs/otel/protocol/file-exporter/).
"""

from __future__ import annotations

import csv
import ipaddress
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

from sparkgate.policy.trail.chain import UNKNOWN_GID
from sparkgate.policy.trail.columns import COLUMNS

Row = Mapping[str, Any]
as_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
BATCH = 500
"""Log records in one line of OTLP."""

BLANKS = " \u00a0\u200b\u2060\ufeff\u3000"
"""A spreadsheet may look past these."""
FORMULA = tuple("=+-@\t\r\n＝＋－＠")
"""What makes a spreadsheet take a cell for a formula, or look behind it for one."""
CSV_COLUMNS = ("id", "at", "at_us", *(name for name in COLUMNS if name not in ("id", "at")))

OCSF_VERSION = "1.5.0"
OCSF_CLASS = 4002
OCSF_VERDICTS: Mapping[str, Mapping[str, Any]] = {
    "allow": {"action_id": 1, "action": "Allowed", "disposition_id": 1, "disposition": "Allowed"}
    | {"severity_id": 1, "severity": "Informational", "is_alert": False},
    "redact": {"action_id": 4, "action": "Modified", "disposition_id": 11, "disposition": "Corrected"}
    | {"severity_id": 2, "severity": "Low", "is_alert": False},
    "block": {"action_id": 2, "action": "Denied", "disposition_id": 2, "disposition": "Blocked"}
    | {"severity_id": 3, "severity": "Medium", "is_alert": True},
}
"""Verdict → what the profile `security_control` says of it."""
OCSF_ENDS: Mapping[str, tuple[int, str]] = {
    "cached": (1, "Success"),
    "answered": (1, "Success"),
    "done": (1, "Success"),
    "unknown": (0, "Unknown"),
}
"""Outcome → status; every other is a failure."""
OCSF_REST = (
    *(
        "tool",
        "destination",
        "origin",
        "verdict",
        "host_version",
        "fields",
        "withheld",
        "decision_us",
        "call_ids",
        "confined",
    ),
)
"""Columns without an attribute in the schema; they stand under `unmapped`."""

EVENT_NAME = "sparkgate.outbound"
SEVERITIES: Mapping[str, tuple[int, str]] = {"allow": (9, "INFO"), "redact": (13, "WARN"), "block": (17, "ERROR")}
"""Verdict → SeverityNumber and text of OpenTelemetry."""
ATTRIBUTES: Mapping[str, str] = {
    "session.id": "session",
    "process.pid": "pid",
    "process.working_directory": "cwd",
    "gen_ai.tool.name": "tool",
    "http.response.status_code": "status",
    "http.response.body.size": "bytes",
    "sparkgate.row": "id",
    "sparkgate.client.name": "host",
    "sparkgate.client.version": "host_version",
    "sparkgate.destination": "destination",
    "sparkgate.origin": "origin",
    "sparkgate.verdict": "verdict",
    "sparkgate.fields": "fields",
    "sparkgate.call_ids": "call_ids",
    "sparkgate.confined": "confined",
    "sparkgate.findings": "findings",
    "sparkgate.withheld": "withheld",
    "sparkgate.policy": "policy",
    "sparkgate.decision_us": "decision_us",
    "sparkgate.elapsed_us": "elapsed_us",
}
"""Attribute of a log record → column: names of the semantic conventions where there is one. Empty ones are left out."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where the rows come from: the name of the machine, and the version of this program."""

    machine: str
    version: str


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A row as OpenTelemetry sees it; `attributes` holds text, numbers, lists and mappings."""

    time_ns: int
    severity: tuple[int, str]
    body: str
    attributes: Mapping[str, Any]


def jsonl(rows: Iterable[Row], source: Source) -> Iterator[str]:
    """A line for each row, with everything it holds."""
    for row in rows:
        yield as_json(row) + "\n"


def csv_lines(rows: Iterable[Row], source: Source) -> Iterator[str]:
    """RFC 4180 with a header; lists and mappings as JSON text.

    Text that a spreadsheet would run as a formula gets an apostrophe in front.
    """
    writer = csv.writer(_Line(), quoting=csv.QUOTE_NONNUMERIC)
    yield writer.writerow(CSV_COLUMNS)
    for row in rows:
        yield writer.writerow([cell(row[name]) for name in CSV_COLUMNS])


class _Line:
    """A file for csv.writer that hands the line back instead of keeping it."""

    def write(self, text: str) -> str:
        return text


def cell(value: Any) -> Any:
    """A value as it stands in CSV; numbers stay numbers."""
    if isinstance(value, list | dict):
        return as_json(value)
    if isinstance(value, str) and value.lstrip(BLANKS).startswith(FORMULA):
        return f"'{value}"
    return value


def ocsf_lines(rows: Iterable[Row], source: Source) -> Iterator[str]:
    """A line for each row: an event of OCSF."""
    for row in rows:
        yield as_json(ocsf(row, source)) + "\n"


def ocsf(row: Row, source: Source) -> dict[str, Any]:
    """HTTP Activity. The log does not keep the HTTP method, so the activity is Unknown (0)."""
    outcome = row["outcome"] or "unknown"
    status_id, status = OCSF_ENDS.get(outcome, (2, "Failure"))
    # The policy let the text pass, and the scan of the finished request did not.
    verdict = "block" if outcome == "refused" else row["verdict"]
    event: dict[str, Any] = {
        "class_uid": OCSF_CLASS,
        "class_name": "HTTP Activity",
        "category_uid": 4,
        "category_name": "Network Activity",
        "activity_id": 0,
        "activity_name": "Unknown",
        "type_uid": OCSF_CLASS * 100,
        "type_name": "HTTP Activity: Unknown",
        "time": row["at_us"] // 1000,
        "message": row["sent"],
        **OCSF_VERDICTS[verdict],
        "status_id": status_id,
        "status": status,
        "status_code": outcome,
        "metadata": _ocsf_metadata(row, source),
        "device": {"hostname": source.machine, "type_id": 0, "type": "Unknown"},
        "actor": _ocsf_actor(row),
        "dst_endpoint": _ocsf_endpoint(row),
        "http_request": _ocsf_request(row),
        "policy": {"uid": row["policy"], "name": "sparkgate"},
        "unmapped": {name: row[name] for name in OCSF_REST if row[name]},
    }
    return event | _ocsf_response(row) | _ocsf_findings(row)


def _ocsf_metadata(row: Row, source: Source) -> dict[str, Any]:
    product = {"name": "sparkgate", "vendor_name": "sparkgate", "version": source.version}
    told = {"version": OCSF_VERSION, "product": product, "profiles": ["host", "security_control"]}
    return told | {"uid": uid(row), "sequence": row["id"], "log_name": "audit"}


def _ocsf_actor(row: Row) -> dict[str, Any]:
    user: dict[str, Any] = {"uid": str(row["uid"])}
    if row["gid"] != UNKNOWN_GID:
        user["groups"] = [{"uid": str(row["gid"])}]
    actor: dict[str, Any] = {"user": user, "session": {"uid": row["session"]}}
    if row["host"]:
        actor["app_name"] = row["host"]
    if row["pid"]:
        process = {"pid": row["pid"], "user": user}
        actor["process"] = process | ({"working_directory": row["cwd"]} if row["cwd"] else {})
    return actor


def _ocsf_endpoint(row: Row) -> dict[str, Any]:
    name, port, is_ip = endpoint(row["origin"])
    told: dict[str, Any] = {"svc_name": row["destination"]}
    if name:
        told["ip" if is_ip else "hostname"] = name
    return told | ({"port": port} if port else {})


def _ocsf_request(row: Row) -> dict[str, Any]:
    request: dict[str, Any] = {"uid": str(row["id"])}
    return request | ({"url": {"url_string": row["origin"]}} if row["origin"] else {})


def _ocsf_response(row: Row) -> dict[str, Any]:
    told: dict[str, Any] = {} if row["elapsed_us"] is None else {"duration": row["elapsed_us"] // 1000}
    if row["status"] is not None:
        size = {} if row["bytes"] is None else {"length": row["bytes"]}
        told["http_response"] = {"code": row["status"], **size}
    return told


def _ocsf_findings(row: Row) -> dict[str, Any]:
    """The first rule as what decided, and each finding as an enrichment of it."""
    if not row["findings"]:
        return {}
    first = row["findings"][0]
    rule = {"uid": first["rule"]} | ({"category": first["class"]} if "class" in first else {})
    enrichments = [
        {"name": "firewall_rule.uid", "value": one["rule"], "type": "policy", "provider": "sparkgate", "data": one}
        for one in row["findings"]
    ]
    return {"firewall_rule": rule, "enrichments": enrichments}


def log_record(row: Row) -> LogRecord:
    """A row as a log record: the body is what was sent, the severity says the verdict."""
    attributes = {name: row[column] for name, column in ATTRIBUTES.items() if row[column] not in (None, "", [], {})}
    address, port, _ = endpoint(row["origin"])
    attributes |= {
        "log.record.uid": uid(row),
        "user.id": str(row["uid"]),
        **({} if row["gid"] == UNKNOWN_GID else {"sparkgate.gid": row["gid"]}),
        "sparkgate.outcome": row["outcome"] or "unknown",
    }
    if address:
        attributes["server.address"] = address
    if port:
        attributes["server.port"] = port
    for name, key in (("sparkgate.rules", "rule"), ("sparkgate.classes", "class")):
        if told := list(dict.fromkeys(one[key] for one in row["findings"] if key in one)):
            attributes[name] = told
    return LogRecord(row["at_us"] * 1000, SEVERITIES[row["verdict"]], row["sent"], attributes)


def resource(source: Source) -> dict[str, str]:
    """The attributes of the resource that all log records come from."""
    return {"service.name": "sparkgate", "service.version": source.version, "host.name": source.machine}


def otlp_lines(rows: Iterable[Row], source: Source) -> Iterator[str]:
    """A line for each `BATCH` rows: an ExportLogsServiceRequest."""
    rest = iter(rows)
    while batch := list(islice(rest, BATCH)):
        yield as_json(otlp(batch, source)) + "\n"


def otlp(rows: Iterable[Row], source: Source) -> dict[str, Any]:
    """An ExportLogsServiceRequest in the JSON encoding of OTLP: 64-bit integers are decimal text."""
    scope = {"name": "sparkgate.audit", "version": source.version}
    scope_logs = {"scope": scope, "logRecords": [_otlp_record(log_record(row)) for row in rows]}
    return {"resourceLogs": [{"resource": {"attributes": _pairs(resource(source))}, "scopeLogs": [scope_logs]}]}


def _otlp_record(record: LogRecord) -> dict[str, Any]:
    number, text = record.severity
    return {
        "timeUnixNano": str(record.time_ns),
        "observedTimeUnixNano": str(record.time_ns),
        "severityNumber": number,
        "severityText": text,
        "eventName": EVENT_NAME,
        "body": any_value(record.body),
        "attributes": _pairs(record.attributes),
    }


def _pairs(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": any_value(value)} for name, value in attributes.items()]


def any_value(value: Any) -> dict[str, Any]:
    """A value as an AnyValue of OTLP; None is one without a value."""
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, Mapping):
        return {"kvlistValue": {"values": _pairs(value)}}
    if isinstance(value, list):
        return {"arrayValue": {"values": [any_value(one) for one in value]}}
    return {}


def uid(row: Row) -> str:
    """The same for a row in every export, and another for every other row: by it a record that came twice is known."""
    return f"{row['at_us']}-{row['id']}"


@lru_cache(maxsize=256)
def endpoint(origin: str) -> tuple[str, int, bool]:
    """Host and port of an origin, and whether the host is an address; "" and 0 when it has none."""
    try:
        parts = urlsplit(origin)
        name, port = parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    except ValueError:
        return "", 0, False
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name, port if name else 0, False
    return name, port, True


TEXT: Mapping[str, Callable[[Iterable[Row], Source], Iterator[str]]] = {
    "jsonl": jsonl,
    "csv": csv_lines,
    "ocsf": ocsf_lines,
    "otlp": otlp_lines,
}
"""Format → what makes text of rows. Each line is whole, and ends with its line break."""
