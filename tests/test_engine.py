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

from sparkgate.brief import brief_engines, brief_findings
from sparkgate.engine_settings import EngineSettings
from sparkgate.engine_state import Status, as_json, gauges, status_of
from sparkgate.engines import ENGINES
from sparkgate.identify import MAX_REQUESTS, Asked, identify
from sparkgate.policy.local import LocalDoor, free_port

LOADS_OR_COSTS = ("/health/backlog", "/models/sse", "/slots", "/upstream")
"""Routes that load a model, cost money or never end, with any engine."""


def state(engine: RecordedEngine | LlamaCpp, named: str = "", *, prove: bool = False) -> Status:
    entry = EngineSettings(url=engine.url, engine=named)
    with LocalDoor([engine.url]) as door:
        return status_of("main", entry, door, door if prove else None)


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
    assert [[model.id, model.context] for model in found.models or ()] == expect["models"]
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


KEY = [401, "application/json", {"error": "Unauthorized"}]


@pytest.mark.parametrize("named", ["", "vllm"])
def test_an_engine_that_wants_a_key_is_neither_down_nor_empty(named: str) -> None:
    answers = recording("vllm")["answers"] | {"/v1/models": KEY}
    with RecordedEngine(answers) as engine:
        found = state(engine, named)
    assert found.state in ("unknown", "ready") and found.models is None
    assert any("wants a key" in warning for warning in found.warnings)
    assert not any("no model" in warning for warning in found.warnings)


def test_a_llama_cpp_that_loads_is_loading() -> None:
    loading = [503, "application/json", {"error": {"message": "Loading model", "code": 503}}]
    for named in ("", "llamacpp"):
        with RecordedEngine({"*": loading}) as engine:
            assert state(engine, named).state == "loading"


@pytest.mark.parametrize(
    ("name", "named"), [("litellm", "vllm"), ("llamacpp-router", "llamacpp"), ("trtllm", "vllm"), ("atlas", "vllm")]
)
def test_what_answers_decides_what_is_asked_and_not_the_catalogue(name: str, named: str) -> None:
    recorded = recording(name)
    with RecordedEngine(recorded["answers"]) as engine:
        found = state(engine, named, prove=True)
    assert found.engine == name and any("old process" in warning for warning in found.warnings)
    assert not any(path.startswith("POST") for path in engine.asked)
    assert name != "litellm" or "/health" not in engine.asked
    assert name != "trtllm" or "/metrics" not in engine.asked


@pytest.mark.parametrize("name", ["trtllm", "openai", "litellm", "vllm"])
def test_a_description_that_many_servers_have_proves_nothing(name: str) -> None:
    answers = recording(name)["answers"] | {"/openapi.json": [200, "application/json", {"info": {"title": "FastAPI"}}]}
    with RecordedEngine(answers) as engine:
        assert state(engine).engine == name


NOT_YET = [503, "application/json", {"error": {"message": "Loading model"}}]
BEFORE_READY: dict[str, dict[str, list[Any]]] = {
    "sglang": {"/health": [503, "text/plain", ""]},
    "llamacpp": {"*": NOT_YET, "/v1/models": NOT_YET, "/props": NOT_YET, "/health": NOT_YET, "/metrics": NOT_YET},
    "llamacpp-router": {"/models": [200, "application/json", {"data": [{"id": "a", "status": {"value": "loading"}}]}]},
    "ollama": {"/api/ps": [200, "application/json", {"models": []}]},
    "atlas": {"/health": [503, "application/json", {"status": "loading"}]},
    "docker-model-runner": {"/engines/ps": [200, "application/json", [{"model_name": "a", "loading": True}]]},
    "lmstudio": {"/api/v1/models": [200, "application/json", {"models": [{"key": "a", "loaded_instances": []}]}]},
    "nim": {"/v1/health/ready": [503, "application/json", {"message": "not ready"}]},
    "llama-swap": {"/running": [200, "application/json", {"running": [{"model": "a", "state": "starting"}]}]},
    "trtllm": {"/health": [503, "text/plain", ""]},
}
"""What an engine answers while it loads, or has nothing loaded; the others refuse connections until they are ready."""


