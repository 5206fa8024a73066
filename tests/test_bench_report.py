"""Reports of runs in Markdown: their parts, what has no number, and text of others that stays text."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from stored_runs import SWEEP

from sparkgate.clients.bench_pictures import report
from sparkgate.measure.markdown import report as written


def test_a_report_has_its_parts_in_order() -> None:
    text = written(SWEEP, "sweep.svg")
    heads = re.findall(r"^#+ (.*)$", text, flags=re.M)
    assert heads == [
        "Benchmark: run 12, main, Qwen3.6-35B-A3B",
        "Results",
        "What speaks against it",
        "Published numbers",
        "Protocol",
        "Provenance",
    ]
    assert "![run 12, main, Qwen3.6-35B-A3B](<sweep.svg>)" in text
    assert "| seed | ab |" in text and "| engine\\_version | 0.25.1 |" in text and "2026-11-29 21:59 UTC" in text


def test_an_invalid_cell_has_no_number_in_a_report() -> None:
    [row] = [line for line in written(SWEEP).splitlines() if "concurrency 32" in line and line.startswith("|")]
    values = [word.strip() for word in row.strip("|").split("|")]
    assert values[-1] == "invalid" and set(values[1:-2]) == {"no number"}


def test_flags_are_told_once_in_words_with_what_to_do() -> None:
    text = written(SWEEP)
    assert text.count("the bursts differ by more than 5 %") == 1
    assert "- **warning**: the bursts differ by more than 5 % (in prose, 512 prompt tokens" in text
    assert "What to do: ask for more repeats." in text and "- **invalid**: an answer ended after 3 of 256" in text


def test_a_report_compares_with_what_was_published() -> None:
    assert re.search(
        r"^- 105\.9 tok/s were published with MTP k=3|^- .* tok/s were .*you have 99", written(SWEEP), re.M
    )
    unknown = SWEEP | {"provenance": {"model": "nobody-knows-7b"}}
    assert "No published number of this model" in written(unknown)


def test_every_row_of_a_table_has_as_many_columns_as_its_head() -> None:
    hostile = SWEEP | {"engine": "a|b", "provenance": {"model": "x|<script>`", "flags": ["|", "[a](b)", "\n# head"]}}
    for table in re.findall(r"(?:^\|.*\n)+", written(hostile), flags=re.M):
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}) == 1
    assert "<script>" not in written(hostile) and "\n# head" not in written(hostile)


@pytest.mark.parametrize(
    "run",
    [{}, {"cells": 5}, {"cells": [{"key": {}}]}, {"cells": [{"key": {}, "flags": ["noisy", 5, None], "stats": 5}]}],
)
def test_a_report_of_a_poor_run_is_still_one(run: dict[str, Any]) -> None:
    assert written(run).startswith("# Benchmark: a run")


def test_a_picture_cannot_break_out_of_its_link() -> None:
    assert "(<a%3E)%20b%3Cc>)" in written(SWEEP, "a>) b<c")


def test_the_report_command_reads_standard_input(tmp_path: Path) -> None:
    runner = CliRunner()
    told = runner.invoke(report, ["--file", "-"], input=json.dumps(SWEEP))
    assert told.stdout == written(SWEEP)
    out = tmp_path / "report.md"
    runner.invoke(report, ["--file", "-", "-o", str(out), "--picture", "p.png"], input=json.dumps(SWEEP))
    assert out.read_text() == written(SWEEP, "p.png")
