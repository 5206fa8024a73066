"""A real `llama-server` under the gate: as a router whose models come and go by requests, and with one model."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import real_router
from box import is_running
from engine_box import NAMES, EngineBox, an_engine_box, until
from real_llamacpp import MODEL, OTHER_MODEL
from real_router import Router

pytestmark = pytest.mark.router

MODELS = dict(zip(NAMES, (MODEL, OTHER_MODEL), strict=True))
GHOST = "ghost"


@pytest.fixture(scope="module", autouse=True)
def built(pytestconfig: pytest.Config) -> None:
    """The program is there before the first test, and what that takes is told although pytest captures output."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        real_router.ensure_built()
        real_router.weights()


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return real_router.models_folder(tmp_path / "models")


@pytest.fixture
def router(models: Path) -> Iterator[Router]:
    with real_router.running(models) as made:
        yield made


@pytest.fixture
def engines(router: Router) -> Iterator[EngineBox]:
    """`old` and `new` are two models of one router, `ghost` one that it does not have."""
    with an_engine_box() as made:
        made.extra = {name: resident(router, model) for name, model in MODELS.items()}
        ghost = {"runtime": "daemon", "engine": "llamacpp-router", "url": router.url, "model": GHOST}
        made.more = f"[engines.{GHOST}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in ghost.items())
        made.configure()
        yield made


def resident(router: Router, model: str) -> dict[str, object]:
    return {"runtime": "daemon", "engine": "llamacpp-router", "url": router.url, "model": model, "command": []}


def told_by(router: Router) -> dict[str, str]:
    """Model → what the router itself says of it."""
    with httpx.Client(trust_env=False, timeout=20) as client:
        listed = client.get(f"{router.url}/models").json()["data"]
    return {item["id"]: item["status"]["value"] for item in listed}


def load_by_hand(router: Router, model: str) -> None:
    with httpx.Client(trust_env=False, timeout=20) as client:
        assert client.post(f"{router.url}/models/load", json={"model": model}).json() == {"success": True}
    until(lambda: told_by(router)[model] == "loaded", f"{model} is loaded")


def test_two_models_of_a_router_are_loaded_swapped_and_unloaded(engines: EngineBox, router: Router) -> None:
    host = engines.host()
    assert told_by(router) == {MODEL: "unloaded", OTHER_MODEL: "unloaded"}
    assert engines.load("old", host)["models"] == [MODEL]
    assert told_by(router) == {MODEL: "loaded", OTHER_MODEL: "unloaded"}
    swapped = engines.finished(host, host.call("engine_swap", {"name": "new"}))
    assert (swapped["state"], swapped["models"]) == ("done", [OTHER_MODEL])
    assert told_by(router) == {MODEL: "unloaded", OTHER_MODEL: "loaded"}
    done = [("start", "old", "done"), ("stop", "old", "done"), ("start", "new", "done"), ("stop", "new", "done")]
    assert engines.finished(host, host.call("engine_unload", {"name": "new"}))["state"] == "done"
    assert told_by(router) == {MODEL: "unloaded", OTHER_MODEL: "unloaded"}
    assert engines.actions() == done
    assert "job" not in host.call("engine_unload", {"name": "new"}) and router.process.poll() is None


def test_the_state_of_an_entry_is_that_of_its_model_and_asking_loads_nothing(
    engines: EngineBox, router: Router
) -> None:
    host = engines.host()
    assert engines.states(host) == {"old": "down", "new": "down", GHOST: "down"}
    engines.load("old", host)
    one = host.call("engine_status", {"name": "old"})["engines"][0]
    assert (one["state"], one["proven"], one["engine"]) == ("ready", True, "llamacpp-router")
    assert {model["id"]: model["loaded"] for model in one["models"]} == {MODEL: True, OTHER_MODEL: False}
    assert next(model["context"] for model in one["models"] if model["id"] == MODEL) == real_router.CONTEXT
    other = host.call("engine_status", {"name": "new"})["engines"][0]
    assert (other["state"], other["runtime"]["state"]) == ("down", "stopped") and "proven" not in other
    assert told_by(router) == {MODEL: "loaded", OTHER_MODEL: "unloaded"}


