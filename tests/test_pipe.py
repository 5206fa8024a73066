"""The stdio server as a host meets it: a real process, a real gate behind it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys

import pytest
from box import PATIENCE_S, Box, Host, wait_until_ended
from fake_searxng import FakeSearxng

from sparkgate.wire import MAX_LINE_BYTES


@pytest.fixture
def host(box: Box, searxng: FakeSearxng) -> Host:
    """A host with a session whose searches reach the loopback server."""
    box.use(searxng.url)
    opened = box.host()
    opened.initialize()
    return opened


def test_the_pipe_imports_nothing_but_the_standard_library() -> None:
    script = "import sys; before = set(sys.modules); import sparkgate.stdio; print(*sys.modules.keys() - before)"
    run = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True)
    foreign = {name for name in run.stdout.split() if name.partition(".")[0] not in sys.stdlib_module_names}
    assert foreign == {
        "sparkgate",
        *(f"sparkgate.{name}" for name in ("stdio", "arguments", "link", "paths", "starter", "version", "wire")),
    }


def test_a_search_goes_from_the_host_to_searxng_and_back(host: Host, searxng: FakeSearxng) -> None:
    answer = host.search("vllm speculative decoding")
    assert answer["ok"] and [one["title"] for one in answer["results"]] == ["Result 1", "Result 2", "Result 3"]
    assert searxng.queries() == ["vllm speculative decoding"]


def test_ten_pipes_started_at_once_make_one_gate(box: Box) -> None:
    hosts = [box.host() for _ in range(10)]
    for host in hosts:
        host.send(
            "initialize",
            {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "n", "version": "1"}},
        )
    assert all(host.read()["result"]["serverInfo"]["name"] == "sparksearch" for host in hosts)
    assert len(box.events("gate_started")) == 1
    assert box.gate_status()["sessions"] == 10


def test_a_gate_killed_in_mid_call_is_an_error_and_the_next_call_finds_a_new_one(
    host: Host, box: Box, searxng: FakeSearxng
) -> None:
    searxng.hold.clear()
    wanted = host.send("tools/call", {"name": "web_search", "arguments": {"query": "slow"}})
    searxng.wait_for_request()
    os.kill(box.gate_pids()[0], signal.SIGKILL)
    answer = host.read()
    assert answer["id"] == wanted and answer["error"]["code"] == -32000
    assert "audit list" in answer["error"]["message"]
    searxng.hold.set()
    assert host.search("again")["ok"]
    assert [row["outcome"] for row in box.rows()] == [None, "answered"]
    assert box.rows()[1]["host"] == "testhost"


def test_a_gate_that_ended_between_calls_is_replaced_without_the_host_noticing(host: Host, box: Box) -> None:
    old = box.gate_pids()
    os.kill(old[0], signal.SIGKILL)
    wait_until_ended(old)
    assert host.search("still here")["ok"]
    assert box.gate_pids() != old


def test_the_pipe_ends_when_the_host_closes_its_input_in_mid_call(host: Host, searxng: FakeSearxng) -> None:
    searxng.hold.clear()
    host.send("tools/call", {"name": "web_search", "arguments": {"query": "slow"}})
    searxng.wait_for_request()
    assert host.close() == 0
    searxng.wait_for_hang_up()


def test_answers_still_come_when_input_was_closed_right_after_the_questions(box: Box, searxng: FakeSearxng) -> None:
    box.use(searxng.url)
    warm = box.host()
    warm.initialize()
    host = box.host()
    host.send(
        "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "n", "version": "1"}}
    )
    host.send("notifications/initialized", notify=True)
    host.send("tools/list")
    host.stdin.close()
    assert [host.read()["id"], host.read()["id"]] == [1, 2]
    assert host.process.wait(PATIENCE_S) == 0


def test_the_pipe_ends_when_its_parent_dies(box: Box) -> None:
    """The parent leaves the pipe's input open in a process that stays, as a careless host does."""
    script = (
        "import subprocess, sys\n"
        "command = [sys.executable, '-I', '-m', 'sparkgate.stdio', 'search']\n"
        "p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "keeper = subprocess.Popen(['sleep', '600'], pass_fds=[p.stdin.fileno()], stdout=subprocess.DEVNULL)\n"
        "p.stdin.write(b'not json\\n'); p.stdin.flush(); p.stdout.readline()\n"
        "print(p.pid, keeper.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    parent = box.host(sys.executable, "-c", script)
    pipe, keeper = (int(word) for word in parent.stdout.readline().split())
    parent.process.kill()
    wait_until_ended([pipe])
    os.kill(keeper, signal.SIGKILL)


def test_text_of_every_script_survives_a_host_with_a_c_locale(box: Box, searxng: FakeSearxng) -> None:
    box.use(searxng.url)
    host = box.host(LC_ALL="C", PYTHONIOENCODING="cp1252")
    host.initialize()
    host.search("酷狗 Привет Đ ★ 🙂")
    assert searxng.queries() == ["酷狗 Привет Đ ★ 🙂"]


def test_a_line_over_the_limit_gets_an_error_with_its_id_and_the_session_goes_on(host: Host) -> None:
    padding = "x" * (MAX_LINE_BYTES + 10)
    first = {"jsonrpc": "2.0", "id": 71, "method": "tools/call", "params": {"name": padding}}
    last = {"method": "tools/call", "params": {"id": 5, "name": padding}, "jsonrpc": "2.0", "id": "abc"}
    for message in (first, last):
        host.send_bytes(json.dumps(message).encode() + b"\n")
        answer = host.read()
        assert answer["id"] == message["id"] and "longer than 4 MB" in answer["error"]["message"]
    assert host.search("after")["ok"]


@pytest.mark.parametrize(
    ("line", "code", "request_id"),
    [
        (b'{"jsonrpc":"2.0","id":9,"method":"ping","params":{"x":"\xff\xfe"}}', -32700, 9),
        (b'{"jsonrpc":"2.0","id":9', -32700, None),
        (b'{"jsonrpc":"2.0","id":9,"method":"ping","params":{"x":NaN}}', -32700, 9),
        (b"[" * 100_000, -32700, None),
        (b'[{"jsonrpc":"2.0","id":9,"method":"ping"}]', -32600, None),
        (b'"text"', -32600, None),
        (b'{"jsonrpc":"1.0","id":9,"method":"ping"}', -32600, 9),
        (b'{"jsonrpc":"2.0","id":9,"method":5}', -32600, 9),
        (b'{"jsonrpc":"2.0","id":9,"method":"ping","params":{"x":"\\udcaf","y":1e999}}', -32700, 9),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":[1],"method":"ping"}', -32600, None),
    ],
)
def test_a_line_that_is_no_message_is_answered_and_not_swallowed(
    host: Host, line: bytes, code: int, request_id: int | None
) -> None:
    host.send_bytes(line + b"\n")
    answer = host.read()
    assert (answer["error"]["code"], answer["id"]) == (code, request_id)
    assert host.ask("ping")["result"] == {}


def test_a_lone_surrogate_is_replaced_before_it_can_break_anything(host: Host, searxng: FakeSearxng) -> None:
    host.send_bytes(
        b'{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"web_search","arguments":'
        b'{"query":"bad \\udcaf good \\ud83d\\ude42"}}}\n'
    )
    assert host.read()["result"]["structuredContent"]["ok"]
    assert searxng.queries() == ["bad \ufffd good 🙂"]


def test_a_gate_that_cannot_start_is_a_clear_error_for_every_request(box: Box) -> None:
    box.runtime.mkdir()
    box.socket.write_text("something of the user's")
    host = box.host()
    answer = host.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})
    assert answer["error"]["code"] == -32000 and "is not a socket of yours" in answer["error"]["message"]
    assert box.socket.read_text() == "something of the user's"


