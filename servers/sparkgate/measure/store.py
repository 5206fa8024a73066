"""Runs on disk (bench.db): what was asked, on what, every burst as it was measured, and what came of it.

A burst is written when it has ended, so that what was measured stays whatever ends the run. A run belongs to the
process that makes it; when that process is gone and the run is not closed, it reads as interrupted.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from sparkgate.engines.spec import line
from sparkgate.machine.processes import Process, process
from sparkgate.measure.plan import Cell, Plan
from sparkgate.measure.sample import Sample, from_json
from sparkgate.measure.store_fault import way_out
from sparkgate.measure.store_file import connected, opened

State = Literal["running", "done", "failed", "cancelled", "interrupted"]
CUT_OFF = "the process that measured is gone; what was measured until then is kept, and was not verified"


BAD_ROW = (
    "a row of {path} cannot be read ({error}): the file is damaged, or another version of sparkgate wrote it; move it "
    "away to begin a new one"
)
T = TypeVar("T")


class StoreUnavailable(Exception):
    """The file of the runs cannot be read or written."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run.

    Attributes:
        asked: kind, engine and options as they were asked for.
        provenance: what was measured, and on what.
        seed: 32 hex digits; order and nonces follow from it.
        probe: what the engine was found to be and do; {} before that.
        progress: bursts done and planned, the last cell and its headline; {} before the first.
        ended_s: seconds since the epoch; None while it runs.
        validity: valid, tainted or invalid; or how it ended without that; "" while it runs.
        notes: what else was seen, in words.
        origin: "" for a run of this machine, otherwise where it was read from.
    """

    id: int
    kind: str
    engine: str
    state: State
    owner: Process
    cancel: bool
    caller: Mapping[str, Any]
    asked: Mapping[str, Any]
    provenance: Mapping[str, Any]
    plan: Mapping[str, Any]
    plan_hash: str
    seed: str
    probe: Mapping[str, Any]
    progress: Mapping[str, Any]
    created_s: float
    ended_s: float | None
    validity: str
    code: str
    message: str
    notes: Sequence[str]
    origin: str

    @property
    def protocol(self) -> str:
        return str(self.plan.get("protocol_hash", ""))

    @property
    def model(self) -> str:
        """What the engine calls the model; "" when it is not known."""
        return line(self.probe.get("model") or self.provenance.get("model"))


@dataclass(frozen=True, slots=True)
class StoredCell:
    """What came of one cell; `status` is "" until it was verified.

    Attributes:
        flags: as JSON of `validity.Flag`.
        stats: metric → median, low, high, mad, n, …
        facts: as JSON of `CellFacts`.
    """

    key: Mapping[str, Any]
    hash: str
    status: str = ""
    flags: Sequence[Mapping[str, Any]] = ()
    stats: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    why_null: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredBurst:
    """One burst as it was measured; the counters are the engine's own, before and after."""

    cell_hash: str
    repeat: int
    samples: tuple[Sample, ...]
    sensors: Mapping[str, Any]
    engine_before: Mapping[str, Any]
    engine_after: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run has ended; `code` and `message` tell why it did not end well."""

    state: State
    validity: str
    code: str = ""
    message: str = ""
    notes: tuple[str, ...] = ()


class Store:
    """The file of the runs; safe to use from several threads and beside other processes.

    Raises:
        StoreUnavailable: it cannot be opened, read or written. Also from every method.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writing, self._reading = threading.Lock(), threading.Lock()
        try:
            self._writer = opened(path)
            self._reader = connected(path)
        except (OSError, sqlite3.Error) as error:
            raise StoreUnavailable(way_out(path, error)) from error

    def close(self) -> None:
        self._writer.close()
        self._reader.close()

    def begin(
        self,
        engine: str,
        planned: Plan,
        asked: Mapping[str, Any],
        caller: Mapping[str, Any],
        provenance: Mapping[str, Any],
    ) -> Run:
        """Write a new running run of this process."""
        me, told = process(os.getpid()), planned.as_json()
        values = {
            "kind": planned.kind,
            "engine": engine,
            "state": "running",
            "owner_pid": me.pid,
            "owner_birth": me.birth,
            **{name: _json(one) for name, one in (("caller", caller), ("asked", asked), ("provenance", provenance))},
            "plan": _json(told),
            "plan_hash": planned.hash,
            "seed": told["seed"],
            "created_s": time.time(),
        }
        with self._transaction() as connection:
            run_id = connection.execute(_insert("run", values), list(values.values())).lastrowid or 0
        return self.run(run_id)

    def note_probe(self, run_id: int, probe: Mapping[str, Any]) -> None:
        self._set(run_id, probe=_json(probe))

    def note_progress(self, run_id: int, progress: Mapping[str, Any]) -> None:
        self._set(run_id, progress=_json(progress))

    def add_burst(
        self,
        run_id: int,
        key: Mapping[str, Any],
        repeat: int,
        samples: Sequence[Any],
        sensors: Mapping[str, Any],
        engine_before: Mapping[str, Any],
        engine_after: Mapping[str, Any],
    ) -> None:
        """Keep a burst that has ended; `samples` as `sample.to_json` tells them, as text or as objects."""
        told = [json.loads(one) if isinstance(one, str) else one for one in samples]
        values = {
            "run_id": run_id,
            "cell_hash": Cell(**key).hash,
            "repeat": repeat,
            "samples": zlib.compress(json.dumps(told, separators=(",", ":")).encode()),
            **{"sensors": _json(sensors), "before": _json(engine_before), "after": _json(engine_after)},
        }
        with self._transaction() as connection:
            _make_cell(connection, run_id, key)
            connection.execute(_insert("burst", values), list(values.values()))

    def put_cell(self, run_id: int, cell: StoredCell) -> None:
        """Keep what came of a cell, over what was known before."""
        told = [_json(one) for one in (cell.stats, cell.why_null, cell.facts)]
        values = [cell.status, json.dumps(list(cell.flags)), *told, run_id, Cell(**cell.key).hash]
        columns = "status = ?, flags = ?, stats = ?, why_null = ?, facts = ?"
        with self._transaction() as connection:
            _make_cell(connection, run_id, cell.key)
            connection.execute(f"UPDATE cell SET {columns} WHERE run_id = ? AND hash = ?", values)

    def end(self, run_id: int, ending: Ending) -> bool:
        """Close a running run; False when it was closed already."""
        values = (ending.state, ending.validity, ending.code, ending.message, json.dumps(list(ending.notes)))
        columns = "state = ?, validity = ?, code = ?, message = ?, notes = ?, ended_s = ?"
        with self._transaction() as connection:
            query = f"UPDATE run SET {columns} WHERE id = ? AND state = 'running'"
            return connection.execute(query, (*values, time.time(), run_id)).rowcount == 1

    def ask_to_cancel(self, run_id: int) -> None:
        self._set(run_id, cancel=1)

    def run(self, run_id: int) -> Run:
        """Raises KeyError when there is no such run."""
        found = self._read(_run, "SELECT * FROM run WHERE id = ?", run_id)
        if not found:
            raise KeyError(run_id)
        return found[0]

    def latest(self, limit: int = 20, *, engine: str = "", kind: str = "") -> list[Run]:
        """The newest first; "" stands for any."""
        query = "SELECT * FROM run WHERE ? IN ('', engine) AND ? IN ('', kind) ORDER BY id DESC LIMIT ?"
        return self._read(_run, query, engine, kind, limit)

    def unfinished(self) -> list[Run]:
        """Runs that are not closed; those whose process is gone read as interrupted."""
        return self._read(_run, "SELECT * FROM run WHERE state = 'running' ORDER BY id")

    def cells(self, run_id: int) -> list[StoredCell]:
        """In the order of the plan; prose may have become a longer form of it."""
        found = self._read(_cell, "SELECT * FROM cell WHERE run_id = ?", run_id)
        keys = self.run(run_id).plan.get("cells", ())
        places = {_key_text({**key, "family": "long_form"}): place for place, key in enumerate(keys)}
        places |= {_key_text(key): place for place, key in enumerate(keys)}
        return sorted(found, key=lambda cell: places.get(_key_text(cell.key), len(places)))

    def bursts(self, run_id: int) -> list[StoredBurst]:
        """In the order in which they were measured."""
        return self._read(_burst, "SELECT * FROM burst WHERE run_id = ? ORDER BY id", run_id)

    def _set(self, run_id: int, **values: object) -> None:
        columns = ", ".join(f"{name} = ?" for name in values)
        with self._transaction() as connection:
            query = f"UPDATE run SET {columns} WHERE id = ? AND state = 'running'"
            connection.execute(query, (*values.values(), run_id))

    def _read(self, make: Callable[[sqlite3.Row], T], query: str, *values: object) -> list[T]:
        """Over a connection of its own: a write that waits for another program keeps no reader waiting."""
        with self._held(self._reading):
            rows = self._reader.execute(query, values).fetchall()
        try:
            return [make(row) for row in rows]
        except (ValueError, TypeError, KeyError, zlib.error) as error:
            raise StoreUnavailable(BAD_ROW.format(path=self.path, error=type(error).__name__)) from error

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._held(self._writing):
            connection = self._writer
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def _held(self, lock: threading.Lock) -> Iterator[None]:
        with lock:
            try:
                yield
            except sqlite3.Error as error:
                raise StoreUnavailable(way_out(self.path, error)) from error


