"""`sparkgate confine`, from inside: what a command reaches is the gate, the models, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from box import Box, Host, a_box, wait_until_ended
from fake_searxng import FakeSearxng, answer, result
from real_hosts import place_of_boxes
from scripted_model import ScriptedModel

from sparkgate.clients.attacking.attempt import Attack, Reach, tried
from sparkgate.clients.attacking.command import ATTACKS
from sparkgate.confine.canaries import Canaries
from sparkgate.confine.supervisor import bubblewrap, probed
from sparkgate.policy.samples import fill

pytestmark = pytest.mark.confining


def walls() -> list[str]:
    """Who can make namespaces on this machine."""
    tried = "from sparkgate.confine import kernel, namespaces; kernel.unshare(namespaces.NAMESPACES)"
    alone = subprocess.run([sys.executable, "-I", "-c", tried], capture_output=True, check=False).returncode == 0
    program = bubblewrap()
    return [*(["unshare"] if alone else []), *(["bubblewrap"] if program and not probed(program) else [])]


WALLS = walls()
CLI = (sys.executable, "-I", "-m", "sparkgate.clients.cli")
PIPE = (sys.executable, "-I", "-m", "sparkgate.stdio", "search")
ANYBODY = 1234
"""Number of a user without a name."""
NOT_HERE = {"ipv6_local": "a machine without IPv6"}
"""Escapes that some machines have nothing for."""


class Confined:
    """A box with a search engine and a model, and commands that are confined in it."""

    def __init__(self, box: Box, searxng: FakeSearxng, model: ScriptedModel) -> None:
        self.box, self.searxng, self.model = box, searxng, model
        self.user: dict[str, Any] = {}
        self.cli = CLI
        self.before: tuple[str, ...] = ()
        self.work = box.root / "work"
        self.work.mkdir()
        self.port = int(model.url.rsplit(":", 1)[1].partition("/")[0])
        box.configure(
            f'[searxng]\nurl = "{searxng.url}"\nper_minute = 0\n[search]\ncache_s = 0\n'
            f'[engines.main]\nurl = "http://127.0.0.1:{self.port}"\nengine = "openai"\n'
        )

    def argv(self, *command: str, options: tuple[str, ...] = ()) -> list[str]:
        return [*self.before, *self.cli, "confine", *options, "--", *command]

    def run(self, *command: str, options: tuple[str, ...] = (), text: str = "", **environment: str) -> Any:
        return subprocess.run(
            self.argv(*command, options=options),
            input=text,
            capture_output=True,
            text=True,
            env=self.box.environment | environment,
            cwd=self.work,
            timeout=120,
            check=False,
            **self.user,
        )

    def python(self, code: str, *arguments: str, options: tuple[str, ...] = ()) -> Any:
        """What a Python program prints as JSON inside."""
        done = self.run(sys.executable, "-I", "-c", code, *arguments, options=options)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def shell(self, script: str, options: tuple[str, ...] = (), **environment: str) -> Any:
        return self.run("bash", "-c", script, options=options, **environment)

    def attacked(self, options: tuple[str, ...] = ()) -> dict[str, dict[str, str]]:
        done = self.run(*self.cli, "doctor", "--attack", "--json", options=options)
        assert done.stdout, done.stderr
        return {one["name"]: one for one in json.loads(done.stdout)["attacks"]}


@pytest.fixture
def confined() -> Iterator[Confined]:
    if not WALLS:
        pytest.skip("nobody here can make namespaces: not this user, and no bubblewrap")
    with a_box(place_of_boxes()) as box, FakeSearxng() as searxng, ScriptedModel("web_search", {"query": "a"}) as model:
        searxng.reply = answer(result(1))
        yield Confined(box, searxng, model)


@pytest.fixture
def confined_user() -> Iterator[Confined]:
    """The same for a user that is not root, outside of root's own folders."""
    if os.getuid() != 0:
        pytest.skip("who runs the tests is no root already")
    with a_box(Path("/srv")) as box, FakeSearxng() as searxng, ScriptedModel("web_search", {"query": "a"}) as model:
        searxng.reply = answer(result(1))
        made = Confined(box, searxng, model)
        made.user = {"user": ANYBODY, "group": ANYBODY, "extra_groups": []}
        for path in (box.root, *box.root.rglob("*")):
            os.chown(path, ANYBODY, ANYBODY)
        made.cli = (python_of_all(box.root), "-I", "-m", "sparkgate.clients.cli")
        yield made


