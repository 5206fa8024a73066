"""Catalogue entries from what runs: fake trees of /proc, stubs of the owners, recordings, and real child processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from box import Box
from recorded_engine import Answers, RecordedEngine, recording
from stub_commands import StubCommands, says

from sparkgate.discover.discovery import Discovery, Found, discover, door_for, recognise
from sparkgate.discover.entry import SECRET, Proposal, proposals, quoted
from sparkgate.discover.owners import NOBODY, Group, Owner, group_of
from sparkgate.discover.processes import NOT_HTTP, Candidate, candidates, processes
from sparkgate.discover.signs import COMMANDS, IMAGES, NO_SIGN, Sign, holds_secret, port_of, sign_of, weights_of
from sparkgate.engine_settings import EngineSettings
from sparkgate.engines import ENGINES
from sparkgate.identify import MAX_REQUESTS
from sparkgate.policy.judge import Policy
from sparkgate.policy.local import free_port
from sparkgate.policy.rules import shipped
from sparkgate.settings import load

LOADS_OR_COSTS = ("/health/backlog", "/models/sse", "/slots", "/upstream", "/models/load")
JUDGE = Policy(shipped()).judge
KEY = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
ID = "0123456789abcdef" * 4
OTHER_ID = "fedcba9876543210" * 4
LOOPBACK, EVERYWHERE = "0100007F", "00000000"


class FakeProc:
    """A /proc with the processes and TCP listeners that a test names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "proc"
        (self.folder / "net").mkdir(parents=True)
        self._rows: list[str] = ["head"]
        self._write()

    def process(self, pid: int, *argv: str, parent: int = 1, group: str = "/", cwd: str = "") -> int:
        place = self.folder / str(pid)
        (place / "fd").mkdir(parents=True)
        (place / "stat").write_text(f"{pid} (a) b) S {parent} 1 1 0")
        (place / "cmdline").write_bytes(b"".join(os.fsencode(word) + b"\0" for word in argv))
        (place / "cgroup").write_text(f"0::{group}\n")
        if cwd:
            (place / "cwd").symlink_to(cwd)
        return pid

    def listen(self, port: int, *pids: int, address: str = LOOPBACK) -> None:
        inode = str(90_000 + len(self._rows))
        self._rows.append(f"0: {address}:{port:04X} 00000000:0000 0A 0:0 0:0 0 0 0 {inode} 1")
        for pid in pids:
            (self.folder / str(pid) / "fd" / inode).symlink_to(f"socket:[{inode}]")
        self._write()

    def see(self, pid: int, port: int) -> None:
        """A real process and its real listener."""
        (self.folder / str(pid)).symlink_to(f"/proc/{pid}")
        rows = Path("/proc/net/tcp").read_text().splitlines()
        self._rows += [row for row in rows if row.split()[1].endswith(f":{port:04X}") and row.split()[3] == "0A"]
        self._write()

    def _write(self) -> None:
        (self.folder / "net" / "tcp").write_text("\n".join(self._rows))


@pytest.fixture
def proc(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path)


@pytest.fixture
def stubs(tmp_path: Path) -> StubCommands:
    return StubCommands(tmp_path)


def table_of(proposal: Proposal, tmp_path: Path) -> EngineSettings:
    """The table as the reader of config.toml reads it."""
    config = tmp_path / "proposed.toml"
    config.write_text(proposal.as_toml(), encoding="utf-8")
    told = load(config).engines[proposal.name]
    assert tomllib.loads(proposal.as_toml())["engines"][proposal.name] == proposal.entry
    return told


def found_at(candidate: Candidate, engine: str = "vllm", **more: Any) -> Found:
    return Found(candidate, engine, more.pop("state", "answers"), ("/v1/models",), **more)


def only(found: Sequence[Found], taken: Sequence[str] = ()) -> Proposal:
    (proposal,) = proposals(found, taken, JUDGE)
    return proposal


# -- signs


@pytest.mark.parametrize(("words", "engine"), COMMANDS)
def test_every_command_of_the_table_names_an_engine_behind_any_wrapper(words: tuple[str, ...], engine: str) -> None:
    assert engine in ENGINES
    for before in ((), ("/usr/bin/python3.12", "-m"), ("uv", "run"), ("/opt/nvidia/entrypoint.sh",), ("env", "A=1")):
        assert sign_of((*before, *words)).engine == engine
    assert sign_of(("python", f"/opt/bin/{words[0]}", *words[1:], "x")).engine == engine
    assert not sign_of(("grep", *words)).engine and not sign_of(("vim", " ".join(words))).engine


@pytest.mark.parametrize(("image", "engine"), IMAGES)
def test_every_image_of_the_table_names_an_engine_whatever_its_tag(image: str, engine: str) -> None:
    assert engine in ENGINES
    for name in (image, f"docker.io/{image}:latest", f"{image}@sha256:00", f"{image}/inner:1", f"{image}-full:2"):
        assert sign_of((), name).engine == engine
    assert not sign_of((), f"my{image}").engine


