"""Every tool of every server, full and lite, against the limits of all hosts and of the engines behind them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from sparkgate import bench, engine, search
from sparkgate.clients.hosts import HOSTS
from sparkgate.clients.hosts.entry import SERVER_NAMES
from sparkgate.policy.audit import Caller
from sparkgate.policy.guard import Guard
from sparkgate.services import Services

BUILD = {"search": search.build, "engine": engine.build, "bench": bench.build}
LITE = "[search]\nlite = true\n"
LISTINGS = {
    "sparksearch": ("search", "", 6_000),
    "sparksearch lite": ("search", LITE, 1_536),
    "sparkengine": ("engine", "", 6_000),
    "sparkbench": ("bench", "", 6_000),
}
"""Listing → toolset, configuration, and the most bytes that its tools may have."""

MOST_BYTES_TOGETHER = 16_000
"""llama.cpp refuses a request whose tools have about 100 KB, and a host has tools of others too."""

SHAPES = {"string", "integer", "number", "boolean", "array"}
WORDS = {"type", "description", "default", "enum", "items", "maxLength", "minimum", "maximum"}
MOST_LENGTH = 256
"""llama.cpp writes a grammar with so many places for it."""

SUSPICIOUS = ("system:", "fetch http://", "curl https://", "you are now a", "exec(", "import os", "ignore previous")
"""Phrases in descriptions that hosts warn of or take out."""


async def listed(toolset: str, config: str, folder: Path) -> dict[str, Any]:
    """What a server says of itself to a host: `tools` and `instructions`."""
    file = folder / "config.toml"
    file.write_text(config, encoding="utf-8")
    server = BUILD[toolset](Services(file, folder / "state", Guard()), Caller())
    async with Client(server) as client:
        tools = (await client.list_tools()).tools
        told = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]
        return {"tools": told, "instructions": client.instructions or ""}


@pytest.fixture(params=list(LISTINGS))
async def listing(request: pytest.FixtureRequest, tmp_path: Path, anyio_backend: str) -> dict[str, Any]:
    """One listing, with the name of its server and the most bytes it may have."""
    toolset, config, most = LISTINGS[request.param]
    return {"server": SERVER_NAMES[toolset], "most": most, **await listed(toolset, config, tmp_path)}


def schemas(value: Any) -> Iterator[dict[str, Any]]:
    """Every table in a schema that is one itself."""
    if isinstance(value, dict):
        yield value
        for inner in (*value.get("properties", {}).values(), value.get("items")):
            yield from schemas(inner)


def texts(tool: dict[str, Any]) -> list[str]:
    described = [str(one.get("description", "")) for one in schemas(tool["inputSchema"])]
    return [tool["title"], tool["description"], *described]


@pytest.mark.parametrize("server", SERVER_NAMES.values())
def test_a_server_has_a_name_that_every_host_leaves_as_it_is(server: str) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9]{1,11}", server)


@pytest.mark.anyio
async def test_a_tool_has_a_name_that_every_host_leaves_as_it_is(listing: dict[str, Any]) -> None:
    for name in [tool["name"] for tool in listing["tools"]]:
        assert re.fullmatch(r"[a-z0-9_]{1,32}", name) and "__" not in name
        for host in HOSTS.values():
            shown = host.tool_name(listing["server"], name)
            assert name in shown and "..." not in shown, host.name
            assert host.max_tool_name is None or len(shown) <= host.max_tool_name, host.name


@pytest.mark.anyio
async def test_no_host_names_two_tools_alike(tmp_path: Path, anyio_backend: str) -> None:
    """Also those that show no name of the server."""
    names = []
    for toolset in BUILD:
        tools = (await listed(toolset, "", tmp_path))["tools"]
        names += [(SERVER_NAMES[toolset], tool["name"]) for tool in tools]
    for host in HOSTS.values():
        shown = [host.tool_name(*name) for name in names]
        assert len(set(shown)) == len(shown), host.name


@pytest.mark.anyio
async def test_a_schema_is_flat_and_has_nothing_that_a_grammar_refuses(listing: dict[str, Any]) -> None:
    for tool in listing["tools"]:
        schema = tool["inputSchema"]
        assert set(schema) <= {"type", "properties", "required"} and schema["type"] == "object", tool["name"]
        for name, one in schema["properties"].items():
            assert re.fullmatch(r"[a-z][a-z0-9_]{0,31}", name)
            assert set(one) <= WORDS and one["type"] in SHAPES, (tool["name"], name)
            assert one.get("maxLength", 0) <= MOST_LENGTH
            assert ("items" in one) == (one["type"] == "array")
            assert one.get("items", {"type": "string"}) == {"type": "string"}
            assert all(isinstance(choice, str) for choice in one.get("enum", ()))


@pytest.mark.anyio
async def test_what_is_not_required_has_no_null_for_a_default(listing: dict[str, Any]) -> None:
    for tool in listing["tools"]:
        required = tool["inputSchema"].get("required", [])
        assert set(required) <= set(tool["inputSchema"]["properties"])
        for name, one in tool["inputSchema"]["properties"].items():
            assert "default" not in one or (name not in required and one["default"] is not None)


@pytest.mark.anyio
async def test_a_description_fits_and_has_no_phrase_that_a_host_takes_for_an_attack(listing: dict[str, Any]) -> None:
    most = min(host.max_description for host in HOSTS.values() if host.max_description)
    for tool in listing["tools"]:
        assert 20 <= len(tool["description"]) <= most
        for text in texts(tool):
            assert [phrase for phrase in SUSPICIOUS if phrase in text.lower()] == [], text
    assert [phrase for phrase in SUSPICIOUS if phrase in listing["instructions"].lower()] == []
    assert len(listing["instructions"]) <= most


@pytest.mark.anyio
async def test_a_tool_has_all_four_annotations_and_promises_no_shape_of_its_answer(listing: dict[str, Any]) -> None:
    for tool in listing["tools"]:
        assert len([value for name, value in tool["annotations"].items() if name.endswith("Hint")]) == 4, tool["name"]
        assert "outputSchema" not in tool


@pytest.mark.anyio
async def test_a_listing_is_small(listing: dict[str, Any]) -> None:
    size = len(json.dumps(listing["tools"]))
    assert size <= listing["most"], size


@pytest.mark.anyio
async def test_all_listings_together_leave_room_for_the_tools_of_others(tmp_path: Path, anyio_backend: str) -> None:
    sizes = [len(json.dumps((await listed(toolset, "", tmp_path))["tools"])) for toolset in BUILD]
    assert sum(sizes) <= MOST_BYTES_TOGETHER, sizes