def python_of_all(root: Path) -> str:
    """An interpreter with our modules that every user can start: that of the machine, where it is of this version."""
    folder, theirs = root / "python", shutil.which("python3", path="/usr/bin:/bin")
    version = ".".join(map(str, sys.version_info[:2]))
    asked = [theirs or "false", "-I", "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"]
    if subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip() != version:
        pytest.skip(f"the Python {version} that runs the tests cannot be started by other users, and /usr has none")
    subprocess.run([asked[0], "-I", "-m", "venv", "--without-pip", str(folder)], check=True)
    ours = next(path for path in sys.path if path.endswith("site-packages"))
    packages = folder / "lib" / f"python{version}" / "site-packages"
    (packages / "ours.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
    python = str(folder / "bin" / "python")
    imports = [python, "-I", "-c", "import sparkgate.clients.cli"]
    who: dict[str, Any] = {"user": ANYBODY, "group": ANYBODY, "extra_groups": []}
    if subprocess.run(imports, capture_output=True, check=False, cwd="/", **who).returncode:
        pytest.skip("the modules that are tested lie where other users cannot read them")
    return python


# -- escapes


@pytest.mark.parametrize("wall", WALLS)
def test_every_escape_is_tried_from_inside_and_is_closed(confined: Confined, wall: str) -> None:
    found = confined.attacked(("--wall", wall))
    assert list(found) == [attack.name for attack in ATTACKS]
    assert {name: one["how"] for name, one in found.items() if one["state"] == "open"} == {}
    assert {name for name, one in found.items() if one["state"] == "not tried"} <= set(NOT_HERE)


@pytest.mark.parametrize("wall", WALLS)
def test_a_user_who_is_not_root_is_confined_as_well(confined_user: Confined, wall: str) -> None:
    found = confined_user.attacked(("--wall", wall))
    assert {name: one["how"] for name, one in found.items() if one["state"] == "open"} == {}


WITHOUT = {"landlock_create_ruleset": ("landlock", "Landlock"), "seccomp": ("seccomp", "system call filter")}
"""A call that a kernel may lack → the wall that it is for, and how the refusal names it."""


@pytest.mark.parametrize("wall", WALLS)
@pytest.mark.parametrize("call", list(WITHOUT))
def test_what_the_kernel_cannot_close_is_a_refusal_and_is_said_aloud_when_it_is_wanted_so(
    confined: Confined, call: str, wall: str
) -> None:
    piece, told = WITHOUT[call]
    confined.before = (sys.executable, "-I", str(Path(__file__).with_name("without_call.py")), call)
    options: tuple[str, ...] = ("--wall", wall)
    refused = confined.run("echo", "started", options=options)
    assert (refused.returncode, refused.stdout) == (126, "") and told in refused.stderr
    assert "--best-effort" in refused.stderr
    options = (*options, "--best-effort")
    open_ = {name for name, one in confined.attacked(options).items() if one["state"] == "open"}
    assert open_ - OFTEN_OPEN[piece] == OPEN_WITHOUT[piece]
    assert f"NOT CLOSED: {piece}: " in confined.run("true", options=options).stderr


OPEN_WITHOUT = {
    "landlock": {"named_pipe"},
    "seccomp": {"foreign_socket", "unix_datagrams", "namespaces", "netlink", "set_user_id"},
}
"""What each wall alone closes."""
OFTEN_OPEN: dict[str, set[str]] = {
    "landlock": set(),
    "seccomp": {"terminal", "io_uring", "kernel_crypto", "vsock"},
}
"""What some kernels close by themselves."""
OUTSIDE = (
    *("tcp", "udp", "abstract_socket", "foreign_socket", "unix_datagrams", "netlink", "signal"),
    *("process_handle", "environment", "named_pipe", "startup_files", "set_user_id"),
)


@pytest.mark.parametrize("name", OUTSIDE)
def test_the_same_attempts_get_through_where_nothing_is_confined(name: str, tmp_path: Path) -> None:
    attack = next(one for one in ATTACKS if one.name == name)
    home = tmp_path / "home"
    home.mkdir()
    with _canaries(tmp_path) as reach:
        assert tried(attack, Reach(reach.targets, "", "", "", str(home))).state == "open"


class _canaries:
    def __init__(self, folder: Path) -> None:
        self._made = Canaries(str(folder))
        self.targets = self._made.targets

    def __enter__(self) -> _canaries:
        return self

    def __exit__(self, *_: object) -> None:
        self._made.close()


def test_what_fails_in_a_way_nobody_foresaw_counts_as_open() -> None:
    def surprising(_: Reach) -> None:
        raise ValueError("surprise")

    reach = Reach(None, "", "", "", "")  # type: ignore[arg-type]
    assert tried(Attack("x", "x", surprising), reach).state == "open"


def test_the_attack_outside_says_that_nothing_is_confined(confined: Confined) -> None:
    done = confined.box.command("doctor", "--attack")
    assert done.returncode == 1 and "sparkgate confine -- sparkgate doctor --attack" in done.stderr


def test_a_foreign_socket_that_was_tried_is_noted_in_the_log(confined: Confined) -> None:
    host = confined.box.host(*confined.argv(*PIPE))
    host.initialize()
    host.search("a")
    host.close()
    confined.attacked()
    rows = [row for row in confined.box.rows() if row["tool"] == "confine"]
    assert rows and all(row["verdict"] == "block" and row["confined"] for row in rows)
    assert "foreign_unix_socket" in {finding["rule"] for row in rows for finding in row["findings"]}


# -- the two doors


@pytest.mark.parametrize("wall", WALLS)
def test_a_search_from_inside_goes_through_the_gate_and_its_row_says_so(confined: Confined, wall: str) -> None:
    host = confined.box.host(*confined.argv(*PIPE, options=("--wall", wall)))
    host.initialize()
    assert host.search("vllm mtp flag")["ok"]
    assert host.close() == 0
    (row,) = (row for row in confined.box.rows() if row["tool"] == "web_search")
    assert row["sent"] == "vllm mtp flag" and len(row["confined"]) == 8 and row["uid"] == os.getuid()


ASK_MODEL = """
import http.client, json, sys
answers = []
for port in map(int, sys.argv[1:]):
    try:
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        body = json.dumps({"model": "scripted", "messages": [{"role": "user", "content": "hello"}]})
        link.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
        answers.append(json.loads(link.getresponse().read())["choices"][0]["message"]["content"])
    except OSError as error:
        answers.append(type(error).__name__)
print(json.dumps(answers))
"""


def test_the_configured_model_is_at_its_usual_port_and_nothing_else_is(confined: Confined) -> None:
    other = confined.searxng.url.rsplit(":", 1)[1]
    said = confined.python(ASK_MODEL, str(confined.port), other)
    assert said == ["There is no tool for that.", "ConnectionRefusedError"]


def session(host: Host) -> bool:
    return bool(host.search("a")["ok"])


def test_when_the_gate_is_killed_the_next_one_gets_the_same_doors(confined: Confined) -> None:
    host = confined.box.host(*confined.argv(*PIPE))
    host.initialize()
    assert session(host)
    pids = confined.box.gate_pids()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    wait_until_ended(pids)
    assert session(host)
    assert host.close() == 0
    assert len({row["confined"] for row in confined.box.rows() if row["tool"] == "web_search"}) == 1


def test_a_gate_that_is_stopped_hands_its_doors_on(confined: Confined) -> None:
    host = confined.box.host(*confined.argv(*PIPE))
    host.initialize()
    assert session(host)
    assert confined.box.command("gate", "stop").returncode == 0
    assert session(host)
    assert host.close() == 0


def test_the_gate_tells_how_many_are_confined_and_stays_while_one_is(confined: Confined) -> None:
    host = confined.box.host(*confined.argv(*PIPE))
    host.initialize()
    (told,) = confined.box.gate_status()["confinements"]
    assert (told["uid"], list(told["doors"])) == (os.getuid(), ["main"])
    host.close()
    assert host.process.wait() == 0


def test_from_inside_the_gate_cannot_be_stopped_and_the_try_is_noted(confined: Confined) -> None:
    done = confined.run(*CLI, "gate", "stop", "--json")
    assert len(confined.box.gate_pids()) == 1, done
    (row,) = confined.box.rows()
    assert (row["tool"], row["verdict"], row["fields"]) == ("connect", "block", {"tried": "end the gate", "count": "1"})
    assert row["confined"] and row["outcome"] == "withheld"


EVIL = """
#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>
__attribute__((constructor)) static void leak(void) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    int made = socket(AF_INET, SOCK_STREAM, 0);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    FILE *told = fopen("TOLD", "a");
    fprintf(told, "%s\\n", connect(made, (struct sockaddr *)&to, sizeof to) ? "refused" : "open");
    fclose(told);
    close(made);
}
"""


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no C compiler")
def test_code_that_is_loaded_into_the_pipe_reaches_nothing_and_the_gate_still_judges(confined: Confined) -> None:
    outside = confined.searxng.url.rsplit(":", 1)[1]
    (confined.work / "evil.c").write_text(EVIL.replace("PORT", outside).replace("TOLD", str(confined.work / "told")))
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "evil.so", "evil.c"], cwd=confined.work, check=True)
    preload = ("env", f"LD_PRELOAD={confined.work}/evil.so")
    host = confined.box.host(*confined.argv(*preload, *PIPE, options=("--write", str(confined.work))))
    host.initialize()
    blocked = host.search("my key is " + fill("hf_{mixed:34}"))
    host.close()
    assert blocked["code"] == "blocked" and confined.searxng.requests == []
    assert set((confined.work / "told").read_text().split()) == {"refused"}


