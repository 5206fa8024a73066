"""What is published says what the code is: registry entries, bundles, entry points and the page of each host."""

from __future__ import annotations

import json
import re
import sys
import tomllib
import zipfile
from pathlib import Path

import publish
import pytest
from box import Box

from sparkgate.clients.hosts.entry import SERVER_NAMES
from sparkgate.version import __version__


def test_the_published_files_are_those_of_the_code_and_no_others() -> None:
    wanted = dict(publish.published())
    found = {path for path in publish.PUBLISHED.rglob("*") if path.is_file()}
    assert found == wanted.keys(), "run `python tests/publish.py`"
    assert [str(path) for path, text in wanted.items() if path.read_text(encoding="utf-8") != text] == []


@pytest.mark.parametrize("toolset", SERVER_NAMES)
def test_a_registry_entry_keeps_to_the_limits_of_the_registry(toolset: str) -> None:
    entry = publish.registry_entry(toolset)
    assert re.fullmatch(r"[A-Za-z0-9.-]+/[A-Za-z0-9._-]+", entry["name"]) and len(entry["description"]) <= 100
    (package,) = entry["packages"]
    assert entry["version"] == package["version"] == __version__
    assert f"<!-- mcp-name: {entry['name']} -->" in (publish.ROOT / "README.md").read_text()


@pytest.mark.parametrize("toolset", SERVER_NAMES)
def test_what_a_registry_entry_starts_is_the_server(box: Box, toolset: str) -> None:
    """A client puts the package behind the runtime, and our arguments behind the package: `uvx sparkgate serve …`."""
    (package,) = publish.registry_entry(toolset)["packages"]
    words = [one["value"] for one in package["packageArguments"]]
    host = box.host(str(Path(sys.executable).with_name(package["identifier"])), *words)
    assert host.initialize()["serverInfo"]["name"] == SERVER_NAMES[toolset]


def test_a_bundle_holds_what_uv_needs_and_is_the_same_each_time(tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    first, second = publish.bundle(tmp_path), publish.bundle(tmp_path / "again")
    assert [one.read_bytes() for one in first] == [one.read_bytes() for one in second]
    for path in first:
        with zipfile.ZipFile(path) as bundle:
            manifest = json.loads(bundle.read("manifest.json"))
            project = tomllib.loads(bundle.read("pyproject.toml").decode())["project"]
            compile(bundle.read(manifest["server"]["entry_point"]), "server.py", "exec")
        assert project["dependencies"] == [f"sparkgate=={__version__}"]
        assert manifest["server"]["mcp_config"]["args"][-1] in publish.SCRIPTS.values()


@pytest.mark.parametrize("toolset", SERVER_NAMES)
def test_each_server_has_an_entry_point_that_needs_no_argument(box: Box, toolset: str) -> None:
    script = Path(sys.executable).with_name(publish.SCRIPTS[toolset])
    host = box.host(str(script))
    assert host.initialize()["serverInfo"]["name"] == SERVER_NAMES[toolset]
