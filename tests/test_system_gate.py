"""The gate of a machine: an account of its own, between users that the kernel tells apart. Needs root, no systemd."""

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

import pytest
from box import Box, Host
from engine_box import until
from fake_searxng import FakeSearxng
from system_box import ALICE, BOB, MALLORY, USERS, SystemBox, a_system_box, refused

from sparkgate import daemon

pytestmark = pytest.mark.systemd

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root")
GIVEN = '[access]\nusers.alice = ["search"]\n'
FAKE = """
import os, socket, sys
with socket.socket(socket.AF_UNIX) as fake:
    fake.bind("/run/sparkgate/gate.sock")
    fake.listen()
    os.chmod("/run/sparkgate/gate.sock", 0o777)
    print("fake", flush=True)
    while True:
        got, _ = fake.accept()
        print(got.recv(1000), flush=True)
"""


@pytest.fixture
def machine() -> Iterator[SystemBox]:
    with a_system_box() as made:
        yield made


def use(machine: SystemBox, searxng: FakeSearxng, more: str = GIVEN) -> None:
    machine.configure(f'[searxng]\nurl = "{searxng.url}"\nper_minute = 0\n[search]\ncache_s = 0\n{more}')


# -- who is served


@needs_root
def test_who_may_use_it_does_and_every_row_names_user_and_group(machine: SystemBox, searxng: FakeSearxng) -> None:
    use(machine, searxng)
    machine.gate()
    host = machine.pipe(ALICE)
    host.initialize()
    assert host.search("a question of alice")["ok"]
    row = machine.rows()[-1]
    assert (row["uid"], row["gid"], row["pid"]) == (ALICE, ALICE, host.process.pid)
    assert row["sent"] == "a question of alice"
    assert "alice may not use engine here" in refused(machine.pipe(ALICE, toolset="engine"))
    assert "bob may not use this gate; the operator gives it in [access] of" in refused(machine.pipe(BOB))
    told = [(row["tool"], row["uid"], row["gid"], row["verdict"]) for row in machine.rows()[-2:]]
    assert told == [("connect", ALICE, ALICE, "block"), ("connect", BOB, BOB, "block")]


@needs_root
def test_who_is_not_in_the_group_does_not_come_as_far_as_the_gate(machine: SystemBox) -> None:
    machine.gate()
    assert "it is not in the group of /run/sparkgate/gate.sock" in refused(machine.pipe(MALLORY, MALLORY))
    code, said = machine.command(MALLORY, "--system", "gate", "status")
    assert code == 1 and "not in the group" in said


READS = (
    "cat /etc/sparkgate/config.toml",
    "ls /var/lib/sparkgate",
    "cat /var/lib/sparkgate/keys/audit.key",
    "cat /var/lib/sparkgate/audit.db",
    "echo x > /etc/sparkgate/config.toml",
    "echo x > /etc/sparkgate/terms.toml",
    "mkdir /etc/sparkgate/rules",
    "rm -f /etc/sparkgate/config.toml",
    "mv /etc/sparkgate /etc/other",
    "rm -f /var/lib/sparkgate/audit.db",
    "rm -f /run/sparkgate/gate.sock",
    "ln -sf /tmp/x /run/sparkgate/gate.sock",
    "mv /run/sparkgate /run/other",
    "kill -TERM {pid}",
    "kill -KILL {pid}",
    "cat /proc/{pid}/environ",
    "cat /proc/{pid}/mem",
    "ls /proc/{pid}/fd/",
    "{python} -c 'import ctypes, sys; sys.exit(ctypes.CDLL(None).ptrace(16, {pid}, 0, 0) != 0)'",
)
"""Commands that must fail for who may use the gate. 16 is PTRACE_ATTACH."""


@needs_root
def test_who_may_use_it_can_neither_read_nor_change_nor_stop_what_is_its_own(
    machine: SystemBox, searxng: FakeSearxng
) -> None:
    use(machine, searxng)
    gate = machine.gate()
    host = machine.pipe(ALICE)
    host.initialize()
    host.search("x")
    for command in READS:
        code, _ = machine.shell(command.format(pid=gate.pid, python=sys.executable), ALICE, (ALICE, USERS))
        assert code != 0, command
    assert gate.poll() is None and host.search("y")["ok"]
    assert "may not stop this gate" in machine.command(ALICE, "gate", "stop", gids=(ALICE, USERS))[1]


AS_ACCOUNT = (
    *(("gate", "lock"), ("gate", "unlock"), ("audit", "list"), ("audit", "verify"), ("config",), ("bench", "history")),
    ("policy", "check", "plain words"),
)