@pytest.mark.parametrize("name", BEFORE_READY)
def test_an_engine_that_is_up_and_has_no_model_yet_serves_none(name: str) -> None:
    with RecordedEngine(recording(name)["answers"] | BEFORE_READY[name]) as engine:
        found = state(engine, named=name, prove=True)
    serves = found.state == "ready" and any(model.loaded is not False for model in found.models or ())
    assert not serves and found.proven is None
    assert not any(path.startswith("POST") for path in engine.asked)


def test_an_engine_that_is_busy_is_not_taken_for_a_stuck_one() -> None:
    answers = recording("vllm")["answers"]
    with RecordedEngine(answers | {"/v1/completions": [200, "application/json", "x" * 2_000_000]}) as engine:
        found = state(engine, prove=True)
    assert found.state == "ready" and any("busy" in warning for warning in found.warnings)


def test_a_router_that_is_not_healthy_is_still_known_and_its_paid_route_not_asked() -> None:
    answers = recording("litellm")["answers"] | {"/health/readiness": [503, "application/json", {"status": "x"}]}
    with RecordedEngine(answers) as engine:
        found = state(engine, prove=True)
    assert (found.engine, found.state) == ("litellm", "loading")
    assert not any(path == "/health" or path.startswith("POST") for path in engine.asked)


def test_a_nim_is_not_taken_for_the_vllm_inside_it() -> None:
    answers = recording("nim")["answers"] | recording("vllm")["answers"]
    with RecordedEngine(answers | {"/v1/metadata": recording("nim")["answers"]["/v1/metadata"]}) as engine:
        found = state(engine)
    assert (found.engine, found.state) == ("nim", "loading")


SLEEPING = {
    "vllm": ("/metrics", [200, "text/plain", 'vllm:engine_sleep_state{engine="0",sleep_state="discard_all"} 1.0\n']),
    "llamacpp": ("/props", [200, "application/json", {"total_slots": 4, "is_sleeping": True, "build_info": "b1"}]),
}


@pytest.mark.parametrize("name", SLEEPING)
def test_a_sleeping_engine_is_told_and_not_woken(name: str) -> None:
    path, answer = SLEEPING[name]
    with RecordedEngine(recording(name)["answers"] | {path: answer}) as engine:
        assert state(engine, prove=True).state == "sleeping"
    assert not any(asked.startswith("POST") for asked in engine.asked)
    assert name != "llamacpp" or "/metrics" not in engine.asked


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ([500, "text/plain", "dead"], "wedged"),
        ([200, "application/json", {"choices": []}], "wedged"),
        ([400, "application/json", {"error": "no completions"}], "ready"),
        ([401, "application/json", {"error": "key"}], "ready"),
    ],
)
def test_only_an_engine_that_should_generate_and_does_not_is_wedged(answer: list[Any], expected: str) -> None:
    with RecordedEngine(recording("vllm")["answers"] | {"/v1/completions": answer}) as engine:
        found = state(engine, prove=True)
    assert found.state == expected and (found.proven is None) is (expected == "ready")


def test_a_route_that_fails_is_a_warning_and_the_rest_is_told() -> None:
    with RecordedEngine(recording("vllm")["answers"] | {"/metrics": [200, "text/plain", "x" * 2_000_000]}) as engine:
        found = state(engine)
    assert (found.state, found.load) == ("ready", None) and any("/metrics" in warning for warning in found.warnings)


def test_text_of_an_engine_is_short_clean_and_limited() -> None:
    listed = [{"id": f"m{n}\nIgnore\x1b[31m " + "x" * 900, "owned_by": "vllm", "root": {"k": 1}} for n in range(400)]
    answers = recording("vllm")["answers"] | {"/v1/models": [200, "application/json", {"data": listed}]}
    with RecordedEngine(answers) as engine:
        told = as_json(state(engine))
    assert len(told["models"]) == 50 and told["models_left_out"] == 350
    assert all(len(one["id"]) <= 200 and one["id"].isprintable() and "root" not in one for one in told["models"])


def test_a_web_page_for_every_path_is_no_engine() -> None:
    with RecordedEngine({"*": [200, "text/html", "<html>app</html>"]}) as engine:
        assert state(engine).state == "unknown"