def _insert(table: str, values: Mapping[str, object]) -> str:
    return f"INSERT INTO {table} ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})"


def _make_cell(connection: sqlite3.Connection, run_id: int, key: Mapping[str, Any]) -> None:
    values = (run_id, Cell(**key).hash, _key_text(key))
    connection.execute("INSERT OR IGNORE INTO cell (run_id, hash, key) VALUES (?, ?, ?)", values)


def _run(row: sqlite3.Row) -> Run:
    values: dict[str, Any] = dict(row)
    owner = Process(values.pop("owner_pid"), values.pop("owner_birth"))
    texts = ("caller", "asked", "provenance", "plan", "probe", "progress", "notes")
    values |= {name: json.loads(values[name]) for name in texts} | {"cancel": bool(values["cancel"])}
    if values["state"] == "running" and not owner.alive():
        values |= {"state": "interrupted", "validity": "interrupted", "code": "interrupted", "message": CUT_OFF}
    return Run(owner=owner, **values)


def _cell(row: sqlite3.Row) -> StoredCell:
    values = {name: row[name] for name in ("hash", "status")}
    return StoredCell(
        **values, **{name: json.loads(row[name]) for name in ("key", "flags", "stats", "why_null", "facts")}
    )


def _burst(row: sqlite3.Row) -> StoredBurst:
    told = json.loads(zlib.decompress(row["samples"]))
    samples = tuple(from_json(json.dumps(one)) for one in told)
    parts = (json.loads(row[name]) for name in ("sensors", "before", "after"))
    return StoredBurst(row["cell_hash"], row["repeat"], samples, *parts)


def _key_text(key: Mapping[str, Any]) -> str:
    return json.dumps(dict(key), sort_keys=True)


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(dict(value), ensure_ascii=True)