def test_a_model_loaded_by_hand_is_seen_and_not_loaded_again(engines: EngineBox, router: Router) -> None:
    load_by_hand(router, MODEL)
    host = engines.host()
    assert engines.load("old", host)["state"] == "done" and engines.actions() == []
    assert host.call("engine_load", {"name": "new"})["code"] == "occupied"
    assert engines.finished(host, host.call("engine_swap", {"name": "new"}))["state"] == "done"
    assert told_by(router) == {MODEL: "unloaded", OTHER_MODEL: "loaded"}


def test_a_model_the_router_does_not_have_takes_nobodys_place(engines: EngineBox, router: Router) -> None:
    host = engines.host()
    refused = engines.tried(GHOST, host)
    assert refused["code"] == "unknown_model" and MODEL in refused["message"] and "job" not in refused
    engines.load("old", host)
    assert host.call("engine_swap", {"name": GHOST})["code"] == "unknown_model"
    assert told_by(router) == {MODEL: "loaded", OTHER_MODEL: "unloaded"}


def test_a_model_outside_the_catalogue_stays_when_an_unknown_one_is_asked_for(
    engines: EngineBox, router: Router
) -> None:
    engines.extra["old"] = resident(router, "another")
    engines.configure()
    load_by_hand(router, MODEL)
    assert engines.tried(GHOST, engines.host())["code"] == "unknown_model"
    assert told_by(router) == {MODEL: "loaded", OTHER_MODEL: "unloaded"}


def test_a_file_that_is_no_model_fails_and_the_old_one_comes_back(
    engines: EngineBox, router: Router, models: Path
) -> None:
    host = engines.host()
    engines.load("old", host)
    (models / f"{OTHER_MODEL}.gguf").unlink()
    (models / f"{OTHER_MODEL}.gguf").write_text("version https://git-lfs.github.com/spec/v1\n")
    failed = engines.finished(host, host.call("engine_swap", {"name": "new"}))
    assert (failed["code"], failed["rolled_back"]) == ("ended", True)
    assert failed["diagnosis"]["id"] == "model_server" and "exit code 1" in failed["diagnosis"]["evidence"]
    assert told_by(router)[MODEL] == "loaded"
    assert engines.states(host) == {"old": "ready", "new": "down", GHOST: "down"}


def test_a_router_that_is_killed_during_a_load_is_told_as_down(
    engines: EngineBox, router: Router, models: Path
) -> None:
    (models / f"{MODEL}.gguf").unlink()
    os.mkfifo(models / f"{MODEL}.gguf")  # nobody writes into it, so that the load never ends
    host = engines.host()
    begun = host.call("engine_load", {"name": "old"})
    until(lambda: told_by(router)[MODEL] == "loading", "the load has begun")
    router.process.kill()
    router.process.wait()
    failed = engines.finished(host, begun)
    assert (failed["state"], failed["rolled_back"]) == ("failed", True)
    assert engines.states(host) == {"old": "down", "new": "down", GHOST: "down"}


def test_a_router_that_was_killed_holds_nothing_and_is_used_again_when_it_is_back(
    engines: EngineBox, router: Router, models: Path
) -> None:
    host = engines.host()
    engines.load("old", host)
    router.process.kill()
    router.process.wait()
    assert engines.states(host) == {"old": "down", "new": "down", GHOST: "down"}
    refused = engines.tried("new", host)
    assert refused["code"] == "daemon_down" and router.url in refused["message"]
    with real_router.running(models, int(router.url.rpartition(":")[2])):
        assert engines.load("new", host)["models"] == [OTHER_MODEL]
        assert engines.states(host)["new"] == "ready"


def test_a_server_of_one_model_is_loaded_swapped_and_unloaded() -> None:
    with an_engine_box() as engines:
        for name, model in MODELS.items():
            engines.extra[name] = {"command": real_router.single_command(engines.ports[name], model), "model": model}
        engines.configure()
        host = engines.host()
        assert engines.load("old", host)["models"] == [MODEL]
        one = host.call("engine_status", {"name": "old"})["engines"][0]
        assert (one["state"], one["proven"], one["memory"]["held_gib"] > 0.1) == ("ready", True, True)
        assert one["models"][0]["context"] == real_router.CONTEXT
        assert engines.finished(host, host.call("engine_swap", {"name": "new"}))["models"] == [OTHER_MODEL]
        assert not is_running(one["runtime"]["pid"])
        assert engines.finished(host, host.call("engine_unload", {"name": "new"}))["state"] == "done"
        assert engines.states(host) == {"old": "down", "new": "down"}
        assert any("model" in line for line in host.call("engine_logs", {"name": "old", "lines": 50})["lines"])