def test_a_frozen_gate_is_an_error_and_can_be_stopped(box: Box, searxng: FakeSearxng) -> None:
    """The waits of the pipe are shortened in its process; the gate is stopped by a signal."""
    box.use(searxng.url)
    code = (
        "import sys; from sparkgate import stdio; stdio.SILENCE_S, stdio.PING_WAIT_S = 0.2, 3.0; sys.exit(stdio.main())"
    )
    host = box.host(sys.executable, "-c", code, "search")
    host.initialize()
    gate = box.gate_pids()[0]
    os.kill(gate, signal.SIGSTOP)
    wanted = host.send("tools/list")
    answer = host.read()
    assert answer["id"] == wanted and "does not answer" in answer["error"]["message"]
    stopped = box.command("gate", "stop", "--json")
    assert json.loads(stopped.stdout) == {"stopped": True, "pid": gate}
    assert host.search("with a new gate")["ok"]


def test_a_slow_answer_is_not_taken_for_a_frozen_gate(box: Box, searxng: FakeSearxng) -> None:
    box.use(searxng.url)
    code = (
        "import sys; from sparkgate import stdio; stdio.SILENCE_S, stdio.PING_WAIT_S = 0.1, 20; sys.exit(stdio.main())"
    )
    host = box.host(sys.executable, "-c", code, "search")
    host.initialize()
    searxng.hold.clear()
    wanted = host.send("tools/call", {"name": "web_search", "arguments": {"query": "slow"}})
    searxng.wait_for_request()
    other = box.host()
    other.initialize()
    other.ask("tools/list")
    searxng.hold.set()
    answer = host.read()
    assert answer["id"] == wanted and answer["result"]["structuredContent"]["ok"]


