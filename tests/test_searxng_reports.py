"""Each report in searxng_reports.toml is proven by tests that exist, or says why it is left out."""

from __future__ import annotations

import ast
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent
REPORTS: list[dict[str, Any]] = tomllib.loads((TESTS / "searxng_reports.toml").read_text())["report"]


@cache
def names_in(file: str) -> set[str]:
    tree = ast.parse((TESTS / file).read_text())
    return {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: str(report["number"]))
def test_every_report_is_proven_by_tests_that_exist_or_says_why_not(report: dict[str, Any]) -> None:
    tests, left_out = report.get("tests", []), report.get("left_out", "")
    assert report["of"] and report["asks"].endswith(".")
    assert bool(tests) != bool(left_out)
    for test in tests:
        file, _, name = test.partition("::")
        assert name in names_in(file)


def test_reports_stand_in_order_and_once() -> None:
    numbers = [report["number"] for report in REPORTS]
    assert numbers == sorted(set(numbers))


def test_what_mattered_most_is_not_left_out() -> None:
    assert not [report["number"] for report in REPORTS if report.get("first") and "left_out" in report]
