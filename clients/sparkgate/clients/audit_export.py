"""`sparkgate audit export`: the log as other programs read it."""

from __future__ import annotations

import os
import platform
import secrets
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sparkgate.clients.audit_rows import filtered, log_path, reading, wanted
from sparkgate.clients.output import console, fail

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet

    from sparkgate.policy.trail.export import Source

ROW_GROUP = 20_000
"""Rows of one row group of Parquet: so many are in memory at once."""
CHUNK = 1 << 16
"""Bytes of text written at once."""
Rows = Iterable[dict[str, Any]]


@click.command()
@click.option(
    "--format",
    "form",
    required=True,
    type=click.Choice(["jsonl", "csv", "parquet", "ocsf", "otlp"]),
    help="OCSF and OTLP are JSON lines.",
)
@click.option("--output", type=click.Path(path_type=Path), help="A file, or a folder for --partition; else stdout.")
@click.option(
    "--partition", type=click.Choice(["day"]), help="Parquet only: a folder day=2026-11-30 for each day (UTC)."
)
@click.option("--force", is_flag=True, help="Write over an export that is there.")
@filtered
def export(form: str, output: Path | None, partition: str | None, force: bool, **options: str | None) -> None:
    """Write the rows that are meant, the oldest first, in a format that other programs read.

    The output has its name only when it is whole. In CSV a text that begins like a formula has an apostrophe in front.
    Parquet needs pip install 'sparkgate[parquet]'.

    \b
    Examples:
      sparkgate audit export --format jsonl --since 7d | jq .sent
      sparkgate audit export --format csv --verdict block --output blocked.csv
      sparkgate audit export --format parquet --partition day --output trail
    """
    from sparkgate.policy.trail.read import count, oldest_first

    which = wanted(options)
    write = _writer(form, output, partition)
    with reading() as connection:
        if output is None:
            write(oldest_first(connection, which), Path())
            return
        total = count(connection, which) if sys.stderr.isatty() else 0
        with _watched(oldest_first(connection, which), total) as rows:
            written = _write_whole(rows, write, output, force=force)
    click.echo(f"{written:,} rows are in {output}", err=True)


def _write_whole(rows: Rows, write: Callable[[Rows, Path], int], output: Path, *, force: bool) -> int:
    """How many rows there were; exits 1 when the output cannot be written, and leaves nothing of it."""
    try:
        with _named_when_whole(output, force=force) as unfinished:
            return write(rows, unfinished)
    except OSError as error:
        fail(f"cannot write {output}: {error.strerror or error}")


def _writer(form: str, output: Path | None, partition: str | None) -> Callable[[Rows, Path], int]:
    """What writes rows to a path, or to stdout, and says how many there were; exits 2 on options that do not fit."""
    if form == "parquet":
        _check_parquet()
        if output is None:
            raise click.UsageError("Parquet is no text: name a file, or a folder, with --output")
        return _write_days if partition else _write_parquet
    if partition:
        raise click.UsageError("--partition goes with --format parquet")
    return lambda rows, path: _write_text(form, rows, None if output is None else path)


def source() -> Source:
    """This machine and this version."""
    from sparkgate.policy.trail.export import Source
    from sparkgate.version import __version__

    return Source(platform.node(), __version__)


def _write_text(form: str, rows: Rows, path: Path | None) -> int:
    """Lines in UTF-8, to stdout without a path."""
    from sparkgate.policy.trail.export import TEXT

    counted = _Counted(rows)
    if path is None:
        out = sys.stdout.buffer
        for chunk in _chunks(TEXT[form](counted, source())):
            out.write(chunk)
        out.flush()
        return counted.rows
    with path.open("wb") as file:
        for chunk in _chunks(TEXT[form](counted, source())):
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    return counted.rows


class _Counted:
    """Rows that are counted as they pass."""

    def __init__(self, rows: Rows) -> None:
        self._of = rows
        self.rows = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for row in self._of:
            self.rows += 1
            yield row


def _chunks(lines: Iterable[str]) -> Iterator[bytes]:
    held: list[bytes] = []
    size = 0
    for line in lines:
        held.append(line.encode())
        size += len(held[-1])
        if size >= CHUNK:
            yield b"".join(held)
            held, size = [], 0
    yield b"".join(held)


