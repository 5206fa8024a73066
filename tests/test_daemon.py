"""Resident engines: models come and go by request, one copy at a time, and only the list of models is believed."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from engine_box import until
from recorded_engine import RecordedEngine
from resident_engine import NEVER, PROFILES, Knobs, ResidentEngine
from start_logs import START_LOGS

from sparkgate.engine_settings import EngineSettings
from sparkgate.engines import ENGINES
from sparkgate.machine.commands import runner
from sparkgate.policy.local import LocalDoor, free_port
from sparkgate.runtimes.daemon import POLL_S, DaemonRuntime
from sparkgate.runtimes.spec import Look, Place, RuntimeFault

LOAD: dict[str, tuple[str, str, Any]] = {
    "ollama": ("POST", "/api/generate", {"model": "a", "keep_alive": -1, "stream": False}),
    "lmstudio": ("POST", "/api/v1/models/load", {"model": "a"}),
    "docker-model-runner": ("POST", "/engines/v1/chat/completions", {"model": "a", "messages": []}),
    "llamacpp-router": ("POST", "/models/load", {"model": "a"}),
    "llama-swap": ("GET", "/upstream/a/v1/models", None),
    "exo": (
        "POST",
        "/place_instance",
        {"model_id": "a", "sharding": "Pipeline", "instance_meta": "MlxRing", "min_nodes": 1},
    ),
}
UNLOAD_FIRST: dict[str, tuple[str, str, Any]] = {
    "ollama": ("POST", "/api/generate", {"model": "b:latest", "keep_alive": 0, "stream": False}),
    "lmstudio": ("POST", "/api/v1/models/unload", {"instance_id": "b"}),
    "docker-model-runner": ("POST", "/engines/unload", {"all": False, "backend": "", "models": ["b"]}),
    "llamacpp-router": ("POST", "/models/unload", {"model": "b"}),
    "llama-swap": ("POST", "/api/models/unload/b", None),
    "exo": ("DELETE", "/instance/i-1", None),
}
"""How model b, the first in memory, is unloaded."""
LISTS_ITS_LOAD = ("docker-model-runner", "llamacpp-router", "llama-swap", "exo")
PATIENCE_S = 30.0


class Time:
    """A clock that only a pause moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def pause(self, seconds: float) -> None:
        self.now_s += seconds

    def clock(self) -> float:
        return self.now_s


@contextmanager
def runtime(url: str, engine: str, model: str = "a", **entry: Any) -> Iterator[DaemonRuntime]:
    settings = EngineSettings(engine=engine, url=url, runtime="daemon", model=model, **entry)
    time = Time()
    with LocalDoor([url], PATIENCE_S) as door, LocalDoor([url], PATIENCE_S) as patient:
        place = Place("main", settings, runner(), no_spawn, Path("/nowhere"), door, patient_door=patient)
        yield DaemonRuntime(place, time.pause, time.clock)


def no_spawn(*_: Any) -> Any:
    raise AssertionError("a resident engine starts no process")


@contextmanager
def daemon(profile: str, knobs: Knobs | None = None, **entry: Any) -> Iterator[tuple[ResidentEngine, DaemonRuntime]]:
    with (
        ResidentEngine(profile, knobs or Knobs()) as engine,
        runtime(engine.url, profile, **entry) as made,
    ):
        yield engine, made


def settled(made: DaemonRuntime) -> Look:
    """The first look after a load that is no longer on its way."""
    while (look := made.look()).state == "starting":
        pass
    return look


def fault(made: DaemonRuntime, grace_s: float | None = None) -> RuntimeFault:
    """What `start`, or `stop` with a grace, raises."""
    with pytest.raises(RuntimeFault) as caught:
        made.start() if grace_s is None else made.stop(grace_s)
    return caught.value


every_profile = pytest.mark.parametrize("profile", PROFILES)


# -- every resident engine


@every_profile
def test_a_model_is_loaded_by_the_documented_request_and_ready_only_when_it_is_listed(profile: str) -> None:
    with daemon(profile, Knobs(load_polls=3)) as (engine, made):
        assert made.look().state == "stopped"
        made.start()
        assert made.look().state == "starting"
        assert settled(made).state == "running"
        assert engine.actions == [LOAD[profile]]