def test_a_gate_of_its_own_rules_has_no_network_either(confined: Confined) -> None:
    """The environment may lead a pipe to another configuration; what it starts then is as confined as it is."""
    evil = "/tmp/evil"
    script = f"""
mkdir -p {evil}/run {evil}/state {evil}/config/sparkgate && chmod 700 {evil}/run
printf '[searxng]\\nurl = "{confined.searxng.url}"\\n' > {evil}/config/sparkgate/config.toml
export XDG_RUNTIME_DIR={evil}/run XDG_STATE_HOME={evil}/state XDG_CONFIG_HOME={evil}/config
{sys.executable} -I -m sparkgate.clients.cli search "sesame" --json
"""
    done = confined.shell(script)
    assert done.returncode == 1 and confined.searxng.requests == []


# -- what it sees


def test_our_files_are_absent_and_secrets_of_the_home_are_hidden(confined: Confined) -> None:
    home = confined.box.root
    (home / ".ssh").mkdir()
    (home / ".ssh" / "id_ed25519").write_text("private")
    (home / ".netrc").write_text("secret")
    (home / "notes.txt").write_text("notes")
    done = confined.shell(
        f"cat {home}/notes.txt; ls -A {home}/.ssh {home}/config/sparkgate {home}/state/sparkgate; cat {home}/.netrc"
    )
    assert done.stdout.startswith("notes")
    assert "id_ed25519" not in done.stdout and "secret" not in done.stdout
    assert "config.toml" not in done.stdout and "audit.db" not in done.stdout


