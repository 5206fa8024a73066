"""`sparkgate serve --http` as an HTTP client meets it: a real process, a real gate behind it."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from box import PATIENCE_S, Box, wait_until_ended
from fake_searxng import FakeSearxng
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from sparkgate.clients.http_bridge import MAX_BODY_BYTES, MAX_SESSIONS, OpenCalls
from sparkgate.clients.http_token import TokenError, token_of

ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
CLIENT = {"name": "webhost", "version": "7"}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT}


class Served:
    """A running `sparkgate serve search --http 0`, and the raw HTTP of a host."""

    def __init__(self, box: Box, *more: str, code: str = "") -> None:
        self.box, self.token_file = box, box.root / "http.token"
        served = ("serve", "search", "--http", "0", "--token-file", str(self.token_file), *more)
        code += "from sparkgate.clients.cli import main; main()"
        self.process = box.host(sys.executable, "-I", "-c", code, *served).process
        self.told = self._start()
        self.url = self.told.split("MCP at ")[1].strip()
        self.port = int(self.url.split(":")[2].split("/")[0])
        self.token = self.token_file.read_text().strip()
        self.http = httpx.Client(timeout=PATIENCE_S, trust_env=False)

    def _start(self) -> str:
        assert self.process.stderr
        text = b""
        while b"/mcp\n" not in text:
            ready, _, _ = select.select([self.process.stderr], [], [], PATIENCE_S)
            data = os.read(self.process.stderr.fileno(), 65_536) if ready else b""
            assert data, text
            text += data
        return text.decode()

    def post(self, body: Any, **headers: str) -> httpx.Response:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = (
            ACCEPT | {"Authorization": f"Bearer {self.token}"} | {k.replace("_", "-"): v for k, v in headers.items()}
        )
        return self.http.post(self.url, content=raw, headers=given)

    def session(self) -> str:
        """The id of a new session."""
        answer = self.post(request("initialize", HELLO))
        assert answer.status_code == 200 and result(answer)["serverInfo"]["name"] == "sparksearch"
        name = answer.headers["mcp-session-id"]
        noted = self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, mcp_session_id=name)
        assert noted.status_code == 202
        return str(name)

    def search(self, session: str, query: str) -> dict[str, Any]:
        """The whole JSON-RPC answer."""
        call = request("tools/call", {"name": "web_search", "arguments": {"query": query}})
        return message(self.post(call, mcp_session_id=session))

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """(exit code, what else stood on stderr)."""
        self.process.send_signal(number)
        assert self.process.stderr
        code = self.process.wait(PATIENCE_S)
        return code, self.process.stderr.read().decode()


def request(method: str, params: dict[str, Any] | None = None, number: int = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}}


def message(answer: httpx.Response) -> dict[str, Any]:
    """The last JSON-RPC message of an event stream."""
    lines = [line.removeprefix("data:") for line in answer.text.splitlines() if line.startswith("data:")]
    return dict(json.loads(lines[-1]))


def result(answer: httpx.Response) -> dict[str, Any]:
    return dict(message(answer)["result"])


@pytest.fixture
def served(box: Box, searxng: FakeSearxng) -> Iterator[Served]:
    box.use(searxng.url)
    made = Served(box)
    with made.http:
        yield made


@pytest.mark.anyio
async def test_the_sdk_s_own_client_searches_and_the_log_names_the_host(
    served: Served, box: Box, searxng: FakeSearxng
) -> None:
    headers = {"Authorization": f"Bearer {served.token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S, trust_env=False) as http,
        Client(streamable_http_client(served.url, http_client=http)) as client,
    ):
        assert "web_search" in {tool.name for tool in (await client.list_tools()).tools}
        answer = await client.call_tool("web_search", {"query": "vllm speculative decoding"})
    assert answer.structured_content and answer.structured_content["ok"]
    assert searxng.queries() == ["vllm speculative decoding"]
    (row,) = box.rows()
    assert (row["host"], row["outcome"]) == ("http", "answered")


def test_two_sessions_are_two_sessions_of_one_gate(served: Served, box: Box) -> None:
    first, second = served.session(), served.session()
    for name in (first, second):
        assert served.search(name, "llama.cpp flags")["result"]["structuredContent"]["ok"]
    assert box.gate_status()["sessions"] == 2
    assert len({row["session"] for row in box.rows()}) == 2
    assert {row["pid"] for row in box.rows()} == {served.process.pid}


def test_a_session_that_is_deleted_is_gone_also_from_the_gate(served: Served) -> None:
    name = served.session()
    headers = {"Authorization": f"Bearer {served.token}", "mcp-session-id": name}
    assert served.http.delete(served.url, headers=headers).status_code == 200
    assert served.post(request("ping"), mcp_session_id=name).status_code == 404
    other = served.session()
    assert served.search(other, "still served")["result"]["structuredContent"]["ok"]


def test_without_the_token_nothing_is_answered(served: Served, box: Box) -> None:
    for header in ("", "Bearer", "Bearer wrong", "Basic {token}", "{token}", "Bearer {token}x", "Bearer é"):
        raw = [(name.encode(), value.encode()) for name, value in ACCEPT.items()]
        raw.append((b"Authorization", header.format(token=served.token).encode()))
        answer = served.http.post(served.url, json=request("initialize", HELLO), headers=raw)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer"), header
    assert not box.socket.exists()


FROM: list[tuple[dict[str, str], int]] = [
    ({"Host": "evil.example"}, 421),
    ({"Host": "evil.example:{port}"}, 421),
    ({"Host": "127.0.0.1:1"}, 421),
    ({"Host": "proxy.example.evil"}, 421),
    ({"Origin": "https://evil.example"}, 403),
    ({"Origin": "http://proxy.example"}, 403),
    ({"Origin": "null"}, 403),
    ({"Host": "localhost:{port}", "Origin": "http://localhost:{port}"}, 200),
    ({"Host": "proxy.example"}, 200),
    ({"Host": "proxy.example:8443", "Origin": "https://proxy.example:8443"}, 200),
]


def test_only_known_hosts_and_origins_come_in(box: Box) -> None:
    served = Served(box, "--allow-host", "proxy.example")
    with served.http:
        for headers, status in FROM:
            given = {name: value.format(port=served.port) for name, value in headers.items()}
            assert served.post(request("initialize", HELLO), **given).status_code == status, headers


def test_what_is_no_message_of_a_session_is_refused_and_opens_none(served: Served, box: Box) -> None:
    assert served.post(b"x" * (MAX_BODY_BYTES + 1)).status_code == 413
    assert served.post(b"not json").status_code == 400
    assert served.post(request("tools/list")).status_code == 400
    assert served.post(request("ping"), mcp_session_id="unknown").status_code == 404
    assert served.post(request("ping"), mcp_protocol_version="2099-01-01").status_code == 400
    headers = {"Authorization": f"Bearer {served.token}"}
    assert served.http.get(served.url.replace("/mcp", "/"), headers=headers).status_code == 404
    assert not box.socket.exists()


def test_sessions_are_bounded(served: Served) -> None:
    names = [served.session() for _ in range(MAX_SESSIONS)]
    assert served.post(request("initialize", HELLO)).status_code == 503
    assert served.search(names[0], "still served")["result"]["structuredContent"]["ok"]


def test_a_session_nobody_uses_ends(box: Box) -> None:
    """The wait is shortened in the server's process."""
    served = Served(box, code="from sparkgate.clients import http_bridge; http_bridge.IDLE_S = 3.0; ")
    with served.http:
        name = served.session()
        assert any(box.gate_status()["sessions"] == 0 for _ in range(100))
        assert served.post(request("ping"), mcp_session_id=name).status_code == 404


