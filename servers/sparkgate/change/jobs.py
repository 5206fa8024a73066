"""Jobs on disk: what is being done to the engines, how far it is, and how it ended. One SQLite file, many processes.

A job belongs to the process that runs it. When that process is gone and the job is not closed, whoever finds it takes
it over and goes on from its phase.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

from sparkgate.machine.processes import Process, process

BUSY_TIMEOUT_S = 5.0
JobState = Literal["running", "done", "failed", "cancelled"]
Kind = Literal["load", "unload", "swap"]
migration = Migrations("jobs")


class JobsUnavailable(Exception):
    """The file of the jobs cannot be read or written; nothing is begun while that is so."""


class Occupied(Exception):
    """Another job runs in this lane already."""


class PlanUsed(Exception):
    """The plan has been used, or is not there."""


@dataclass(frozen=True, slots=True)
class Job:
    """One load, unload or swap.

    Attributes:
        lane: name of the lock it holds; one job runs in a lane at a time.
        phase: what is being done, or was done last.
        back: the old engine is being brought back.
        plan: what was planned, as JSON.
        owner: the process that runs it.
        code, message: how it ended, or what it does just now.
        result: facts for the answer (diagnosis, warnings), as JSON.
    """

    id: int
    lane: str
    kind: Kind
    target: str
    state: JobState
    phase: str
    back: bool
    plan: Mapping[str, Any]
    caller: Mapping[str, Any]
    owner: Process
    cancel: bool
    code: str
    message: str
    created_s: float
    changed_s: float
    result: Mapping[str, Any] = field(default_factory=dict)

    @property
    def orphaned(self) -> bool:
        return self.state == "running" and not self.owner.alive()


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """A plan that a person has seen: good once, until `expires_s` (seconds since the epoch)."""

    id: str
    kind: str
    target: str
    digest: str
    confirmed: bool
    after_idle_s: float
    expires_s: float
    job_id: int | None


class Jobs:
    """The file of the jobs; safe to use from several threads and beside other processes.

    Raises:
        JobsUnavailable: it cannot be opened, read or written. Also from every method.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        try:
            self._db = _open(path)
        except (OSError, sqlite3.Error) as error:
            raise JobsUnavailable(f"cannot open {path}: {error}") from error

    def close(self) -> None:
        self._db.conn.close()

    def begin(
        self,
        lane: str,
        kind: str,
        target: str,
        plan: Mapping[str, Any],
        caller: Mapping[str, Any],
        phase: str,
        plan_id: str = "",
    ) -> Job:
        """Write a new running job of this process, and use up the stored plan `plan_id` with it.

        Raises:
            Occupied: one runs in this lane.
            PlanUsed: another job was faster.
        """
        me, now = process(os.getpid()), time.time()
        try:
            with self._transaction() as connection:
                row = connection.execute(
                    "INSERT INTO job (lane, kind, target, state, phase, plan, caller, owner_pid, owner_birth,"
                    " created_s, changed_s) VALUES (?, ?, ?, 'running', ?, ?, ?, ?, ?, ?, ?)",
                    (lane, kind, target, phase, _json(plan), _json(caller), me.pid, me.birth, now, now),
                )
                job_id = row.lastrowid or 0
                use = "UPDATE plan SET job_id = ? WHERE id = ? AND job_id IS NULL"
                if plan_id and connection.execute(use, (job_id, plan_id)).rowcount != 1:
                    raise PlanUsed
        except sqlite3.IntegrityError as error:
            raise Occupied from error
        return self.get(job_id)

    def take_over(self, job: Job) -> bool:
        """Become the owner of an orphaned job; False when another process was faster."""
        me = process(os.getpid())
        with self._transaction() as connection:
            changed = connection.execute(
                "UPDATE job SET owner_pid = ?, owner_birth = ? WHERE id = ? AND state = 'running' AND owner_birth = ?",
                (me.pid, me.birth, job.id, job.owner.birth),
            )
            return changed.rowcount == 1

    def enter(self, job_id: int, phase: str, *, back: bool = False) -> None:
        """Note durably that a phase begins, before it does."""
        with self._transaction() as connection:
            connection.execute(
                "UPDATE job SET phase = ?, back = ?, message = '', changed_s = ? WHERE id = ?",
                (phase, back, time.time(), job_id),
            )
            _note(connection, job_id, phase, "")

    def tell(self, job_id: int, message: str) -> None:
        """What is being done just now, for whoever asks."""
        with self._transaction() as connection:
            connection.execute("UPDATE job SET message = ?, changed_s = ? WHERE id = ?", (message, time.time(), job_id))
            _note(connection, job_id, "", message)

    def end(self, job_id: int, state: JobState, code: str, message: str, result: Mapping[str, Any]) -> None:
        with self._transaction() as connection:
            connection.execute(
                "UPDATE job SET state = ?, code = ?, message = ?, result = ?, changed_s = ? WHERE id = ?",
                (state, code, message, _json(result), time.time(), job_id),
            )
            _note(connection, job_id, state, message)

    def remember(self, job_id: int, **facts: Any) -> None:
        """Add facts to the result of a job that still runs; nobody's are lost between two processes."""
        with self._transaction() as connection:
            row = connection.execute("SELECT result FROM job WHERE id = ?", (job_id,)).fetchone()
            merged = {**json.loads(row["result"]), **facts}
            connection.execute("UPDATE job SET result = ? WHERE id = ?", (_json(merged), job_id))

    def ask_to_cancel(self, job_id: int) -> None:
        with self._transaction() as connection:
            connection.execute("UPDATE job SET cancel = 1 WHERE id = ? AND state = 'running'", (job_id,))

    def get(self, job_id: int) -> Job:
        """Raises KeyError when there is no such job."""
        found = self._read("SELECT * FROM job WHERE id = ?", job_id)
        if not found:
            raise KeyError(job_id)
        return _job(found[0])

    def running(self, lane: str | None = None) -> list[Job]:
        rows = self._read("SELECT * FROM job WHERE state = 'running' AND lane = coalesce(?, lane) ORDER BY id", lane)
        return [_job(row) for row in rows]

    def latest(self, limit: int = 20) -> list[Job]:
        return [_job(row) for row in self._read("SELECT * FROM job ORDER BY id DESC LIMIT ?", limit)]

    def steps(self, job_id: int) -> list[tuple[float, str, str]]:
        """(seconds since the epoch, phase or "", words), in order."""
        rows = self._read("SELECT * FROM step WHERE job_id = ? ORDER BY id", job_id)
        return [(row["at_s"], row["phase"], row["words"]) for row in rows]

    def learn(self, engine: str, launch: str, held_gib: float | None, load_s: float) -> None:
        """Keep what a successful load has shown; `launch` tells one way to start it from another."""
        with self._transaction() as connection:
            connection.execute(
                "INSERT INTO learnt (engine, launch, held_gib, load_s, at_s) VALUES (?, ?, ?, ?, ?)",
                (engine, launch, held_gib, load_s, time.time()),
            )

    def learnt(self, engine: str, launch: str) -> tuple[float | None, float | None]:
        """(most GiB it has held, seconds of its latest load); None where nothing is known."""
        rows = self._read("SELECT * FROM learnt WHERE engine = ? AND launch = ? ORDER BY at_s", engine, launch)
        held = [row["held_gib"] for row in rows if row["held_gib"] is not None]
        return (max(held) if held else None), (rows[-1]["load_s"] if rows else None)

    def keep_plan(self, plan: StoredPlan) -> None:
        with self._transaction() as connection:
            connection.execute("DELETE FROM plan WHERE expires_s < ?", (time.time() - 86_400,))
            connection.execute(
                "INSERT INTO plan VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(plan.id, plan.kind, plan.target, plan.digest),
                    *(plan.confirmed, plan.after_idle_s, plan.expires_s, plan.job_id),
                ),
            )

    def plan(self, plan_id: str) -> StoredPlan | None:
        rows = self._read("SELECT * FROM plan WHERE id = ?", plan_id)
        return StoredPlan(**dict(rows[0]) | {"confirmed": bool(rows[0]["confirmed"])}) if rows else None

    def _read(self, query: str, *values: object) -> list[sqlite3.Row]:
        with self._held():
            return list(self._db.conn.execute(query, values).fetchall())

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._held():
            connection = self._db.conn
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def _held(self) -> Iterator[None]:
        with self._lock:
            try:
                yield
            except sqlite3.IntegrityError:
                raise
            except sqlite3.Error as error:
                raise JobsUnavailable(f"cannot use {self.path}: {type(error).__name__}") from error