def test_only_the_folder_it_starts_in_can_be_changed(confined: Confined) -> None:
    home = confined.box.root
    done = confined.shell(f"touch here && echo here; touch {home}/.bashrc; touch /etc/x; echo '' >> /etc/hosts")
    assert done.stdout == "here\n" and done.stderr.count("Read-only file system") + done.stderr.count("denied") == 3
    assert (confined.work / "here").exists() and not (home / ".bashrc").exists()


def test_more_can_be_written_and_read_when_it_is_named(confined: Confined) -> None:
    (confined.box.root / ".npmrc").write_text("registry")
    out = confined.box.root / "out"
    out.mkdir()
    options = ("--write", str(out), "--read", str(confined.box.root / ".npmrc"), "--read-only")
    done = confined.shell(f"cat {confined.box.root}/.npmrc; touch {out}/x; touch here", options=options)
    assert done.stdout == "registry" and (out / "x").exists() and not (confined.work / "here").exists()


@pytest.mark.parametrize("folder", [".", "config", "config/sparkgate", "state", "run"])
def test_nothing_is_writable_that_holds_our_files_or_what_others_start(confined: Confined, folder: str) -> None:
    (confined.box.root / folder).mkdir(exist_ok=True, parents=True)
    done = confined.run("true", options=("--write", str(confined.box.root / folder)))
    assert done.returncode == 126 and "choose a folder below" in done.stderr


def test_the_code_that_runs_outside_cannot_be_changed_inside(confined: Confined) -> None:
    """An environment in the folder of work is read by the gate and the next supervisor."""
    packages = Path(next(path for path in sys.path if path.endswith("site-packages")))
    confined.work = packages.parent
    done = confined.shell(f"touch {packages}/evil.pth")
    assert done.returncode and not (packages / "evil.pth").exists()
    assert "the folder it starts in is read-only" in done.stderr
    done = confined.run("true", options=("--write", str(packages)))
    assert done.returncode == 126 and "choose a folder below" in done.stderr