@needs_root
def test_commands_of_root_work_as_its_account_and_leave_no_file_of_root(
    machine: SystemBox, searxng: FakeSearxng
) -> None:
    use(machine, searxng)
    machine.gate()
    host = machine.pipe(ALICE)
    host.initialize()
    host.search("x")
    for command in AS_ACCOUNT:
        code, said = machine.command(0, *command)
        assert code == 0, said
    assert machine.shell("find /var/lib/sparkgate ! -user sparkgate")[1] == ""
    code, said = machine.command(ALICE, "audit", "list")
    assert code == 1 and "sudo sparkgate audit" in said
    code, said = machine.command(0, "gate", "status", "--json")
    assert code == 0 and '"socket": "/run/sparkgate/gate.sock"' in said
    code, said = machine.command(0, "gate", "stop")
    assert code == 0 and not machine.listens()


# -- which gate is meant

WHICH: dict[str, tuple[str, tuple[str, ...], dict[str, str], str]] = {
    "the machine's, when nothing else is said": ("", (), {}, "system"),
    "a configuration at the usual place": ("touch", (), {}, "own"),
    "one that is named": ("", ("--config", "/tmp/own.toml"), {}, "own"),
    "one that the environment names": ("", (), {"SPARKGATE_CONFIG": "/tmp/own.toml"}, "own"),
    "folders that lie elsewhere": ("", (), {"XDG_STATE_HOME": "/tmp/elsewhere"}, "own"),
    "the machine's by its configuration": ("", ("--config", "/etc/sparkgate/config.toml"), {}, "system"),
    "what is asked for wins over a configuration": ("touch", ("--system",), {}, "system"),
    "also the other way": ("", ("--own",), {}, "own"),
    "who names it takes nothing of the environment": (
        "",
        ("--system",),
        {"XDG_CONFIG_HOME": "/tmp/x"},
        "system",
    ),
}
BEHIND: dict[tuple[str, ...], str] = {
    ("confine", "--config", "/tmp/own.toml", "--", "hermes"): "own",
    ("confine", "--", "hermes", "--config", "/tmp/own.toml"): "system",
    ("confine", "--", "hermes", "--config=/tmp/own.toml"): "system",
}
"""What stands behind `sparkgate` → the gate it means."""
TELL = "from sparkgate import paths; from sparkgate.arguments import parse_arguments; import sys; "
TELL += "parse_arguments(sys.argv[1:]); print('system' if paths.means_system() else 'own')"


@needs_root
def test_which_gate_a_pipe_means(machine: SystemBox) -> None:
    for what, (own, flags, environment, meant) in WHICH.items():
        home = machine.root / what.replace(" ", "-")
        home.mkdir()
        if own:
            (home / ".config" / "sparkgate").mkdir(parents=True)
            (home / ".config" / "sparkgate" / "config.toml").touch()
        command = (sys.executable, "-I", "-c", TELL, "search", *flags)
        assert machine.run(ALICE, (ALICE,), *command, HOME=str(home), **environment) == (0, f"{meant}\n"), what


TELL_COMMAND = "from sparkgate import paths; from sparkgate.clients.which_gate import settle; import sys; "
TELL_COMMAND += "settle('', sys.argv[1], sys.argv[1:]); print('system' if paths.means_system() else 'own')"


@needs_root
@pytest.mark.parametrize("words", BEHIND)
def test_an_option_of_the_command_that_is_confined_does_not_choose_the_gate(
    machine: SystemBox, words: tuple[str, ...]
) -> None:
    command = (sys.executable, "-I", "-c", TELL_COMMAND, *words)
    assert machine.run(ALICE, (ALICE,), *command) == (0, f"{BEHIND[words]}\n")


# -- fakes


def fake(machine: SystemBox, uid: int = MALLORY) -> subprocess.Popen[bytes]:
    """Mallory listens at the path of the socket."""
    process = machine.start(uid, (uid,), sys.executable, "-I", "-c", FAKE)
    assert process.stdout and process.stdout.readline() == b"fake\n"
    return process


FOLDERS: dict[str, tuple[str, str]] = {
    "a folder of mallory": (f"chown {MALLORY} /run/sparkgate", "not the folder of root"),
    "a folder that everybody may write": ("chmod 777 /run/sparkgate", "not the folder of root"),
    "a folder that the group may write": ("chmod 775 /run/sparkgate", "not the folder of root"),
    "a link to another folder": ("mv /run/sparkgate /run/x; ln -s /run/x /run/sparkgate", "does not listen"),
    "a socket of mallory in the folder of root": ("chown 0 /run/sparkgate", f"served by another user ({MALLORY})"),
}