@every_profile
def test_a_model_is_unloaded_by_the_documented_request_and_gone_only_when_no_longer_listed(profile: str) -> None:
    with daemon(profile, Knobs(leave_polls=3), model="b") as (engine, made):
        engine.hold("b")
        assert made.look().state == "running"
        made.stop(10)
        assert engine.copies == [] and made.look().state == "stopped"
        assert engine.actions == [UNLOAD_FIRST[profile]]


@every_profile
def test_the_other_model_is_gone_before_the_load_is_sent(profile: str) -> None:
    with daemon(profile, Knobs(leave_polls=3)) as (engine, made):
        engine.hold("b")
        made.start()
        assert settled(made).state == "running"
        assert engine.actions == [UNLOAD_FIRST[profile], LOAD[profile]]
        assert engine.held_at_load == [[]]


@every_profile
def test_a_repeated_load_does_not_load_twice(profile: str) -> None:
    with daemon(profile, Knobs(load_polls=3)) as (engine, made):
        callers = [threading.Thread(target=made.start) for _ in range(3)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        made.start()
        assert settled(made).state == "running"
        made.start()
        assert engine.actions == [LOAD[profile]] and len(engine.copies) == 1


@every_profile
def test_unloading_what_is_not_loaded_asks_for_nothing(profile: str) -> None:
    with daemon(profile) as (engine, made):
        engine.hold("b")
        made.stop(0)
        assert engine.actions == [] and len(engine.copies) == 1


@every_profile
def test_a_model_that_was_unloaded_can_be_loaded_again(profile: str) -> None:
    with daemon(profile) as (engine, made):
        for _ in range(2):
            made.start()
            assert settled(made).state == "running"
            made.stop(10)
            assert made.look().state == "stopped"
        assert len(engine.held_at_load) == 2


@every_profile
def test_a_model_that_stays_is_named_and_nothing_is_loaded_beside_it(profile: str) -> None:
    with daemon(profile, Knobs(deaf=True), stop_grace_s=5.0) as (engine, made):
        stays = engine.hold("b")
        told = fault(made)
        assert told.code == "not_released" and stays.id in str(told)
        assert engine.held_at_load == [] and engine.actions == [UNLOAD_FIRST[profile]]


@pytest.mark.parametrize("profile", LISTS_ITS_LOAD)
def test_another_model_that_is_loading_is_never_unloaded(profile: str) -> None:
    with daemon(profile) as (engine, made):
        engine.hold("b", "loading")
        told = fault(made)
        assert told.code == "busy" and "b" in str(told)
        assert engine.actions == []


@pytest.mark.parametrize("profile", LISTS_ITS_LOAD)
def test_a_load_that_somebody_else_began_is_joined_and_can_be_cancelled(profile: str) -> None:
    with daemon(profile, model="b") as (engine, made):
        engine.hold("b", "loading")
        assert made.look().state == "starting"
        made.start()
        assert engine.actions == []
        made.stop(10)
        assert engine.copies == [] and engine.actions == [UNLOAD_FIRST[profile]]


@every_profile
def test_a_load_that_is_refused_is_a_failure_with_its_words_and_may_be_tried_again(profile: str) -> None:
    refusal = (500, {"error": {"type": "model_load_failed", "message": "not enough\nresources \x1b[31mhere"}})
    with daemon(profile, Knobs(refuses=refusal)) as (engine, made):
        made.start()
        look = settled(made)
        assert (look.state, look.detail) == ("failed", "it answered 500 not enough resources [31mhere")
        engine.knobs.refuses = None
        made.start()
        assert settled(made).state == "running"


@every_profile
def test_a_daemon_that_is_down_holds_nothing_and_can_load_nothing(profile: str) -> None:
    with runtime(f"http://127.0.0.1:{free_port()}", profile) as made:
        look = made.look()
        assert look.state == "stopped" and "is the daemon running?" in look.detail
        made.stop(0)
        assert fault(made).code == "down"


@every_profile
def test_what_is_no_list_of_models_is_not_taken_for_an_empty_one(profile: str) -> None:
    answers = {"*": [200, "application/json", {"error": "Unexpected endpoint"}]}
    with RecordedEngine(answers) as engine, runtime(engine.url, profile) as made:
        assert made.look().state == "unknown"
        assert (fault(made).code, fault(made, 0).code) == ("no_answer", "no_answer")


@every_profile
def test_a_daemon_that_wants_a_key_says_so(profile: str) -> None:
    with RecordedEngine({"*": [401, "text/plain", ""]}) as engine, runtime(engine.url, profile) as made:
        assert made.look().state == "unknown"
        assert fault(made).code == "needs_key"


@every_profile
def test_a_plan_shows_what_would_be_sent(profile: str) -> None:
    with runtime("http://127.0.0.1:9", profile) as made:
        first, last = made.steps()
        method, path, body = LOAD[profile]
        assert first.startswith(UNLOAD_FIRST[profile][0]) and first.endswith("for every other model that is loaded")
        assert last == (f"{method} {path} {json.dumps(body)}" if body else f"{method} {path}")
        assert made.log(10) == []


@pytest.mark.parametrize(("engine", "model"), [("", "a"), ("vllm", "a"), ("mlx", "a"), ("nonsense", "a"), ("exo", "")])
def test_an_entry_that_names_no_resident_engine_or_no_model_is_not_configured(engine: str, model: str) -> None:
    with runtime("http://127.0.0.1:9", engine, model) as made:
        assert made.look().state == "unknown"
        assert "engines.main needs" in made.look().detail
        assert {fault(made).code, fault(made, 0).code} == {"not_configured"}


# -- what has been reported of them


def test_docker_that_unloads_none_has_not_unloaded() -> None:
    with daemon("docker-model-runner", Knobs(busy_asks=NEVER), model="b") as (engine, made):
        engine.hold("b")
        told = fault(made, 2 * POLL_S)
        assert told.code == "not_released" and "in use" in str(told)
        assert engine.asked[-1][:2] == ("GET", engine.lists) and len(engine.actions) == 3


def test_docker_is_asked_again_while_the_model_is_in_use() -> None:
    with daemon("docker-model-runner", Knobs(busy_asks=2), model="b") as (engine, made):
        engine.hold("b")
        made.stop(10)
        assert engine.actions == [UNLOAD_FIRST["docker-model-runner"]] * 3


def test_docker_is_asked_by_the_name_that_it_lists() -> None:
    with daemon("docker-model-runner", model="ai/x") as (engine, made):
        engine.hold("docker.io/ai/x:latest")
        made.start()
        assert engine.actions == []
        made.stop(10)
        assert engine.actions[0][2]["models"] == ["docker.io/ai/x:latest"]


def test_an_ollama_that_stays_stopping_is_asked_once_and_told_of() -> None:
    with daemon("ollama", Knobs(leave_polls=NEVER), model="b") as (engine, made):
        engine.hold("b")
        told = fault(made, 60)
        assert told.code == "not_released" and "b:latest" in str(told) and "restart the daemon" in str(told)
        assert engine.actions == [UNLOAD_FIRST["ollama"]]
        assert len(engine.asked) > 60 / POLL_S


@pytest.mark.parametrize(("named", "held"), [("b", "b"), ("b:latest", "b")])
def test_an_ollama_model_is_known_with_and_without_its_tag(named: str, held: str) -> None:
    with daemon("ollama", model=named) as (engine, made):
        engine.hold(held)
        assert made.look().state == "running"


def test_a_load_that_goes_on_when_its_unload_gives_up_is_told_of() -> None:
    with daemon("ollama", Knobs(load_polls=NEVER)) as (engine, made):
        made.start()
        assert made.look().state == "starting"
        until(lambda: engine.copies, "the load has arrived")
        assert fault(made, 2 * POLL_S).code == "busy"
        engine.copies[0].polls_left = 2
        made.stop(10_000)
        assert engine.copies == [] and made.look().state == "stopped"


def test_an_unload_that_lm_studio_accepts_on_a_path_it_does_not_know_has_not_been_done() -> None:
    """An older version lists its models and answers 200 to everything else."""
    listed = {"models": [{"key": "a", "loaded_instances": [{"id": "a", "config": {}}]}]}
    answers = {
        "/api/v1/models": [200, "application/json", listed],
        "*": [200, "application/json", {"error": "Unexpected endpoint or method. Returning 200 anyway"}],
    }
    with RecordedEngine(answers) as engine, runtime(engine.url, "lmstudio") as made:
        told = fault(made, 1)
        assert told.code == "not_released" and "Unexpected endpoint" in str(told)
        listed["models"] = [{"key": "a", "loaded_instances": []}]
        made.start()
        look = settled(made)
        assert look.state == "failed" and "Unexpected endpoint" in look.detail


@pytest.mark.parametrize("profile", ["ollama", "lmstudio", "docker-model-runner", "llama-swap"])
def test_an_engine_that_says_it_has_loaded_and_lists_nothing_has_failed(profile: str) -> None:
    with daemon(profile, Knobs(vanishes=True)) as (_, made):
        made.start()
        look = settled(made)
        assert look.state == "failed" and "does not list it" in look.detail


def test_of_copies_of_one_model_one_stays_on_load_and_none_on_unload() -> None:
    with daemon("lmstudio") as (engine, made):
        for _ in range(3):
            engine.hold("a")
        made.start()
        assert [copy.id for copy in engine.copies] == ["a"] and engine.held_at_load == []
        engine.hold("a")
        made.stop(10)
        assert engine.copies == []
        assert [body["instance_id"] for _, _, body in engine.actions] == ["a:2", "a:3", "a", "a:2"]


def test_every_competitor_leaves_however_it_was_loaded() -> None:
    with daemon("lmstudio") as (engine, made):
        engine.hold("b")
        engine.hold("c")
        made.start()
        assert settled(made).state == "running"
        assert [copy.model for copy in engine.copies] == ["a"] and engine.held_at_load == [[]]


def test_one_competitor_that_sticks_stops_the_load() -> None:
    with daemon("lmstudio", stop_grace_s=2.0) as (engine, made):
        engine.hold("b")
        engine.hold("c", "leaving")
        told = fault(made)
        assert told.code == "not_released" and "let go of c (" in str(told)
        assert engine.held_at_load == []


@pytest.mark.parametrize(("context", "loads"), [(0, 0), (4096, 0), (8192, 1)])
def test_a_model_with_too_little_context_is_loaded_anew(context: int, loads: int) -> None:
    with daemon("lmstudio", context=context) as (engine, made):
        engine.hold("a", context=4096)
        made.start()
        assert settled(made).state == "running"
        assert len(engine.held_at_load) == loads and engine.copies[0].context == max(context, 4096)


def test_ollama_is_told_the_context() -> None:
    with daemon("ollama", context=65_536) as (engine, made):
        made.start()
        assert settled(made).state == "running"
        assert engine.actions[0][2]["options"] == {"num_ctx": 65_536}


def test_a_router_that_marks_an_unloaded_model_as_failed_has_not_failed() -> None:
    with daemon("llamacpp-router", Knobs(leaves_mark=True)) as (engine, made):
        made.start()
        assert settled(made).state == "running"
        made.stop(10)
        assert engine.marks == {"a": 0}
        assert made.look() == Look("stopped", detail="a is not loaded")
        made.start()
        assert settled(made).state == "running"


def test_a_router_whose_model_dies_while_it_is_loaded_has_failed() -> None:
    with daemon("llamacpp-router", Knobs(load_polls=2, dies=True)) as (_, made):
        made.start()
        assert settled(made) == Look("failed", detail="its process ended with exit code 1")


def test_an_unload_of_what_the_router_no_longer_runs_is_done() -> None:
    """It says `model is not running`, as it left between the list and the request."""
    with daemon("llamacpp-router", model="b") as (engine, made):
        engine.hold("b", "leaving", polls=1)
        made.stop(0)
        assert engine.actions == [UNLOAD_FIRST["llamacpp-router"]] and made.look().state == "stopped"


def test_an_unloaded_model_is_loadable_and_not_unavailable() -> None:
    with daemon("llamacpp-router") as (engine, made):
        engine.hold("b", "asleep")
        assert made.look() == Look("stopped", detail="a is not loaded")
        made.start()
        assert settled(made).state == "running" and [copy.model for copy in engine.copies] == ["a"]


def test_a_sleeping_model_of_the_router_stays() -> None:
    with daemon("llamacpp-router") as (engine, made):
        engine.hold("a", "asleep")
        made.start()
        assert engine.actions == [] and "asleep" in made.look().detail


def test_a_model_that_llama_swap_is_stopping_is_waited_for_and_not_asked_again() -> None:
    with daemon("llama-swap") as (engine, made):
        engine.hold("b", "leaving", polls=4)
        made.start()
        assert settled(made).state == "running"
        assert engine.actions == [LOAD["llama-swap"]] and engine.held_at_load == [[]]


def test_a_name_with_a_slash_is_one_part_of_the_path() -> None:
    with daemon("llama-swap", model="org/a") as (engine, made):
        made.start()
        assert settled(made).state == "running"
        made.stop(10)
        assert [path for _, path, _ in engine.actions] == [
            "/upstream/org%2Fa/v1/models",
            "/api/models/unload/org%2Fa",
        ]


def test_an_exo_that_received_a_command_has_not_loaded_anything() -> None:
    with daemon("exo", Knobs(vanishes=True)) as (_, made):
        made.start()
        while "asked to load a, which is not listed yet" not in made.look().detail:
            pass
        assert made.look().state == "starting"


def test_an_exo_instance_without_its_runner_is_not_running_and_can_be_deleted() -> None:
    with daemon("exo") as (engine, made):
        engine.hold("a", "dead")
        engine.hold("b")
        assert made.look().state == "starting"
        made.stop(10)
        assert engine.actions == [("DELETE", "/instance/i-1", None)]


def test_runners_that_outlive_their_exo_instance_are_told_of() -> None:
    with daemon("exo", Knobs(runners_stay=True), stop_grace_s=5.0) as (engine, made):
        engine.hold("b")
        told = fault(made)
        assert told.code == "not_released" and "runner r-old" in str(told)
        assert engine.held_at_load == []


def test_an_exo_instance_that_failed_is_deleted_before_it_is_placed_anew() -> None:
    with daemon("exo", Knobs(dies=True)) as (engine, made):
        made.start()
        assert settled(made) == Look("failed", detail="out of memory")
        engine.knobs.dies = False
        made.start()
        assert settled(made).state == "running"
        assert [one[:2] for one in engine.actions] == [LOAD["exo"][:2], ("DELETE", "/instance/i-1"), LOAD["exo"][:2]]


def test_runners_are_found_in_the_newer_state_of_exo() -> None:
    shards = {"modelId": "a", "shards": [["node-1", "r-1", {}], ["node-2", "r-2", {}]]}
    state = {"instances": {"i-1": {"MlxRingInstance": {"shardAssignments": shards}}}, "runners": {}}
    for kinds, loaded in (({"r-1": "RunnerReady", "r-2": "RunnerRunning"}, True), ({"r-1": "RunnerReady"}, False)):
        runners: dict[str, Any] = {name: {kind: {}} for name, kind in kinds.items()}
        (found,) = ENGINES["exo"].read_models(state | {"runners": runners})
        assert (found.id, found.handle, found.loaded) == ("a", "i-1", loaded)


# -- what every engine tells while it starts


def test_every_engine_that_tells_its_stages_has_a_sample_of_them() -> None:
    assert {name for name, engine in ENGINES.items() if engine.stages} == set(START_LOGS)


@pytest.mark.parametrize("name", START_LOGS)
def test_stages_follow_each_other_in_a_good_start(name: str) -> None:
    lines, stages = START_LOGS[name].splitlines(), ENGINES[name].stages
    first = [next(n for n, text in enumerate(lines) if re.search(pattern, text)) for pattern, _ in stages]
    assert first == sorted(set(first)) and len({told for _, told in stages}) == len(stages)


@pytest.mark.parametrize("name", ENGINES)
def test_patience_is_from_minutes_to_hours(name: str) -> None:
    assert 60 <= ENGINES[name].patience_s <= 7200


def test_only_resident_engines_load_and_unload_by_request() -> None:
    assert {name for name, engine in ENGINES.items() if engine.load} == set(PROFILES)
    assert {name for name, engine in ENGINES.items() if engine.unload} == set(PROFILES)