def test_the_pipe_ends_although_nobody_accepts_its_connection(box: Box) -> None:
    box.runtime.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as deaf, contextlib.ExitStack() as stack:
        deaf.bind(str(box.socket))
        deaf.listen(0)
        for _ in range(4):
            filler = stack.enter_context(socket.socket(socket.AF_UNIX))
            filler.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                filler.connect(str(box.socket))
        host = box.host()
        host.send("ping")
        assert host.close() == 0


@pytest.mark.skipif(os.getuid() != 0, reason="only root can serve a socket as another user")
def test_a_socket_that_another_user_serves_gets_no_word(box: Box) -> None:
    program = (
        "import os, socket, sys\n"
        "s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); os.chmod(sys.argv[1], 0o777)\n"
        "os.setuid(65534); s.listen(); print('listening', flush=True)\n"
        "while True: print(len(s.accept()[0].recv(1000)), flush=True)\n"
    )
    box.runtime.mkdir(mode=0o700)
    stranger = box.host(sys.executable, "-c", program, str(box.socket))
    stranger.stdout.readline()
    host = box.host()
    answer = host.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})
    assert "is served by another user" in answer["error"]["message"]
    assert stranger.stdout.readline() == b"0\n"


def test_a_second_request_with_an_open_id_is_refused(host: Host, searxng: FakeSearxng) -> None:
    searxng.hold.clear()
    first = host.send("tools/call", {"name": "web_search", "arguments": {"query": "slow"}})
    searxng.wait_for_request()
    host.send_bytes(b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n' % first)
    assert "a request with this id is open" in host.read()["error"]["message"]
    searxng.hold.set()
    assert host.read()["result"]["structuredContent"]["ok"]


@pytest.mark.parametrize("greeting", [b"", b'{"gate": "ready"}\n'])
def test_a_gate_that_hangs_up_each_time_is_given_up_in_the_end(box: Box, greeting: bytes) -> None:
    program = (
        "import socket, sys\n"
        "s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); print('listening', flush=True)\n"
        "while True:\n"
        "    c = s.accept()[0]; c.recv(1000); c.sendall(sys.argv[2].encode()); c.close()\n"
    )
    box.runtime.mkdir(mode=0o700)
    hanging_up = box.host(sys.executable, "-c", program, str(box.socket), greeting.decode())
    hanging_up.stdout.readline()
    code = "import sys; from sparkgate import starter, stdio; starter.Starter.patience_s = 1.0; sys.exit(stdio.main())"
    host = box.host(sys.executable, "-c", code, "search")
    answer = host.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})
    assert answer["error"]["code"] == -32000
    hanging_up.process.kill()


