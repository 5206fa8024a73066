"""A gate of the machine under a real systemd: installed, used, attacked, upgraded and taken away."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from box import Host
from engine_box import until
from real_systemd import OURS, SOURCE, Systemd, a_systemd, all_of
from system_box import refused
from test_system_gate import READS

pytestmark = pytest.mark.systemd
CONFIG = '[searxng]\nurl = "{url}"\nper_minute = 0\n[search]\ncache_s = 0\n[access.users]\nalice = ["search"]\n{more}'
PAGES = '[pages]\nlinks = "any"\ninner = ["{web}"]\n'
WEB = """
import sys
sys.path.insert(0, sys.argv[1])
from fake_web import FakeWeb, html
with FakeWeb() as web:
    web.pages["/page"] = html("<p>" + "A sentence of a page that is read. " * 40 + "</p>")
    print(web.url, flush=True)
    sys.stdin.read()
"""
BESIDE = "systemctl restart sparkgate-gate.service"


@pytest.fixture(scope="module")
def machine() -> Iterator[Systemd]:
    with a_systemd() as made:
        made.ok("usermod", "-aG", "users", "mallory")
        yield made


@pytest.fixture(scope="module")
def url(machine: Systemd) -> str:
    return machine.searxng()


@pytest.fixture
def installed(machine: Systemd, url: str) -> Iterator[Systemd]:
    code, said = machine.sparkgate("gate", "install", "--system")
    assert code == 0, said
    machine.ok("usermod", "-aG", "sparkgate-users", "alice")
    configure(machine, url)
    yield machine
    code, said = machine.sparkgate("gate", "uninstall", "--system", "--purge")
    assert code == 0, said


def configure(machine: Systemd, url: str, more: str = "") -> None:
    text = CONFIG.format(url=url, more=more)
    machine.ok("sh", "-c", 'printf "%s" "$0" > /etc/sparkgate/config.toml', text)


def main_pid(machine: Systemd) -> int:
    return int(machine.ok("systemctl", "show", "--value", "--property=MainPID", "sparkgate-gate.service"))


def rows(machine: Systemd) -> list[dict[str, object]]:
    code, said = machine.sparkgate("--system", "audit", "export", "--format", "jsonl")
    assert code == 0, said
    return [json.loads(line) for line in said.splitlines()]


def greeted(machine: Systemd, user: str = "alice") -> Host:
    host = machine.pipe(user)
    host.initialize()
    return host


def test_it_starts_when_it_is_asked_and_its_rows_carry_who_asked(installed: Systemd) -> None:
    assert main_pid(installed) == 0
    host = greeted(installed)
    assert host.search("a question of alice")["ok"]
    account = int(installed.ok("id", "-u", "sparkgate"))
    assert installed.ok("ps", "-o", "uid=", "-p", str(main_pid(installed))).split() == [str(account)]
    alice = int(installed.ok("id", "-u", "alice"))
    row = rows(installed)[-1]
    assert (row["uid"], row["gid"], row["sent"]) == (
        alice,
        int(installed.ok("id", "-g", "alice")),
        "a question of alice",
    )
    assert "alice may not use engine here" in refused(installed.pipe("alice", "engine"))


def test_who_is_not_let_in_gets_nothing_and_leaves_a_row_where_it_comes_so_far(installed: Systemd) -> None:
    assert "not in the group of /run/sparkgate/gate.sock" in refused(installed.pipe("mallory"))
    installed.ok("usermod", "-aG", "sparkgate-users", "mallory")
    greeted(installed)
    assert "mallory may not use this gate" in refused(installed.pipe("mallory"))
    assert rows(installed)[-1]["uid"] == int(installed.ok("id", "-u", "mallory"))


def test_who_is_let_in_can_neither_read_nor_change_nor_stop_it(installed: Systemd) -> None:
    host = greeted(installed)
    assert host.search("x")["ok"]
    pid = main_pid(installed)
    tried = [command.format(pid=pid, python=OURS) for command in READS]
    tried += [
        "systemctl stop sparkgate-gate.service",
        "systemctl kill sparkgate-gate.service",
        "systemctl edit --full sparkgate-gate",
    ]
    assert all_of(installed, tried, "alice") == []
    code, said = installed.sparkgate("gate", "stop", user="alice")
    assert code == 1 and "alice may not stop this gate" in said
    assert main_pid(installed) == pid and host.search("y")["ok"]


def test_in_its_unit_it_reads_pages_and_serves_every_toolset(installed: Systemd, url: str) -> None:
    web = installed.start(OURS, "-c", WEB, f"{SOURCE}/tests")
    assert web.stdout
    site = web.stdout.readline().decode().strip()
    given = 'bob = []\n[access.groups]\nsparkgate-users = ["engine", "bench"]\n'
    configure(installed, url, given + PAGES.format(web=site))
    page = greeted(installed).ask("tools/call", {"name": "read_page", "arguments": {"url": f"{site}/page"}})
    assert "A sentence of a page that is read." in page["result"]["content"][0]["text"]
    for toolset in ("engine", "bench"):
        assert installed.pipe("alice", toolset).initialize()["serverInfo"]["name"] == f"spark{toolset}"


def test_the_end_of_the_gate_is_no_end_of_its_sessions(installed: Systemd) -> None:
    """`gate stop`, a restart while questions come, and an upgrade: every question is answered."""
    host = greeted(installed)
    assert host.search("before")["ok"]
    first = main_pid(installed)
    assert installed.sparkgate("gate", "stop")[0] == 0
    assert host.search("after the stop")["ok"] and main_pid(installed) not in (0, first)
    restart = installed.start("sh", "-c", f"{BESIDE}; {BESIDE}; {BESIDE}")
    answered = 0
    while restart.poll() is None:
        assert host.search(f"question {answered}")["ok"]
        answered += 1
    assert answered and host.search("after the restarts")["ok"]


def test_installing_again_changes_nothing_but_what_is_not_so(installed: Systemd) -> None:
    host = greeted(installed)
    before = main_pid(installed)
    installed.ok("sh", "-c", "echo '# changed' >> /etc/systemd/system/sparkgate-gate.service")
    kept = installed.ok("cat", "/etc/sparkgate/config.toml")
    code, said = installed.sparkgate("gate", "install", "--system", "--json")
    assert code == 0
    done = json.loads(said)["done"]
    assert done[:2] == ["write /etc/systemd/system/sparkgate-gate.service (mode 0644)", "run systemctl daemon-reload"]
    assert not [step for step in done if "sparkgate-users" in step or "config.toml" in step]
    assert installed.ok("cat", "/etc/sparkgate/config.toml") == kept
    assert host.search("by the new one")["ok"] and main_pid(installed) != before


def test_uninstalling_leaves_the_log_and_purging_leaves_nothing(installed: Systemd) -> None:
    assert greeted(installed).search("x")["ok"]
    code, said = installed.sparkgate("gate", "uninstall", "--system")
    assert code == 0 and "the log stays in /var/lib/sparkgate" in said
    assert installed.run("systemctl", "cat", "sparkgate-gate.service")[0] != 0
    assert installed.run("ls", "/run/sparkgate")[0] != 0
    installed.ok("ls", "/var/lib/sparkgate/audit.db", "/etc/sparkgate/config.toml")
    assert installed.sparkgate("gate", "install", "--system")[0] == 0
    assert greeted(installed).search("y")["ok"]
    assert [row["sent"] for row in rows(installed)] == ["x", "y"]
    assert installed.sparkgate("gate", "uninstall", "--system", "--purge")[0] == 0
    others = "".join(f" -not -path '{path}/*'" for path in ("/opt", "/proc", "/root/.cache"))
    find = f"find / -xdev -name '*sparkgate*' -newer /etc/machine-id{others}"
    assert installed.run("sh", "-c", find)[1] == ""
    assert installed.run("id", "sparkgate")[0] != 0 and installed.run("getent", "group", "sparkgate-users")[0] != 0


def test_a_python_that_others_can_change_is_not_installed(machine: Systemd) -> None:
    machine.ok("chmod", "g+w", "/opt/sparkgate/bin")
    try:
        code, said = machine.sparkgate("gate", "install", "--system")
    finally:
        machine.ok("chmod", "g-w", "/opt/sparkgate/bin")
    assert code == 1 and "/opt/sparkgate/bin can be changed by others than root" in said and "/opt/sparkgate/" in said
    code, said = machine.sparkgate("gate", "install", "--system", user="alice")
    assert code == 1 and "installed by root" in said


def test_a_gate_of_one_user_is_kept_by_the_manager_of_that_user(machine: Systemd) -> None:
    place = "/run/user/alice"
    machine.ok("install", "-d", "-m", "700", "-o", "alice", "/run/user", place)
    machine.ok("chmod", "755", "/run/user")
    options = ("--unit=alice", "-p", "Delegate=yes", "-p", "User=alice", "-E", f"XDG_RUNTIME_DIR={place}")
    machine.ok("systemd-run", *options, "/lib/systemd/systemd", "--user")
    as_alice = ("env", f"XDG_RUNTIME_DIR={place}")
    until(
        lambda: machine.run(*as_alice, "systemctl", "--user", "list-units", user="alice")[0] == 0, "her manager is up"
    )
    cli = (*as_alice, OURS, "-I", "-m", "sparkgate.clients.cli")
    host = Host(machine.start(*as_alice, OURS, "-I", "-m", "sparkgate.stdio", "search", user="alice"))
    host.initialize()
    machine.ok(*cli, "gate", "install", user="alice")
    assert host.ask("tools/list")["result"]["tools"]
    show = ("systemctl", "--user", "show", "--value", "--property=MainPID", "sparkgate-gate.service")
    pid = machine.ok(*as_alice, *show, user="alice").strip()
    status = json.loads(machine.ok(*cli, "gate", "status", "--json", user="alice"))
    assert re.fullmatch(r"[1-9]\d*", pid) and status["pid"] == int(pid)
    machine.ok(*cli, "gate", "uninstall", user="alice")
    assert not json.loads(machine.ok(*cli, "gate", "status", "--json", user="alice"))["running"]
    machine.ok("systemctl", "stop", "alice.service")


CONFINED = """
import subprocess, sys
sys.path.insert(0, sys.argv[1])
from box import Host
pipe = [sys.executable, "-I", "-m", "sparkgate.stdio", "search"]
host = Host(subprocess.Popen(pipe, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
host.initialize()
print(host.search("a question from inside")["ok"])
"""


def test_a_confined_command_of_a_user_reaches_it_and_its_rows_say_so(installed: Systemd) -> None:
    command = (OURS, "-c", CONFINED, f"{SOURCE}/tests")
    code, said = installed.sparkgate("confine", "--", *command, user="alice")
    assert code == 0 and said.startswith("True\n"), said
    row = rows(installed)[-1]
    assert row["sent"] == "a question from inside" and row["confined"]
    assert (row["uid"], row["gid"]) == tuple(int(installed.ok("id", one, "alice")) for one in ("-u", "-g"))


def test_every_escape_of_a_confined_user_is_closed_with_the_gate_of_the_machine(installed: Systemd) -> None:
    attack = (OURS, "-I", "-m", "sparkgate.clients.cli", "doctor", "--attack", "--json")
    code, said = installed.sparkgate("confine", "--", *attack, user="alice")
    found = json.JSONDecoder().raw_decode(said)[0]["attacks"]  # notes on standard error follow
    assert {one["name"]: one["how"] for one in found if one["state"] == "open"} == {} and code == 0