def _check_parquet() -> None:
    try:
        import pyarrow.parquet as _  # noqa: F401
    except ImportError:
        fail("Parquet needs pyarrow: pip install 'sparkgate[parquet]'")


def _write_parquet(rows: Rows, path: Path) -> int:
    """One file; row groups are written as they fill."""
    import pyarrow.parquet

    written = 0
    with pyarrow.parquet.ParquetWriter(path, _schema(), compression="zstd") as writer:
        for group in _groups(rows):
            writer.write_table(_table(group))
            written += len(group)
    with path.open("rb") as file:
        os.fsync(file.fileno())
    return written


def _write_days(rows: Rows, path: Path) -> int:
    """A folder for each day as Hive names them; a day that comes back, after a clock was set, gets a second part."""
    from datetime import date, timedelta

    from sparkgate.policy.trail.columns import day_of

    written = 0
    path.mkdir(mode=0o700)
    for number, those in groupby(rows, lambda row: day_of(row["at_us"])):
        folder = path / f"day={date(1970, 1, 1) + timedelta(days=number)}"
        folder.mkdir(mode=0o700, exist_ok=True)
        written += _write_parquet(those, folder / f"part-{len(list(folder.iterdir()))}.parquet")
    return written


def _groups(rows: Rows) -> Iterator[list[dict[str, Any]]]:
    from itertools import islice

    rest = iter(rows)
    while group := list(islice(rest, ROW_GROUP)):
        yield group


def _schema() -> pyarrow.Schema:
    """Types of the columns."""
    import pyarrow as pa

    from sparkgate.policy.trail.columns import COLUMNS, FINDING

    plain = {"integer": pa.int64(), "text": pa.string()}
    finding = pa.struct([*((name, plain[holds]) for name, holds in FINDING.items()), ("shadow", pa.bool_())])
    types = plain | {
        "moment": pa.timestamp("us", tz="UTC"),
        "words": pa.list_(pa.string()),
        "names": pa.map_(pa.string(), pa.string()),
        "findings": pa.list_(finding),
    }
    return pa.schema([(name, types[holds]) for name, holds in COLUMNS.items()])


def _table(rows: list[dict[str, Any]]) -> pyarrow.Table:
    import pyarrow as pa

    from sparkgate.policy.trail.columns import column

    schema = _schema()
    return pa.table([pa.array(column(rows, field.name), field.type) for field in schema], schema=schema)


@contextmanager
def _named_when_whole(output: Path, *, force: bool) -> Iterator[Path]:
    """A new name beside `output` that becomes `output` at the end; nothing is left of it on the way out by an error."""
    _check_free(output, force=force)
    unfinished = output.with_name(f".{output.name}.{secrets.token_hex(4)}.partial")
    before = os.umask(0o077)
    try:
        yield unfinished
        _check_free(output, force=force)
        _put(unfinished, output)
    finally:
        os.umask(before)
        _remove(unfinished)


def _check_free(output: Path, *, force: bool) -> None:
    if output.name.startswith(log_path().stem) and output.resolve().parent == log_path().resolve().parent:
        fail("the log is not written over; name another file")
    if not output.exists():
        return
    if not force:
        fail(f"{output} is there already; --force writes over it")
    if output.is_dir() and not _is_export(output):
        fail(f"{output} holds more than an export, so it is not written over; name another folder")


def _is_export(folder: Path) -> bool:
    """Whether a folder holds day partitions and nothing else."""
    files = [path for path in folder.rglob("*") if not path.is_dir()]
    return all(path.match("day=*/part-*.parquet") and path.parent.parent == folder for path in files)


def _put(unfinished: Path, output: Path) -> None:
    if not output.is_dir() or output.is_symlink():
        unfinished.replace(output)
        return
    old = unfinished.with_suffix(".old")
    output.rename(old)
    unfinished.rename(output)
    shutil.rmtree(old)


def _remove(unfinished: Path) -> None:
    if unfinished.is_dir():
        shutil.rmtree(unfinished, ignore_errors=True)
    else:
        unfinished.unlink(missing_ok=True)


@contextmanager
def _watched(rows: Rows, total: int) -> Iterator[Rows]:
    """The rows, with a bar on a terminal that shows how far it is."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=console(to_stderr=True), transient=True, disable=not sys.stderr.isatty())
    with bar:
        yield bar.track(rows, total=total)