def test_a_gate_that_freezes_while_it_leaves_is_given_up(box: Box) -> None:
    program = (
        "import socket, sys, time\n"
        "s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); print('listening', flush=True)\n"
        'c = s.accept()[0]; c.recv(1000); c.sendall(b\'{"gate": "ready"}\\n\'); c.recv(1000)\n'
        'c.sendall(b\'{"gate": "retiring"}\\n\'); time.sleep(600)\n'
    )
    box.runtime.mkdir(mode=0o700)
    freezing = box.host(sys.executable, "-c", program, str(box.socket))
    freezing.stdout.readline()
    code = "import sys; from sparkgate import stdio; stdio.LEAVE_S = 0.5; sys.exit(stdio.main())"
    host = box.host(sys.executable, "-c", code, "search")
    answer = host.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})
    assert "does not answer any more" in answer["error"]["message"]
    freezing.process.kill()


def test_a_last_line_without_a_newline_counts(host: Host) -> None:
    host.send_bytes(b'{"jsonrpc":"2.0","id":77,"method":"ping"}')
    host.stdin.close()
    assert host.read() == {"jsonrpc": "2.0", "id": 77, "result": {}}


def test_a_host_that_asks_faster_than_it_reads_is_told_so(host: Host, searxng: FakeSearxng) -> None:
    searxng.hold.clear()
    calls = [host.send("tools/call", {"name": "web_search", "arguments": {"query": "x"}}) for _ in range(40)]
    refused = [host.read() for _ in range(8)]
    assert all("32 requests are open already" in answer["error"]["message"] for answer in refused)
    searxng.hold.set()
    answered = [host.read() for _ in range(32)]
    assert sorted(answer["id"] for answer in refused + answered) == calls


def test_a_socket_path_longer_than_the_kernel_allows_works(box: Box) -> None:
    deep = box.root / "run" / ("d" * 100)
    deep.mkdir(parents=True, mode=0o700)
    host = box.host(XDG_RUNTIME_DIR=str(deep))
    assert host.initialize()["serverInfo"]["name"] == "sparksearch"
    made = deep / "sparkgate" / box.socket.name
    assert len(os.fsencode(made)) > 107 and made.is_socket()


def test_another_configuration_gets_a_gate_of_its_own(box: Box, searxng: FakeSearxng) -> None:
    box.configure("[searxng]\nurl = 5\n")
    other = box.root / "other.toml"
    other.write_text(f'[searxng]\nurl = "{searxng.url}"\n')
    plain, special = (
        box.host(),
        box.host(sys.executable, "-I", "-m", "sparkgate.stdio", "search", "--config", str(other)),
    )
    for host in (plain, special):
        host.initialize()
    assert plain.search("x")["code"] == "config_error"
    assert special.search("x")["ok"]
    assert box.gate_of(other) != box.gate_pids()


@pytest.mark.parametrize(
    "arguments",
    [[], ["nonsense"], ["search", "--config"], ["search", "--port", "1"], ["search", "--env", "LD_PRELOAD=x"]],
)
def test_wrong_arguments_end_with_usage(box: Box, arguments: list[str]) -> None:
    host = box.host(sys.executable, "-I", "-m", "sparkgate.stdio", *arguments)
    _, stderr = host.process.communicate(timeout=PATIENCE_S)
    assert host.process.returncode == 2 and b"usage: python -I -m sparkgate.stdio" in stderr


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_every_handshake_revision_is_spoken_and_only_tools_are_offered(box: Box, version: str) -> None:
    result = box.host().initialize(version)
    assert result["protocolVersion"] == version
    assert set(result["capabilities"]) <= {"tools", "experimental"}


def test_the_revision_without_handshake_is_spoken_and_survives_a_new_gate(box: Box, searxng: FakeSearxng) -> None:
    box.use(searxng.url)
    host = box.host()
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "modern", "version": "9"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    assert "2026-07-28" in host.ask("server/discover", {"_meta": meta})["result"]["supportedVersions"]
    for expected in (1, 2):
        call = {"name": "web_search", "arguments": {"query": f"q{expected}"}, "_meta": meta}
        assert host.ask("tools/call", call)["result"]["structuredContent"]["ok"]
        pids = box.gate_pids()
        os.kill(pids[0], signal.SIGKILL)
        wait_until_ended(pids)
    assert [row["host"] for row in box.rows()] == ["modern", "modern"]
