"""The resident process: one per configuration, private, replaceable, and gone when nobody needs it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pwd
import re
import shutil
import signal
import socket
import stat
import sys
from pathlib import Path

import pytest
from box import Box, is_running, wait_until_ended
from engine_box import until
from fake_searxng import FakeSearxng

from sparkgate.daemon import CannotStart, remove_stale, take_lock
from sparkgate.paths import gate_name
from sparkgate.version import __version__


def say(box: Box, line: bytes) -> dict[str, object]:
    """Connect to the gate's socket by hand, say one line, and read one."""
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(30)
        link.connect(str(box.socket))
        link.sendall(line)
        with link.makefile("rb") as answers:
            return dict(json.loads(answers.readline()))


def test_socket_folder_key_and_logs_are_for_their_owner_alone(box: Box, searxng: FakeSearxng) -> None:
    box.use(searxng.url)
    host = box.host()
    host.initialize()
    host.search("x")
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (box.socket, box.runtime, box.log_file)}
    assert modes == {box.socket: 0o600, box.runtime: 0o700, box.log_file: 0o600}
    private = [path for path in box.state.rglob("*") if path.is_file()]
    assert len(private) >= 4
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in private)
    folders = [box.state, *(path for path in box.state.rglob("*") if path.is_dir())]
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o700 for path in folders)


def test_the_name_in_the_hosts_entry_wins_over_what_its_sdk_says(box: Box, searxng: FakeSearxng) -> None:
    box.use(searxng.url)
    host = box.host(sys.executable, "-I", "-m", "sparkgate.stdio", "search", "--host", "hermes")
    host.initialize(name="mcp")
    host.search("x")
    assert (box.rows()[0]["host"], box.rows()[0]["host_version"]) == ("hermes", "mcp 1.2.3")


def test_two_hosts_of_which_one_drops_the_environment_share_one_gate_and_one_log(
    box: Box, searxng: FakeSearxng
) -> None:
    box.use(searxng.url)
    entry = json.loads(box.command("register", "--print", "openclaw").stdout)["mcp"]["servers"]["sparksearch"]
    passing = box.host()
    dropping = box.host("/usr/bin/env", "-i", f"HOME={box.root}", entry["command"], *entry["args"])
    for host in (passing, dropping):
        host.initialize()
        host.search("x")
    assert [row["host"] for row in box.rows()] == ["testhost", "openclaw"]
    assert box.gate_status()["sessions"] == 2


def test_a_gate_is_named_after_its_files_unless_they_are_the_accounts_own(monkeypatch: pytest.MonkeyPatch) -> None:
    account = pwd.getpwuid(os.getuid()).pw_dir
    own = f"{account}/.config/sparkgate/config.toml", f"{account}/.local/state/sparkgate"
    assert gate_name(*own) == "gate"
    names = {gate_name(own[0], "/elsewhere"), gate_name("/elsewhere", own[1]), gate_name("/a", "/b")}
    assert len(names) == 3 and all(name.startswith("gate-") for name in names)


def test_the_log_names_the_peer_process_as_the_kernel_saw_it(box: Box, searxng: FakeSearxng) -> None:
    box.use(searxng.url)
    host = box.host()
    host.initialize(name="somehost")
    host.search("x")
    row = box.rows()[0]
    assert (row["pid"], row["uid"], row["cwd"]) == (host.process.pid, os.getuid(), str(box.root))
    assert (row["host"], row["host_version"]) == ("somehost", "1.2.3")


