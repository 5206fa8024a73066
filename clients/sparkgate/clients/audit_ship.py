"""`sparkgate audit ship`: the log to a collector of OpenTelemetry, in a process of its own."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from sparkgate.clients.audit_rows import log_path, wanted
from sparkgate.clients.output import fail
from sparkgate.policy.kill_switch import is_loopback, kill_switch_of

if TYPE_CHECKING:
    from sparkgate.policy.trail.read import Filter
    from sparkgate.policy.trail.ship import Answer, Send, Shipment

LOGS_PATH = "/v1/logs"


@click.command()
@click.option("--to", required=True, metavar="URL", help="The collector, such as http://127.0.0.1:4318.")
@click.option("--once", is_flag=True, help="Send what is there and end; exit code 1 when not all of it was taken.")
@click.option(
    "--header", "given", multiple=True, metavar="NAME=VALUE", help="Sent with each request; others see it in ps."
)
@click.option("--headers-file", type=click.Path(dir_okay=False, path_type=Path), help="Lines NAME=VALUE, for secrets.")
@click.option("--batch", default=500, show_default=True, type=click.IntRange(1, 10_000), help="Rows a request.")
@click.option("--interval", default=5.0, show_default=True, type=click.FloatRange(0.05), help="Seconds between looks.")
@click.option(
    "--timeout", default=10.0, show_default=True, type=click.FloatRange(0.1), help="Seconds a batch may take."
)
@click.option("--since", metavar="WHEN", help="Only rows from then on: 7d, 2026-11-30.")
@click.option("--cursor", "name", metavar="NAME", help="What was sent is remembered under this name; else under URL.")
def ship(
    to: str,
    once: bool,
    given: tuple[str, ...],
    headers_file: Path | None,
    batch: int,
    interval: float,
    timeout: float,
    since: str | None,
    name: str | None,
) -> None:
    """Send the log to a collector over OTLP/HTTP, every row at least once, and go on with each new one.

    A row is sent when it has ended, or after 60 s; an end that comes later is not sent. What was taken is remembered in
    the log. While the collector is away, or sparkgate locked, the rows wait. Rows that come twice have the same
    `log.record.uid`.
    It needs pip install 'sparkgate[otel]'.

    \b
    Examples:
      sparkgate audit ship --to http://127.0.0.1:4318
      sparkgate audit ship --to https://collector.example/otlp --headers-file ~/.config/sparkgate/collector --once
    """
    url = _endpoint(to)
    which = wanted({"since": since})
    headers = _headers(given, headers_file)
    send = _collector(url, headers, timeout)
    signal.signal(signal.SIGTERM, lambda *_: _end())
    _wait_for_the_log(interval, once=once)
    try:
        _ship(name or url, send, which, batch=batch, interval=None if once else interval)
    except KeyboardInterrupt:
        _end()


def _end() -> None:
    raise SystemExit(0)


def _ship(name: str, send: Send, which: Filter, *, batch: int, interval: float | None) -> None:
    """Look, send, wait; without an interval once."""
    from sparkgate.policy.audit import LogUnavailable
    from sparkgate.policy.trail.ship import Answer, pause_s
    from sparkgate.policy.trail.ship import ship as shipments

    failures = 0
    teller = _Teller()
    while True:
        answer = Answer(True)
        try:
            teller.pruned(name)
            for shipment in shipments(log_path(), name, send, batch=batch, wanted=which):
                answer = shipment.answer
                teller.told(shipment)
        except LogUnavailable as error:
            answer = Answer(False, str(error))
        failures = 0 if answer.taken else failures + 1
        if interval is None:
            teller.sum(answer)
            raise SystemExit(0 if answer.taken else 1)
        wait_s = interval if answer.taken else pause_s(failures, answer)
        teller.trouble(answer, wait_s)
        time.sleep(wait_s)


class _Teller:
    """Says on stderr what an operator wants to know, and each thing once."""

    def __init__(self) -> None:
        self._rows = 0
        self._trouble = ""
        self._pruned = range(0)

    def told(self, shipment: Shipment) -> None:
        if not shipment.answer.taken:
            return
        self._rows += shipment.rows
        rejected, detail = shipment.answer.rejected, shipment.answer.detail
        if rejected:
            _say(f"the collector refuses {rejected} of the {shipment.rows} rows up to {shipment.last}: {detail}")

    def trouble(self, answer: Answer, wait_s: float) -> None:
        """The beginning and the end of an outage, and every change of its cause."""
        if answer.taken and self._trouble:
            _say(f"the collector takes rows again; {self._rows:,} sent since the start")
        if not answer.taken and answer.detail != self._trouble:
            _say(f"not taken: {answer.detail}; trying again, first in {wait_s:.0f} s. The rows wait in the log")
        self._trouble = "" if answer.taken else answer.detail

    def pruned(self, name: str) -> None:
        from sparkgate.policy.trail.ship import unsent

        lost = unsent(log_path(), name)
        if lost and lost != self._pruned:
            _say(f"rows {lost.start:,} to {lost.stop - 1:,} were pruned before they were sent")
        self._pruned = lost

    def sum(self, answer: Answer) -> None:
        _say(
            f"{self._rows:,} rows sent"
            + ("" if answer.taken else f"; not taken: {answer.detail}. The rest waits in the log")
        )


def _say(line: str) -> None:
    click.echo(line, err=True)


def _wait_for_the_log(interval: float, *, once: bool) -> None:
    """Until something was asked to leave; then the log is brought up to date."""
    from sparkgate.policy.audit import LogUnavailable
    from sparkgate.policy.trail.ship import prepare

    while not log_path().exists():
        if once:
            fail("there is no log yet: nothing has been asked to leave")
        time.sleep(interval)
    try:
        prepare(log_path())
    except LogUnavailable as error:
        fail(str(error))


def _collector(url: str, headers: dict[str, str], timeout_s: float) -> Send:
    try:
        from sparkgate.policy.trail.collector import Collector
    except ImportError:
        fail("shipping needs the OpenTelemetry SDK: pip install 'sparkgate[otel]'")
    from sparkgate.clients.audit_export import source

    return Collector(url, headers, source(), timeout_s, kill_switch_of(log_path().parent)).send


def _endpoint(to: str) -> str:
    """The URL logs are posted to; warns when the way there is open to others, exits 2 on what is no URL."""
    try:
        parts = urlsplit(to)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise click.UsageError(f"--to {to!r} is no URL: {error}") from error
    if parts.scheme not in ("http", "https") or not host:
        raise click.UsageError(f"--to {to!r} is not like http://127.0.0.1:4318")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise click.UsageError("--to takes no user, query or fragment; use --headers-file for credentials")
    if parts.scheme == "http" and not is_loopback(host):
        _say(f"warning: what was asked goes to {host} unencrypted; use https")
    path = parts.path.rstrip("/")
    return parts._replace(path=path if path.endswith(LOGS_PATH) else path + LOGS_PATH).geturl()


def _headers(given: Iterable[str], file: Path | None) -> dict[str, str]:
    """Name → value; those of the command line win. Exits 2 on a line that is neither NAME=VALUE nor a comment."""
    lines = [(line, "--header") for line in given]
    if file is not None:
        try:
            text = file.expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            fail(f"{file} cannot be read: {error}")
        kept = (line.strip() for line in text.splitlines())
        lines = [(line, str(file)) for line in kept if line and not line.startswith("#")] + lines
    headers = {}
    for line, where in lines:
        name, sign, value = line.partition("=")
        if not sign or not name.strip() or "\n" in line:
            raise click.UsageError(f"{where} has a line that is not NAME=VALUE")
        headers[name.strip()] = value.strip()
    return headers
