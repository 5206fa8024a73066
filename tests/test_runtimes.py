"""Owners of engine processes: docker, systemd, Kubernetes and sparkrun as programs that are none."""

from __future__ import annotations

import json
import re
import stat
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import pytest
from stub_commands import HANGS, StubCommands, says

from sparkgate.engine_settings import EngineSettings
from sparkgate.machine.commands import Completed, runner
from sparkgate.policy.local import LocalDoor
from sparkgate.runtimes import docker, kubernetes, owner, sparkrun, systemd
from sparkgate.runtimes.docker import DockerRuntime, size
from sparkgate.runtimes.kubernetes import KubernetesRuntime, role_for
from sparkgate.runtimes.owner import EVERYWHERE, fault, hide, is_trouble, note_of, printed, trouble, without_flag_values
from sparkgate.runtimes.sparkrun import SparkrunRuntime
from sparkgate.runtimes.spec import Place, Runtime, RuntimeFault
from sparkgate.runtimes.systemd import SystemdRuntime

KEY = "hf_abcdefghijklmnop"
GIVEN = (f"HF_TOKEN={KEY}",)


@pytest.fixture
def stubs(tmp_path: Path) -> StubCommands:
    return StubCommands(tmp_path)


@pytest.fixture
def door() -> Iterator[LocalDoor]:
    with LocalDoor([]) as one:
        yield one


Make = Callable[..., Place]


@pytest.fixture
def place(stubs: StubCommands, door: LocalDoor, tmp_path: Path) -> Make:
    """(unit, command) → the place of an engine whose owner is a stub."""

    def make(unit: str, *command: str) -> Place:
        entry = EngineSettings(unit=unit, command=command, environment=GIVEN)
        return Place("big", entry, stubs, no_process, tmp_path / "state", door)

    return make


def no_process(
    argv: Sequence[str], environment: Mapping[str, str], folder: str, output: IO[bytes]
) -> subprocess.Popen[bytes]:
    raise AssertionError(f"{argv} must not be started as a process")


def code_of(act: Callable[[], object]) -> str:
    with pytest.raises(RuntimeFault) as caught:
        act()
    assert KEY not in str(caught.value) and "\n" not in str(caught.value)
    return caught.value.code


# What all have in common.

TROUBLES = {"docker": docker.TROUBLES, "systemd": systemd.TROUBLES, "k8s": kubernetes.TROUBLES, "sr": sparkrun.TROUBLES}
"""Tables of refusals; the lines below are what the programs print."""

REFUSALS = [
    ("docker", "absent", "Error response from daemon: No such container: big"),
    ("docker", "absent", "error: no such object: big"),
    (
        "docker",
        "name_taken",
        'docker: Error response from daemon: Conflict. The container name "/big" is already in use by container "1f".',
    ),
    (
        "docker",
        "port_taken",
        "docker: Error response from daemon: driver failed programming external connectivity on endpoint big: "
        "Bind for 0.0.0.0:8000 failed: port is already allocated",
    ),
    (
        "docker",
        "no_gpu_driver",
        'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].',
    ),
    ("docker", "no_gpu_driver", "docker: Error response from daemon: unknown or invalid runtime name: nvidia"),
    (
        "docker",
        "forbidden",
        "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock",
    ),
    (
        "docker",
        "unreachable",
        "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
    ),
    (
        "docker",
        "wrong_platform",
        "docker: no matching manifest for linux/arm64/v8 in the manifest list entries.",
    ),
    (
        "docker",
        "no_image",
        "docker: Error response from daemon: pull access denied for big, repository does not exist",
    ),
    ("docker", "no_command", 'exec: "vlm": executable file not found in $PATH: unknown'),
    ("docker", "paused", "Error response from daemon: cannot start a paused container, try unpause instead"),
    (
        "docker",
        "not_stopped",
        "cannot stop container: big: tried to kill container, but did not receive an exit event",
    ),
    ("docker", "not_running", "cannot kill container: big: container 1f is not running"),
    ("systemd", "forbidden", "Failed to start vllm.service: Interactive authentication required."),
    ("systemd", "unreachable", "System has not been booted with systemd as init system (PID 1). Can't operate."),
    ("systemd", "unreachable", "Failed to connect to bus: No medium found"),
    ("systemd", "unreachable", "Failed to connect to bus: No such file or directory"),
    ("systemd", "without_flag_values", "Failed to start vllm.service: Unit vllm.service is without_flag_values."),
    ("systemd", "absent", "Failed to start vllm.service: Unit vllm.service not found."),
    ("systemd", "absent", "Failed to stop vllm.service: Unit vllm.service not loaded."),
    ("systemd", "start_limit", "vllm.service: Start request repeated too quickly."),
    (
        "k8s",
        "forbidden",
        'Error from server (Forbidden): deployments.apps "vllm" is forbidden: User "gate" cannot get resource',
    ),
    ("k8s", "unauthorized", "error: You must be logged in to the server (Unauthorized)"),
    (
        "k8s",
        "unauthorized",
        'error loading config file "/etc/rancher/k3s/k3s.yaml": open /etc/rancher/k3s/k3s.yaml: permission denied',
    ),
    ("k8s", "absent", 'Error from server (NotFound): deployments.apps "vllm" not found'),
    ("k8s", "gone", "error: no matching resources found"),
    ("k8s", "timeout", "error: timed out waiting for the condition on pods/vllm-7"),
    (
        "k8s",
        "unreachable",
        "The connection to the server localhost:8080 was refused - did you specify the right host or port?",
    ),
    ("sr", "no_hosts", "Error: No hosts specified. Use --hosts or configure defaults."),
    ("sr", "untrusted", "Error: Recipe 'x' is not from a trusted source and runs hooks (pre_exec)"),
    ("sr", "absent", "Error: Recipe 'x' not found in any configured registry"),
    ("sr", "no_room", "Error: Insufficient capacity: 2 accelerators wanted, 1 free"),
    ("sr", "not_running", "Error: No running workload matches intent fa48eafb2c57f343 on hosts ['a']"),
    ("sr", "not_stopped", "Workload NOT fully stopped: teardown did not confirm on spark-2"),
    ("sr", "forbidden", "spark-2: Permission denied (publickey)."),
    ("sr", "unreachable", "Error: Cannot determine running workloads: status unavailable for localhost"),
]


@pytest.mark.parametrize(("who", "code", "text"), REFUSALS)
def test_a_refusal_of_an_owner_has_a_code_and_a_way_out(place: Make, who: str, code: str, text: str) -> None:
    ended = Completed(1, stderr=f"noise that says nothing\n{text}\n\nRun 'x --help' for more information\n")
    error = fault(place("vllm"), "it was asked", ended, TROUBLES[who])
    assert error.code == code
    assert text[:60] in str(error) and "{" not in str(error).replace(text, "")


def test_every_known_refusal_has_an_example() -> None:
    examples = [(who, trouble(Completed(1, stderr=text), TROUBLES[who])[0]) for who, _, text in REFUSALS]
    assert [(who, one) for who, known in TROUBLES.items() for one in known if (who, one) not in examples] == []