def test_a_gate_killed_in_mid_call_is_an_error_and_the_session_goes_on(
    served: Served, box: Box, searxng: FakeSearxng
) -> None:
    name = served.session()
    searxng.hold.clear()
    call = request("tools/call", {"name": "web_search", "arguments": {"query": "slow"}})
    headers = ACCEPT | {"Authorization": f"Bearer {served.token}", "mcp-session-id": name}
    with served.http.stream("POST", served.url, json=call, headers=headers) as answer:
        searxng.wait_for_request()
        old = box.gate_pids()
        os.kill(old[0], signal.SIGKILL)
        answer.read()
    assert message(answer)["error"]["code"] == -32000 and "audit list" in message(answer)["error"]["message"]
    searxng.hold.set()
    wait_until_ended(old)
    for session in (name, served.session()):
        assert served.search(session, "again")["result"]["structuredContent"]["ok"]
    assert [row["outcome"] for row in box.rows()] == [None, "answered", "answered"]


def test_a_cancelled_call_ends_its_stream(served: Served, searxng: FakeSearxng) -> None:
    name = served.session()
    searxng.hold.clear()
    call = request("tools/call", {"name": "web_search", "arguments": {"query": "slow"}}, 41)
    headers = ACCEPT | {"Authorization": f"Bearer {served.token}", "mcp-session-id": name}
    with served.http.stream("POST", served.url, json=call, headers=headers) as answer:
        searxng.wait_for_request()
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 41}}
        assert served.post(cancel, mcp_session_id=name).status_code == 202
        answer.read()
    assert message(answer)["error"]["message"] == "Request cancelled"
    searxng.wait_for_hang_up()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_mid_call_and_says_nothing_of_the_query(
    served: Served, searxng: FakeSearxng, number: int
) -> None:
    name = served.session()
    searxng.hold.clear()
    call = request("tools/call", {"name": "web_search", "arguments": {"query": "zanzibar"}})
    headers = ACCEPT | {"Authorization": f"Bearer {served.token}", "mcp-session-id": name}
    with served.http.stream("POST", served.url, json=call, headers=headers) as answer:
        searxng.wait_for_request()
        code, said = served.end(number)
        answer.read()
    assert (code, said) == (0, "")
    searxng.wait_for_hang_up()