@needs_root
@pytest.mark.parametrize("name", FOLDERS)
def test_a_fake_gate_on_the_path_of_the_socket_gets_not_a_byte(machine: SystemBox, name: str) -> None:
    script, said = FOLDERS[name]
    machine.shell("chmod 777 /run/sparkgate")
    listener = fake(machine)
    machine.shell(f"chmod 755 /run/sparkgate; {script}")
    told = refused(machine.pipe(ALICE, ALICE, flags=("--system",)))
    assert said in told
    listener.kill()
    assert set(listener.communicate()[0].splitlines()) <= {b"b''"}


@needs_root
def test_in_a_folder_that_is_closed_to_all_others_who_listens_is_known(machine: SystemBox) -> None:
    """As in a confinement, where the user of the gate is none that its user namespace has a number for."""
    machine.shell("chmod 777 /run/sparkgate")
    listener = fake(machine, 65_534)
    machine.shell(f"chown {ALICE} /run/sparkgate; chmod 700 /run/sparkgate")
    machine.pipe(ALICE, ALICE, flags=("--system",))
    assert listener.stdout and b'"toolset": "search"' in listener.stdout.readline()


@needs_root
def test_without_its_socket_a_pipe_starts_nothing_and_says_where_to_look(machine: SystemBox) -> None:
    told = refused(machine.pipe(ALICE))
    assert "the gate of this machine does not listen" in told and "systemctl status sparkgate-gate" in told
    assert machine.shell("ls -A /run/sparkgate")[1] == ""


@needs_root
@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("chmod 777 /run/sparkgate", "can be written by others"),
        (f"chown {MALLORY} /run/sparkgate", "can be written by others"),
        ("rmdir /run/sparkgate; ln -s /tmp /run/sparkgate", "cannot be used"),
        ("rmdir /run/sparkgate", "`sparkgate gate install --system` makes it"),
        ("ln -s /tmp/elsewhere /run/sparkgate/gate.sock", "is not a socket of yours"),
        ("touch /run/sparkgate/gate.sock", "is not a socket of yours"),
    ],
)
def test_the_gate_listens_only_where_nobody_can_put_another_in_its_place(
    machine: SystemBox, script: str, said: str
) -> None:
    machine.shell(script)
    gate = machine.gate()
    assert gate.wait() == 1
    assert gate.stderr and said in gate.stderr.read().decode()


# -- a socket that systemd holds

HOLD = """
import os, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
os.set_inheritable(listener.fileno(), True)
print("held", flush=True)
while True:
    sys.stdin.readline() or sys.exit()
    if not os.fork():
        os.dup2(listener.fileno(), 3)
        os.environ |= {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())}
        os.execv(sys.executable, [sys.executable, *(sys.argv[2:] or ["-I", "-m", "sparkgate.gate"])])
    print(os.wait()[1], flush=True)
"""


def held(box: Box, *gate: str) -> Host:
    """What holds the socket and has started a gate; each line it gets starts another when the one before has ended."""
    box.runtime.mkdir(mode=0o700)
    holder = box.host(sys.executable, "-c", HOLD, str(box.socket), *gate)
    assert holder.stdout.readline() == b"held\n"
    holder.send_bytes(b"start\n")
    return holder


def test_connections_wait_while_a_held_gate_is_replaced_and_none_is_refused(box: Box, searxng: FakeSearxng) -> None:
    """As systemd does: the socket outlives the gate, and the next one is started for who waits there."""
    box.use(searxng.url)
    holder = held(box)
    host = box.host()
    host.initialize()
    first = box.gate_status()["pid"]
    os.kill(first, signal.SIGTERM)
    until(lambda: holder.stdout.readline() == b"0\n", "the first gate ended well")
    assert box.socket.exists()
    waiting = box.host()
    asked = host.send("tools/call", {"name": "web_search", "arguments": {"query": "kept"}})
    holder.send_bytes(b"start\n")
    assert waiting.initialize() and host.read()["id"] == asked
    assert box.gate_status()["pid"] != first


def test_a_held_gate_is_not_replaced_by_a_pipe_of_another_version(box: Box, searxng: FakeSearxng) -> None:
    """systemd would start the same version again, and again."""
    box.use(searxng.url)
    held(box)
    box.host().initialize()
    before = box.gate_status()["pid"]
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(30)
        link.connect(str(box.socket))
        link.sendall(b'{"sparkgate": 1, "toolset": "search", "version": "0.0.1"}\n')
        assert b'"ready"' in link.recv(1000)
    assert box.gate_status()["pid"] == before