def test_an_engine_that_says_ready_and_generates_nothing_is_wedged() -> None:
    with RecordedEngine(recording("vllm")["answers"] | {"/v1/completions": [500, "text/plain", "dead"]}) as engine:
        engine.answers["/metrics"] = [200, "text/plain", "vllm:num_requests_running 0\n"]
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
    text = 'a{x="1"} 1\na{x="2"} 2.5e0\n# a 9\na\na NaN\na 1.2.3\na 1e999\n'
    text += 'b_total 4 17000\nk{e="0"} 0.9\nk{e="1"} 0.5\n'
    names = {"ours": "a", "other": "b_total", "absent": "c", "kv_usage": "k"}
    assert gauges(text, names) == {"ours": 3.5, "other": 4.0, "kv_usage": 0.9}


# -- a real one


@pytest.fixture(scope="module")
def llamacpp() -> Iterator[LlamaCpp]:
    with running() as live:
        yield live


def test_a_real_llama_cpp_is_recognised_read_and_generates(llamacpp: LlamaCpp) -> None:
    found = state(llamacpp, prove=True)
    assert (found.engine, found.state, found.proven) == ("llamacpp", "ready", True)
    assert [(model.id, model.context) for model in found.models or ()] == [(MODEL, CONTEXT // SLOTS)]
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


def test_the_tools_say_what_they_change_and_their_schemas_stay_flat(box: Box) -> None:
    host = box.host(sys.executable, "-I", "-m", "sparkgate.stdio", "engine")
    host.initialize()
    listed = host.ask("tools/list", {})["result"]["tools"]
    hints = {tool["name"]: tool["annotations"] for tool in listed}
    assert {name for name, hint in hints.items() if hint["readOnlyHint"]} == {
        "engine_status",
        "engine_doctor",
        "engine_logs",
    }
    assert {name for name, hint in hints.items() if hint["destructiveHint"]} == {
        "engine_swap",
        "engine_unload",
        "engine_job",
    }
    assert {parameter for tool in listed for parameter in tool["inputSchema"]["properties"]} == {
        *("name", "plan_id", "id", "wait_s", "cancel", "lines")
    }
    assert len(json.dumps(listed)) < 5000


def test_an_answer_about_many_models_and_routes_stays_short_and_tells_what_was_left_out() -> None:
    models = [{"id": f"model-{n}", "context": 4096, "loaded": n == 7} for n in range(60)]
    routes = [
        {"name": f"r{n}", "via": ["127.0.0.1:1"], "off_box": n == 41, "fallbacks": [], "fallbacks_off_box": False}
        for n in range(60)
    ]
    found = [{"name": f"e{n}", "state": "ready", "models": models, "routes": routes, "warnings": []} for n in range(3)]
    shown = brief_engines(found, {})
    assert len(json.dumps(shown, indent=2)) <= 6000
    assert all(one["models"][0]["id"] == "model-7" and one["routes"][0]["name"] == "r41" for one in shown)
    assert all(len(one[kind]) + one[f"{kind}_left_out"] == 60 for one in shown for kind in ("models", "routes"))
    told = brief_findings([{"id": f"f{n}", "text": "x" * 300} for n in range(50)])
    assert len(json.dumps(told, indent=2)) <= 6000 and len(told["findings"]) + told["findings_left_out"] == 50


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
        ('[engines.main]\nurl = "http://h"\nengine = "vlm"\n', "did you mean 'vllm'"),
        ('[engines.main]\nurl = "http://h"\nruntime = "dokcer"\n', "did you mean 'docker'"),
        ('[engines.main]\nurl = "http://h"\nruntime = "process"\n', 'runtime = "process" needs command'),
        ('[engines.main]\nurl = "http://h"\nruntime = "daemon"\nmodel = "m"\n', 'runtime = "daemon" needs engine'),
        ('[engines.main]\nurl = "http://h"\ncommand = "llama-server -m x"\n', "must be a list of words"),
        ('[engines.main]\nurl = "http://h"\nenvironment = ["A"]\n', "must be NAME=VALUE"),
    ],
)
def test_a_mistake_in_the_catalogue_is_named(box: Box, text: str, words: str) -> None:
    box.configure(text)
    run = box.command("engine", "status")
    assert run.returncode == 1 and words in run.stderr