def test_a_signal_ends_it_although_a_stream_is_open(served: Served) -> None:
    headers = ACCEPT | {"Authorization": f"Bearer {served.token}", "mcp-session-id": served.session()}
    with served.http.stream("GET", served.url, headers=headers) as stream:
        assert stream.status_code == 200
        assert served.end()[0] == 0


def test_the_name_in_the_log_can_be_given(box: Box, searxng: FakeSearxng) -> None:
    box.use(searxng.url)
    served = Served(box, "--host", "nemoclaw")
    with served.http:
        assert served.search(served.session(), "x")["result"]["structuredContent"]["ok"]
    assert (box.rows()[0]["host"], box.rows()[0]["host_version"]) == ("nemoclaw", "webhost 7")


def test_the_stdio_server_takes_a_name_too(box: Box, searxng: FakeSearxng) -> None:
    box.use(searxng.url)
    command = ("sparkgate.clients.cli", "serve", "search", "--host", "abc")
    host = box.host(sys.executable, "-I", "-m", *command)
    host.initialize()
    assert host.search("x")["ok"] and box.rows()[0]["host"] == "abc"


def test_it_listens_on_loopback_alone_and_tells_the_token_s_place_not_the_token(served: Served) -> None:
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    assert [row[1] for row in rows if row[1].endswith(f":{served.port:04X}") and row[3] == "0A"] == [
        f"0100007F:{served.port:04X}"
    ]
    assert str(served.token_file) in served.told and served.token not in served.told
    assert stat.S_IMODE(served.token_file.stat().st_mode) == 0o600 and len(served.token) > 40


def test_a_taken_port_is_said_plainly(box: Box) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        run = box.command("serve", "search", "--http", port, "--token-file", str(box.root / "t"))
    assert run.returncode == 1 and f"cannot listen on 127.0.0.1:{port}: Address already in use" in run.stderr


@pytest.mark.parametrize(
    "more",
    [
        ("--http", "0"),
        ("--token-file", "t"),
        ("--allow-host", "x"),
        ("--http", "0", "--token-file", "t", "--in-process"),
    ],
)
def test_options_that_do_not_go_together_are_usage(box: Box, more: tuple[str, ...]) -> None:
    assert box.command("serve", "search", *more).returncode == 2


# -- the token


def test_a_token_is_made_once(tmp_path: Path) -> None:
    token, made = token_of(tmp_path / "token")
    assert made and token_of(tmp_path / "token") == (token, False)


@pytest.mark.parametrize(
    ("text", "mode", "words"),
    [
        ("a" * 40, 0o640, "chmod 600"),
        ("a" * 40, 0o604, "chmod 600"),
        ("", 0o600, "holds no token"),
        ("short", 0o600, "holds no token"),
        ("a" * 20 + " " + "b" * 20, 0o600, "holds no token"),
        ("é" * 40, 0o600, "holds no token"),
    ],
)
def test_a_file_that_is_no_secret_is_refused(tmp_path: Path, text: str, mode: int, words: str) -> None:
    path = tmp_path / "token"
    path.write_text(text)
    path.chmod(mode)
    with pytest.raises(TokenError, match=words):
        token_of(path)


def test_what_is_no_file_of_ones_own_is_refused(tmp_path: Path) -> None:
    token_of(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path in (tmp_path / "link", tmp_path / "pipe", tmp_path, tmp_path / "none" / "token"):
        with pytest.raises(TokenError):
            token_of(path)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_a_token_of_another_user_is_refused(tmp_path: Path) -> None:
    token_of(tmp_path / "token")
    os.chown(tmp_path / "token", 65534, 65534)
    with pytest.raises(TokenError, match="another user"):
        token_of(tmp_path / "token")


# -- which stream a message of the gate goes to


def test_a_question_of_the_gate_goes_to_the_call_it_belongs_to() -> None:
    import mcp_types as types
    from mcp.shared.message import SessionMessage

    def said(body: dict[str, Any]) -> types.JSONRPCMessage:
        return types.jsonrpc_message_adapter.validate_python({"jsonrpc": "2.0"} | body, by_name=False)

    calls = OpenCalls()
    question = said({"id": 0, "method": "elicitation/create", "params": {}})
    assert calls.related(question) is None
    for number, token in ((1, "a"), (2, "b"), (3, None)):
        meta = {"_meta": {"progressToken": token}} if token else {}
        calls.asked(SessionMessage(said({"id": number, "method": "tools/call", "params": meta})))
    progress = said({"method": "notifications/progress", "params": {"progressToken": "a", "progress": 1}})
    assert (calls.related(progress), calls.related(question)) == (1, 3)
    assert calls.related(said({"id": 3, "result": {}})) is None
    assert calls.related(question) == 2
    calls.asked(SessionMessage(said({"method": "notifications/cancelled", "params": {"requestId": 2}})))
    assert calls.related(question) == 1
