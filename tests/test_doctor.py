"""The doctor: every trap with its evidence, and none where there is none."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from doctor_cases import BOX_CASES, ENGINE_CASES, SECRET, an, logged, owned
from real_llamacpp import running
from recorded_engine import RecordedEngine, recording

from sparkgate.doctor.chat import Chat, read_chat
from sparkgate.doctor.evidence import Box, Evidence
from sparkgate.doctor.examination import LEVELS, Finding, examine, examine_engine, findings_as_json, look_for
from sparkgate.doctor.machine import CLOCKS, Clocks, Machine, Worker, read_machine
from sparkgate.doctor.rules import BOX_CHECKS, ENGINE_CHECKS
from sparkgate.doctor.rules.check import Check, knows_flags, option, words
from sparkgate.engine_settings import EngineSettings
from sparkgate.engines import ENGINES
from sparkgate.fleet import Fleet
from sparkgate.machine.commands import Completed, runner, spawner
from sparkgate.policy.local import Answer

CHECKS = {check.id: check for check in ENGINE_CHECKS}
OF_THE_BOX = {check.id: check for check in BOX_CHECKS}
FULL_STOP = re.compile(r"[.!?](?:\s|$)")


@pytest.mark.parametrize(("id_", "there", "near"), ENGINE_CASES, ids=[row[0] for row in ENGINE_CASES])
def test_a_trap_of_an_engine_is_found_and_what_is_near_it_is_not(id_: str, there: Evidence, near: Evidence) -> None:
    assert id_ in {one.id for one in examine_engine(there)}
    assert id_ not in {one.id for one in examine_engine(near)}


@pytest.mark.parametrize(("id_", "there", "near"), BOX_CASES, ids=[row[0] for row in BOX_CASES])
def test_a_trap_of_the_machine_is_found_and_what_is_near_it_is_not(id_: str, there: Box, near: Box) -> None:
    assert OF_THE_BOX[id_].find(there)
    assert not OF_THE_BOX[id_].find(near)


def test_every_check_has_a_case_and_a_name_of_its_own() -> None:
    ids = [check.id for check in ENGINE_CHECKS] + [check.id for check in BOX_CHECKS]
    assert len(ids) == len(set(ids))
    assert set(ids) == {row[0] for row in ENGINE_CASES} | {row[0] for row in BOX_CASES}


@pytest.mark.parametrize("check", [*ENGINE_CHECKS, *BOX_CHECKS], ids=lambda check: check.id)
def test_every_check_says_what_it_means_and_what_to_do(check: Check[Any]) -> None:
    assert check.level in LEVELS
    assert set(check.engines) <= set(ENGINES)
    assert re.fullmatch(r"[a-z][a-z0-9_]*\.?[a-z0-9_]+", check.id)
    for text in (check.text, check.advice):
        assert (text[0].isupper() or text.startswith("--")) and text.endswith(".")
        assert len(text) <= 200 and len(FULL_STOP.findall(text)) <= 2


def test_no_value_of_a_variable_is_in_a_finding() -> None:
    environment = {"HF_TOKEN": SECRET, "OLLAMA_LLM_LIBRARY": "cuda", "TORCH_DISTRIBUTED_DEBUG": "DETAIL"}
    entry = EngineSettings(
        url="http://127.0.0.1:1", environment=("CACHE=/srv/of-nobody",), command=("docker", "-e", "PASS=s3cr3t-word")
    )
    spoken = f"chat template parsing error in /srv/of-nobody with {SECRET} and s3cr3t-word, api_key=sk-0123456789abcdef"
    told = logged(
        owned(an("ollama", entry=entry), environment=environment), f"truncating input prompt {SECRET}", spoken
    )
    found = examine_engine(told)
    assert {"ollama.library", "dist.debug", "template.wrong", "context.truncating"} <= {one.id for one in found}
    shown = json.dumps(findings_as_json(found))
    for value in (SECRET, "/srv/of-nobody", "s3cr3t-word", "sk-0123456789abcdef", "DETAIL"):
        assert value not in shown


def test_no_case_shows_the_token_that_its_engine_was_given() -> None:
    for _, there, near in ENGINE_CASES:
        assert SECRET not in json.dumps(findings_as_json(examine_engine(there) + examine_engine(near)))


def test_a_check_that_fails_does_not_take_the_others_away(capsys: pytest.CaptureFixture[str]) -> None:
    def broken(about: str) -> str:
        raise ValueError(about)

    checks = (
        Check("a", "info", (), broken, "Text.", "Advice."),
        Check("b", "error", (), str.upper, "Text.", "Advice."),
    )
    assert look_for(checks, "secret query", "main") == [
        Finding("b", "error", "main", "SECRET QUERY", "Text.", "Advice.")
    ]
    logged_line = json.loads(capsys.readouterr().err)
    assert (logged_line["event"], logged_line["check"]) == ("doctor_fault", "a")
    assert "secret" not in json.dumps(logged_line)


def test_findings_are_one_short_line_and_leave_out_what_is_empty() -> None:
    (found,) = look_for((Check("a", "info", (), str, "Text.", "Advice."),), "two\nlines\u202e " + "x" * 900, "")
    (told,) = findings_as_json([found])
    assert "engine" not in told and len(told["evidence"]) <= 300
    assert told["evidence"].startswith("two lines x")


# -- reading a command


@pytest.mark.parametrize(
    ("argv", "value"),
    [
        (("vllm", "serve", "m", "--max-model-len", "4096"), "4096"),
        (("vllm", "serve", "m", "--max_model_len=4096"), "4096"),
        (("bash", "-lc", "exec vllm serve m --max-model-len=1 --max-model-len 4096"), "4096"),
        (("vllm", "serve", "--max-model-len", "--x"), ""),
        (("vllm", "serve", "--max-model-length", "4096"), None),
    ],
)
def test_an_option_is_found_in_each_way_of_writing_it(argv: tuple[str, ...], value: str | None) -> None:
    assert option(an("vllm", *argv), "--max-model-len") == value


@pytest.mark.parametrize(
    ("argv", "known"),
    [
        (("vllm", "serve", "m"), True),
        (("python3", "-m", "vllm.entrypoints.openai.api_server"), True),
        (("docker", "run", "vllm/vllm-openai:v0.25.1", "m"), True),
        (("/opt/start-vllm.sh",), False),
        (("/opt/vllm.sh",), False),
        (("sparkrun", "run", "@eugr/vllm", "--no-follow"), False),
        ((), False),
    ],
)
def test_a_missing_flag_is_told_only_where_all_flags_are_known(argv: tuple[str, ...], known: bool) -> None:
    assert knows_flags(an("vllm", *argv)) is known


def test_a_command_of_its_owner_counts_before_that_of_the_catalogue() -> None:
    told = owned(an("vllm", "start.sh"))
    assert told.look is not None
    assert words(replace(told, look=replace(told.look, argv=("vllm", "serve")))) == ("vllm", "serve")


# -- the chat


def message(**more: Any) -> Answer:
    return Answer(200, "application/json", json.dumps({"choices": [{"message": more}]}))


@pytest.mark.parametrize(
    ("answer", "chat"),
    [
        (message(content="Hi", reasoning_content="Hm", tool_calls=[]), Chat(200, "Hi", "Hm")),
        (message(content=None, reasoning="Hm", tool_calls=[{"id": 1}]), Chat(200, "", "Hm", called=True)),
        (Answer(400, "", '{"error": {"message": "no\\ntools"}}'), Chat(400, error="no tools")),
        (Answer(400, "", '{"object": "error", "message": "no tools"}'), Chat(400, error="no tools")),
        (Answer(500, "", "Internal Server Error"), Chat(500, error="Internal Server Error")),
        (Answer(200, "", '{"choices": []}'), Chat(200, error='{"choices": []}')),
        (Answer(200, "", "[1"), Chat(200, error="[1")),
    ],
)
def test_an_answer_to_a_chat_is_read_whatever_it_is(answer: Answer, chat: Chat) -> None:
    assert read_chat(answer) == chat


# -- the machine


def process(proc: Path, pid: int, cmdline: str, parent: int, comm: str = "x") -> None:
    folder = proc / str(pid)
    folder.mkdir(parents=True)
    (folder / "cmdline").write_text(cmdline)
    (folder / "comm").write_text(f"{comm}\n")
    (folder / "stat").write_text(f"{pid} (a) b) S {parent} 1 1 0 -1")


def test_workers_whose_parent_is_gone_are_found(tmp_path: Path) -> None:
    process(tmp_path, 1, "/sbin/init", 0, "systemd")
    process(tmp_path, 40, "/lib/systemd/systemd\0--user", 1, "systemd")
    process(tmp_path, 41, "vllm\0serve", 40)
    process(tmp_path, 42, "VLLM::EngineCore", 41)
    process(tmp_path, 50, "VLLM::EngineCore", 1)
    process(tmp_path, 51, "sglang::scheduler_TP0\0", 40)
    process(tmp_path, 52, "VLLM::EngineCore", 1)
    found = read_machine({}, {52}, None, tmp_path)
    assert found == Machine(orphans=(Worker(50, "VLLM::EngineCore"), Worker(51, "sglang::scheduler_TP0")))


CRONJOB = {
    "metadata": {"name": "vllm-watchdog"},
    "spec": {
        "jobTemplate": {
            "spec": {
                "template": {
                    "spec": {"containers": [{"command": ["sh", "-c", "kubectl rollout restart deploy/vllm"]}]},
                }
            }
        }
    },
}
NODE = {"metadata": {"labels": {"nvidia.com/gpu.count": "1"}}, "status": {"allocatable": {"nvidia.com/gpu": "4"}}}
ANSWERS = {
    ("k3s", "kubectl", "get", "nodes", "-o", "json"): {"items": [NODE]},
    ("k3s", "kubectl", "-n", "llm", "get", "cronjobs", "-o", "json"): {"items": [CRONJOB]},
}


def test_what_kubernetes_and_the_driver_tell_is_read(tmp_path: Path) -> None:
    asked = []

    def run(argv: Sequence[str], timeout_s: float) -> Completed:
        asked.append(tuple(argv))
        if tuple(argv) == CLOCKS:
            return Completed(0, "96, 811, 3003, 0x0000000000000004\n[N/A], [N/A], [N/A], [N/A]\n")
        answer = ANSWERS.get(tuple(argv))
        return Completed(0, json.dumps(answer)) if answer else Completed(None, stderr="kubectl is not installed")

    catalogue = {
        name: EngineSettings(url="http://h", runtime="kubernetes", unit=f"llm/{name}") for name in ("vllm", "vllm-dev")
    }
    found = read_machine(catalogue, (), run, tmp_path)
    assert found == Machine(
        gpus=1, gpus_offered=4, clocks=(Clocks(96, 811, 3003, 4),), watchdogs={"vllm": "vllm-watchdog"}
    )
    assert asked[:2] == [("kubectl", "get", "nodes", "-o", "json"), ("k3s", "kubectl", "get", "nodes", "-o", "json")]


def test_a_cronjob_that_is_suspended_or_only_looks_revives_nothing(tmp_path: Path) -> None:
    looks = json.loads(json.dumps(CRONJOB).replace("rollout restart", "get"))
    suspended = json.loads(json.dumps(CRONJOB))
    suspended["spec"]["suspend"] = True

    def run(argv: Sequence[str], timeout_s: float) -> Completed:
        return Completed(0, json.dumps({"items": [looks, suspended] if "cronjobs" in argv else []}))

    catalogue = {"vllm": EngineSettings(url="http://h", runtime="kubernetes", unit="llm/vllm")}
    assert read_machine(catalogue, (), run, tmp_path) == Machine()


# -- all together


def examined(tmp_path: Path, answers: dict[str, Any], **entry: Any) -> dict[str, Finding]:
    """The findings for a watched engine that answers so."""
    with RecordedEngine(answers) as engine:
        catalogue = {"main": EngineSettings(url=engine.url, **entry)}
        with Fleet(catalogue, tmp_path, runner(environment={"PATH": str(tmp_path)}), spawner()) as fleet:
            return {one.id: one for one in examine(fleet, ["main"], folder=tmp_path)}


def chat_of(content: str, **more: Any) -> list[Any]:
    return [200, "application/json", {"choices": [{"text": "1", "message": {"content": content, **more}}]}]


def test_atlas_that_serves_less_than_is_wanted_is_told(tmp_path: Path) -> None:
    answers = recording("atlas")["answers"]
    found = examined(tmp_path, answers, engine="atlas", context=65_536)
    assert found["ctx.hermes"].level == "error" and found["ctx.hermes"].engine == "main"
    assert found["ctx.hermes"].evidence == "it serves 12288 tokens of context, and the catalogue wants 65536"
    assert "ctx.hermes" not in examined(tmp_path, answers, engine="atlas", context=8192)


def test_what_hermes_wants_counts_when_hermes_lives_on_it(tmp_path: Path) -> None:
    with RecordedEngine(recording("atlas")["answers"]) as engine:
        file = tmp_path / ".hermes" / "config.yaml"
        file.parent.mkdir()
        file.write_text(f"model:\n  base_url: {engine.url}/v1\n  context_length: 131072\n")
        catalogue = {"main": EngineSettings(url=engine.url)}
        with Fleet(catalogue, tmp_path, runner(environment={"PATH": str(tmp_path)}), spawner()) as fleet:
            found = {one.id: one.evidence for one in examine(fleet, ["main"], folder=tmp_path)}
    assert found["ctx.hermes"] == "it serves 12288 tokens of context, and Hermes wants 65536"


def test_ollama_on_the_cpu_is_told(tmp_path: Path) -> None:
    answers = recording("ollama")["answers"]
    answers["/api/ps"][2]["models"][0]["size_vram"] = 0
    found = examined(tmp_path, answers)
    assert found["ollama.cpu"].evidence == "qwen2.5:3b: cpu"
    assert "ollama.cpu" not in examined(tmp_path, answers, allow_cpu=True)


def test_an_engine_that_generates_is_asked_for_a_chat_that_shows_its_parsers(tmp_path: Path) -> None:
    answers = recording("vllm")["answers"] | {
        "/v1/completions": chat_of("1"),
        "/v1/chat/completions": chat_of("<tool_call>\n<function=clock>"),
    }
    assert "parser.mismatch" in examined(tmp_path, answers)
    assert "parser.mismatch" not in examined(tmp_path, answers, chat=False)
    answers["/v1/chat/completions"] = chat_of("", tool_calls=[{"id": "1"}])
    assert "parser.mismatch" not in examined(tmp_path, answers)


def test_an_engine_that_is_stuck_is_told_and_not_asked_for_a_chat(tmp_path: Path) -> None:
    answers = recording("vllm")["answers"]
    answers["/metrics"] = [200, "text/plain", "vllm:num_requests_running 0\n"]
    with RecordedEngine(answers | {"/v1/completions": [500, "text/plain", "x"]}) as engine:
        catalogue = {"main": EngineSettings(url=engine.url)}
        with Fleet(catalogue, tmp_path, runner(environment={"PATH": str(tmp_path)}), spawner()) as fleet:
            found = {one.id for one in examine(fleet, ["main"], folder=tmp_path)}
        assert "engine.wedged" in found and "POST /v1/chat/completions" not in engine.asked


def test_an_engine_that_is_down_has_no_trap_of_what_it_serves(tmp_path: Path) -> None:
    with RecordedEngine({}) as engine:
        url = engine.url
    with Fleet({"main": EngineSettings(url=url)}, tmp_path, runner(environment={"PATH": ""}), spawner()) as fleet:
        assert [one for one in examine(fleet, ["main"], folder=tmp_path) if one.engine] == []


@pytest.mark.parametrize("name", ENGINES)
def test_no_engine_is_asked_for_what_loads_a_model_or_costs_money(tmp_path: Path, name: str) -> None:
    recorded = recording(name)
    with RecordedEngine(recorded["answers"]) as engine:
        catalogue = {"main": EngineSettings(url=engine.url, engine=name)}
        with Fleet(catalogue, tmp_path, runner(environment={"PATH": str(tmp_path)}), spawner()) as fleet:
            examine(fleet, ["main"], folder=tmp_path)
        assert not set(recorded["expect"].get("never", ())) & set(engine.asked)
        assert name != "litellm" or not any(re.match(r"POST|/health$", path) for path in engine.asked)
        assert name != "ollama" or not any(path.startswith("POST") for path in engine.asked)


def test_a_real_llama_cpp_has_no_trap(tmp_path: Path) -> None:
    with running() as live:
        catalogue = {"main": EngineSettings(url=live.url)}
        with Fleet(catalogue, tmp_path, runner(environment={"PATH": str(tmp_path)}), spawner()) as fleet:
            found = [one for one in examine(fleet, ["main"], folder=tmp_path) if one.engine]
    assert [one for one in found if one.level != "info"] == []
