"""A real vLLM on the CPU under the gate: loaded, swapped with a real llama.cpp, failed in real ways, unloaded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import real_llamacpp
import real_vllm
from box import Host, is_running
from engine_box import EngineBox, an_engine_box, until

from sparkgate.engines import ENGINES

pytestmark = pytest.mark.vllm

PATIENCE_S = 300.0


@pytest.fixture(scope="module", autouse=True)
def installed(pytestconfig: pytest.Config) -> None:
    """vLLM is there before the first test, and what that takes is told although pytest captures output."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        real_vllm.model()
        real_llamacpp.ensure_installed()


@pytest.fixture
def engines() -> Iterator[EngineBox]:
    """`old` is a llama.cpp, `new` a vLLM."""
    with an_engine_box() as made:
        made.extra["old"] = {
            "command": real_llamacpp.command(made.ports["old"]),
            "model": real_llamacpp.MODEL,
        }
        made.extra["new"] = vllm(real_vllm.command(made.ports["new"]))
        made.configure()
        try:
            yield made
        finally:
            end_cores(started(made))


def started(engines: EngineBox) -> int:
    """The process that the gate has started last as `new`; 0 when there was none."""
    record = engines.box.state / "engines" / "new.json"
    return int(json.loads(record.read_text())["pid"]) if record.exists() else 0


def end_cores(leader: int) -> None:
    """End engine cores that outlive their API server: their title is written over the environment a box looks for."""
    for pid, name in session(leader).items():
        if name.startswith("VLLM::"):
            os.kill(pid, signal.SIGKILL)


def vllm(command: list[str]) -> dict[str, Any]:
    return {
        "engine": "vllm",
        "command": command,
        "environment": list(real_vllm.ENVIRONMENT),
        "model": real_vllm.MODEL,
        "context": real_vllm.CONTEXT,
        "weights": str(real_vllm.model()),
        "patience_s": PATIENCE_S,
    }


