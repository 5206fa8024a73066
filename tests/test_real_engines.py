"""A real llama.cpp under the gate: loaded, swapped between two real models, failed in real ways, unloaded."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest
import real_llamacpp
from box import is_running
from engine_box import NAMES, EngineBox, an_engine_box
from real_llamacpp import MODEL, OTHER_MODEL

pytestmark = pytest.mark.changing

MODELS = dict(zip(NAMES, (MODEL, OTHER_MODEL), strict=True))


@pytest.fixture
def engines() -> Iterator[EngineBox]:
    with an_engine_box() as made:
        for name, model in MODELS.items():
            made.extra[name] = {"command": real_llamacpp.command(made.ports[name], model), "model": model}
        made.configure()
        yield made


def pids(engines: EngineBox) -> dict[str, int]:
    """Main process of every engine that runs."""
    host = engines.host()
    found = host.call("engine_status", {})["engines"]
    return {one["name"]: one["runtime"]["pid"] for one in found if "pid" in one["runtime"]}


def test_two_real_models_are_loaded_swapped_and_unloaded(engines: EngineBox) -> None:
    host = engines.host()
    assert engines.load("old", host)["models"] == [MODEL]
    first = pids(engines)["old"]
    one = host.call("engine_status", {"name": "old"})["engines"][0]
    assert (one["state"], one["proven"], one["models"][0]["id"]) == ("ready", True, MODEL)
    assert one["memory"]["held_gib"] > 0.1 and one["memory"]["source"] and one["since"]
    swapped = engines.finished(host, host.call("engine_swap", {"name": "new"}))
    assert (swapped["state"], swapped["models"]) == ("done", [OTHER_MODEL])
    assert list(pids(engines)) == ["new"] and not is_running(first)
    back = engines.finished(host, host.call("engine_swap", {"name": "old"}))
    assert back["state"] == "done" and list(pids(engines)) == ["old"]
    assert engines.finished(host, host.call("engine_unload", {"name": "old"}))["state"] == "done"
    assert pids(engines) == {}


def test_what_it_printed_can_be_read(engines: EngineBox) -> None:
    host = engines.host()
    engines.load("old", host)
    lines = host.call("engine_logs", {"name": "old", "lines": 50})["lines"]
    assert any("model" in line for line in lines)


@pytest.mark.parametrize(
    ("fault", "cause"), [("missing file", "weights_missing"), ("absurd context", "context_memory")]
)
def test_a_real_load_that_fails_is_rolled_back_and_diagnosed(engines: EngineBox, fault: str, cause: str) -> None:
    port = engines.ports["new"]
    broken = {
        "missing file": {"command": real_llamacpp.command(port, "/no/such/model.gguf", alias=OTHER_MODEL)},
        "absurd context": {
            "command": real_llamacpp.command(port, OTHER_MODEL, context=2_000_000_000),
            "environment": ["ADDRESS_SPACE_BYTES=4000000000"],
        },
    }
    engines.extra["new"] |= broken[fault]
    engines.configure()
    host = engines.host()
    engines.load("old", host)
    failed = engines.finished(host, host.call("engine_swap", {"name": "new"}))
    assert (failed["code"], failed["rolled_back"], failed["diagnosis"]["id"]) == ("ended", True, cause)
    assert failed["diagnosis"]["evidence"] and failed["diagnosis"]["advice"]
    assert list(pids(engines)) == ["old"] and engines.states(host)["old"] == "ready"


def test_a_real_load_into_a_taken_port_is_refused_with_its_holder(engines: EngineBox) -> None:
    host = engines.host()
    engines.load("old", host)
    with socket.create_server(("127.0.0.1", engines.ports["new"])):
        refused = host.call("engine_swap", {"name": "new"})
    assert refused["code"] == "port_in_use" and f"process {os.getpid()}" in refused["message"]
    assert list(pids(engines)) == ["old"]
