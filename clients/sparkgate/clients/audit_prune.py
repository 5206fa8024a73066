"""`sparkgate audit prune`: take the oldest rows away."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import click

from sparkgate.clients.audit_rows import head_path, log_key, log_path, reading
from sparkgate.clients.output import console, fail, print_json

if TYPE_CHECKING:
    from sparkgate.policy.trail.prune import Limits

SIZES = {"kb": 10**3, "mb": 10**6, "gb": 10**9}
"""Unit → bytes."""


@click.command()
@click.option(
    "--older-than", metavar="TIME", help="Rows older than this, such as 90d; else as `[audit] keep_days` says."
)
@click.option("--max-size", metavar="SIZE", help="Down to this size, such as 500MB; else `[audit] max_megabytes`.")
@click.option("--dry-run", is_flag=True, help="Only say how many rows are older.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def prune(older_than: str | None, max_size: str | None, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Take the oldest rows away, a batch at a time. What went is written into the chain, so `verify` still holds.

    The gate does the same by itself, as the settings under `[audit]` say.

    \b
    Examples:
      sparkgate audit prune --older-than 90d --dry-run
      sparkgate audit prune --max-size 500MB --yes
    """
    from sparkgate.policy.audit import AuditLog, LogUnavailable
    from sparkgate.policy.trail.prune import prune as pruned
    from sparkgate.policy.trail.prune import used_bytes
    from sparkgate.policy.trail.read import Filter, count

    limits = _limits(older_than, max_size)
    with reading() as connection:
        older = count(connection, Filter(until_us=limits.before_us)) if limits.before_us else 0
        size = used_bytes(connection)
    if dry_run:
        told = {"older_rows": older, "bytes": size, "max_bytes": limits.max_bytes}
        print_json(told) if as_json else click.echo(f"{older:,} rows are older; the log has {size / 1e6:.1f} MB")
        return
    if not yes:
        click.confirm("Rows that are pruned are gone for good. Go on?", abort=True)
    taken = 0
    try:
        log = AuditLog(log_path(), log_key(), head=head_path())
        with console(to_stderr=True).status("") as status:
            for batch in pruned(log, limits):
                taken += batch.rows
                status.update(f"{taken:,} rows")
    except LogUnavailable as error:
        fail(f"{error}; {taken:,} rows are gone")
    print_json({"rows": taken}) if as_json else click.echo(f"{taken:,} rows are gone")


def _limits(older_than: str | None, max_size: str | None) -> Limits:
    from sparkgate.policy.trail.prune import Limits
    from sparkgate.policy.trail.when import NotAMoment, seconds_of
    from sparkgate.settings import SettingsError, load

    try:
        settings = load().audit
        age_s = seconds_of(older_than) if older_than else (0 if max_size else settings.keep_days * 86_400)
    except NotAMoment as error:
        raise click.UsageError(str(error)) from error
    except SettingsError as error:
        fail(str(error))
    size = _bytes(max_size) if max_size else (0 if older_than else settings.max_megabytes * 10**6)
    return Limits(time.time_ns() // 1000 - age_s * 1_000_000 if age_s else None, size or None)


def _bytes(text: str) -> int:
    told = re.fullmatch(rf"(\d{{1,9}})\s?({'|'.join(SIZES)})", text.strip().lower())
    if told is None:
        raise click.UsageError(f"{text!r} is no size; write one such as 500MB or 2GB")
    return int(told[1]) * SIZES[told[2]]