def _open(path: Path) -> Database:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=BUSY_TIMEOUT_S)
    try:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        db = Database(connection)
        migration.apply(db)
    except BaseException:
        connection.close()
        raise
    return db


@migration()
def create_tables(db: Database) -> None:
    for statement in TABLES:
        db.execute(statement)


TABLES = (
    """CREATE TABLE job (
        id INTEGER PRIMARY KEY AUTOINCREMENT, lane TEXT NOT NULL, kind TEXT NOT NULL, target TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('running', 'done', 'failed', 'cancelled')),
        phase TEXT NOT NULL, back INTEGER NOT NULL DEFAULT 0, plan TEXT NOT NULL, caller TEXT NOT NULL,
        owner_pid INTEGER NOT NULL, owner_birth TEXT NOT NULL, cancel INTEGER NOT NULL DEFAULT 0,
        code TEXT NOT NULL DEFAULT '', message TEXT NOT NULL DEFAULT '', result TEXT NOT NULL DEFAULT '{}',
        created_s REAL NOT NULL, changed_s REAL NOT NULL) STRICT""",
    "CREATE UNIQUE INDEX one_job_runs_in_a_lane ON job (lane) WHERE state = 'running'",
    """CREATE TABLE step (
        id INTEGER PRIMARY KEY, job_id INTEGER NOT NULL REFERENCES job (id), at_s REAL NOT NULL,
        phase TEXT NOT NULL, words TEXT NOT NULL) STRICT""",
    """CREATE TABLE learnt (
        id INTEGER PRIMARY KEY, engine TEXT NOT NULL, launch TEXT NOT NULL, held_gib REAL, load_s REAL NOT NULL,
        at_s REAL NOT NULL) STRICT""",
    """CREATE TABLE plan (
        id TEXT PRIMARY KEY, kind TEXT NOT NULL, target TEXT NOT NULL, digest TEXT NOT NULL,
        confirmed INTEGER NOT NULL, after_idle_s REAL NOT NULL, expires_s REAL NOT NULL, job_id INTEGER) STRICT""",
)


def _note(connection: sqlite3.Connection, job_id: int, phase: str, words: str) -> None:
    connection.execute(
        "INSERT INTO step (job_id, at_s, phase, words) VALUES (?, ?, ?, ?)", (job_id, time.time(), phase, words)
    )


def _job(row: sqlite3.Row) -> Job:
    values: dict[str, Any] = dict(row)
    values["owner"] = Process(values.pop("owner_pid"), values.pop("owner_birth"))
    values |= {name: json.loads(values[name]) for name in ("plan", "caller", "result")}
    values |= {name: bool(values[name]) for name in ("back", "cancel")}
    return Job(**values)


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(dict(value), ensure_ascii=True)
