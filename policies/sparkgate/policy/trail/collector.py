"""A collector of OpenTelemetry, asked over OTLP/HTTP through the exporter of the standard SDK.

The exporter tells success from failure and nothing more, and it counts a redirection as success. So its HTTP session
is one that keeps what was answered and refuses to be sent elsewhere. Proxies and ~/.netrc are not looked at; the
variables of OpenTelemetry (OTEL_EXPORTER_OTLP_CERTIFICATE, OTEL_EXPORTER_OTLP_COMPRESSION,
OTEL_RESOURCE_ATTRIBUTES and the like) count.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from google.protobuf.message import DecodeError
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExportResult
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from requests import PreparedRequest, RequestException, Response, Session, Timeout, TooManyRedirects
from requests.exceptions import SSLError

from sparkgate.policy.kill_switch import KillSwitch, is_loopback
from sparkgate.policy.trail.export import EVENT_NAME, Row, Source, log_record, resource
from sparkgate.policy.trail.ship import Answer

TOO_LARGE = 413


class Collector:
    """Takes rows of the log. The exporter tries again by itself within `timeout_s`, when the failure may pass.

    Args:
        url: where logs are posted to, with its path.
        headers: sent with each request.
        switch: while it is locked, a collector that is not on this machine's loopback is not asked, and takes nothing.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        source: Source,
        timeout_s: float,
        switch: KillSwitch | None = None,
    ) -> None:
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL + 1)  # what went wrong is told by `Answer`
        here = is_loopback(urlsplit(url).hostname or "")
        self._session = _Session(None if here else switch or KillSwitch())
        self._exporter = OTLPLogExporter(url, headers=dict(headers), timeout=timeout_s, session=self._session)
        self._resource = Resource.create(dict(resource(source)))
        self._scope = InstrumentationScope("sparkgate.audit", source.version)

    def send(self, rows: Sequence[Row]) -> Answer:
        """Offer a batch and wait for the answer; never raises for what the network or the collector does."""
        self._session.answer = Answer(False, "it could not be asked")
        if told := self._session.locked():
            return told
        try:
            result = self._exporter.export([self._readable(row) for row in rows])
        except RequestException:
            result = LogRecordExportResult.FAILURE
        answer = self._session.answer
        return answer if result is LogRecordExportResult.SUCCESS else replace(answer, taken=False)

    def _readable(self, row: Row) -> ReadableLogRecord:
        record = log_record(row)
        number, text = record.severity
        return ReadableLogRecord(
            LogRecord(
                timestamp=record.time_ns,
                observed_timestamp=record.time_ns,
                severity_number=SeverityNumber(number),
                severity_text=text,
                body=record.body,
                attributes=record.attributes,
                event_name=EVENT_NAME,
            ),
            self._resource,
            self._scope,
        )


class _Session(Session):
    """Keeps what became of the last request."""

    def __init__(self, switch: KillSwitch | None) -> None:
        super().__init__()
        self.trust_env = False
        self.answer = Answer(False)
        self._switch = switch

    def locked(self) -> Answer | None:
        """What became of a batch that is kept here while it is locked."""
        words = self._switch.words if self._switch else ""
        return Answer(False, f"locked: {words}") if words else None

    def send(self, request: PreparedRequest, **how: Any) -> Response:
        if told := self.locked():
            self.answer = told
            raise RequestException("locked")
        try:
            response = super().send(request, **how | {"allow_redirects": False})
        except RequestException as error:
            self.answer = Answer(False, _trouble(error))
            raise
        self.answer = _answer(response)
        if 300 <= response.status_code < 400:
            raise TooManyRedirects("the collector redirects")
        return response


def _trouble(error: RequestException) -> str:
    if isinstance(error, SSLError):
        return f"TLS failed: {error}"
    return "it gave no answer in time" if isinstance(error, Timeout) else "it cannot be reached"


def _answer(response: Response) -> Answer:
    status = response.status_code
    if not 200 <= status < 300:
        pause_s = _seconds(response.headers.get("Retry-After", ""))
        return Answer(False, f"it answered {status} {response.reason}".strip(), pause_s, too_large=status == TOO_LARGE)
    try:
        partial = ExportLogsServiceResponse.FromString(response.content).partial_success
    except DecodeError:  # a collector that answers in its own words has taken it all the same
        return Answer(True)
    return Answer(True, partial.error_message, rejected=partial.rejected_log_records)


def _seconds(retry_after: str) -> float:
    """`Retry-After` in seconds or as a date (RFC 9110, section 10.2.3); 0 when it is neither."""
    try:
        return max(0.0, float(int(retry_after)))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except ValueError:
        return 0.0
