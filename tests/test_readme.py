"""The README is true: its promises have tests, its tables come from the code, its commands are two."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from readme import README, promises, threats, with_tables

from sparkgate.clients.cli import COMMANDS

TESTS = Path(__file__).parent


def names_in(file: str) -> set[str]:
    tree = ast.parse((TESTS / file).read_text())
    return {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}


@pytest.mark.parametrize(
    "proven", [*promises(), *threats()], ids=lambda one: str(one.get("text", one.get("what")))[:60]
)
def test_every_promise_and_every_row_of_the_levels_is_proven_by_tests_that_exist(proven: dict[str, list[str]]) -> None:
    assert proven["tests"]
    for test in proven["tests"]:
        file, _, name = test.partition("::")
        assert name in names_in(file)


def test_the_tables_are_those_of_the_code_so_every_promise_of_the_readme_is_in_the_table_of_promises() -> None:
    assert README.read_text() == with_tables(README.read_text()), "run: python tests/readme.py"


def test_there_are_exactly_two_set_up_commands() -> None:
    section = README.read_text().partition("## Set up")[2].partition("\n## ")[0]
    blocks = re.findall(r"```sh\n(.*?)\n```", section, re.DOTALL)
    assert len(blocks) == 2 and all("\n" not in block for block in blocks)
    assert blocks[0].endswith("sparkgate tour") and "pytest" in blocks[1]


def test_every_command_the_readme_shows_exists() -> None:
    shown = set(re.findall(r"sparkgate ([a-z]+)", "\n".join(re.findall(r"`([^`\n]+)`", README.read_text()))))
    assert shown and shown <= set(COMMANDS)


def test_every_file_the_readme_links_to_exists() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", README.read_text())
    assert links and all((README.parent / link).exists() for link in links)