def test_the_environment_is_scrubbed_but_for_what_is_named(confined: Confined) -> None:
    given = {
        "AWS_SECRET_ACCESS_KEY": "x",
        "HERMES_API_KEY": "x",
        "HTTPS_PROXY": "http://127.0.0.1:1",
        "LD_PRELOAD": "",
        "SSH_AUTH_SOCK": "/tmp/agent",
        "DBUS_SESSION_BUS_ADDRESS": "unix:path=/run/user/0/bus",
        "HERMES_HOME": "/home/x/.hermes",
        "WANTED_TOKEN": "y",
    }
    done = confined.run("env", options=("--env", "WANTED_TOKEN"), **given)
    names = {line.partition("=")[0] for line in done.stdout.splitlines()}
    assert names & set(given) == {"HERMES_HOME", "WANTED_TOKEN"} and {"HOME", "PATH", "TMPDIR"} <= names


@pytest.mark.parametrize("wall", WALLS)
def test_what_whoever_started_it_had_open_is_closed_inside(confined: Confined, wall: str) -> None:
    with socket.create_connection(("127.0.0.1", confined.port)) as link:
        confined.user = {"pass_fds": [link.fileno()]}
        code = "import json, os; print(json.dumps(sorted(map(int, os.listdir('/proc/self/fd')))[:-1]))"
        assert confined.python(code, options=("--wall", wall)) == [0, 1, 2]


# -- the command


def test_its_exit_code_its_input_and_its_output_are_those_of_the_command(confined: Confined) -> None:
    done = confined.run("bash", "-c", "cat; echo told >&2; exit 7", text="given")
    assert (done.returncode, done.stdout) == (7, "given") and "told" in done.stderr


def test_a_command_that_is_ended_by_a_signal_is_told_as_shells_do(confined: Confined) -> None:
    assert confined.shell("kill -KILL $$").returncode == 128 + signal.SIGKILL


def test_a_command_that_is_not_there_is_named(confined: Confined) -> None:
    done = confined.run("no-such-agent")
    assert done.returncode == 126 and "no-such-agent: not found inside" in done.stderr


def test_what_is_left_running_inside_ends_with_the_command(confined: Confined) -> None:
    done = confined.shell("sleep 1000 & echo started")
    assert done.stdout == "started\n"
    marked = f"HOME={confined.box.root}\0".encode()
    left = [path for path in Path("/proc").glob("[0-9]*") if _runs(path, b"sleep", marked)]
    assert left == []


def _runs(process: Path, name: bytes, mark: bytes) -> bool:
    try:
        return name in (process / "cmdline").read_bytes() and mark in (process / "environ").read_bytes()
    except OSError:
        return False


@pytest.mark.parametrize("wall", WALLS)
def test_a_supervisor_that_is_killed_takes_everything_with_it(confined: Confined, wall: str) -> None:
    host = confined.box.host(*confined.argv(*PIPE, options=("--wall", wall)))
    host.initialize()
    host.process.kill()
    host.process.wait()
    assert host.stdout.read() == b""


def test_the_folder_of_its_sockets_is_taken_away_also_after_a_kill(confined: Confined) -> None:
    host = confined.box.host(*confined.argv(*PIPE))
    host.initialize()
    host.process.kill()
    host.process.wait()
    assert confined.run("true").returncode == 0
    assert list((confined.box.runtime / "confined").iterdir()) == []


def test_a_confined_command_cannot_confine_another(confined: Confined) -> None:
    done = confined.run(*CLI, "confine", "--", "true")
    assert done.returncode != 0 and "sparkgate:" in done.stderr


def test_the_doctor_tells_from_the_inside_what_is_active(confined: Confined) -> None:
    (confined.box.root / ".hermes").mkdir()
    (confined.box.root / ".hermes" / "config.yaml").write_text("model: {}\n")
    assert confined.box.command("register", "--host", "hermes", "--yes").returncode == 0
    done = confined.run(*CLI, "doctor", "--no-spawn", "--host", "hermes")
    assert "This is confined as " in done.stdout and f"main at port {confined.port}" in done.stdout
    inside = json.loads(confined.run(*CLI, "doctor", "--no-spawn", "--host", "hermes", "--json").stdout)
    outside = json.loads(confined.box.command("doctor", "--no-spawn", "--host", "hermes", "--json").stdout)
    assert {one["state"] for one in findings(inside, "doors")} == {"ok"}
    assert "warn" in {one["state"] for one in findings(outside, "doors")}


def findings(reports: list[dict[str, Any]], level: str) -> list[dict[str, Any]]:
    return [one for report in reports for one in report["findings"] if one["level"] == level]


def test_a_broken_configuration_stops_it(confined: Confined) -> None:
    confined.box.configure("[searxng]\nurll = 1\n")
    done = confined.run("true")
    assert done.returncode == 126 and "did you mean 'url'" in done.stderr
