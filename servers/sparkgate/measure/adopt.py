"""A run that another program has made, put beside ours: it has no bursts, and it names its origin."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from sparkgate.machine.processes import process
from sparkgate.measure.store import Store, StoreUnavailable
from sparkgate.measure.store_fault import way_out
from sparkgate.measure.store_file import BUSY_TIMEOUT_S

_TABLES = ("provenance", "plan")
_CELL = ("stats", "why_null", "facts", "flags", "key")


def adopt(store: Store, told: Mapping[str, Any]) -> int:
    """Keep a run as `interchange_read.read_result` tells it; its id in the store.

    Raises:
        StoreUnavailable: the file cannot be written.
    """
    try:
        with closing(sqlite3.connect(store.path, timeout=BUSY_TIMEOUT_S)) as connection, connection:
            run_id = _insert(connection, "run", _run(told))
            for cell in told["cells"]:
                texts = {name: json.dumps(cell[name]) for name in _CELL if name != "key"}
                key = json.dumps(dict(cell["key"]), sort_keys=True)
                own = {"run_id": run_id, "hash": cell["hash"], "key": key, "status": cell["status"]}
                _insert(connection, "cell", own | texts)
    except sqlite3.Error as error:
        raise StoreUnavailable(way_out(store.path, error)) from error
    return run_id


def _run(told: Mapping[str, Any]) -> dict[str, Any]:
    me, now = process(os.getpid()), time.time()
    return {
        **{name: told[name] for name in ("kind", "engine", "state", "validity", "origin", "seed")},
        **{name: json.dumps(told[name]) for name in _TABLES},
        **{"owner_pid": me.pid, "owner_birth": me.birth, "caller": "{}", "asked": "{}"},
        "plan_hash": told["plan"]["protocol_hash"],
        "created_s": now if told["created_s"] is None else told["created_s"],
        "ended_s": now if told["ended_s"] is None else told["ended_s"],
    }


def _insert(connection: sqlite3.Connection, table: str, values: Mapping[str, Any]) -> int:
    query = f"INSERT INTO {table} ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})"
    return connection.execute(query, list(values.values())).lastrowid or 0