def test_a_command_says_more_than_an_image_and_a_router_is_told_by_its_flags() -> None:
    assert sign_of(("llama-swap", "--listen", ":9292"), "ghcr.io/ggml-org/llama.cpp:full").engine == "llama-swap"
    assert sign_of(("llama-server", "--models-dir=/m")).engine == "llamacpp-router"
    assert sign_of(()) == NO_SIGN


def test_port_and_weights_are_read_from_a_command_line(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").touch()
    rows: list[tuple[list[str], int | None, str]] = [
        (["vllm", "serve", "/models/q", "--port", "8001"], 8001, "/models/q"),
        (["vllm", "serve", "Qwen/Qwen3-8B"], None, ""),
        (["python", "-m", "sglang.launch_server", "--model-path=/m/s", "--port=30001"], 30001, "/m/s"),
        (["llama-server", "-m", "m.gguf"], None, str(tmp_path / "m.gguf")),
        (["llama-server", "-m", "gone.gguf"], None, ""),
        (["llama-swap", "-listen", "127.0.0.1:9292"], 9292, ""),
        (["something", "/etc/passwd"], None, ""),
        ([], None, ""),
    ]
    for argv, port, weights in rows:
        assert (port_of(argv), weights_of(argv, str(tmp_path))) == (port, weights), argv


@pytest.mark.parametrize(
    "words",
    [
        ["--api-key", "short"],
        ["--api-key=short"],
        ["--hf-token", "abc"],
        ["HF_TOKEN=abc"],
        ["-eNGC_API_KEY=abc"],
        ["--config", '{"api_key": "abc"}'],
        ["--proxy", "http://me:abc@proxy:3128"],
        ["--note", KEY],
    ],
)
def test_a_key_in_a_command_line_is_seen(words: list[str]) -> None:
    assert holds_secret(["vllm", "serve", "m", *words], JUDGE)


def test_usual_words_are_no_keys() -> None:
    words = ["/home/ann/v/bin/python", "-m", "vllm.entrypoints.openai.api_server", "--max-num-batched-tokens=8192"]
    words += ["--tokenizer=q", "--hf-overrides", '{"num_key_value_heads": 8}', "--ssl-keyfile", "/k.pem"]
    words += ["--model", f"/root/.cache/huggingface/hub/models--Q--Q3/snapshots/{ID[:40]}"]
    assert not holds_secret(words, JUDGE)


# -- processes


GROUP_ROWS = [
    (f"/system.slice/docker-{ID}.scope", Group("docker", ID)),
    (f"/docker/{ID}", Group("docker", ID)),
    (f"/kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope", Group("kubernetes", ID)),
    (f"/system.slice/k3s.service/kubepods/burstable/pod1-2/{ID}", Group("kubernetes", ID)),
    (f"/machine.slice/libpod-{ID}.scope/container", Group("podman", ID)),
    ("/system.slice/ollama.service", Group("system", "ollama.service")),
    ("/system.slice/system-vllm.slice/vllm@a.service", Group("system", "vllm@a.service")),
    ("/user.slice/user-1000.slice/user@1000.service/app.slice/vllm.service", Group("user", "vllm.service", 1000)),
    ("/user.slice/user-1000.slice/user@1000.service/app.slice/tmux-spawn-1.scope", Group()),
    ("/user.slice/user-1000.slice/session-3.scope", Group()),
    ("/", Group()),
]


@pytest.mark.parametrize(("path", "group"), GROUP_ROWS)
def test_a_control_group_tells_who_made_it_in_both_versions(path: str, group: Group) -> None:
    assert group_of(f"0::{path}\n") == group
    assert group_of(f"12:cpuset:/\n4:memory:{path}\n1:name=systemd:{path}\n0::/\n") == group


def test_listeners_are_candidates_with_their_main_process(proc: FakeProc) -> None:
    proc.process(20, "vllm", "serve", "/m/q", parent=1, group="/system.slice/vllm.service", cwd="/srv")
    proc.process(10, "worker", parent=20)
    proc.listen(8000, 10, 20, address=EVERYWHERE)
    proc.listen(9000)
    first, second = candidates(proc.folder)
    assert (first.port, first.pids, first.public, first.folder) == (8000, (20, 10), True, "/srv")
    assert first.group == Group("system", "vllm.service") and first.sign.engine == "vllm"
    assert first.url == "http://127.0.0.1:8000" and first.state == "listening"
    assert second == Candidate(9000)


@pytest.mark.parametrize("port", NOT_HTTP)
def test_ports_of_other_protocols_are_not_asked(proc: FakeProc, port: int) -> None:
    proc.listen(port)
    assert candidates(proc.folder) == ()


def test_what_is_of_sparkgate_is_left_out_and_an_engine_in_a_folder_of_that_name_is_not(proc: FakeProc) -> None:
    rows = [("python", "-m", "sparkgate.gate"), ("/h/.local/state/sparkgate/searxng/bin/python", "x")]
    rows += [("/h/sparkgate/bin/python", "/h/sparkgate/bin/vllm", "serve", "m")]
    for pid, argv in enumerate(rows, 50):
        proc.listen(9000 + pid, proc.process(pid, *argv))
    proc.listen(9999, proc.process(os.getpid(), "pytest"))
    assert [one.port for one in candidates(proc.folder)] == [9052]


def test_an_engine_of_another_user_is_found_by_the_port_in_its_command_line(proc: FakeProc) -> None:
    proc.listen(11434)
    proc.process(7, "/usr/bin/ollama", "serve", group="/system.slice/ollama.service")
    (one,) = candidates(proc.folder)
    assert (one.pids, one.sign.engine, one.group.id) == ((7,), "ollama", "ollama.service")


def test_an_engine_that_does_not_listen_yet_is_a_candidate_once(proc: FakeProc) -> None:
    proc.process(30, "uv", "run", "vllm", "serve", "m", "--port", "8005")
    proc.process(31, "python", "/v/bin/vllm", "serve", "m", "--port", "8005", parent=30)
    proc.process(32, "python", "/v/bin/vllm", "serve", "m", "--port", "8005", parent=31)
    proc.process(33, "grep", "vllm", "serve")
    proc.process(34, "vllm", "serve", "m", group=f"/docker/{ID}")
    (one,) = candidates(proc.folder)
    assert (one.port, one.pids, one.state) == (8005, (31,), "silent")


def test_the_helpers_of_an_engine_that_listens_are_no_engines_of_their_own(proc: FakeProc) -> None:
    proc.process(40, "uv", "run", "ollama", "serve")
    proc.listen(11500, proc.process(41, "ollama", "serve", parent=40))
    proc.process(42, "llama-server", "-m", "x", "--port", "50001", parent=41)
    assert [one.pids for one in candidates(proc.folder)] == [(41,)]


def test_an_engine_that_loads_is_found_below_a_server_and_beside_a_port_of_its_own(proc: FakeProc) -> None:
    proc.listen(22, proc.process(10, "sshd"))
    main = proc.process(11, "vllm", "serve", "m", "--port", "8000", parent=10)
    proc.listen(29000, main, proc.process(12, "VLLM::EngineCore", parent=11))
    told = [(one.port, one.sign.engine, one.state) for one in candidates(proc.folder)]
    assert told == [(29000, "", "listening"), (8000, "vllm", "silent")]


def test_another_port_of_an_engine_is_not_taken_for_it(proc: FakeProc) -> None:
    pid = proc.process(41, "vllm", "serve", "m")
    proc.listen(8000, pid)
    proc.listen(29000, pid)
    assert [one.sign.engine for one in candidates(proc.folder)] == ["vllm", ""]


# -- what answers


@contextmanager
def answering(answers: Answers, sign: str = "", *argv: str) -> Iterator[tuple[RecordedEngine, Candidate]]:
    with RecordedEngine(answers) as engine:
        port = int(engine.url.rpartition(":")[2])
        yield engine, Candidate(port, argv=argv, sign=Sign(sign, "its command line says so") if sign else NO_SIGN)


@pytest.mark.parametrize("name", ENGINES)
def test_every_engine_is_recognised_by_few_gets_that_change_nothing(name: str) -> None:
    named = recording(name)["expect"].get("named")
    with answering(recording(name)["answers"], name if named else "") as (engine, candidate):
        found = recognise(candidate, door_for())
    assert found is not None and (found.engine, found.state) == (name, "answers")
    assert 0 < len(engine.asked) <= MAX_REQUESTS
    assert not any(path.startswith(("POST", *LOADS_OR_COSTS)) or "?" in path for path in engine.asked)
    assert name != "litellm" or "/health" not in engine.asked


LOADED = {
    "ollama": (("qwen2.5:3b",), True),
    "lmstudio": (("qwen3-8b",), True),
    "llamacpp-router": (("smollm2",), True),
    "docker-model-runner": (("ai/smollm2",), True),
}


@pytest.mark.parametrize("name", LOADED)
def test_of_a_resident_engine_the_loaded_models_are_told(name: str) -> None:
    with answering(recording(name)["answers"]) as (_, candidate):
        found = recognise(candidate, door_for())
    assert found is not None and (found.models, found.loaded) == LOADED[name] and found.resident


def test_of_a_resident_engine_without_a_loaded_model_those_on_disk_are_told() -> None:
    with answering(recording("ollama")["answers"] | {"/api/ps": [200, "application/json", {"models": []}]}) as (_, one):
        found = recognise(one, door_for())
    assert found is not None and (found.models, found.loaded) == (("qwen2.5:3b", "llama3:8b"), False)
    told = only([found])
    assert told.entry["model"] == "qwen2.5:3b" and any("first of 2" in note for note in told.notes)


LOADING = [503, "application/json", {"error": {"message": "Loading model"}}]
KEYED = [401, "application/json", {"error": "key"}]
PAGE = [200, "text/html", "<html>Ollama is running LiteLLM</html>"]


@pytest.mark.parametrize(
    ("answer", "sign", "argv", "state"),
    [
        (LOADING, "llamacpp", (), "loading"),
        (LOADING, "", (), None),
        (KEYED, "vllm", (), "needs key"),
        (KEYED, "", (), None),
        (PAGE, "", (), None),
        (PAGE, "litellm", (), None),
        ([404, "text/plain", ""], "vllm", (), None),
        ([200, "text/plain", "x" * 100_000], "vllm", (), "loading"),
    ],
)
def test_what_does_not_say_what_it_is_counts_by_its_command_line(
    answer: list[Any], sign: str, argv: tuple[str, ...], state: str | None
) -> None:
    with answering({"*": answer}, sign, *argv) as (engine, candidate):
        found = recognise(candidate, door_for())
    assert (found.state if found else None) == state and len(engine.asked) <= MAX_REQUESTS


def test_a_port_that_speaks_no_http_is_no_engine_and_one_of_an_engine_is_loading() -> None:
    port = free_port()
    assert recognise(Candidate(port), door_for()) is None
    found = recognise(Candidate(port, sign=Sign("vllm", "x")), door_for())
    assert found is not None and found.state == "loading"
    tls = Candidate(port, argv=("vllm", "serve", "m", "--ssl-keyfile", "k"), sign=Sign("vllm", "x"))
    assert recognise(tls, door_for()) is None


def test_what_is_silent_or_stopped_is_not_asked() -> None:
    with answering(recording("vllm")["answers"], "vllm") as (engine, candidate):
        told = [recognise(replace(candidate, state=state), door_for()) for state in ("silent", "stopped")]
        assert recognise(replace(candidate, state="stopped", sign=NO_SIGN), door_for()) is None
    assert [one.state for one in told if one] == ["loading", "stopped"] and engine.asked == []


def test_what_is_proven_wins_over_what_a_command_line_says() -> None:
    with answering(recording("llamacpp-router")["answers"], "llamacpp") as (_, candidate):
        found = recognise(candidate, door_for())
    assert found is not None and found.engine == "llamacpp-router" and "its command line says so" in found.because


# -- owners


def inspected(name: str, image: str, **more: Any) -> dict[str, Any]:
    """What docker tells of a container that runs, or with `running=False` of one that does not."""
    running = more.get("running", True)
    bindings = {
        f"{inside}/tcp": [{"HostIp": "127.0.0.1", "HostPort": str(out)}]
        for inside, out in more.get("ports", {}).items()
    }
    argv = more.get("argv", ["vllm", "serve", "/models/q"])
    return {
        "Id": more.get("id", ID),
        "Name": f"/{name}",
        "Config": {"Image": image, "Env": [f"HF_TOKEN={KEY}"]},
        "Path": argv[0],
        "Args": argv[1:],
        "State": {"Running": running, "Pid": 77 if running else 0},
        "HostConfig": {
            "PortBindings": bindings,
            "NetworkMode": more.get("network", "bridge"),
            "AutoRemove": more.get("rm", False),
        },
        "NetworkSettings": {"Ports": bindings if running else {}},
        "Mounts": [{"Source": "/srv/models", "Destination": "/models"}],
    }


def docker(stubs: StubCommands, *boxes: dict[str, Any]) -> None:
    ids = [box["Id"] for box in boxes]
    stubs.answer("docker ps -a -q --no-trunc", says("\n".join(ids) + "\n"))
    stubs.answer(f"docker container inspect {' '.join(ids)}", says(list(boxes)))


def systemd(stubs: StubCommands, manager: str, *units: tuple[str, str, int, str]) -> None:
    """(name, state, main pid, command) of each."""
    names = [name for name, *_ in units]
    rows = "\n".join(f"{name} enabled enabled" for name in [*names, "getty@.service"])
    blocks = [
        f"Id={name}\nActiveState={state}\nMainPID={pid}\n"
        f"ExecStart={{ path={argv.split()[0]} ; argv[]={argv} ; ignore_errors=no ; pid=0 }}\n"
        for name, state, pid, argv in units
    ]
    stubs.answer(f"systemctl {manager}list-unit-files --type=service --no-legend --no-pager --plain", says(rows))
    shown = f"systemctl {manager}show --no-pager -p Id,ActiveState,MainPID,ExecStart {' '.join(names)}"
    stubs.answer(shown, says("\n".join(blocks)))


def look(proc: FakeProc, stubs: StubCommands, catalogue: dict[str, EngineSettings] | None = None) -> Discovery:
    return discover(catalogue or {}, stubs, proc=proc.folder)


def owner(seen: Discovery) -> Owner:
    (one,) = seen.found
    return one.candidate.owner


def test_a_container_owns_what_its_control_group_holds(proc: FakeProc, stubs: StubCommands, tmp_path: Path) -> None:
    with RecordedEngine(recording("vllm")["answers"]) as engine:
        port = int(engine.url.rpartition(":")[2])
        docker(stubs, inspected("vllm", "vllm/vllm-openai:v1", network="host", argv=["vllm", "serve", "/models/q"]))
        proc.listen(port, proc.process(77, "vllm", "serve", "/models/q", group=f"/docker/{ID}"))
        seen = look(proc, stubs)
    assert owner(seen) == Owner("docker", "vllm")
    told = table_of(only(seen.found), tmp_path)
    assert (told.runtime, told.unit, told.weights, told.command) == ("docker", "vllm", "/srv/models/q", ())
    assert stubs.calls[:2] == [["docker", "ps", "-a", "-q", "--no-trunc"], ["docker", "container", "inspect", ID]]


@pytest.mark.parametrize("seen_by_us", [True, False])
def test_a_published_port_is_of_its_container_with_and_without_a_forwarder(
    proc: FakeProc, stubs: StubCommands, seen_by_us: bool
) -> None:
    with RecordedEngine(recording("vllm")["answers"]) as engine:
        port = int(engine.url.rpartition(":")[2])
        docker(stubs, inspected("vllm", "vllm/vllm-openai", ports={8000: port}, rm=True))
        if seen_by_us:
            forwarder = proc.process(5, "/usr/bin/docker-proxy", group="/system.slice/docker.service")
            proc.listen(port, forwarder, address=EVERYWHERE)
        seen = look(proc, stubs)
    assert owner(seen).unit == "vllm" and any("removes" in note for note in owner(seen).notes)
    assert seen.found[0].candidate.public is seen_by_us


def test_stopped_containers_and_units_are_proposed_without_being_asked(
    proc: FakeProc, stubs: StubCommands, tmp_path: Path
) -> None:
    boxes = [
        inspected("qwen", "vllm/vllm-openai", running=False, ports={8000: 8011}),
        inspected("coder", "lmsysorg/sglang:x", id=OTHER_ID, running=False, ports={30000: 8011}, argv=["sh", "x"]),
        inspected("web", "nginx", id="a" * 64, running=False, ports={80: 8080}, argv=["nginx"]),
        inspected("hidden", "vllm/vllm-openai", id="b" * 64, running=False),
    ]
    docker(stubs, *boxes)
    systemd(stubs, "", ("llama.service", "inactive", 0, "/usr/bin/llama-server -m /m/x.gguf --port 8090"))
    systemd(
        stubs, "--user ", ("swap.service", "failed", 0, "/usr/bin/vllm serve q"), ("x.service", "inactive", 0, "/bin/x")
    )
    seen = look(proc, stubs)
    told = {one.name: table_of(one, tmp_path) for one in proposals(seen.found, (), JUDGE)}
    assert {name: (one.engine, one.runtime, one.unit, one.url[-5:]) for name, one in told.items()} == {
        "qwen": ("vllm", "docker", "qwen", ":8011"),
        "coder": ("sglang", "docker", "coder", ":8011"),
        "llama-service": ("llamacpp", "systemd", "llama.service", ":8090"),
        "user-swap-service": ("vllm", "systemd", "user:swap.service", ":8000"),
    }
    assert told["llama-service"].weights == "/m/x.gguf" and seen.asked == 0
    known = {"a": EngineSettings(url="http://127.0.0.1:8011", runtime="docker", unit="qwen")}
    again = look(proc, stubs, known)
    assert (len(again.found), again.known) == (3, 1)


@contextmanager
def on_a_port(proc: FakeProc, *argv: str, group: str = "/", pid: int = 77, parent: int = 1) -> Iterator[int]:
    """A recorded vLLM that a fake process seems to serve."""
    with RecordedEngine(recording("vllm")["answers"]) as engine:
        port = int(engine.url.rpartition(":")[2])
        proc.listen(port, proc.process(pid, *argv, group=group, parent=parent))
        yield port


ME = os.getuid()
USER_UNIT = f"/user.slice/user-{ME}.slice/user@{ME}.service/app.slice/vllm.service"


@pytest.mark.parametrize(
    ("group", "manager", "name"),
    [("/system.slice/vllm.service", "", "vllm.service"), (USER_UNIT, "--user ", "user:vllm.service")],
)
def test_a_unit_owns_its_main_process_and_its_children_and_nothing_left_in_its_group(
    proc: FakeProc, stubs: StubCommands, group: str, manager: str, name: str
) -> None:
    proc.process(60, "/opt/start.sh", group=group)
    systemd(stubs, manager, ("vllm.service", "active", 60, "/opt/start.sh"))
    with on_a_port(proc, "vllm", "serve", "q", group=group, parent=60):
        assert owner(look(proc, stubs)) == Owner("systemd", name)
    systemd(stubs, manager, ("vllm.service", "active", 61, "/opt/host"))
    again = FakeProc(proc.folder / "again")
    with on_a_port(again, "vllm", "serve", "q", group=group):
        assert owner(look(again, stubs)).runtime == "process"


def test_without_systemctl_the_control_group_is_believed(proc: FakeProc, stubs: StubCommands) -> None:
    with on_a_port(proc, "vllm", "serve", "q", group="/system.slice/vllm.service"):
        assert owner(look(proc, stubs)) == Owner("systemd", "vllm.service")


@pytest.mark.parametrize(
    ("group", "words"),
    [
        (f"/docker/{ID}", "let this account use docker"),
        (f"/libpod-{ID}.scope", "podman"),
        (f"/kubepods/pod1/{ID}", "install kubectl"),
        (f"/user.slice/user@{ME + 1}.service/app.slice/vllm.service", "another user"),
    ],
)
def test_what_cannot_be_driven_is_only_watched_and_says_why(
    proc: FakeProc, stubs: StubCommands, tmp_path: Path, group: str, words: str
) -> None:
    with on_a_port(proc, "vllm", "serve", "q", group=group):
        seen = look(proc, stubs)
    told = only(seen.found)
    assert table_of(told, tmp_path).runtime == "" and any(words in note for note in told.notes)


def test_a_docker_that_refuses_is_told(proc: FakeProc, stubs: StubCommands) -> None:
    stubs.answer("docker ps", says(stderr="permission denied while trying to connect", code=1))
    assert look(proc, stubs).notes == ("docker tells nothing: permission denied while trying to connect",)


def test_a_container_of_sparkrun_is_of_its_recipe(proc: FakeProc, stubs: StubCommands) -> None:
    job = "sparkrun_0123456789ab"
    docker(
        stubs, inspected(f"{job}_solo", "avarok/atlas-gb10", running=False, ports={8888: 8888}, argv=["atlas", "serve"])
    )
    stubs.answer("sparkrun status --json", says({"jobs": {job: {"meta": {"recipe": "@atlas/qwen"}}}}))
    assert owner(look(proc, stubs)) == Owner("sparkrun", "@atlas/qwen")
    assert stubs.calls == [
        ["docker", "ps", "-a", "-q", "--no-trunc"],
        ["docker", "container", "inspect", ID],
        ["sparkrun", "status", "--json"],
    ]
    stubs.answer("sparkrun status --json", says({}))
    (note,) = owner(look(proc, stubs)).notes
    assert job in note and owner(look(proc, stubs)).runtime == ""


POD = {
    "kind": "Pod",
    "metadata": {
        "namespace": "ai",
        "name": "vllm-7d9-x1",
        "labels": {"app": "vllm", "pod-template-hash": "7d9"},
        "ownerReferences": [{"kind": "ReplicaSet", "name": "vllm-7d9"}],
    },
    "spec": {
        "hostNetwork": True,
        "containers": [
            {"name": "c", "image": "vllm/vllm-openai", "args": ["--port", "PORT"], "ports": [{"name": "http"}]}
        ],
    },
    "status": {"containerStatuses": [{"name": "c", "containerID": f"containerd://{ID}"}]},
}
ASLEEP = {
    "kind": "Deployment",
    "metadata": {"namespace": "ai", "name": "vllm-dev"},
    "spec": {
        "replicas": 0,
        "template": {
            "metadata": {"labels": {"app": "dev"}},
            "spec": {
                "containers": [
                    {"name": "c", "image": "vllm/vllm-openai", "ports": [{"name": "http", "containerPort": 8000}]},
                    {"name": "side", "image": "busybox"},
                ]
            },
        },
    },
}
SERVICE = {
    "kind": "Service",
    "metadata": {"namespace": "ai", "name": "dev"},
    "spec": {"selector": {"app": "dev"}, "clusterIP": "10.43.0.9", "ports": [{"port": 80, "targetPort": "http"}]},
}
CLUSTER = "kubectl get deployments,pods,services -A -o json"


def cluster(port: int, *more: dict[str, Any]) -> str:
    return json.dumps({"items": [POD, *more]}).replace('"PORT"', f'"{port}"')


@pytest.mark.parametrize("before", ["", "k3s "])
def test_a_pod_is_of_its_deployment_and_deployments_at_zero_are_proposed_too(
    proc: FakeProc, stubs: StubCommands, before: str
) -> None:
    with on_a_port(proc, "python3", "-m", "vllm.entrypoints.openai.api_server", group=f"/kubepods/pod1/{ID}") as port:
        stubs.answer(before + CLUSTER, says(cluster(port, ASLEEP, SERVICE)))
        seen = look(proc, stubs)
    told = [(one.candidate.url, one.candidate.owner.unit, one.state) for one in seen.found]
    assert told == [
        (f"http://127.0.0.1:{port}", "ai/vllm", "answers"),
        ("http://10.43.0.9:80", "ai/vllm-dev", "stopped"),
    ]
    assert f"{before}{CLUSTER}" in stubs.commands and seen.asked == 1


def test_kubectl_is_not_asked_where_no_pod_runs_and_a_missing_service_is_told(
    proc: FakeProc, stubs: StubCommands
) -> None:
    stubs.answer(CLUSTER, says({"items": [ASLEEP]}))
    assert look(proc, stubs).found == () and CLUSTER not in stubs.commands
    proc.process(9, "pause", group=f"/kubepods/pod1/{ID}")
    (note,) = look(proc, stubs).notes
    assert "ai/vllm-dev" in note and "Service" in note


def test_a_pod_that_is_of_no_deployment_is_only_watched(proc: FakeProc, stubs: StubCommands) -> None:
    alone = POD | {"metadata": {"namespace": "ai", "name": "vllm-0"}}
    with on_a_port(proc, "vllm", "serve", group=f"/kubepods/pod1/{ID}") as port:
        stubs.answer(CLUSTER, says(json.dumps({"items": [alone]}).replace('"PORT"', f'"{port}"')))
        found = owner(look(proc, stubs))
    assert found.runtime == "" and "of no Deployment" in found.notes[0]


def test_engines_inside_a_resident_one_are_left_to_it(proc: FakeProc, stubs: StubCommands) -> None:
    with RecordedEngine(recording("llama-swap")["answers"]) as engine:
        port = int(engine.url.rpartition(":")[2])
        proc.listen(port, proc.process(70, "llama-swap"))
        with on_a_port(proc, "vllm", "serve", parent=70):
            seen = look(proc, stubs)
    assert [one.engine for one in seen.found] == ["llama-swap"] and (seen.inner, seen.asked) == (1, 2)


def test_engines_of_one_container_on_the_network_of_its_host_are_left_to_the_resident_one(
    proc: FakeProc, stubs: StubCommands
) -> None:
    box = inspected("swap", "ghcr.io/mostlygeek/llama-swap", network="host", argv=["llama-swap"])
    docker(stubs, box)
    with RecordedEngine(recording("llama-swap")["answers"]) as engine:
        port = int(engine.url.rpartition(":")[2])
        proc.listen(port, proc.process(70, "llama-swap", group=f"/docker/{ID}"))
        with on_a_port(proc, "vllm", "serve", parent=70, group=f"/docker/{ID}"):
            seen = look(proc, stubs)
    assert [one.candidate.owner.unit for one in seen.found] == ["swap"] and seen.inner == 1


def test_what_is_in_the_catalogue_is_neither_asked_nor_proposed(proc: FakeProc, stubs: StubCommands) -> None:
    with RecordedEngine(recording("vllm")["answers"]) as engine:
        proc.listen(int(engine.url.rpartition(":")[2]), proc.process(70, "vllm", "serve"))
        seen = look(proc, stubs, {"main": EngineSettings(url=engine.url.replace("127.0.0.1", "localhost") + "/v1")})
    assert (seen.found, seen.known, seen.asked, engine.asked) == ((), 1, 0, [])


# -- proposals


AT = Candidate(8000, owner=Owner("process"), argv=("vllm", "serve", "/m/q"), folder="/srv", same_user=True)


def test_a_table_reads_back_as_it_was_meant_whatever_its_words_hold(tmp_path: Path) -> None:
    odd = ("vllm", 'a"b\\c', "tab\there", "new\nline", "del\x7f", "ü 漢 😀", "", "#no = comment", "\x01\x1f")
    told = only([found_at(replace(AT, argv=odd, weights="/m/q\x7f"), models=("Q/Qwen3-8B",), held_gib=20.06)])
    read = table_of(told, tmp_path)
    assert (read.command, read.folder, read.weights) == (odd, "/srv", "/m/q\x7f")
    assert (told.name, read.model, read.memory_gib, read.context) == ("Qwen3-8B", "Q/Qwen3-8B", 20.1, 0)


@pytest.mark.parametrize("code", [*range(0x20), 0x22, 0x5C, 0x7F, 0x80, 0x2028, 0xFFFD, 0x10FFFF])
def test_every_character_that_toml_treats_differently_is_quoted(code: int) -> None:
    assert tomllib.loads(f"a = {quoted(f'x{chr(code)}y')}") == {"a": f"x{chr(code)}y"}


def test_a_key_in_a_command_is_neither_shown_nor_hinted_at(tmp_path: Path) -> None:
    for words in (("--api-key", KEY), (f"--api-key={KEY}",), (f"HF_TOKEN={KEY}",), ("--x", KEY)):
        secret = replace(AT, argv=("vllm", "serve", f"/m/{KEY}", *words), weights=f"/m/{KEY}")
        told = only([found_at(secret, models=("m",))])
        shown = told.as_toml() + json.dumps(told.as_json())
        assert KEY not in shown and KEY[:12] not in shown and SECRET in told.notes
        assert table_of(told, tmp_path).runtime == "" and not table_of(told, tmp_path).command


def test_text_of_an_engine_cannot_leave_its_comment_or_its_table(tmp_path: Path) -> None:
    evil = "x\n[engines.evil]\nurl = 1"
    found = Found(AT, "vllm", "answers", (evil,), ('m"\n[engines.evil]',))
    told = only([found])
    assert list(tomllib.loads(told.as_toml())["engines"]) == [told.name]


def test_words_that_are_no_text_are_not_written() -> None:
    told = only([found_at(replace(AT, argv=("vllm", os.fsdecode(b"\xff"))))])
    assert "command" not in told.entry and any("UTF-8" in note for note in told.notes)
    told.as_toml().encode()


def test_names_are_valid_and_unique() -> None:
    models = ("Org/Model.V1", "other/Model.V1", "x" * 60, "y" * 60, "漢字", "..", "")
    found = [found_at(AT, models=(one,) if one else ()) for one in models]
    names = [one.name for one in proposals(found, ["Model-V1", "vllm"], JUDGE)]
    assert names[:2] == ["Model-V1-2", "Model-V1-3"] and names[4:] == ["vllm-2", "vllm-3", "vllm-4"]
    assert len({*names, *(one.name for one in proposals(found[2:3] * 3, (), JUDGE))}) == 9
    assert all(len(name) <= 32 for name in names)


def test_a_resident_engine_has_a_table_for_each_loaded_model_and_says_who_owns_it(tmp_path: Path) -> None:
    place = replace(AT, owner=Owner("systemd", "ollama.service"))
    told = proposals([found_at(place, "ollama", models=("a:1", "b:2"), held_gib=9.0)], (), JUDGE)
    assert [(one.name, one.entry["model"], one.entry["runtime"]) for one in told] == [
        ("a-1", "a:1", "daemon"),
        ("b-2", "b:2", "daemon"),
    ]
    assert all("memory_gib" not in one.entry and "systemd ollama.service" in one.notes[0] for one in told)
    assert table_of(told[0], tmp_path).model == "a:1"
    alone = only([found_at(place, "ollama", models=("a:1",), held_gib=9.0)])
    assert alone.entry["memory_gib"] == 9.0
    empty = only([found_at(place, "ollama", loaded=False)])
    assert table_of(empty, tmp_path).runtime == "" and any("add runtime" in note for note in empty.notes)


def test_a_router_in_front_must_serve_no_model_and_what_loads_has_no_size() -> None:
    assert "model" not in only([found_at(AT, "litellm", models=("spark-only",), loaded=False)]).entry
    told = only([found_at(AT, state="loading", held_gib=3.0)])
    assert "memory_gib" not in told.entry and any("run this again" in note for note in told.notes)
    assert any("open to other machines" in note for note in only([found_at(replace(AT, public=True))]).notes)
    assert only([found_at(replace(AT, owner=NOBODY))]).entry == {"engine": "vllm", "url": "http://127.0.0.1:8000"}


# -- real processes


SERVER = """\
import json, sys
sys.path[:0] = [{tests!r}]
from recorded_engine import RecordedEngine, recording
with RecordedEngine(recording("vllm")["answers"]) as engine:
    print(engine.url.rpartition(":")[2], flush=True)
    sys.stdin.read()
"""


@contextmanager
def a_real_vllm(folder: Path, *words: str) -> Iterator[tuple[int, int, list[str]]]:
    """A child that serves a recording under the name of vLLM: its pid, its port and its command."""
    script = folder / "vllm"
    script.write_text(SERVER.format(tests=str(Path(__file__).parent)))
    argv = [sys.executable, "-I", str(script), "serve", *words]
    with subprocess.Popen(argv, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout and child.stdin
        try:
            yield child.pid, int(child.stdout.readline()), argv
        finally:
            child.stdin.close()


def test_a_real_process_is_proposed_with_its_command_and_folder(
    proc: FakeProc, stubs: StubCommands, tmp_path: Path
) -> None:
    (tmp_path / "weights").mkdir()
    with a_real_vllm(tmp_path, "weights") as (pid, port, argv):
        proc.see(pid, port)
        assert processes(proc.folder)[pid].uid == ME
        seen = look(proc, stubs)
    told = table_of(only(seen.found), tmp_path)
    assert (told.runtime, list(told.command), told.folder) == ("process", argv, str(tmp_path))
    assert told.weights == str(tmp_path / "weights") and told.url == f"http://127.0.0.1:{port}"
    assert 0 < told.memory_gib < 1


def command(box: Box, proc: FakeProc, *words: str) -> subprocess.CompletedProcess[str]:
    """The command where there is no docker, no kubectl and no systemctl."""
    code = "from sparkgate.clients.engine_discover import discover; discover()"
    return subprocess.run(
        [sys.executable, "-I", "-c", code, "--proc", str(proc.folder), *words],
        capture_output=True,
        text=True,
        env=box.environment | {"PATH": str(box.root / "empty")},
        check=False,
    )


def test_the_command_prints_tables_that_can_be_pasted(box: Box, proc: FakeProc, tmp_path: Path) -> None:
    with a_real_vllm(tmp_path, "m") as (pid, port, _):
        proc.see(pid, port)
        printed = command(box, proc)
        told = json.loads(command(box, proc, "--json").stdout)
        assert not box.config.exists()
        box.configure(printed.stdout)
        again = command(box, proc)
        box.configure("[engines\n")
        broken = command(box, proc)
    assert printed.returncode == 0 and "asked 1 ports, found 1 engine" in printed.stderr
    (table,) = tomllib.loads(printed.stdout)["engines"].values()
    assert table["url"] == f"http://127.0.0.1:{port}" and told[0]["entry"] == table
    assert set(told[0]) == {"name", "engine", "url", "runtime", "because", "entry", "notes"}
    assert (again.returncode, again.stdout) == (0, "") and "1 in the catalogue already" in again.stderr
    assert "no engine was found" in again.stderr and broken.returncode == 1


def test_a_key_in_a_real_command_line_is_in_no_output(box: Box, proc: FakeProc, tmp_path: Path) -> None:
    with a_real_vllm(tmp_path, "m", "--api-key", KEY) as (pid, port, _):
        proc.see(pid, port)
        runs = [command(box, proc, *more) for more in ((), ("--json",))]
    assert all(KEY not in run.stdout + run.stderr and run.returncode == 0 for run in runs)
    assert "command =" not in runs[0].stdout and "holds a key" in runs[0].stdout