def test_a_gate_of_another_version_finishes_its_calls_and_the_new_one_takes_over(
    box: Box, searxng: FakeSearxng
) -> None:
    """The newer pipe is this package copied to another place with another version."""
    box.use(searxng.url)
    old_host = box.host()
    old_host.initialize()
    old_gate = box.gate_pids()[0]
    searxng.hold.clear()
    call = old_host.send("tools/call", {"name": "web_search", "arguments": {"query": "long"}})
    searxng.wait_for_request()

    new_host = box.host(sys.executable, "-c", _run_copy(box, "99.0.0"), "search")
    assert new_host.initialize()["serverInfo"]["version"] == "99.0.0"
    assert is_running(old_gate)
    searxng.hold.set()
    assert old_host.read()["id"] == call
    wait_until_ended([old_gate])
    assert old_host.search("served by the new gate")["ok"]
    assert len(box.gate_pids()) == 1


def _run_copy(box: Box, version: str) -> str:
    """Code that runs the stdio server of a copy of the package, and starts gates of that copy too."""
    copy = box.root / "copy"
    for root in ("servers", "policies", "clients"):
        source = Path(__file__).parent.parent / root / "sparkgate"
        shutil.copytree(source, copy / "sparkgate", dirs_exist_ok=True, symlinks=True)
    (copy / "sparkgate" / "version.py").write_text(f'__version__ = "{version}"\n')
    starter = copy / "sparkgate" / "starter.py"
    launch = f'"-c", "import sys; sys.path.insert(0, {str(copy)!r}); from sparkgate.gate import main; sys.exit(main())"'
    starter.write_text(starter.read_text().replace('"-m", "sparkgate.gate"', launch))
    assert launch in starter.read_text()
    return f"import sys; sys.path.insert(0, {str(copy)!r}); from sparkgate.stdio import main; sys.exit(main())"


def test_a_pipe_that_comes_back_does_not_ask_a_gate_of_another_version_to_end(box: Box) -> None:
    box.host().initialize()
    again = {"sparkgate": 1, "toolset": "search", "version": "0.0.1", "again": True}
    assert say(box, json.dumps(again).encode() + b"\n")["gate"] == "ready"
    assert box.gate_status()["running"]


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 10_000 + b"\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"{}\n",
        b'{"sparkgate":2,"toolset":"search","version":"1"}\n',
        b"x" * 40_000 + b"\n",
    ],
)
def test_a_connection_that_does_not_say_who_it_is_is_refused(box: Box, line: bytes) -> None:
    box.host().initialize()
    assert say(box, line)["gate"] == "refused"
    assert box.gate_status()["running"]


def test_a_toolset_that_does_not_exist_is_refused(box: Box) -> None:
    box.host().initialize()
    hello = {"sparkgate": 1, "toolset": "shell", "version": __version__}
    assert "no toolset 'shell'" in str(say(box, json.dumps(hello).encode() + b"\n")["reason"])


def test_an_idle_gate_ends_and_removes_its_socket(box: Box) -> None:
    box.configure("[gate]\nidle_minutes = 0.01\n")
    host = box.host()
    host.initialize()
    gate = box.gate_pids()
    assert host.close() == 0
    wait_until_ended(gate)
    assert not box.socket.exists()


def test_a_gate_with_a_session_does_not_end_for_idleness(box: Box) -> None:
    """A second gate, which has no session left, shows that the time was long enough."""
    box.configure("[gate]\nidle_minutes = 0.01\n")
    other = box.root / "other.toml"
    other.write_text(box.config.read_text())
    busy = box.host()
    idle = box.host(sys.executable, "-I", "-m", "sparkgate.stdio", "search", "--config", str(other))
    busy.initialize()
    idle.initialize()
    idle.close()
    wait_until_ended(box.gate_of(other))
    assert busy.ask("ping")["result"] == {}
    assert len(box.events("gate_started")) == 1


def test_a_stale_socket_of_a_killed_gate_is_replaced(box: Box) -> None:
    box.host().initialize()
    gate = box.gate_pids()
    os.kill(gate[0], signal.SIGKILL)
    wait_until_ended(gate)
    assert box.socket.is_socket()
    assert box.host().initialize()["serverInfo"]["name"] == "sparksearch"