def test_a_held_gate_ends_for_the_version_that_was_installed_in_its_place(box: Box, searxng: FakeSearxng) -> None:
    box.use(searxng.url)
    copy = box.root / "copy"
    for root in ("servers", "policies", "clients"):
        source = Path(__file__).parent.parent / root / "sparkgate"
        shutil.copytree(source, copy / "sparkgate", dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    run = f"import sys; sys.path.insert(0, {str(copy)!r}); from sparkgate"
    holder = held(box, "-c", f"{run}.gate import main; sys.exit(main([]))")
    host = box.host()
    assert host.initialize()["serverInfo"]["version"] != "99.0.0"
    (copy / "sparkgate" / "version.py").write_text('__version__ = "99.0.0"\n')
    newer = box.host(sys.executable, "-c", f"{run}.stdio import main; sys.exit(main())", "search")
    asked = newer.send("tools/list")
    until(lambda: holder.stdout.readline() == b"0\n", "the older gate ended well")
    holder.send_bytes(b"start\n")
    assert newer.read()["id"] == asked
    assert box.gate_status()["version"] == "99.0.0" and host.search("served by the new one")["ok"]


@needs_root
def test_one_user_cannot_take_the_places_of_all(machine: SystemBox) -> None:
    machine.configure(GIVEN)
    machine.gate()
    many = """
import socket, sys
links = [socket.socket(socket.AF_UNIX) for _ in range(80)]
for link in links:
    link.connect("/run/sparkgate/gate.sock")
    link.settimeout(20)
print(b"are open already" in links[-1].recv(1000), flush=True)
sys.stdin.read()
"""
    crowd = machine.start(ALICE, (ALICE, USERS), sys.executable, "-I", "-c", many)
    assert crowd.stdout and crowd.stdout.readline() == b"True\n"
    assert "may not use this gate" in refused(machine.pipe(BOB))
    assert machine.command(0, "gate", "status")[0] == 0


@needs_root
def test_the_gate_of_the_machine_runs_as_its_account_and_as_nobody_else(machine: SystemBox) -> None:
    for uid in (0, ALICE):
        code, said = machine.run(uid, (uid,), sys.executable, "-I", "-m", "sparkgate.gate", "--system")
        assert code == 1 and "runs as its account sparkgate" in said


@pytest.mark.parametrize("what", ["another path", "not listening", "two", "no socket", "of another process"])
def test_what_is_handed_over_must_be_the_socket_of_this_gate(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX) as handed, (tmp_path / "file").open("w") as file:
        handed.bind(str(tmp_path / "gate.sock"))
        if what != "not listening":
            handed.listen()
        monkeypatch.setattr(daemon, "FIRST_FD", os.dup(file.fileno() if what == "no socket" else handed.fileno()))
        monkeypatch.setenv("LISTEN_FDS", "2" if what == "two" else "1")
        monkeypatch.setenv("LISTEN_PID", str(os.getpid() + (what == "of another process")))
        path = str(tmp_path / ("other.sock" if what == "another path" else "gate.sock"))
        if what == "of another process":
            assert daemon.inherited(path) is None
            os.close(daemon.FIRST_FD)
            return
        with pytest.raises(daemon.CannotStart):
            daemon.inherited(path)


@needs_root
def test_an_entry_for_a_host_names_the_gate_of_the_machine(machine: SystemBox) -> None:
    machine.configure(GIVEN)
    machine.gate()
    code, said = machine.command(ALICE, "register", "--print", "openclaw", gids=(ALICE, USERS), HOME=str(machine.root))
    entry = json.loads(said[said.index("{") : said.rindex("}") + 1])["mcp"]["servers"]["sparksearch"]
    assert code == 0 and entry["args"][-1] == "--system" and not {"--config", "--env"} & set(entry["args"])
    host = Host(machine.start(ALICE, (ALICE, USERS), entry["command"], *entry["args"], XDG_STATE_HOME="/tmp/elsewhere"))
    assert host.initialize()["serverInfo"]["name"] == "sparksearch"


RACE = """
import os, sys
won = 0
for _ in range(3000):
    for swap in (
        lambda: os.unlink("/run/sparkgate/gate.sock"),
        lambda: os.symlink("/tmp/elsewhere", "/run/sparkgate/gate.sock"),
        lambda: os.rename("/tmp/mine", "/run/sparkgate/gate.sock"),
        lambda: os.rename("/run/sparkgate", "/run/other"),
        lambda: os.symlink("/tmp", "/run/sparkgate"),
        lambda: os.rename("/tmp", "/run/sparkgate"),
    ):
        try:
            swap()
            won += 1
        except OSError:
            pass
print(won)
"""


@needs_root
def test_no_swap_of_the_path_is_won_while_pipes_connect(machine: SystemBox) -> None:
    machine.configure(GIVEN)
    machine.gate()
    race = machine.start(MALLORY, (MALLORY, USERS), sys.executable, "-I", "-c", RACE)
    for _ in range(5):
        assert machine.pipe(ALICE).initialize()["serverInfo"]["name"] == "sparksearch"
    assert race.communicate()[0] == b"0\n"
