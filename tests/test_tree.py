"""The shape of the tree: one namespace with three roots, imports in one direction, and one way out."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

TOP = Path(__file__).parent.parent
ROOTS = ("servers", "policies", "clients")
SOURCES = sorted(path for root in ROOTS for path in (TOP / root / "sparkgate").rglob("*.py"))

NETWORK = (
    "socket",
    "http.client",
    "urllib.request",
    "httpx",
    "httpx2",
    "aiohttp",
    "requests",
    "ftplib",
    "smtplib",
    "ssl",
)
MAY_REACH_OUT = {
    "policies/sparkgate/policy/egress.py": "the way out",
    "policies/sparkgate/policy/local.py": "the door to configured origins",
    "policies/sparkgate/policy/local_stream.py": "streams of configured origins",
    "policies/sparkgate/policy/trail/collector.py": "`audit ship`, a process of its own: to the operator's collector",
    "servers/sparkgate/link.py": "connects to the gate's Unix socket",
    "servers/sparkgate/stdio.py": "holds that connection",
    "servers/sparkgate/door.py": "the model door, a process of its own: takes connections of a confined agent",
    "servers/sparkgate/door_carry.py": "answers those connections",
    "servers/sparkgate/door_wire.py": "connects to configured engines",
    "servers/sparkgate/daemon.py": "binds the gate's Unix socket",
    "servers/sparkgate/gate.py": "serves the gate's Unix socket",
    "clients/sparkgate/clients/http_bridge.py": "`serve --http`, a process of its own: listens on loopback",
    "servers/sparkgate/doorways.py": "takes listening sockets from a supervisor",
    "servers/sparkgate/confine/canaries.py": "listens outside, to be tried from inside",
    "servers/sparkgate/confine/gate_link.py": "hands listening sockets to the gate",
    "servers/sparkgate/confine/inside.py": "listens on the loopback of the new namespace",
    "servers/sparkgate/confine/namespaces.py": "switches that loopback on",
    "servers/sparkgate/confine/supervisor.py": "listens where the gate's socket is to be inside",
    "servers/sparkgate/confine/wire.py": "talks to the inside over a pair of sockets",
    "clients/sparkgate/clients/attacking/files.py": "tries to take the place of the gate",
    "clients/sparkgate/clients/attacking/network.py": "tries every kind of socket, as `doctor --attack` is asked to",
    "servers/sparkgate/change/lock.py": "binds an abstract Unix socket as a lock",
}
MAY_IMPORT = {
    "policies": {"policy"},
    "servers": {"policy", "servers"},
    "clients": {"policy", "servers", "clients"},
}


def imports(path: Path) -> Iterator[str]:
    """Every module a file names in an import statement, wherever it stands."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


DIALLING = {
    "open_connection",
    "create_connection",
    "open_unix_connection",
    "connect_tcp",
    "connect_unix",
    "sock_connect",
}
"""Functions of asyncio and anyio that connect without a module of `NETWORK`."""


def attributes(path: Path) -> set[str]:
    return {node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}


def part_of(module: str) -> str:
    """Which root a module of ours lives in."""
    second = module.split(".")[1] if "." in module else ""
    return second if second == "policy" else "clients" if second == "clients" else "servers"


@pytest.mark.parametrize("root", ROOTS)
def test_no_root_closes_the_namespace(root: str) -> None:
    assert not (TOP / root / "sparkgate" / "__init__.py").exists()


def test_top_level_holds_nothing_else() -> None:
    allowed = {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", *ROOTS, "tests"}
    made_by_tools = {"dist", "build"}
    assert {path.name for path in TOP.iterdir() if not path.name.startswith(".")} - made_by_tools == allowed


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(TOP)))
def test_only_the_named_files_can_reach_the_network(path: Path) -> None:
    reaching = {name for name in imports(path) if name in NETWORK or name.startswith(tuple(f"{n}." for n in NETWORK))}
    if str(path.relative_to(TOP)) not in MAY_REACH_OUT:
        assert reaching | (attributes(path) & DIALLING) == set()


def test_the_linter_bans_what_this_test_bans() -> None:
    config = tomllib.loads((TOP / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    assert {"httpx", "socket", "urllib.request", "http.client"} <= set(config["flake8-tidy-imports"]["banned-api"])
    exempt = {path for path, rules in config["per-file-ignores"].items() if "TID251" in rules}
    assert exempt == {*MAY_REACH_OUT, "tests/*"}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(TOP)))
def test_imports_go_one_way(path: Path) -> None:
    root = path.relative_to(TOP).parts[0]
    ours = {name for name in imports(path) if name.startswith("sparkgate.")}
    assert {part_of(name) for name in ours} <= MAY_IMPORT[root]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(TOP)))
def test_no_file_and_no_function_is_longer_than_a_reader_can_hold(path: Path) -> None:
    text = path.read_text()
    assert sum(1 for line in text.splitlines() if line.strip()) <= 300
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.end_lineno:
            assert node.end_lineno - node.lineno < 60, node.name


def test_the_lock_of_searxng_leaves_the_index_to_the_user() -> None:
    lock = (TOP / "servers" / "sparkgate" / "searxng_lock.txt").read_text()
    options = {line.split()[0] for line in lock.splitlines() if line.strip().startswith("-")}
    assert "://" not in lock and all(option.startswith("--hash=") for option in options)


def test_the_version_stands_in_one_place() -> None:
    assert sys.version_info >= (3, 11)
    assert tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["dynamic"] == ["version"]