def test_a_gate_whose_socket_was_taken_away_makes_room_for_another(box: Box) -> None:
    box.host().initialize()
    lost = box.gate_pids()
    box.socket.unlink()
    assert box.host().initialize()["serverInfo"]["name"] == "sparksearch"
    wait_until_ended(lost)


def test_only_a_socket_of_ours_is_ever_removed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for name in ("file", "link"):
        with pytest.raises(CannotStart, match="is not a socket of yours"):
            remove_stale(str(tmp_path / name))
    remove_stale(str(tmp_path / "absent"))
    assert (tmp_path / "file").read_text() == "kept"


def test_the_lock_has_one_holder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    first = take_lock("/etc/a.toml")
    with pytest.raises(CannotStart, match="running already"):
        take_lock("/etc/a.toml")
    os.close(take_lock("/etc/b.toml"))
    fcntl.flock(first, fcntl.LOCK_UN)
    os.close(first)


def test_a_runtime_folder_that_others_may_enter_is_closed_to_them(box: Box) -> None:
    box.runtime.mkdir(mode=0o755)
    box.host().initialize()
    assert stat.S_IMODE(box.runtime.stat().st_mode) == 0o700


def test_the_gate_keeps_no_secret_of_the_host_environment(box: Box) -> None:
    host = box.host(VENDOR_API_KEY="must-not-travel", HTTPS_PROXY="http://127.0.0.1:9")
    host.initialize()
    environment = Path(f"/proc/{box.gate_pids()[0]}/environ").read_text()
    assert "must-not-travel" not in environment and "PROXY" not in environment


def test_a_proxy_in_the_environment_neither_breaks_nor_diverts_a_search(box: Box, searxng: FakeSearxng) -> None:
    box.use(searxng.url)
    host = box.host(ALL_PROXY="socks5://127.0.0.1:9", NO_PROXY="localhost,[::1],fd00::/8")
    host.initialize()
    assert host.search("x")["ok"]


def test_the_log_of_the_gate_is_json_lines_without_query_text(box: Box, searxng: FakeSearxng) -> None:
    box.use(searxng.url)
    host = box.host()
    host.initialize()
    host.search("zebracorn")
    host.ask("tools/call", {"name": "web_search", "arguments": "zebracorn"})
    host.ask("tools/zebracorn", {})
    assert all(json.loads(line)["event"] for line in box.log_file.read_text().splitlines())
    assert "zebracorn" not in box.log_file.read_text()


def test_stop_lets_the_running_call_finish(box: Box, searxng: FakeSearxng) -> None:
    box.use(searxng.url)
    host = box.host()
    host.initialize()
    searxng.hold.clear()
    call = host.send("tools/call", {"name": "web_search", "arguments": {"query": "long"}})
    searxng.wait_for_request()
    gate = box.gate_pids()
    assert box.gate_status()["calls"] == 1
    os.kill(gate[0], signal.SIGTERM)
    searxng.hold.set()
    answer = host.read()
    assert answer["id"] == call and answer["result"]["structuredContent"]["ok"]
    wait_until_ended(gate)


def test_calls_made_while_the_gate_retires_are_answered(box: Box, searxng: FakeSearxng) -> None:
    """Each answer provokes the next call at once, so that some meet the gate in the middle of its retirement."""
    box.use(searxng.url)
    for _ in range(3):
        host = box.host()
        host.initialize()
        host.search("first")
        os.kill(box.gate_pids()[0], signal.SIGTERM)
        for number in range(12):
            assert host.search(f"call {number}")["ok"]
        host.close()


def test_a_second_signal_cuts_calls_off(box: Box, searxng: FakeSearxng) -> None:
    box.use(searxng.url)
    host = box.host()
    host.initialize()
    searxng.hold.clear()
    call = host.send("tools/call", {"name": "web_search", "arguments": {"query": "long"}})
    searxng.wait_for_request()
    gate = box.gate_pids()
    os.kill(gate[0], signal.SIGTERM)
    until(lambda: not box.socket.exists(), "the retiring gate's socket is gone")
    os.kill(gate[0], signal.SIGTERM)
    wait_until_ended(gate)
    answer = host.read()
    assert answer["id"] == call and answer["error"]["code"] == -32000


