"""The log after kill -9: of the gate at random moments under load, and of processes that write to it."""

from __future__ import annotations

from pathlib import Path

from audit_kill import kill_gates, kill_writers

KILLS = 12
CLIENTS = 4
WRITERS = 8


def test_a_gate_that_is_killed_under_load_loses_no_row_of_what_left_or_was_told() -> None:
    toll = kill_gates(KILLS, CLIENTS)
    assert toll.is_clean, toll
    assert toll.told["done"] > KILLS and toll.told["blocked"] > 0 and toll.rows >= toll.reached
    assert set(toll.told) <= {"done", "blocked", "gone"}
    assert toll.unknown_ends <= KILLS * CLIENTS


def test_writers_that_are_killed_beside_others_lose_no_row_they_were_told_is_written(tmp_path: Path) -> None:
    toll = kill_writers(tmp_path / "audit.db", WRITERS, rounds=1)
    assert toll.is_clean, toll
    assert toll.kills == WRITERS and toll.told["row"] > WRITERS
    assert toll.unknown_ends <= WRITERS