def test_a_program_that_is_absent_or_hangs_is_known_by_what_the_runner_says(tmp_path: Path) -> None:
    hanging = tmp_path / "hanging"
    hanging.write_text("#!/bin/sh\nexec tail -f /dev/null\n")
    hanging.chmod(0o755)
    run = runner(environment={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert is_trouble(run(["no-such-program"], 5), EVERYWHERE, "not_installed")
    assert is_trouble(run(["hanging"], 0.05), EVERYWHERE, "timeout")


def test_a_refusal_that_is_not_known_is_told_by_its_error_line(place: Make) -> None:
    ended = Completed(1, stderr="Pulling\nError: something new\nRun 'docker run --help' for more\n")
    error = fault(place("big"), "it was asked", ended, docker.TROUBLES)
    assert (error.code, str(error)) == ("refused", "big: it was asked: Error: something new")


COMMANDS = [
    ("docker", "run", "-d", "--name", "big", "-e", f"HF_TOKEN={KEY}", "image"),
    ("docker", "run", "-d", "--name", "big", f"-eHF_TOKEN={KEY}", "image"),
    ("docker", "run", "-d", "--name", "big", f"--env=HF_TOKEN={KEY}", "image"),
    ("docker", "run", "-d", "--name", "big", "image", "--api-key", KEY),
    ("docker", "run", "-d", "--name", "big", "image", f"--api-key={KEY}"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[-1][:8] + words[5][:6])
def test_values_of_the_catalogue_stand_in_no_error_and_no_plan(
    place: Make, stubs: StubCommands, command: tuple[str, ...]
) -> None:
    stubs.answer("docker container inspect", says("[]", "Error response from daemon: No such container: big", 1))
    stubs.answer("docker run", says("", f"docker: invalid argument {'x' * 190}{KEY} in {KEY}", 125))
    runtime = DockerRuntime(place("big", *command))
    assert code_of(runtime.start) == "refused"
    assert KEY not in " ".join(runtime.steps()) and "image" in runtime.steps()[-1]


def test_words_that_are_no_secret_stay(place: Make) -> None:
    words = ("vllm", "serve", "m", "--api-key", KEY, "--max-num-batched-tokens", "8192", "--tokenizer", "t")
    assert without_flag_values(words) == (*words[:4], "***", *words[5:])
    assert hide("port 8000 of big", place("big", "docker", "run", "-e", "A=8", "--name", "big")) == "port 8000 of big"


def test_a_progress_bar_in_a_log_is_its_last_state() -> None:
    text = "\x1b[0;36m(APIServer)\x1b[0m start\r\nshards:  0%\rshards: 50%\rshards: 100%\n\n"
    assert printed(text) == ["(APIServer) start", "shards: 100%"]


OWNERS: list[tuple[type[Any], str, str]] = [
    (DockerRuntime, "big", "docker"),
    (SystemdRuntime, "vllm.service", "systemctl"),
    (KubernetesRuntime, "llm/vllm", "kubectl"),
    (SparkrunRuntime, "@atlas/qwen", "sparkrun"),
]


@pytest.mark.parametrize(("owner_class", "unit", "program"), OWNERS)
def test_an_owner_that_is_not_installed_is_unknown_and_cannot_start(
    place: Make, owner_class: Callable[[Place], Runtime], unit: str, program: str
) -> None:
    runtime = owner_class(place(unit))
    look = runtime.look()
    assert look.state == "unknown" and "is not installed" in look.detail
    assert code_of(runtime.start) == code_of(lambda: runtime.stop(1)) == "not_installed"
    assert runtime.log(5) == [] and program in runtime.steps()[0]


def test_an_exit_code_is_told_in_words() -> None:
    assert "cause unknown" in owner.words_of_exit(137) and "segmentation" in owner.words_of_exit(139)
    assert (owner.words_of_exit(134), owner.words_of_exit(3)) == ("exit 134: ended by signal 6", "exit 3")
    assert owner.words_of_exit(0) == owner.words_of_exit(None) == ""


# docker

ABSENT = says("[]\n", "Error response from daemon: No such container: big\n", 1)
RUN = ("docker", "run", "-d", "--name", "big", "image")


def inspected(status: str = "running", restart: str = "no", restarts: int = 0, **state: Any) -> dict[str, Any]:
    """What `docker container inspect` prints."""
    alive = status in ("running", "paused", "restarting")
    ended = "0001-01-01T00:00:00Z" if status in ("running", "created") else "2025-11-02T10:00:00.5Z"
    fields = {"Status": status, "Running": alive, "Pid": 4242 if alive else 0, "ExitCode": 0, "OOMKilled": False}
    fields |= {"Error": "", "StartedAt": "2025-11-02T09:00:00.123456789Z", "FinishedAt": ended}
    config = {"Image": "vllm/vllm-openai:v0.11.0", "Env": [f"HF_TOKEN={KEY}", "A=b=c"], "User": "1000", "Labels": {}}
    host = {"RestartPolicy": {"Name": restart, "MaximumRetryCount": 0}, "AutoRemove": False, "ShmSize": 64 * 2**20}
    host |= {"Devices": [{"PathOnHost": "/dev/infiniband"}], "CapAdd": ["IPC_LOCK"], "Memory": 0, "Runtime": "nvidia"}
    host |= {"Ulimits": [{"Name": "memlock", "Soft": -1, "Hard": -1}], "IpcMode": "host", "NetworkMode": "host"}
    host |= {"DeviceRequests": [{"Driver": "", "Count": -1, "DeviceIDs": None, "Capabilities": [["gpu"]]}]}
    more = {"Image": "sha256:ab", "Path": "vllm", "Args": ["serve", "m", "--api-key", KEY], "RestartCount": restarts}
    return says([{"State": fields | state, "Config": config, "HostConfig": host} | more])


def test_a_container_is_read_with_all_that_rules_ask_for(place: Make, stubs: StubCommands) -> None:
    stubs.answer("docker container inspect", inspected())
    stubs.answer("docker top", says("    PID\n   4242\n   4300\n"))
    look = DockerRuntime(place("big")).look()
    assert stubs.commands == ["docker container inspect big", "docker top big -eo pid"]
    assert (look.state, look.pids, look.exit_code, look.killed_for_memory) == ("running", (4242, 4300), None, None)
    assert (look.image, look.argv) == ("vllm/vllm-openai:v0.11.0", ("vllm", "serve", "m", "--api-key", "***"))
    assert look.environment == {"HF_TOKEN": KEY, "A": "b=c"} and look.since_s == pytest.approx(1762074000.123456)
    assert look.traits == {
        "status": "running",
        "restart_policy": "no",
        "runtime": "nvidia",
        "network": "host",
        "ipc": "host",
        "user": "1000",
        "image_id": "sha256:ab",
        "shm_size": "64M",
        "devices": "/dev/infiniband",
        "cap_add": "IPC_LOCK",
        "ulimits": "memlock=-1:-1",
        "gpus": "all",
    }


ENDS: list[tuple[dict[str, Any], str, int | None, bool | None, str]] = [
    ({"OOMKilled": True, "ExitCode": 137}, "failed", 137, True, "killed for its memory"),
    ({"ExitCode": 137}, "failed", 137, None, "killed, cause unknown"),
    ({"ExitCode": 139}, "failed", 139, False, "segmentation fault"),
    ({"ExitCode": 255}, "failed", 255, False, "the host went down"),
    ({"ExitCode": 127}, "failed", 127, False, "not found"),
    ({"ExitCode": 1}, "failed", 1, False, "exit 1"),
    ({"ExitCode": 143}, "stopped", 143, False, "asked to end"),
    ({}, "stopped", 0, False, ""),
]


@pytest.mark.parametrize(("fields", "state", "code", "killed", "words"), ENDS)
def test_the_end_of_a_container_is_told_apart(
    place: Make,
    stubs: StubCommands,
    fields: dict[str, Any],
    state: str,
    code: int | None,
    killed: bool | None,
    words: str,
) -> None:
    stubs.answer("docker container inspect", inspected("exited", **fields))
    look = DockerRuntime(place("big")).look()
    assert (look.state, look.exit_code, look.killed_for_memory, look.pids) == (state, code, killed, ())
    assert words in look.detail and stubs.commands == ["docker container inspect big"]


def test_a_container_that_docker_restarts_again_and_again_has_failed(place: Make, stubs: StubCommands) -> None:
    stubs.answer("docker container inspect", inspected("restarting", "unless-stopped", 3, ExitCode=1, Pid=0))
    look = DockerRuntime(place("big")).look()
    assert (look.state, look.restarts, look.exit_code, look.revived_by) == (
        "failed",
        3,
        1,
        "restart policy unless-stopped",
    )
    assert "started it again 3 times" in look.detail and look.traits["restart_policy"] == "unless-stopped"


def test_a_container_that_could_not_be_started_has_failed_with_dockers_reason(place: Make, stubs: StubCommands) -> None:
    stubs.answer("docker container inspect", inspected("created", Error=f"port {KEY} taken", ExitCode=128))
    look = DockerRuntime(place("big")).look()
    assert (look.state, look.exit_code) == ("failed", 128) and "port *** taken" in look.detail


@pytest.mark.parametrize(
    ("policy", "revives"), [("no", ""), ("on-failure", ""), ("unless-stopped", ""), ("always", "restart policy always")]
)
def test_only_the_policy_always_undoes_a_stop(place: Make, stubs: StubCommands, policy: str, revives: str) -> None:
    stubs.answer("docker container inspect", inspected("exited", policy))
    look = DockerRuntime(place("big")).look()
    assert look.revived_by.startswith(revives) and bool(look.revived_by) is bool(revives)
    assert look.traits["restart_policy"] == policy


def test_a_container_that_is_absent_is_created_by_the_command_of_the_catalogue(
    place: Make, stubs: StubCommands
) -> None:
    stubs.answer("docker container inspect", ABSENT)
    stubs.answer("docker run", says("1f\n"))
    runtime = DockerRuntime(place("big", *RUN))
    look = runtime.look()
    assert (look.state, look.detail) == ("stopped", "there is no container big")
    runtime.start()
    assert stubs.calls[-1] == list(RUN)
    assert runtime.steps() == ["docker start big", "or, when there is no container big:", " ".join(RUN)]


def test_a_container_that_is_absent_without_a_command_is_not_started(place: Make, stubs: StubCommands) -> None:
    stubs.answer("docker container inspect", ABSENT)
    assert code_of(DockerRuntime(place("big")).start) == "absent"
    assert stubs.commands == ["docker container inspect big"]


@pytest.mark.parametrize("command", [("docker", "run", "--name", "big", "i"), ("docker", "run", "-d", "i")])
def test_a_docker_command_that_would_not_return_or_names_another_is_refused(
    place: Make, stubs: StubCommands, command: tuple[str, ...]
) -> None:
    stubs.answer("docker container inspect", ABSENT)
    assert code_of(DockerRuntime(place("big", *command)).start) == "bad_command"
    assert stubs.commands == ["docker container inspect big"]


def test_a_container_is_started_once(place: Make, stubs: StubCommands) -> None:
    stubs.answer("docker container inspect", inspected("exited"), inspected("running"))
    stubs.answer("docker start", says("big\n"))
    runtime = DockerRuntime(place("big", *RUN))
    runtime.start()
    runtime.start()
    assert stubs.commands == ["docker container inspect big", "docker start big", "docker container inspect big"]


def test_a_container_that_was_stopped_here_has_not_failed_whatever_its_code(place: Make, stubs: StubCommands) -> None:
    stubs.answer("docker stop", says("big\n"))
    stubs.answer("docker container inspect", inspected("exited", ExitCode=137))
    runtime = DockerRuntime(place("big"))
    runtime.stop(20.2)
    assert stubs.commands == ["docker stop -t 21 big", "docker container inspect big"]
    assert stubs.limits_s[0] == pytest.approx(50.2)
    assert runtime.look().state == "stopped"
    stubs.answer("docker container inspect", inspected("exited", ExitCode=137, StartedAt="2025-11-03T00:00:00Z"))
    assert runtime.look().state == "failed"


def test_a_docker_that_hangs_at_a_stop_is_told_to_kill(place: Make, stubs: StubCommands) -> None:
    stubs.answer("docker stop", says(code=HANGS))
    stubs.answer("docker kill", says("", "cannot kill container: big: container 1f is not running", 1))
    stubs.answer("docker container inspect", inspected("exited", ExitCode=137))
    DockerRuntime(place("big")).stop(1)
    assert stubs.commands == ["docker stop -t 1 big", "docker kill big", "docker container inspect big"]


def test_a_container_that_runs_on_is_not_called_stopped(place: Make, stubs: StubCommands) -> None:
    stubs.answer("docker stop", says("big\n"))
    stubs.answer("docker container inspect", inspected("running"))
    assert code_of(lambda: DockerRuntime(place("big")).stop(1)) == "not_stopped"


def test_stopping_a_container_that_is_absent_is_done_already(place: Make, stubs: StubCommands) -> None:
    stubs.answer("docker stop", says("", "Error response from daemon: No such container: big\n", 1))
    DockerRuntime(place("big")).stop(1)
    assert stubs.commands == ["docker stop -t 1 big"]


def test_both_streams_of_a_container_log_are_put_in_order(place: Make, stubs: StubCommands) -> None:
    out = "2025-11-02T09:00:00.100000000Z one\n2025-11-02T09:00:00.300000000Z three\n"
    stubs.answer("docker logs", says(out, "2025-11-02T09:00:00.200000000Z two a\rtwo b\n"))
    assert DockerRuntime(place("big")).log(2) == ["two b", "three"]
    assert stubs.commands == ["docker logs --timestamps --tail 2 big"]


def test_a_container_that_docker_removes_with_its_log_is_marked(place: Make, stubs: StubCommands) -> None:
    stubs.answer("docker container inspect", ABSENT)
    assert DockerRuntime(place("big", *RUN, "--rm")).look().traits == {"rm": "true"}


def test_sizes_are_told_in_the_largest_unit_without_a_rest() -> None:
    assert [size(one) for one in (0, 1500, 2**16, 64 * 2**20, 2**35)] == ["", "1500", "64K", "64M", "32G"]


# systemd

SHOW = ["systemctl", "show", "vllm.service", "--timestamp=unix", "-p", ",".join(systemd.PROPERTIES)]


def shown(active: str = "active", sub: str = "running", **more: str) -> dict[str, Any]:
    """What `systemctl show` prints."""
    told = {"LoadState": "loaded", "ActiveState": active, "SubState": sub, "MainPID": "4242", "Result": "success"}
    told |= {"ExecMainCode": "0", "ExecMainStatus": "0", "NRestarts": "0", "Restart": "always", "Type": "simple"}
    told |= {"ControlGroup": "/system.slice/vllm.service", "ExecMainStartTimestamp": "@1762074000", "TriggeredBy": ""}
    told |= {"Environment": f'HF_TOKEN={KEY} "B=c d"', "ExecStart": ""} | more
    return says("".join(f"{name}={value}\n" for name, value in told.items()))


def test_a_unit_is_read_with_all_processes_of_its_group(place: Make, stubs: StubCommands, tmp_path: Path) -> None:
    group = tmp_path / "cgroup" / "system.slice" / "vllm.service"
    (group / "below").mkdir(parents=True)
    (group / "cgroup.procs").write_text("4300\n4242\n")
    (group / "below" / "cgroup.procs").write_text("4400\n")
    start = "{ path=/opt/vllm ; argv[]=/opt/vllm serve m --api-key k123 ; ignore_errors=no ; start_time=[n/a] }"
    stubs.answer("systemctl show", shown(ExecStart=start))
    look = SystemdRuntime(place("vllm.service"), tmp_path / "cgroup").look()
    assert stubs.calls == [SHOW]
    assert (look.state, look.pids, look.since_s) == ("running", (4242, 4300, 4400), 1762074000.0)
    assert look.argv == ("/opt/vllm", "serve", "m", "--api-key", "***")
    assert look.environment == {"HF_TOKEN": KEY, "B": "c d"}
    assert (look.restarts, look.exit_code, look.revived_by, look.detail) == (0, None, "", "")
    assert look.traits == {"restart": "always", "type": "simple", "result": "success", "sub_state": "running"}


UNITS: list[tuple[dict[str, str], str, int | None, bool | None, str]] = [
    ({"active": "activating", "sub": "start"}, "starting", None, None, ""),
    ({"active": "failed", "sub": "failed", "Job": "1812"}, "starting", None, None, ""),
    ({"active": "deactivating", "sub": "stop-sigterm"}, "running", None, None, ""),
    ({"active": "inactive", "sub": "dead"}, "stopped", None, None, ""),
    (
        {"active": "activating", "sub": "auto-restart", "ExecMainCode": "1", "ExecMainStatus": "1", "NRestarts": "7"},
        "failed",
        1,
        False,
        "auto-restart), started again 7 times",
    ),
    (
        {"active": "failed", "Result": "oom-kill", "ExecMainCode": "2", "ExecMainStatus": "9"},
        "failed",
        137,
        True,
        "killed for its memory",
    ),
    (
        {"active": "failed", "Result": "signal", "ExecMainCode": "2", "ExecMainStatus": "9"},
        "failed",
        137,
        None,
        "cause unknown",
    ),
    (
        {"active": "failed", "Result": "core-dump", "ExecMainCode": "3", "ExecMainStatus": "11"},
        "failed",
        139,
        False,
        "segmentation fault",
    ),
    (
        {"active": "failed", "Result": "exit-code", "ExecMainCode": "1", "ExecMainStatus": "203"},
        "failed",
        203,
        False,
        "cannot be executed",
    ),
    (
        {"active": "failed", "Result": "start-limit-hit", "ExecMainCode": "1", "ExecMainStatus": "1"},
        "failed",
        1,
        False,
        "starts it no more",
    ),
    ({"active": "inactive", "LoadState": "not-found"}, "stopped", None, None, "there is no unit vllm.service"),
    ({"active": "inactive", "LoadState": "without_flag_values"}, "stopped", None, None, "without_flag_values"),
]


@pytest.mark.parametrize(("fields", "state", "code", "killed", "words"), UNITS)
def test_the_state_of_a_unit_is_told_apart(
    place: Make,
    stubs: StubCommands,
    fields: dict[str, str],
    state: str,
    code: int | None,
    killed: bool | None,
    words: str,
) -> None:
    stubs.answer("systemctl show", shown(**fields))
    look = SystemdRuntime(place("vllm.service")).look()
    assert (look.state, look.exit_code, look.killed_for_memory) == (state, code, killed)
    assert words in look.detail and look.revived_by == ("Restart=always" if "auto-restart" in fields.values() else "")


def test_a_timer_that_starts_a_unit_again_is_named(place: Make, stubs: StubCommands) -> None:
    stubs.answer("systemctl show", shown(TriggeredBy="vllm-watchdog.timer"))
    assert SystemdRuntime(place("vllm.service")).look().revived_by == "vllm-watchdog.timer"


def test_a_unit_of_the_user_manager_is_asked_there(place: Make, stubs: StubCommands) -> None:
    stubs.answer("systemctl --user show", shown("inactive", "dead"))
    stubs.answer("systemctl --user start")
    stubs.answer("journalctl", says("one\n\x1b[1mtwo\x1b[0m\n"))
    runtime = SystemdRuntime(place("user:vllm.service"))
    runtime.start()
    assert runtime.log(2) == ["one", "two"]
    assert stubs.calls == [
        ["systemctl", "--user", *SHOW[1:]],
        ["systemctl", "--user", "start", "--no-block", "vllm.service"],
        ["journalctl", "--user", "-u", "vllm.service", "-n", "2", "-o", "cat", "--no-pager"],
    ]
    assert runtime.steps() == ["systemctl --user start --no-block vllm.service"]


def test_a_unit_that_runs_is_not_started_again(place: Make, stubs: StubCommands) -> None:
    stubs.answer("systemctl show", shown())
    SystemdRuntime(place("vllm.service")).start()
    assert stubs.calls == [SHOW]


def test_a_unit_that_failed_too_often_is_reset_before_its_start(place: Make, stubs: StubCommands) -> None:
    stubs.answer("systemctl show", shown("failed", "failed", Result="start-limit-hit"))
    stubs.answer("systemctl reset-failed")
    stubs.answer("systemctl start")
    SystemdRuntime(place("vllm.service")).start()
    words = "vllm.service"
    assert stubs.commands[1:] == [f"systemctl reset-failed {words}", f"systemctl start --no-block {words}"]


def test_a_start_that_needs_authentication_names_the_ways_out(place: Make, stubs: StubCommands) -> None:
    stubs.answer("systemctl show", shown("inactive", "dead"))
    refused = "Failed to start vllm.service: Interactive authentication required.\nSee system logs for details.\n"
    stubs.answer("systemctl start", says("", refused, 1))
    with pytest.raises(RuntimeFault, match=r"polkit rule.*user manager.*sudo") as caught:
        SystemdRuntime(place("vllm.service")).start()
    assert caught.value.code == "forbidden"


def test_a_unit_is_stopped_within_its_grace(place: Make, stubs: StubCommands) -> None:
    stubs.answer("systemctl stop")
    stubs.answer("systemctl show", shown("inactive", "dead"))
    SystemdRuntime(place("vllm.service")).stop(20)
    assert stubs.calls == [["systemctl", "stop", "vllm.service"], SHOW]
    assert stubs.limits_s[0] == 20


def test_a_unit_that_does_not_stop_is_killed_and_its_kill_is_no_failure(place: Make, stubs: StubCommands) -> None:
    stubs.answer("systemctl stop", says(code=HANGS), says())
    stubs.answer("systemctl kill")
    stubs.answer("systemctl reset-failed")
    stubs.answer("systemctl show", shown("failed", "failed", Result="signal"))
    SystemdRuntime(place("vllm.service")).stop(1)
    assert [words[1:] for words in stubs.calls] == [
        ["stop", "vllm.service"],
        ["kill", "-s", "KILL", "vllm.service"],
        ["stop", "vllm.service"],
        SHOW[1:],
        ["reset-failed", "vllm.service"],
    ]


def test_a_unit_that_is_still_active_after_a_stop_is_not_called_stopped(place: Make, stubs: StubCommands) -> None:
    stubs.answer("systemctl stop")
    stubs.answer("systemctl show", shown("deactivating", "stop-sigkill"))
    assert code_of(lambda: SystemdRuntime(place("vllm.service")).stop(1)) == "not_stopped"


def test_stopping_a_unit_that_is_not_loaded_is_done_already(place: Make, stubs: StubCommands) -> None:
    stubs.answer("systemctl stop", says("", "Failed to stop vllm.service: Unit vllm.service not loaded.\n", 5))
    SystemdRuntime(place("vllm.service")).stop(1)
    assert stubs.commands == ["systemctl stop vllm.service"]


# Kubernetes

GET = "kubectl -n llm get deployment vllm -o json"
PODS = "kubectl -n llm get pods -l app=vllm,tier in (gpu,big) -o json"
CONTAINER_ID = "ab12" * 16


def deployment(replicas: int = 1, strategy: str = "Recreate", **metadata: Any) -> dict[str, Any]:
    container: dict[str, Any] = {"image": "vllm/vllm-openai:v0.11.0", "command": ["vllm", "serve"]}
    container |= {"args": ["m", "--api-key", KEY]}
    container |= {"env": [{"name": "HF_TOKEN", "value": KEY}, {"name": "B", "valueFrom": {}}]}
    container |= {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    expressions = [{"key": "tier", "operator": "In", "values": ["gpu", "big"]}]
    selector = {"matchLabels": {"app": "vllm"}, "matchExpressions": expressions}
    template = {"spec": {"containers": [container], "terminationGracePeriodSeconds": 60}}
    spec = {"replicas": replicas, "selector": selector, "strategy": {"type": strategy}, "template": template}
    return says({"metadata": {"name": "vllm"} | metadata, "spec": spec, "status": {"readyReplicas": replicas}})


def pods(*states: dict[str, Any]) -> dict[str, Any]:
    """A list of pods; each has the given status and one container."""
    return says({"items": [{"metadata": {"name": f"vllm-{n}"}, "status": one} for n, one in enumerate(states)]})


def container(restarts: int = 0, last: dict[str, Any] | None = None, **state: Any) -> dict[str, Any]:
    status = {"restartCount": restarts, "state": state, "containerID": f"containerd://{CONTAINER_ID}"}
    return {"phase": "Running", "containerStatuses": [status | {"lastState": {"terminated": last} if last else {}}]}


RUNS = container(running={"startedAt": "2025-11-02T09:00:00Z"})
BACKOFF = {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}
NO_ROOM = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
UNFIT = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": NO_ROOM}
TAINTED = UNFIT | {"message": "0/1 nodes are available: 1 node(s) had untolerated taint"}
EVICTED = container(terminated={"exitCode": 137}) | {
    "phase": "Failed",
    "reason": "Evicted",
    "message": "The node was low on resource: memory.",
}
INIT = {"phase": "Pending", "initContainerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}


def test_a_deployment_is_read_with_its_pods(place: Make, stubs: StubCommands, tmp_path: Path) -> None:
    scope = tmp_path / "cgroup" / "kubepods.slice" / "kubepods-pod1.slice" / f"cri-containerd-{CONTAINER_ID}.scope"
    scope.mkdir(parents=True)
    (scope / "cgroup.procs").write_text("77\n78\n")
    stubs.answer("kubectl -n llm get deployment", deployment())
    stubs.answer("kubectl -n llm get pods", pods(RUNS))
    look = KubernetesRuntime(place("llm/vllm"), tmp_path / "cgroup").look()
    assert stubs.calls == [GET.split(), [*PODS.split()[:6], "app=vllm,tier in (gpu,big)", "-o", "json"]]
    assert (look.state, look.pids, look.since_s, look.restarts) == ("running", (77, 78), 1762074000.0, 0)
    assert (look.image, look.argv) == ("vllm/vllm-openai:v0.11.0", ("vllm", "serve", "m", "--api-key", "***"))
    assert look.environment == {"HF_TOKEN": KEY} and (look.revived_by, look.detail) == ("", "")
    traits = {"strategy": "Recreate", "replicas": "1", "ready": "1/1", "gpus": "1", "grace_s": "60"}
    assert look.traits == traits


SEEN: list[tuple[int, list[dict[str, Any]], str, int | None, bool | None, str]] = [
    (0, [], "stopped", None, None, ""),
    (0, [RUNS], "running", None, None, ""),
    (1, [], "starting", None, None, ""),
    (1, [container(waiting={"reason": "ContainerCreating"})], "starting", None, None, ""),
    (
        1,
        [container(4, {"exitCode": 137, "reason": "OOMKilled"}, waiting=BACKOFF)],
        "failed",
        137,
        True,
        "CrashLoopBackOff; killed for its memory; restarted 4 times",
    ),
    (
        1,
        [container(1, {"exitCode": 137, "reason": "Error"}, running={"startedAt": "2025-11-02T09:00:00Z"})],
        "running",
        137,
        None,
        "cause unknown",
    ),
    (1, [container(2, {"exitCode": 1, "reason": "Error"}, waiting=BACKOFF)], "failed", 1, False, "exit 1"),
    (1, [container(terminated={"exitCode": 255, "reason": "Error"})], "failed", 255, False, "the host went down"),
    (1, [container(waiting={"reason": "ImagePullBackOff"})], "failed", None, None, "ImagePullBackOff"),
    (
        1,
        [container(waiting={"reason": "CreateContainerConfigError", "message": 'secret "hf" not found'})],
        "failed",
        None,
        None,
        'CreateContainerConfigError; secret "hf" not found',
    ),
    (1, [INIT], "failed", None, None, "ImagePullBackOff"),
    (1, [{"phase": "Pending", "conditions": [UNFIT]}], "failed", None, None, NO_ROOM),
    (1, [{"phase": "Pending", "conditions": [TAINTED]}], "starting", None, None, "untolerated taint"),
    (1, [EVICTED], "starting", None, None, "Evicted: The node was low on resource: memory"),
    (1, [EVICTED, RUNS], "running", None, None, "Evicted"),
]


@pytest.mark.parametrize(("replicas", "found", "state", "code", "killed", "words"), SEEN)
def test_the_state_of_a_deployment_is_told_apart(
    place: Make,
    stubs: StubCommands,
    replicas: int,
    found: list[dict[str, Any]],
    state: str,
    code: int | None,
    killed: bool | None,
    words: str,
) -> None:
    stubs.answer("kubectl -n llm get deployment", deployment(replicas))
    stubs.answer("kubectl -n llm get pods", pods(*found))
    look = KubernetesRuntime(place("llm/vllm")).look()
    assert (look.state, look.exit_code, look.killed_for_memory) == (state, code, killed)
    assert words in look.detail and bool(look.revived_by) is (state == "failed")


REVIVERS: list[tuple[dict[str, Any], str, str]] = [
    ({"annotations": {"argocd.argoproj.io/tracking-id": "x"}}, "Argo CD", "Argo CD"),
    ({"labels": {"argocd.argoproj.io/instance": "x"}}, "Argo CD", "Argo CD"),
    ({"labels": {"kustomize.toolkit.fluxcd.io/name": "x"}}, "Flux", "Flux"),
    ({"annotations": {"meta.helm.sh/release-name": "x"}}, "Helm (at its next upgrade)", ""),
    ({"labels": {"scaledobject.keda.sh/name": "x"}}, "KEDA", ""),
    ({"annotations": {"autoscaling.keda.sh/paused": "x"}}, "KEDA", ""),
    ({"annotations": {"autoscaling.alpha.kubernetes.io/metrics": "x"}}, "an autoscaler", ""),
    ({"ownerReferences": [{"kind": "InferenceService", "name": "llm"}]}, "InferenceService llm", ""),
]


@pytest.mark.parametrize(("metadata", "who", "gitops"), REVIVERS)
def test_who_undoes_a_scale_is_named(
    place: Make, stubs: StubCommands, metadata: dict[str, Any], who: str, gitops: str
) -> None:
    stubs.answer("kubectl -n llm get deployment", deployment(strategy="RollingUpdate", **metadata))
    stubs.answer("kubectl -n llm get pods", pods(RUNS))
    look = KubernetesRuntime(place("llm/vllm")).look()
    assert (look.revived_by, look.traits.get("gitops", "")) == (who, gitops)
    assert look.traits["strategy"] == "RollingUpdate"


def test_every_kind_of_reviver_has_an_example() -> None:
    keys = [(where, str(key)) for metadata, _, _ in REVIVERS for where, found in metadata.items() for key in found]
    for where, pattern, _ in kubernetes.REVIVERS:
        assert any(where == of and re.match(pattern, key) for of, key in keys), pattern


def test_a_deployment_is_scaled_up_once(place: Make, stubs: StubCommands) -> None:
    stubs.answer("kubectl -n llm get deployment", deployment(0), deployment(1))
    stubs.answer("kubectl -n llm scale", says("deployment.apps/vllm scaled\n"))
    runtime = KubernetesRuntime(place("llm/vllm"))
    runtime.start()
    runtime.start()
    scale = "kubectl -n llm scale deployment/vllm --replicas=1"
    assert stubs.commands == [GET, scale, GET] and runtime.steps() == [scale]


WAIT = "kubectl -n llm wait --for=delete pod -l app=vllm,tier in (gpu,big)"


def test_a_deployment_is_stopped_when_its_pods_are_gone(place: Make, stubs: StubCommands) -> None:
    stubs.answer("kubectl -n llm get deployment", deployment(1), deployment(0))
    stubs.answer("kubectl -n llm scale")
    stubs.answer("kubectl -n llm wait", says("pod/vllm-0 condition met\n"))
    stubs.answer("kubectl -n llm get pods", pods())
    KubernetesRuntime(place("llm/vllm")).stop(60)
    scale = "kubectl -n llm scale deployment/vllm --replicas=0"
    assert stubs.commands == [GET, scale, f"{WAIT} --timeout=60s", GET, PODS]
    assert stubs.calls[2][-2] == "app=vllm,tier in (gpu,big)" and stubs.limits_s[2] > 60


def test_pods_that_do_not_end_are_deleted_by_force_after_the_grace_only(place: Make, stubs: StubCommands) -> None:
    stubs.answer("kubectl -n llm get deployment", deployment(1), deployment(0))
    stubs.answer("kubectl -n llm scale")
    late = says("", "error: timed out waiting for the condition on pods/vllm-0\n", 1)
    stubs.answer("kubectl -n llm wait", late, says())
    stubs.answer("kubectl -n llm delete", says("pod vllm-0 force deleted\n"))
    stubs.answer("kubectl -n llm get pods", pods())
    KubernetesRuntime(place("llm/vllm")).stop(5)
    delete = "kubectl -n llm delete pod -l app=vllm,tier in (gpu,big) --grace-period=0 --force"
    assert stubs.commands[2:5] == [f"{WAIT} --timeout=5s", delete, f"{WAIT} --timeout=30s"]


def test_a_deployment_that_is_stopped_already_is_only_looked_at(place: Make, stubs: StubCommands) -> None:
    stubs.answer("kubectl -n llm get deployment", deployment(0))
    stubs.answer("kubectl -n llm wait", says("", "error: no matching resources found\n", 1))
    stubs.answer("kubectl -n llm get pods", pods())
    KubernetesRuntime(place("llm/vllm")).stop(5)
    assert stubs.commands == [GET, f"{WAIT} --timeout=5s", GET, PODS]


def test_a_deployment_that_is_scaled_up_again_meanwhile_is_not_called_stopped(place: Make, stubs: StubCommands) -> None:
    again = deployment(1, annotations={"argocd.argoproj.io/tracking-id": "x"})
    stubs.answer("kubectl -n llm get deployment", again)
    stubs.answer("kubectl -n llm scale")
    stubs.answer("kubectl -n llm wait")
    with pytest.raises(RuntimeFault, match="Argo CD has started llm/vllm again") as caught:
        KubernetesRuntime(place("llm/vllm")).stop(5)
    assert caught.value.code == "revived"


def test_a_pod_that_stays_is_named(place: Make, stubs: StubCommands) -> None:
    stubs.answer("kubectl -n llm get deployment", deployment(0))
    stubs.answer("kubectl -n llm wait", says("", "error: timed out waiting\n", 1))
    stubs.answer("kubectl -n llm delete", says("", "Error from server (Forbidden): pods is forbidden\n", 1))
    stubs.answer("kubectl -n llm get pods", pods(RUNS))
    assert code_of(lambda: KubernetesRuntime(place("llm/vllm")).stop(5)) == "not_stopped"


def test_a_deployment_without_a_selector_never_stands_for_all_pods(place: Make, stubs: StubCommands) -> None:
    stubs.answer("kubectl -n llm get deployment", says({"metadata": {}, "spec": {"replicas": 0}}))
    stubs.answer("kubectl -n llm get pods", pods())
    KubernetesRuntime(place("llm/vllm")).look()
    assert "sparkgate/none=none" in stubs.calls[-1]


def test_what_is_forbidden_names_the_role(place: Make, stubs: StubCommands) -> None:
    refused = 'Error from server (Forbidden): deployments.apps "vllm" is forbidden: User "gate" cannot get resource\n'
    stubs.answer("kubectl -n llm get deployment", says("", refused, 1))
    runtime = KubernetesRuntime(place("llm/vllm"))
    assert runtime.look().state == "unknown"
    with pytest.raises(RuntimeFault, match="sparkgate engine role big"):
        runtime.start()


def test_a_deployment_that_is_absent_is_stopped_and_cannot_be_started(place: Make, stubs: StubCommands) -> None:
    gone = says("", 'Error from server (NotFound): deployments.apps "vllm" not found\n', 1)
    stubs.answer("kubectl -n llm get deployment", gone)
    runtime = KubernetesRuntime(place("llm/vllm"))
    assert runtime.look().detail == "there is no Deployment llm/vllm"
    runtime.stop(5)
    assert code_of(runtime.start) == "absent" and set(stubs.commands) == {GET}


def test_the_log_of_a_crash_comes_before_that_of_the_present_run(place: Make, stubs: StubCommands) -> None:
    stubs.answer("kubectl -n llm get deployment", deployment())
    stubs.answer("kubectl -n llm get pods", pods(container(1, {"exitCode": 1}, waiting=BACKOFF)), pods(RUNS))
    stubs.answer("kubectl -n llm logs", says("now\n"))
    stubs.answer("kubectl -n llm logs * * * * --previous", says("loading\nout of memory\n"))
    runtime = KubernetesRuntime(place("llm/vllm"))
    log = "kubectl -n llm logs deployment/vllm --tail 2 --all-containers"
    assert runtime.log(2) == ["out of memory", "now"]
    assert stubs.commands[2:] == [f"{log} --previous", log]
    assert runtime.log(2) == ["now"]


def test_k3s_is_asked_where_there_is_no_kubectl(place: Make, stubs: StubCommands) -> None:
    stubs.answer("k3s kubectl -n llm get deployment", deployment(1))
    KubernetesRuntime(place("llm/vllm")).start()
    assert stubs.commands == [f"k3s {GET}"]


def test_the_role_is_for_one_namespace_and_holds_no_more_than_is_used() -> None:
    role = role_for("llm")
    verbs = re.findall(r'resources: \["(.*)"\]\n    verbs: \[(.*)\]', role)
    assert role.count("namespace: llm\n") == 1 and "ClusterRole" not in role and "secrets" not in role
    assert {name: set(json.loads(f"[{found}]")) for name, found in verbs} == {
        "deployments": {"get", "list"},
        "deployments/scale": {"get", "patch"},
        "pods": {"get", "list", "watch", "delete"},
        "pods/log": {"get"},
    }


# sparkrun

RECIPE = "@atlas/qwen3.6-35b-a3b-nvfp4"
JOB = "sparkrun_0123456789abcdef_abcdef012345"
OTHER = "sparkrun_1123456789abcdef_abcdef012345"
START = f"sparkrun run {RECIPE} --no-follow --no-ready-wait"
LAUNCHED = says(f"sparkrun v0.4.2\nJobs: {OTHER}\nCluster:   {JOB}\n\nServe command:\n")
STATUS = "sparkrun status --json"
STOP = f"sparkrun stop {JOB}"


def reported(*jobs: dict[str, Any], **more: Any) -> dict[str, Any]:
    """What `sparkrun status --json` of 0.4.2 prints; a job with containers is a group."""
    groups = {one["workload_id"]: one for one in jobs if "containers" in one}
    solo = [one for one in jobs if "containers" not in one]
    return says({"groups": groups, "solo_entries": solo, "pending_ops": [], "errors": {}, "host_count": 1} | more)


def solo(id_: str = JOB, status: str = "Up 3 minutes", **meta: str) -> dict[str, Any]:
    return {"workload_id": id_, "meta": meta, "host": "localhost", "status": status, "image": "atlas:1"}


def test_a_job_is_found_by_its_recipe_before_its_id_is_known(place: Make, stubs: StubCommands) -> None:
    stubs.answer(STATUS, reported(solo(OTHER, recipe="@eugr/other"), solo(recipe=RECIPE)))
    stubs.answer("docker top", says("PID\n501\n502\n"))
    look = SparkrunRuntime(place(RECIPE)).look()
    assert stubs.commands == [STATUS, f"docker top {JOB}_solo -eo pid"]
    assert (look.state, look.pids, look.image, look.detail) == ("running", (501, 502), "atlas:1", "Up 3 minutes")
    assert look.traits == {"cluster_id": JOB, "hosts": "localhost", "rm": "true"}


def test_a_job_of_several_hosts_is_one(place: Make, stubs: StubCommands) -> None:
    parts = [{"host": f"spark-{n}", "role": f"node_{n}", "status": "Up 1 minute", "image": "v"} for n in (0, 1)]
    stubs.answer(STATUS, reported({"workload_id": JOB, "meta": {"recipe": RECIPE}, "containers": parts}))
    stubs.answer("docker top", says("", "Error response from daemon: No such container\n", 1))
    look = SparkrunRuntime(place(RECIPE)).look()
    assert (look.state, look.pids, look.traits["hosts"]) == ("running", (), "spark-0 spark-1")
    assert stubs.commands[1:] == [f"docker top {JOB}_node_{n} -eo pid" for n in (0, 1)]


SHAPES: list[Any] = [
    {"jobs": [{"cluster_id": JOB, "recipe": RECIPE}]},
    {"clusters": {JOB: {"metadata": {"recipe": RECIPE}, "status": "running"}}},
    {"containers": [{"name": f"{JOB}_solo", "status": "Up 2 hours", "recipe": "qwen3.6-35b-a3b-nvfp4"}]},
]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_status_of_another_form_is_read_as_well(place: Make, stubs: StubCommands, shape: Any) -> None:
    stubs.answer(STATUS, says("a line before\n" + json.dumps(shape)))
    look = SparkrunRuntime(place(RECIPE)).look()
    assert (look.state, look.traits["cluster_id"]) == ("running", JOB)


def test_a_start_that_ends_well_with_nothing_running_has_failed(place: Make, stubs: StubCommands) -> None:
    stubs.answer(STATUS, reported())
    stubs.answer("sparkrun run", LAUNCHED)
    runtime = SparkrunRuntime(place(RECIPE))
    assert runtime.look().state == "stopped"
    runtime.start()
    look = runtime.look()
    assert look.state == "failed" and "nothing runs now" in look.detail and look.traits == {"rm": "true"}
    assert stubs.commands == [STATUS, STATUS, START, STATUS]


def test_the_id_that_a_start_prints_is_kept_and_stopped(place: Make, stubs: StubCommands, tmp_path: Path) -> None:
    command = ("uvx", "sparkrun", "run", RECIPE, "--no-follow", "--hosts", "a,b", "--port=9000", "--no-rm")
    stubs.answer("uvx sparkrun status", reported(), reported(solo()), reported())
    stubs.answer("uvx sparkrun run", LAUNCHED)
    stubs.answer("uvx sparkrun stop", says("Workload stopped on 2 host(s).\n"))
    runtime = SparkrunRuntime(place(RECIPE, *command))
    runtime.start()
    note = tmp_path / "state" / "runtimes" / "big.json"
    assert json.loads(note.read_text()) == {"owner": "sparkrun", "phase": "started", "cluster_id": JOB}
    assert stat.S_IMODE(note.stat().st_mode) == 0o600
    runtime.stop(10)
    status = "uvx sparkrun status --hosts a,b --json"
    stop = f"uvx {STOP} --hosts a,b"
    assert stubs.commands == [status, " ".join(command), status, stop, status]
    assert runtime.look().state == "stopped"


def test_a_job_without_a_known_id_is_stopped_by_recipe_and_the_flags_of_its_start(
    place: Make, stubs: StubCommands
) -> None:
    command = ("sparkrun", "run", RECIPE, "--no-follow", "--tp", "2", "--port", "9000", "--cluster", "lab", "-n", "x")
    place_ = place(RECIPE, *command)
    owner.keep(place_, "sparkrun", phase="started")
    stubs.answer("sparkrun status", reported())
    stubs.answer("sparkrun stop", says("", "Error: No running workload matches intent fa48\n", 1))
    stubs.answer("sparkrun logs", says("one\ntwo\n"))
    runtime = SparkrunRuntime(place_)
    assert runtime.log(2) == ["one", "two"]
    runtime.stop(1)
    which = "--cluster lab --tp 2 --port 9000"
    assert stubs.commands[0] == f"sparkrun logs {RECIPE} --tail 2 {which}"
    assert stubs.commands[2] == f"sparkrun stop {RECIPE} {which}"
    assert runtime.look().state == "stopped"


def test_stopping_a_recipe_that_does_not_run_asks_sparkrun_for_nothing(place: Make, stubs: StubCommands) -> None:
    stubs.answer(STATUS, reported())
    SparkrunRuntime(place(RECIPE)).stop(1)
    assert stubs.commands == [STATUS]


def test_a_job_that_is_still_listed_is_not_called_stopped(place: Make, stubs: StubCommands) -> None:
    stubs.answer(STATUS, reported(solo(recipe=RECIPE)))
    stubs.answer("sparkrun stop", says("Workload stopped on 1 host(s).\n"))
    assert code_of(lambda: SparkrunRuntime(place(RECIPE)).stop(1)) == "not_stopped"
    assert STOP in stubs.commands


def test_hosts_that_cannot_be_asked_make_a_job_unknown_and_not_stopped(place: Make, stubs: StubCommands) -> None:
    stubs.answer(STATUS, reported(errors={"spark-2": "Cannot connect to the Docker daemon"}))
    stubs.answer("sparkrun stop", says("", "Workload NOT fully stopped: teardown did not confirm on spark-2\n", 1))
    runtime = SparkrunRuntime(place(RECIPE))
    look = runtime.look()
    assert (look.state, look.detail) == ("unknown", "spark-2: Cannot connect to the Docker daemon")
    assert code_of(lambda: runtime.stop(1)) == "not_stopped"


@pytest.mark.parametrize(("status", "code"), [("Exited (137) 2 minutes ago", 137), ("Restarting (1) 3 seconds ago", 1)])
def test_a_job_whose_container_has_ended_has_failed(place: Make, stubs: StubCommands, status: str, code: int) -> None:
    stubs.answer(STATUS, reported(solo(status=status, recipe=RECIPE)))
    look = SparkrunRuntime(place(RECIPE)).look()
    assert (look.state, look.exit_code, look.pids) == ("failed", code, ()) and status in look.detail
    assert bool(look.revived_by) is status.startswith("Restarting")


def test_two_jobs_of_one_recipe_are_told(place: Make, stubs: StubCommands) -> None:
    stubs.answer(STATUS, reported(solo(OTHER, recipe=RECIPE), solo(recipe=RECIPE)))
    place_ = place(RECIPE)
    owner.keep(place_, "sparkrun", phase="started", cluster_id=JOB)
    look = SparkrunRuntime(place_).look()
    assert (look.traits["copies"], look.traits["cluster_id"]) == ("2", JOB)


def test_what_is_only_being_prepared_does_not_run(place: Make, stubs: StubCommands) -> None:
    stubs.answer(STATUS, reported(pending_ops=[{"recipe": RECIPE, "cluster_id": JOB}]))
    assert SparkrunRuntime(place(RECIPE)).look().state == "stopped"


def test_a_start_under_way_is_starting(place: Make, stubs: StubCommands) -> None:
    stubs.answer(STATUS, reported())
    place_ = place(RECIPE)
    owner.keep(place_, "sparkrun", phase="starting")
    assert SparkrunRuntime(place_).look().state == "starting"


def test_an_older_sparkrun_is_started_without_the_flag_it_does_not_know(place: Make, stubs: StubCommands) -> None:
    stubs.answer(STATUS, reported())
    unknown = "Usage: sparkrun run [OPTIONS]\n\nError: No such option: --no-ready-wait (Possible options: --no-rm)\n"
    stubs.answer("sparkrun run", says("", unknown, 2), LAUNCHED)
    runtime = SparkrunRuntime(place(RECIPE))
    runtime.start()
    assert stubs.commands[1:] == [START, f"sparkrun run {RECIPE} --no-follow"]
    assert note_of(place(RECIPE), "sparkrun")["cluster_id"] == JOB


def test_a_start_that_sparkrun_refuses_leaves_it_stopped(place: Make, stubs: StubCommands) -> None:
    stubs.answer(STATUS, reported())
    stubs.answer("sparkrun run", says("", "Manifest discovery failed for x\nError: No hosts specified.\n", 1))
    runtime = SparkrunRuntime(place(RECIPE))
    assert code_of(runtime.start) == "no_hosts" and runtime.look().state == "stopped"


def test_a_recipe_that_runs_is_not_started_twice(place: Make, stubs: StubCommands) -> None:
    stubs.answer(STATUS, reported(solo(recipe=RECIPE)))
    SparkrunRuntime(place(RECIPE)).start()
    assert START not in stubs.commands


@pytest.mark.parametrize("command", [("sparkrun", "stop", RECIPE), ("sparkrun", "run", RECIPE)])
def test_a_sparkrun_command_that_would_not_return_is_refused(
    place: Make, stubs: StubCommands, command: tuple[str, ...]
) -> None:
    stubs.answer("sparkrun status", reported())
    assert code_of(SparkrunRuntime(place(RECIPE, *command)).start) == "bad_command"


def test_a_note_of_another_owner_is_not_read(place: Make) -> None:
    owner.keep(place("big"), "docker", stopped="x")
    assert note_of(place("big"), "sparkrun") == {} and note_of(place("big"), "docker")["stopped"] == "x"
