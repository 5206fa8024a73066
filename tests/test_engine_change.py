"""Load, swap and unload as jobs of the gate: the whole way, its bad ends, and what survives kill -9."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from box import is_running, wait_until_ended
from engine_box import EngineBox, an_engine_box, until
from recorded_engine import RecordedEngine
from resident_engine import Knobs, ResidentEngine

from sparkgate.change.jobs import Jobs
from sparkgate.change.lock import MachineLock
from sparkgate.change.phases import PHASES
from sparkgate.change.protect import HOST_FILES
from sparkgate.policy.local import free_port

pytestmark = pytest.mark.changing


@pytest.fixture
def engines() -> Iterator[EngineBox]:
    with an_engine_box() as made:
        yield made


def test_a_swap_stops_the_old_engine_first_and_ends_with_a_proof_of_the_new_one(engines: EngineBox) -> None:
    host = engines.host()
    assert engines.load("old", host)["state"] == "done"
    done = engines.finished(host, host.call("engine_swap", {"name": "new"}))
    assert (done["ok"], done["state"], done["models"]) == (True, "done", ["new"])
    assert engines.up() == ["new"] and engines.never_two()
    assert engines.states(host) == {"old": "down", "new": "ready"}
    assert engines.actions() == [("start", "old", "done"), ("stop", "old", "done"), ("start", "new", "done")]


def test_every_action_is_logged_with_who_asked(engines: EngineBox) -> None:
    host = engines.host()
    engines.load("old", host)
    row = engines.box.rows()[-2]
    assert (row["tool"], row["host"], row["verdict"], row["sent"]) == ("engine_load", "testhost", "allow", "")
    assert row["fields"]["runtime"] == "process" and row["fields"]["job"] == "1"
    assert engines.logged() == [("start", "old", "done"), ("end", "old", "done")]
    listed = engines.box.command("audit", "list").stdout
    assert "start old" in listed and "end old" in listed


def test_an_unload_gives_port_and_process_back_and_can_be_said_twice(engines: EngineBox) -> None:
    host = engines.host()
    engines.load("old", host)
    assert engines.finished(host, host.call("engine_unload", {"name": "old"}))["state"] == "done"
    assert engines.up() == []
    again = host.call("engine_unload", {"name": "old"})
    assert (again["ok"], again["state"]) == (True, "done") and "job" not in again
    assert engines.states(host)["old"] == "down"


def test_a_repeated_call_joins_the_job_that_runs(engines: EngineBox) -> None:
    engines.habit("hold-ready")
    first, second = engines.host(), engines.host()
    begun = first.call("engine_load", {"name": "old"})
    joined = second.call("engine_load", {"name": "old"})
    assert joined["job"] == begun["job"] and joined["joined"] is True
    busy = second.call("engine_load", {"name": "new"})
    assert busy["code"] == "busy" and busy["job"]["job"] == begun["job"] and busy["job"]["engine"] == "old"
    engines.drop("hold-ready")
    assert engines.finished(first, begun)["state"] == "done"
    assert first.call("engine_load", {"name": "old"})["state"] == "done"
    assert [action for action, *_ in engines.actions()] == ["start"] and engines.never_two()


def test_load_does_not_put_a_second_model_beside_the_first(engines: EngineBox) -> None:
    host = engines.host()
    engines.load("old", host)
    refused = host.call("engine_load", {"name": "new"})
    assert (refused["ok"], refused["code"]) == (False, "occupied") and "engine_swap" in refused["message"]
    assert engines.up() == ["old"] and engines.actions()[-1] == ("load", "new", "withheld")


def test_an_engine_that_may_run_beside_another_is_loaded_beside_it(engines: EngineBox) -> None:
    engines.extra["new"] = {"beside": True}
    engines.configure()
    host = engines.host()
    engines.load("old", host)
    assert engines.load("new", host)["state"] == "done"
    assert engines.up() == ["old", "new"]


@pytest.mark.parametrize("habit", ["die-new", "hold-generate-new"])
def test_a_swap_that_fails_brings_the_old_engine_back_and_says_why(engines: EngineBox, habit: str) -> None:
    engines.extra["new"] = {"patience_s": 3.0 if habit == "die-new" else 60.0}
    engines.configure()
    host = engines.host()
    engines.load("old", host)
    engines.habit(habit, "ggml_backend_cuda_buffer_type_alloc_buffer: cudaMalloc failed: out of memory")
    answer = host.call("engine_swap", {"name": "new"})
    if habit == "hold-generate-new":
        engines.until_phase("right")
        engines.kill("new")
    failed = engines.finished(host, answer)
    assert (failed["ok"], failed["state"], failed["rolled_back"]) == (False, "failed", True)
    assert "old is back" in failed["message"] and engines.up() == ["old"] and engines.never_two()
    assert engines.states(host)["old"] == "ready"
    if habit == "die-new":
        assert failed["code"] == "ended" and "cudaMalloc failed" in failed["diagnosis"]["evidence"]
        assert engines.states(host)["new"] in ("failed", "down")


def test_when_going_back_fails_as_well_both_errors_are_told(engines: EngineBox) -> None:
    host = engines.host()
    engines.load("old", host)
    engines.habit("die", "RuntimeError: the disk is gone")
    failed = engines.finished(host, host.call("engine_swap", {"name": "new"}))
    assert failed["code"] == "rollback_failed" and failed["rolled_back"] is False
    assert "new ended" in failed["message"] and "old ended" in failed["message"]
    assert engines.up() == []


def test_an_engine_that_does_not_end_is_killed_and_its_orphans_with_it(engines: EngineBox) -> None:
    engines.extra["old"] = {"stop_grace_s": 0.2}
    engines.configure()
    engines.habit("ignore-term")
    engines.habit("orphan")
    host = engines.host()
    engines.load("old", host)
    done = engines.finished(host, host.call("engine_unload", {"name": "old"}))
    assert done["state"] == "done" and engines.up() == []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # another process that has just ended
            assert str(engines.folder / "orphan").encode() not in path.read_bytes()


def test_what_a_killed_engine_has_left_is_failed_and_ended_by_the_next_load(engines: EngineBox) -> None:
    engines.habit("orphan")
    host = engines.host()
    engines.load("old", host)
    pid = engines.pid("old")
    engines.kill("old")
    until(lambda: engines.pid("old") is None, "the main process has ended")
    assert engines.states(host)["old"] == "failed"
    assert engines.load("old", host)["state"] == "done" and engines.pid("old") != pid


def test_nothing_is_started_before_the_port_is_free(engines: EngineBox) -> None:
    engines.control["release_s"] = 1.0
    engines.configure()
    engines.habit("keep-port-old")
    host = engines.host()
    engines.load("old", host)
    failed = engines.finished(host, host.call("engine_swap", {"name": "new"}))
    assert "port" in failed["message"] and failed["state"] == "failed"
    assert engines.actions()[2:] == []
    engines.drop("keep-port-old")
    assert engines.never_two()


def test_a_port_that_somebody_else_listens_on_is_named_before_anything_is_stopped(engines: EngineBox) -> None:
    host = engines.host()
    engines.load("old", host)
    with socket.create_server(("127.0.0.1", engines.ports["new"])):
        refused = host.call("engine_swap", {"name": "new"})
    assert refused["code"] == "port_in_use" and f"process {os.getpid()}" in refused["message"]
    assert engines.up() == ["old"] and engines.actions()[-1] == ("swap", "new", "withheld")


def test_two_engines_may_share_a_port_as_only_one_is_up(engines: EngineBox) -> None:
    engines.ports["new"] = engines.ports["old"]
    engines.configure()
    host = engines.host()
    engines.load("old", host)
    assert engines.finished(host, host.call("engine_swap", {"name": "new"}))["state"] == "done"
    assert engines.up() == ["new"]


def test_an_entry_that_watches_the_url_of_an_engine_is_no_second_engine(engines: EngineBox) -> None:
    engines.more = f'[engines.view]\nurl = "http://127.0.0.1:{engines.ports["old"]}"\n'
    engines.configure()
    host = engines.host()
    engines.load("old", host)
    assert engines.finished(host, host.call("engine_swap", {"name": "new"}))["state"] == "done"


def test_nothing_is_started_before_the_memory_is_back(engines: EngineBox) -> None:
    engines.give_it_a_gpu(total_mib=60_000, held_mib=40_000)
    engines.extra["new"] = {"memory_gib": 30.0}
    engines.configure()
    host = engines.host()
    engines.load("old", host)
    one = host.call("engine_status", {"name": "old"})["engines"][0]
    assert one["memory"] == {"held_gib": 39.06, "source": "nvidia-smi compute-apps"}
    engines.habit("keep-memory")
    begun = host.call("engine_swap", {"name": "new"})
    engines.until_phase("release")
    until(lambda: "memory" in engines.job().message, "the wait for memory is told")
    assert engines.up() == []
    engines.drop("keep-memory")
    assert engines.finished(host, begun)["state"] == "done" and engines.up() == ["new"]


def test_memory_that_does_not_come_back_ends_the_swap_before_a_start(engines: EngineBox) -> None:
    engines.give_it_a_gpu(total_mib=60_000, held_mib=40_000)
    engines.control["release_s"] = 1.0
    engines.extra["new"] = {"memory_gib": 30.0}
    engines.configure()
    host = engines.host()
    engines.load("old", host)
    engines.habit("keep-memory")
    failed = engines.finished(host, host.call("engine_swap", {"name": "new"}))
    assert (failed["code"], failed["rolled_back"]) == ("not_released", True) and "memory" in failed["message"]
    assert [engine for action, engine, _ in engines.actions() if action == "start"] == ["old", "old"]


@pytest.mark.parametrize(("limits", "code"), [({"stall_s": 5.0}, "stalled"), ({"patience_s": 1.5}, "too_slow")])
def test_an_engine_that_does_not_become_ready_is_given_up(
    engines: EngineBox, limits: dict[str, float], code: str
) -> None:
    engines.control |= {name: limit for name, limit in limits.items() if name == "stall_s"}
    engines.extra["new"] = {name: limit for name, limit in limits.items() if name == "patience_s"}
    engines.configure()
    host = engines.host()
    engines.load("old", host)
    engines.habit("hold-ready-new")
    failed = engines.finished(host, host.call("engine_swap", {"name": "new"}))
    assert (failed["code"], failed["rolled_back"]) == (code, True) and engines.up() == ["old"]


def test_the_status_tells_of_a_job_while_it_runs(engines: EngineBox) -> None:
    engines.habit("hold-ready")
    host = engines.host()
    begun = host.call("engine_load", {"name": "old"})
    engines.until_phase("ready")
    told = host.call("engine_status", {})
    assert (told["jobs"][0]["job"], told["jobs"][0]["phase"]) == (begun["job"], "ready")
    states = {one["name"]: one["state"] for one in told["engines"]}
    assert states["old"] in ("starting", "loading") and states["new"] == "down"
    engines.drop("hold-ready")
    assert engines.finished(host, begun)["state"] == "done"


def test_a_request_that_never_ends_does_not_keep_the_swap(engines: EngineBox) -> None:
    engines.control["drain_s"] = 0.5
    engines.configure()
    host = engines.host()
    engines.load("old", host)
    engines.habit("busy-old")
    done = engines.finished(host, host.call("engine_swap", {"name": "new"}))
    assert done["state"] == "done" and "old" in done["cut_off_requests"]


def test_a_job_is_cancelled_and_the_old_engine_brought_back(engines: EngineBox) -> None:
    host = engines.host()
    engines.load("old", host)
    engines.habit("hold-ready-new")
    begun = host.call("engine_swap", {"name": "new"})
    engines.until_phase("ready")
    host.call("engine_job", {"id": begun["job"], "cancel": True})
    ended = engines.finished(host, begun)
    assert (ended["state"], ended["rolled_back"]) == ("cancelled", True)
    assert engines.up() == ["old"] and engines.never_two()


def test_another_process_that_changes_engines_is_waited_for_and_named(engines: EngineBox) -> None:
    host = engines.host()
    lock = MachineLock(str(engines.control["lock"]))
    try:
        busy = host.call("engine_load", {"name": "old"})
    finally:
        lock.release()
    assert busy["code"] == "busy" and f"process {os.getpid()}" in busy["message"]
    assert engines.load("old", host)["state"] == "done"


def test_what_is_loaded_must_be_the_model_of_the_catalogue(engines: EngineBox) -> None:
    engines.extra["new"] = {"model": "another"}
    engines.configure()
    host = engines.host()
    engines.load("old", host)
    failed = engines.finished(host, host.call("engine_swap", {"name": "new"}))
    assert failed["code"] == "wrong_model" and "not another" in failed["message"] and engines.up() == ["old"]


def test_a_context_that_is_too_small_is_no_success(engines: EngineBox) -> None:
    engines.extra["new"] = {"context": 65_536}
    engines.configure()
    host = engines.host()
    engines.load("old", host)
    failed = engines.finished(host, host.call("engine_swap", {"name": "new"}))
    assert failed["code"] == "context_small" and "4096" in failed["message"] and engines.up() == ["old"]


def test_what_does_not_fit_is_refused_before_anything_is_stopped(engines: EngineBox) -> None:
    engines.extra["new"] = {"memory_gib": 100_000.0}
    engines.configure()
    host = engines.host()
    engines.load("old", host)
    refused = host.call("engine_swap", {"name": "new"})
    assert refused["code"] == "no_memory" and "100000.0 GiB" in refused["message"]
    assert engines.up() == ["old"]


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        ({"command": ["/no/such/program"]}, "no_program"),
        ({"weights": "/no/such/weights.gguf"}, "no_weights"),
        ({"runtime": "docker", "unit": "never-made"}, "owner_unknown"),
        ({"runtime": "daemon", "engine": "ollama"}, "daemon_down"),
    ],
)
def test_what_surely_cannot_be_started_stops_nothing(engines: EngineBox, entry: dict[str, Any], code: str) -> None:
    engines.box.environment["PATH"] = str(engines.box.root / "empty")
    engines.extra["new"] = entry
    engines.configure()
    host = engines.host()
    engines.load("old", host)
    refused = host.call("engine_swap", {"name": "new"})
    assert refused["code"] == code and engines.up() == ["old"]
    assert [action for action, *_ in engines.actions()] == ["start", "swap"]


def test_an_engine_that_computes_on_the_cpu_beside_a_gpu_is_no_success(engines: EngineBox) -> None:
    engines.give_it_a_gpu(total_mib=60_000, held_mib=10_000)
    host = engines.host()
    engines.load("old", host)
    assert host.call("engine_status", {"name": "old"})["engines"][0]["processor"] == "gpu"
    engines.habit("off-gpu")
    failed = engines.finished(host, host.call("engine_swap", {"name": "new"}))
    assert (failed["code"], failed["rolled_back"]) == ("on_cpu", True) and engines.up() == ["old"]
    engines.extra["new"] = {"allow_cpu": True}
    engines.configure()
    assert engines.finished(host, host.call("engine_swap", {"name": "new"}))["state"] == "done"


def test_a_sleeping_engine_is_not_waited_for(engines: EngineBox) -> None:
    host = engines.host()
    engines.load("old", host)
    engines.habit("asleep-new")
    failed = engines.finished(host, host.call("engine_swap", {"name": "new"}))
    assert (failed["code"], failed["rolled_back"]) == ("sleeping", True) and engines.up() == ["old"]


def test_an_engine_that_is_only_watched_is_neither_stopped_nor_started(engines: EngineBox) -> None:
    engines.extra["old"] = {"runtime": ""}
    engines.configure()
    host = engines.host()
    assert host.call("engine_load", {"name": "old"})["code"] == "watched_only"
    assert host.call("engine_load", {"name": "nobody"})["code"] == "unknown_engine"


def test_an_agent_chooses_by_name_and_passes_nothing_else(engines: EngineBox) -> None:
    host = engines.host()
    for more in ("image", "command", "url"):
        refused = host.call("engine_load", {"name": "old", more: "x"})
        assert refused["code"] == "unknown_argument"
    assert engines.up() == []


# -- an engine that an agent lives on


def test_a_protected_engine_is_stopped_only_with_a_plan_of_a_person(engines: EngineBox) -> None:
    engines.extra["old"] = {"protect": True}
    engines.ports["new"] = engines.ports["old"]
    engines.configure()
    host = engines.host()
    engines.load("old", host)
    for tool in ("engine_swap", "engine_unload"):
        refused = host.call(tool, {"name": "new" if tool == "engine_swap" else "old"})
        assert refused["code"] == "needs_confirmation" and "--confirm" in refused["message"]
    assert host.call("engine_swap", {"name": "new", "plan_id": "p-made-up"})["code"] == "plan_stale"
    plan = json.loads(engines.box.command("engine", "plan", "new", "--confirm", "--json").stdout)
    done = engines.finished(host, host.call("engine_swap", {"name": "new", "plan_id": plan["plan_id"]}))
    assert done["state"] == "done" and engines.up() == ["new"]
    assert host.call("engine_swap", {"name": "old", "plan_id": plan["plan_id"]})["code"] == "plan_stale"


def test_the_old_engine_comes_back_when_its_agent_cannot_reach_the_new_one(engines: EngineBox) -> None:
    engines.extra["old"] = {"protect": True}
    engines.control["confirm_minutes"] = 0.05
    engines.configure()
    host = engines.host()
    engines.load("old", host)
    plan = json.loads(engines.box.command("engine", "plan", "new", "--confirm", "--json").stdout)
    failed = engines.finished(host, host.call("engine_swap", {"name": "new", "plan_id": plan["plan_id"]}))
    assert (failed["code"], failed["rolled_back"]) == ("not_confirmed", True) and engines.up() == ["old"]


def test_a_person_can_keep_the_new_engine(engines: EngineBox) -> None:
    engines.extra["old"] = {"protect": True}
    engines.configure()
    host = engines.host()
    engines.load("old", host)
    plan = json.loads(engines.box.command("engine", "plan", "new", "--confirm", "--json").stdout)
    begun = host.call("engine_swap", {"name": "new", "plan_id": plan["plan_id"]})
    engines.until_phase("confirm")
    assert engines.box.command("engine", "confirm", str(begun["job"])).returncode == 0
    assert engines.finished(host, begun)["state"] == "done" and engines.up() == ["new"]
    rows = {row["fields"]["action"]: row for row in engines.box.rows()}
    assert (rows["plan"]["host"], rows["confirm"]["host"]) == ("sparkgate-cli", "sparkgate-cli")
    assert rows["confirm"]["fields"]["engine"] == "new" and rows["stop"]["fields"]["plan"] == plan["plan_id"]


def test_an_engine_that_a_known_host_is_configured_for_is_protected_unasked(engines: EngineBox) -> None:
    host = engines.host()
    engines.load("old", host)
    for program, file in HOST_FILES:
        config = engines.box.root / file
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(f"base_url: http://localhost:{engines.ports['old']}/v1\n")
        refused = host.call("engine_swap", {"name": "new"})
        assert refused["code"] == "needs_confirmation" and program in refused["message"]
        config.unlink()
    assert engines.actions()[-1] == ("swap", "new", "withheld")


@pytest.mark.parametrize("answer", ["accept", "decline"])
def test_a_host_that_can_ask_its_person_does(engines: EngineBox, answer: str) -> None:
    engines.extra["old"] = {"protect": True}
    engines.ports["new"] = engines.ports["old"]
    engines.configure()
    engines.load("old", engines.host())
    host = engines.box.host(sys.executable, "-I", "-m", "sparkgate.stdio", "engine")
    client = {"name": "asking", "version": "1"}
    host.ask(
        "initialize",
        {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": client},
    )
    host.send("notifications/initialized", notify=True)
    wanted = host.send("tools/call", {"name": "engine_swap", "arguments": {"name": "new"}})
    question = host.read()
    assert question["method"] == "elicitation/create" and "lives on old" in question["params"]["message"]
    reply = {"action": answer} | ({"content": {"confirm": True}} if answer == "accept" else {})
    host.send_bytes(json.dumps({"jsonrpc": "2.0", "id": question["id"], "result": reply}).encode() + b"\n")
    told = host.read()
    assert told["id"] == wanted
    begun = told["result"]["structuredContent"]
    if answer == "accept":
        assert engines.finished(host, begun)["state"] == "done" and engines.up() == ["new"]
    else:
        assert begun["code"] == "needs_confirmation" and engines.up() == ["old"]


def test_a_plan_warns_of_an_agent_that_will_not_find_the_new_engine(engines: EngineBox) -> None:
    engines.extra["old"] = {"protect": True}
    engines.configure()
    engines.load("old", engines.host())
    plan = json.loads(engines.box.command("engine", "plan", "new", "--json").stdout)
    assert any("new will not answer" in warning for warning in plan["warnings"])


def test_a_name_that_the_agent_asks_by_and_the_new_engine_does_not_have_brings_the_old_one_back(
    engines: EngineBox,
) -> None:
    engines.ports["new"] = engines.ports["old"]
    engines.control["confirm_minutes"] = 0.05
    engines.configure()
    engines.habit("strict-names")
    config = engines.box.root / ".hermes" / "config.yaml"
    config.parent.mkdir()
    config.write_text(f"model:\n  default: old\n  base_url: http://127.0.0.1:{engines.ports['old']}/v1\n")
    host = engines.host()
    engines.load("old", host)
    plan = json.loads(engines.box.command("engine", "plan", "new", "--confirm", "--json").stdout)
    failed = engines.finished(host, host.call("engine_swap", {"name": "new", "plan_id": plan["plan_id"]}))
    assert (failed["code"], failed["rolled_back"]) == ("not_confirmed", True) and engines.up() == ["old"]


def test_another_entry_with_the_same_command_does_not_stop_a_protected_engine(engines: EngineBox) -> None:
    engines.ports["new"] = engines.ports["old"]
    engines.extra["old"] = {"protect": True}
    engines.configure()
    engines.extra["new"] = {"command": engines.entry("old")["command"], "environment": ["A=1"]}
    engines.configure()
    host = engines.host()
    engines.load("old", host)
    assert host.call("engine_unload", {"name": "new"})["state"] == "done"
    assert engines.up() == ["old"]


def test_what_has_changed_since_a_plan_was_confirmed_is_not_done(engines: EngineBox) -> None:
    engines.extra["old"] = {"protect": True}
    engines.configure()
    host = engines.host()
    engines.load("old", host)
    plan = json.loads(engines.box.command("engine", "plan", "new", "--confirm", "--json").stdout)
    engines.habit("busy-old")
    begun = host.call("engine_swap", {"name": "new", "plan_id": plan["plan_id"]})
    engines.until_phase("drain")
    engines.kill("old")
    engines.drop("busy-old")
    ended = engines.finished(host, begun)
    assert (ended["code"], engines.up()) == ("plan_stale", []) and "nothing was changed" in ended["message"]


def test_a_watched_engine_that_wants_a_key_still_counts_as_one(engines: EngineBox) -> None:
    with RecordedEngine({"*": [401, "application/json", {"error": "Unauthorized"}]}) as keyed:
        engines.more = f'[engines.keyed]\nurl = "{keyed.url}"\n'
        engines.configure()
        refused = engines.host().call("engine_load", {"name": "old"})
    assert refused["code"] == "cannot_stop" and "keyed" in refused["message"] and engines.up() == []


def test_a_router_that_does_not_answer_in_time_counts_as_a_way_out(engines: EngineBox) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        router = f'url = "http://127.0.0.1:{port}"\nengine = "litellm"\ntimeout_s = 0.3\nbeside = true\n'
        engines.more = f"[engines.router]\n{router}"
        engines.configure()
        host = engines.host()
        engines.load("old", host)
        assert host.call("engine_swap", {"name": "new"})["code"] == "routes_unknown"
    assert engines.up() == ["old"]


def test_loading_one_model_of_a_daemon_does_not_throw_out_another_unasked(engines: EngineBox) -> None:
    """The other has no entry in the catalogue; a daemon would make room for the new one by itself."""
    with ResidentEngine("ollama", Knobs()) as daemon:
        daemon.hold("b")
        engines.more = (
            f'[engines.a]\nurl = "{daemon.url}"\nengine = "ollama"\nruntime = "daemon"\nmodel = "a"\n'
            "chat = false\npatience_s = 20\n"
        )
        engines.configure()
        host = engines.host()
        refused = host.call("engine_load", {"name": "a"})
        assert refused["code"] == "occupied" and "b" in refused["message"]
        done = engines.finished(host, host.call("engine_swap", {"name": "a"}))
        assert done["state"] == "done" and [copy.model for copy in daemon.copies] == ["a"]


# -- kill -9 of the gate


HELD = {
    "drain": "busy-old",
    "stop": "ignore-term-old",
    "release": "keep-port-old",
    "ready": "hold-ready-new",
    "right": "hold-generate-new",
    "back_ready": "hold-ready-old",
    "back_stop": "ignore-term-new",
    "back_release": "keep-port-new",
}
"""Phase of a swap → what keeps the job in it until the habit is dropped."""


def test_every_phase_is_one_in_which_a_gate_is_killed_or_is_over_at_once() -> None:
    at_once = {"recheck", "start", "back_start"}
    assert {*HELD, "idle", "confirm", *at_once} == set(PHASES)


@pytest.mark.parametrize("phase", HELD)
def test_a_gate_that_is_killed_in_any_phase_leaves_a_job_that_the_next_one_ends(engines: EngineBox, phase: str) -> None:
    engines.extra = {name: {"stop_grace_s": 5.0 if phase.endswith("stop") else 20.0} for name in ("old", "new")}
    engines.configure()
    if phase in ("stop", "release"):
        engines.habit(HELD[phase])
    host = engines.host()
    engines.load("old", host)
    back = phase.startswith("back")
    engines.habit(HELD[phase])
    if back:
        engines.habit("hold-ready-new")
    begun = host.call("engine_swap", {"name": "new"})
    if back:
        engines.until_phase("ready")
        host.call("engine_job", {"id": begun["job"], "cancel": True})
    engines.until_phase(phase)
    engines.kill_gate()
    assert engines.job().state == "running" and engines.job().orphaned
    engines.drop(HELD[phase])
    host = engines.host()
    ended = engines.finished(host, host.call("engine_job", {"id": begun["job"]}))
    assert (ended["state"], engines.up()) == (("cancelled", ["old"]) if back else ("done", ["new"]))
    assert engines.never_two()
    assert engines.states(host)[engines.up()[0]] == "ready"


def test_a_killed_gate_is_missed_at_once_also_by_a_host_that_says_nothing(engines: EngineBox) -> None:
    host = engines.host()
    engines.load("old", host)
    engines.habit("hold-ready-new")
    host.call("engine_swap", {"name": "new"})
    engines.until_phase("ready")
    engines.kill_gate()
    engines.drop("hold-ready-new")
    until(lambda: engines.job().state == "done", "the next gate has ended the job, and nobody asked for it")
    assert engines.up() == ["new"] and engines.never_two()


def test_a_job_whose_file_was_busy_for_long_goes_on(engines: EngineBox) -> None:
    host = engines.host()
    engines.habit("hold-ready")
    begun = host.call("engine_load", {"name": "old"})
    engines.until_phase("ready")
    with sqlite3.connect(engines.box.state / "jobs.db", isolation_level=None) as writer:
        writer.execute("BEGIN IMMEDIATE")
        engines.drop("hold-ready")
        until(lambda: engines.box.events("job_fault"), "the job could not be written")
        writer.execute("ROLLBACK")
    writer.close()
    assert engines.finished(host, host.call("engine_job", {"id": begun["job"]}))["state"] == "done"
    assert engines.up() == ["old"] and engines.never_two()


def test_a_gate_that_is_killed_when_a_job_was_given_up_does_not_take_it_up_again(engines: EngineBox) -> None:
    host = engines.host()
    engines.load("old", host)
    engines.habit("busy-old")
    begun = host.call("engine_unload", {"name": "old"})
    engines.until_phase("drain")
    with closing(sqlite3.connect(engines.box.state / "audit.db", isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        refused = host.call("engine_job", {"id": begun["job"], "cancel": True})
        assert refused["code"] == "log_unavailable" and "nothing was done" in refused["message"]
        with closing(Jobs(engines.box.state / "jobs.db")) as jobs:
            jobs.ask_to_cancel(begun["job"])
        until(lambda: "ending" in engines.job().result, "its end is decided, and its row has to wait")
        engines.kill_gate()
    engines.drop("busy-old")
    host = engines.host()
    ended = engines.finished(host, host.call("engine_job", {"id": begun["job"]}))
    assert (ended["state"], engines.up()) == ("cancelled", ["old"]) and "nothing was changed" in ended["message"]
    assert [action for action, _, _ in engines.logged()][-1] == "end"
    assert "stop" not in [action for action, _, _ in engines.logged()]


@pytest.mark.parametrize("phase", ["idle", "confirm"])
def test_a_gate_that_is_killed_while_it_waits_for_a_person_leaves_a_job_that_goes_on(
    engines: EngineBox, phase: str
) -> None:
    engines.extra["old"] = {"protect": True}
    engines.ports["new"] = engines.ports["old"]
    engines.configure()
    host = engines.host()
    engines.load("old", host)
    if phase == "confirm":
        engines.ports["new"] = free_port()
        engines.configure()
    idle = ("--after-idle", "3") if phase == "idle" else ()
    plan = json.loads(engines.box.command("engine", "plan", "new", "--confirm", "--json", *idle).stdout)
    begun = host.call("engine_swap", {"name": "new", "plan_id": plan["plan_id"]})
    engines.until_phase(phase)
    engines.kill_gate()
    host = engines.host()
    if phase == "confirm":
        assert engines.box.command("engine", "confirm", str(begun["job"])).returncode == 0
    assert engines.finished(host, host.call("engine_job", {"id": begun["job"]}))["state"] == "done"
    assert engines.up() == ["new"] and engines.never_two()


def test_a_start_that_was_not_written_down_before_the_kill_is_found_and_not_done_twice(engines: EngineBox) -> None:
    host = engines.host()
    engines.habit("hold-ready")
    begun = host.call("engine_load", {"name": "old"})
    engines.until_phase("ready")
    until(lambda: engines.pid("old"), "the engine's process")
    engines.kill_gate()
    record = engines.box.state / "engines" / "old.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"pid": 0, "birth": ""}))
    engines.drop("hold-ready")
    host = engines.host()
    assert engines.finished(host, host.call("engine_job", {"id": begun["job"]}))["state"] == "done"
    assert len((engines.folder / "started").read_text().splitlines()) == 1


def test_a_gate_that_is_told_to_stop_ends_its_job_first(engines: EngineBox) -> None:
    engines.habit("hold-ready")
    host = engines.host()
    host.call("engine_load", {"name": "old"})
    gate = engines.box.gate_pids()[0]
    assert engines.box.gate_status()["jobs"] == 1
    os.kill(gate, signal.SIGTERM)
    until(lambda: not engines.box.socket.exists(), "the retired gate's socket is gone")
    assert is_running(gate)
    engines.drop("hold-ready")
    wait_until_ended([gate])
    assert engines.job().state == "done" and engines.up() == ["old"]


# -- from a terminal


def test_the_commands_do_what_the_tools_do_and_tell_it(engines: EngineBox) -> None:
    command = engines.box.command
    loaded = command("engine", "load", "old")
    assert loaded.returncode == 0 and "old is ready" in loaded.stdout and "starting old" in loaded.stderr
    swapped = command("engine", "swap", "new", "--json")
    assert swapped.returncode == 0 and json.loads(swapped.stdout)["state"] == "done"
    plan = json.loads(command("engine", "plan", "old", "--json").stdout)
    assert plan["stops"] == ["new"] and plan["outage_s"] > 0 and plan["memory"]["ok"]
    engines.habit("die-old", "OSError: [Errno 28] No space left on device")
    failed = command("engine", "swap", "old")
    assert failed.returncode == 1 and "new is back" in failed.stderr and "No space left" in failed.stderr
    assert command("engine", "unload", "new").returncode == 0 and engines.up() == []
    told = json.loads(command("engine", "jobs", "--json").stdout)
    assert [job["kind"] for job in told] == ["unload", "swap", "swap", "load"]
    assert "starting new" in command("engine", "jobs", "2").stdout
    assert command("engine", "jobs", "99").returncode == 1


def test_a_person_at_the_terminal_confirms_with_yes(engines: EngineBox) -> None:
    engines.extra["old"] = {"protect": True}
    engines.ports["new"] = engines.ports["old"]
    engines.configure()
    assert engines.box.command("engine", "load", "old").returncode == 0
    assert "needs_confirmation" in engines.box.command("engine", "unload", "old").stderr
    assert engines.box.command("engine", "unload", "old", "--yes").returncode == 0
    assert engines.up() == []
