"""Engines as they tell of themselves: one recording each, and a real llama.cpp."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from box import Box, a_box
from real_llamacpp import CONTEXT, MODEL, SLOTS, LlamaCpp, running
from recorded_engine import FOLDER, RecordedEngine, recording

from sparkgate.engine_state import Status, as_json, gauges, status_of
from sparkgate.engines import ENGINES
from sparkgate.identify import MAX_REQUESTS, Asked, identify
from sparkgate.policy.local import LocalDoor, free_port
from sparkgate.settings import EngineSettings

LOADS_OR_COSTS = ("/health/backlog", "/models/sse", "/slots", "/upstream")
"""Routes that load a model, cost money or never end, with any engine."""


def state(engine: RecordedEngine | LlamaCpp, named: str = "", *, prove: bool = False) -> Status:
    entry = EngineSettings(url=engine.url, engine=named)
    with LocalDoor([engine.url]) as door:
        return status_of("main", entry, door, prove=prove)


def test_every_engine_has_one_file_and_one_recording() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == set(ENGINES)
    assert {recording(name)["source"] for name in ENGINES} == {"recorded", "documented"}


@pytest.mark.parametrize("name", ENGINES)
def test_every_engine_is_recognised_in_few_requests_without_side_effects(name: str) -> None:
    recorded = recording(name)
    with RecordedEngine(recorded["answers"]) as engine, LocalDoor([engine.url]) as door:
        found = identify(Asked(lambda path: door.get(engine.url + path)))
    if not recorded["expect"].get("named"):
        assert found.engine is not None and found.engine.name == name
    assert len(engine.asked) <= MAX_REQUESTS
    assert not any(path.startswith(("POST", *LOADS_OR_COSTS)) or "?" in path for path in engine.asked)
    assert "/health" not in engine.asked or name != "litellm"


@pytest.mark.parametrize("name", ENGINES)
def test_the_state_of_every_engine_is_read_as_recorded(name: str) -> None:
    recorded = recording(name)
    expect = recorded["expect"]
    with RecordedEngine(recorded["answers"]) as engine:
        found = state(engine, named=name if expect.get("named") else "")
    told = as_json(found)
    assert (told["engine"], told["state"]) == (name, expect["state"])
    assert [[model.id, model.context] for model in found.models] == expect["models"]
    assert expect.get("version") in (None, found.version) and found.front is expect.get("front", False)
    assert (expect.get("load") or {}).items() <= dict(found.load or {}).items()
    assert all(any(words in warning for warning in found.warnings) for words in expect.get("warnings", ()))
    assert not set(expect.get("never", ())) & set(engine.asked)
    assert expect.get("processor") in (None, found.processor)


def test_a_model_that_is_listed_and_not_loaded_is_told_apart() -> None:
    with RecordedEngine(recording("llamacpp-router")["answers"]) as engine:
        found = as_json(state(engine))
    assert [(model["id"], model["loaded"]) for model in found["models"]] == [("gemma", False), ("smollm2", True)]


def test_numbers_that_are_not_told_are_left_out_and_not_zero() -> None:
    answers = recording("vllm")["answers"] | {"/metrics": [404, "text/plain", ""]}
    with RecordedEngine(answers) as engine:
        told = as_json(state(engine))
    assert "load" not in told and told["processor"] == "unknown"


def test_an_engine_that_is_down_is_down() -> None:
    entry = EngineSettings(url=f"http://127.0.0.1:{free_port()}", engine="vllm")
    with LocalDoor([entry.url]) as door:
        found = status_of("main", entry, door)
    assert found.state == "down" and "cannot be reached" in found.warnings[0]


def test_an_engine_that_wants_a_key_is_not_called_down() -> None:
    answers = recording("vllm")["answers"] | {"/health": [401, "application/json", {"error": "Unauthorized"}]}
    with RecordedEngine(answers) as engine:
        found = state(engine)
    assert found.state == "unknown" and any("wants a key" in warning for warning in found.warnings)


def test_another_engine_on_the_port_than_the_catalogue_says_is_told() -> None:
    with RecordedEngine(recording("vllm")["answers"]) as engine:
        found = state(engine, named="sglang")
    assert any("SGLang, but vLLM answers" in warning for warning in found.warnings)


def test_a_web_page_for_every_path_is_no_engine() -> None:
    with RecordedEngine({"*": [200, "text/html", "<html>app</html>"]}) as engine:
        assert state(engine).state == "unknown"


def test_an_engine_that_says_ready_and_generates_nothing_is_wedged() -> None:
    with RecordedEngine(recording("vllm")["answers"] | {"/v1/completions": [500, "text/plain", "dead"]}) as engine:
        found = state(engine, prove=True)
    assert (found.state, found.proven) == ("wedged", False)
    assert "POST /v1/completions" in engine.asked


@pytest.mark.parametrize("name", ["litellm", "llamacpp-router", "mlx", "openai", "exo"])
def test_nothing_is_generated_where_that_could_load_a_model_or_cost_money(name: str) -> None:
    answers = recording(name)["answers"]
    if name == "llamacpp-router":
        answers["/models"][2]["data"].pop()
    with RecordedEngine(answers) as engine:
        assert state(engine, named=name, prove=True).proven is None
    assert not any(path.startswith("POST") for path in engine.asked)


def test_metrics_of_several_series_are_added_and_odd_lines_left_out() -> None:
    text = 'a{x="1"} 1\na{x="2"} 2.5e0\n# a 9\na\na NaN\nb_total 4 1700000000\n'
    assert gauges(text, {"ours": "a", "other": "b_total", "absent": "c"}) == {"ours": 3.5, "other": 4.0}


# -- a real one


@pytest.fixture(scope="module")
def llamacpp() -> Iterator[LlamaCpp]:
    with running() as live:
        yield live


def test_a_real_llama_cpp_is_recognised_read_and_generates(llamacpp: LlamaCpp) -> None:
    found = state(llamacpp, prove=True)
    assert (found.engine, found.state, found.proven) == ("llamacpp", "ready", True)
    assert [(model.id, model.context) for model in found.models] == [(MODEL, CONTEXT // SLOTS)]
    assert found.load is not None and found.load["running"] == 0


def test_the_tool_tells_the_state_of_the_catalogue_under_the_guard(llamacpp: LlamaCpp) -> None:
    with a_box() as box:
        box.configure(
            f'[engines.main]\nurl = "{llamacpp.url}"\n[engines.old]\nurl = "http://127.0.0.1:{free_port()}"\n'
        )
        host = box.host(sys.executable, "-I", "-m", "sparkgate.stdio", "engine")
        assert host.initialize()["serverInfo"]["name"] == "sparkengine"
        answer = host.call("engine_status", {})
        assert [(one["name"], one["state"]) for one in answer["engines"]] == [("main", "ready"), ("old", "down")]
        one = host.call("engine_status", {"name": "main"})["engines"][0]
        assert one["proven"] is True
        assert host.call("engine_status", {"name": "x"})["code"] == "unknown_engine"


def test_the_command_tells_the_same(llamacpp: LlamaCpp, box: Box) -> None:
    box.configure(f'[engines.main]\nurl = "{llamacpp.url}/v1"\n')
    run = box.command("engine", "status", "--json")
    told: dict[str, Any] = json.loads(run.stdout)["engines"][0]
    assert run.returncode == 0 and (told["name"], told["state"], told["warnings"]) == ("main", "ready", [])
    assert "llama.cpp" in box.command("engine", "status", "main").stdout
    assert box.command("engine", "status", "nobody").returncode == 1


def test_without_a_catalogue_the_way_to_one_is_told(box: Box) -> None:
    host = box.host(sys.executable, "-I", "-m", "sparkgate.stdio", "engine")
    host.initialize()
    assert "[engines.NAME]" in host.call("engine_status", {})["message"]
    assert "add [engines.NAME]" in box.command("engine", "status").stdout
    assert {one["engine"] for one in json.loads(box.command("engine", "kinds", "--json").stdout)} == set(ENGINES)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[engines.main]\nengine = "vllm"\n', "engines.main needs a url"),
        ('[engines."bad name"]\nurl = "http://h"\n', "letters, digits"),
        ('[engines.main]\nurl = "http://h"\nimage = "x"\n', "config.toml:3: engines.main.image is not a setting"),
        ("engines = 5\n", "engines are tables"),
    ],
)
def test_a_mistake_in_the_catalogue_is_named(box: Box, text: str, words: str) -> None:
    box.configure(text)
    run = box.command("engine", "status")
    assert run.returncode == 1 and words in run.stderr
