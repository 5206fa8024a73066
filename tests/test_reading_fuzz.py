"""Damaged pages: whatever is in one, it is read or told by a code. Seeds that ever failed can be added."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from reading_box import PAGES, PATIENCE_S
from reading_fuzz import damaged

from sparkgate.reading.page import MESSAGES
from sparkgate.reading.reader import Asked, Reader, Shown

FUZZ = Path(__file__).parent / "reading_fuzz.py"
COUNT, THROUGH_THE_PROCESS = 200, 8


def test_damaged_pages_are_read_or_told_by_a_code() -> None:
    command = [sys.executable, str(FUZZ), "0", str(COUNT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=4 * PATIENCE_S)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["bad"] == {}
    assert sum(told["outcomes"].values()) == COUNT and told["outcomes"]["read"] > COUNT / 2


@pytest.mark.anyio
async def test_damaged_pages_are_read_by_the_process_one_after_another() -> None:
    pages = [path.read_bytes() for path in sorted(PAGES.iterdir())]
    reader = Reader()
    for seed in range(1000, 1000 + THROUGH_THE_PROCESS):
        answer = await reader.read(damaged(seed, pages), Asked(find="a of" if seed % 2 else ""), PATIENCE_S)
        assert isinstance(answer, Shown) or (answer.code in MESSAGES and answer.code != "reader_failed")
    await reader.aclose()