def session(leader: int) -> dict[int, str]:
    """The processes of the session that this one leads or led, with their names or titles; none of process 0."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*") if leader > 0 else ():
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if fields[3] == str(leader) and fields[0] != "Z":
                found[int(folder.name)] = (folder / "comm").read_text().strip()
        except OSError:
            continue
    return found


def pid_of(host: Host, name: str) -> int:
    found = host.call("engine_status", {"name": name})["engines"][0]
    return int(found["runtime"]["pid"])


def swap(engines: EngineBox, host: Host, name: str) -> dict[str, Any]:
    return engines.finished(host, host.call("engine_swap", {"name": name}))


def test_a_vllm_is_loaded_told_about_and_unloaded_without_a_trace(engines: EngineBox) -> None:
    host = engines.host()
    done = engines.load("new", host)
    assert (done["state"], done["models"]) == ("done", [real_vllm.MODEL])
    stages = {words for _, words in ENGINES["vllm"].stages}
    assert stages & {step.partition("new: ")[2] for step in done["steps"]}
    one = host.call("engine_status", {"name": "new"})["engines"][0]
    assert (one["state"], one["engine"], one["version"], one["proven"]) == ("ready", "vllm", "0.32.0", True)
    model = one["models"][0]
    assert (model["id"], model["context"]) == (real_vllm.MODEL, real_vllm.CONTEXT)
    assert model["root"] == real_vllm.model().name
    assert one["load"]["running"] == 0 and one["load"]["generated_tokens"] >= 2
    assert one["memory"]["held_gib"] > 0.5
    assert "VLLM::EngineCor" in session(one["runtime"]["pid"]).values()
    assert engines.finished(host, host.call("engine_unload", {"name": "new"}))["state"] == "done"
    assert session(one["runtime"]["pid"]) == {} and engines.states(host)["new"] == "down"


def test_a_llamacpp_gives_way_to_a_vllm_and_comes_back(engines: EngineBox) -> None:
    host = engines.host()
    engines.load("old", host)
    first = pid_of(host, "old")
    there = swap(engines, host, "new")
    assert (there["state"], there["models"]) == ("done", [real_vllm.MODEL]) and not is_running(first)
    assert engines.states(host) == {"old": "down", "new": "ready"}
    second = pid_of(host, "new")
    back = swap(engines, host, "old")
    assert (back["state"], back["models"]) == ("done", [real_llamacpp.MODEL])
    assert session(second) == {} and engines.states(host) == {"old": "ready", "new": "down"}


def test_the_cache_that_vllm_takes_on_the_cpu_is_in_the_plan(engines: EngineBox) -> None:
    host = engines.host()
    host.call("engine_status", {})
    plan = json.loads(engines.box.command("engine", "plan", "new", "--json").stdout)
    assert 1.0 < plan["memory"]["need_gib"] < 2.0 and plan["memory"]["ok"]
    engines.extra["new"]["environment"] = ["VLLM_CPU_KVCACHE_SPACE=4000"]
    engines.configure()
    refused = host.call("engine_load", {"name": "new"})
    assert refused["code"] == "no_memory" and "weights" in refused["message"]


@pytest.mark.parametrize(
    ("fault", "cause"), [("absurd context", "kv_len"), ("missing folder", "config_missing"), ("wrong flag", "parser")]
)
def test_a_vllm_that_does_not_start_is_diagnosed_and_the_old_engine_is_back(
    engines: EngineBox, fault: str, cause: str
) -> None:
    port = engines.ports["new"]
    command = {
        "absurd context": real_vllm.command(port, context=500_000),
        "missing folder": real_vllm.command(port, weights="/no/such/folder"),
        "wrong flag": real_vllm.command(port, "--no-such-flag", "1"),
    }
    engines.extra["new"]["command"] = command[fault]
    engines.configure()
    host = engines.host()
    engines.load("old", host)
    failed = swap(engines, host, "new")
    assert (failed["code"], failed["rolled_back"], failed["diagnosis"]["id"]) == ("ended", True, cause)
    assert failed["diagnosis"]["evidence"] and failed["diagnosis"]["advice"]
    assert engines.states(host)["old"] == "ready"


def test_what_is_left_of_a_killed_vllm_does_not_keep_the_next_load(engines: EngineBox) -> None:
    host = engines.host()
    engines.load("new", host)
    pid = pid_of(host, "new")
    os.kill(pid, signal.SIGKILL)
    until(lambda: not is_running(pid), "the API server has ended")
    assert "VLLM::EngineCor" in session(pid).values(), "what this test is about: the rest of it lives on"
    left = host.call("engine_status", {"name": "new"})["engines"][0]
    assert left["state"] == "failed" and left["memory"]["held_gib"] > 0.5
    assert engines.load("new", host)["state"] == "done"
    assert session(pid) == {} and engines.states(host)["new"] == "ready"


def test_a_vllm_that_a_person_started_is_known_by_its_command_and_ended(engines: EngineBox) -> None:
    environment = engines.box.environment | dict(word.split("=") for word in real_vllm.ENVIRONMENT)
    by_hand = subprocess.Popen(
        real_vllm.command(engines.ports["new"]),
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    host = engines.host()
    try:
        until(lambda: engines.states(host)["new"] == "ready", "it is ready")
        assert pid_of(host, "new") == by_hand.pid
        assert engines.finished(host, host.call("engine_unload", {"name": "new"}))["state"] == "done"
        by_hand.wait()
        assert session(by_hand.pid) == {}
    finally:
        by_hand.kill()
        by_hand.wait()
        end_cores(by_hand.pid)


def test_a_load_that_is_cancelled_leaves_nothing_of_vllm(engines: EngineBox) -> None:
    host = engines.host()
    begun = host.call("engine_load", {"name": "new"})
    engines.until_phase("ready")
    pid = pid_of(host, "new")
    until(lambda: len(session(pid)) > 1, "vLLM starts processes of its own")
    host.call("engine_job", {"id": begun["job"], "cancel": True})
    assert engines.finished(host, begun)["state"] == "cancelled"
    assert session(pid) == {} and engines.states(host)["new"] == "down"