def test_a_gate_of_another_configuration_is_not_talked_to(box: Box) -> None:
    box.host().initialize()
    hello = {"sparkgate": 1, "toolset": "search", "version": __version__, "config": "/elsewhere.toml"}
    assert "another configuration" in str(say(box, json.dumps(hello).encode() + b"\n")["reason"])


def test_a_state_folder_may_be_a_link_and_a_runtime_folder_may_not(box: Box) -> None:
    elsewhere = box.root / "elsewhere"
    elsewhere.mkdir()
    box.state.parent.mkdir()
    box.state.symlink_to(elsewhere)
    assert box.host().initialize()["serverInfo"]["name"] == "sparksearch"
    other = box.root / "other-run"
    other.mkdir()
    (other / "sparkgate").symlink_to(elsewhere)
    answer = box.host(XDG_RUNTIME_DIR=str(other)).ask("initialize", {"protocolVersion": "2025-11-25"})
    assert "is a symbolic link" in answer["error"]["message"]


def test_stop_ends_a_frozen_gate_whose_queue_is_full(box: Box) -> None:
    box.host().initialize()
    gate = box.gate_pids()
    os.kill(gate[0], signal.SIGSTOP)
    with contextlib.ExitStack() as stack, contextlib.suppress(BlockingIOError):
        while True:
            link = stack.enter_context(socket.socket(socket.AF_UNIX))
            link.setblocking(False)
            link.connect(str(box.socket))
    stopped = box.command("gate", "stop", "--json")
    assert json.loads(stopped.stdout) == {"stopped": True, "pid": gate[0]}


def test_stop_waits_for_a_gate_that_is_ending_already(box: Box, searxng: FakeSearxng) -> None:
    box.use(searxng.url)
    host = box.host()
    host.initialize()
    searxng.hold.clear()
    host.send("tools/call", {"name": "web_search", "arguments": {"query": "long"}})
    searxng.wait_for_request()
    gate = box.gate_pids()
    os.kill(gate[0], signal.SIGTERM)
    until(lambda: not box.socket.exists(), "the retiring gate's socket is gone")
    stopping = box.host(sys.executable, "-I", "-m", "sparkgate.clients.cli", "gate", "stop", "--json")
    until(lambda: _waits_for_a_process(stopping.process.pid), "the command waits for the gate's end")
    searxng.hold.set()
    assert json.loads(stopping.stdout.read()) == {"stopped": True, "pid": gate[0]}
    assert not is_running(gate[0])


def _waits_for_a_process(pid: int) -> bool:
    """Whether it has a descriptor of another process (pidfd_open(2))."""
    found = False
    for link in Path(f"/proc/{pid}/fd").glob("*"):
        with contextlib.suppress(OSError):
            found |= str(link.readlink()) == "anon_inode:[pidfd]"
    return found


def test_status_tells_of_a_gate_that_runs_and_of_none(box: Box) -> None:
    assert box.gate_status()["running"] is False
    box.host().initialize()
    status = box.gate_status()
    assert status["running"] and status["version"] == __version__ and status["sessions"] == 1 and status["jobs"] == 0
    stopped = box.command("gate", "stop", "--json")
    assert json.loads(stopped.stdout) == {"stopped": True, "pid": status["pid"]}
    assert not is_running(status["pid"])


def test_gate_run_serves_in_the_foreground_and_refuses_a_second_one(box: Box) -> None:
    running = box.host(sys.executable, "-I", "-m", "sparkgate.gate")
    assert running.process.stderr
    assert b"gate_started" in running.process.stderr.readline()
    assert box.gate_status()["pid"] == running.process.pid
    second = box.command("gate", "run")
    assert second.returncode == 3 and re.search("a gate is running already", second.stderr)
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(30) == 0
