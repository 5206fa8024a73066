"""The kill switch: once it is locked nothing leaves, whoever asks and whatever restarts; loopback engines go on."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from bench_box import a_llama_cpp
from box import PATIENCE_S, Box, Host
from engine_box import until
from fake_searxng import FakeSearxng
from mcp import Client
from otlp_receiver import Receiver, listening, row_of
from recorded_engine import RecordedEngine, recording

from sparkgate import bench, engine, link, search
from sparkgate.bench_subject import CannotMeasure, choose
from sparkgate.change.host_proof import prove_host
from sparkgate.clients.gate_lock import end
from sparkgate.engine_settings import EngineSettings
from sparkgate.fleet import Fleet
from sparkgate.machine.commands import runner, spawner
from sparkgate.policy.audit import AuditLog, Caller, Intent
from sparkgate.policy.decision import Decision
from sparkgate.policy.egress import Egress, Failed, Permit, Refused, Request, Sent
from sparkgate.policy.guard import Guard
from sparkgate.policy.judge import Policy
from sparkgate.policy.keys import load_key
from sparkgate.policy.kill_switch import REASON_CHARS, KillSwitch, LockedNow, is_loopback
from sparkgate.policy.local import LocalDoor, LocalDoorError
from sparkgate.policy.local_stream import Exchange, StreamDoor, StreamDoorError
from sparkgate.policy.rules import shipped
from sparkgate.policy.trail.collector import Collector
from sparkgate.policy.trail.export import Source
from sparkgate.policy.trail.read import read_rows
from sparkgate.policy.trail.ship import ship
from sparkgate.services import Services
from sparkgate.toolset import Tool, build_server

BUILD = {"search": search.build, "engine": engine.build, "bench": bench.build}


@pytest.fixture
def switch(tmp_path: Path) -> KillSwitch:
    """Both of its files may be made and removed by a test."""
    (tmp_path / "state").mkdir()
    (tmp_path / "etc").mkdir()
    return KillSwitch(tmp_path / "state" / "locked", tmp_path / "etc" / "locked")


def own(switch: KillSwitch) -> Path:
    assert switch.own
    return switch.own


def foreign(url: str) -> str:
    """The same server by an address that is not of the loopback network, and leads to it on Linux."""
    return url.replace("127.0.0.1", "0.0.0.0")


# -- what locks

ODD: dict[str, Callable[[Path], object]] = {
    "empty": lambda file: file.write_bytes(b""),
    "not JSON": lambda file: file.write_text("{half"),
    "not text": lambda file: file.write_bytes(os.urandom(64)),
    "JSON without a reason": lambda file: file.write_text("[1, 2]"),
    "a reason that is no text": lambda file: file.write_text('{"reason": {"a": 1}}'),
    "nested without end": lambda file: file.write_text("[" * 4000),
    "a folder": lambda file: file.mkdir(),
    "a pipe that nobody writes": lambda file: os.mkfifo(file),
    "a link to nowhere": lambda file: file.symlink_to("/nonexistent/place"),
    "a file that nobody may read": lambda file: file.touch(0o000),
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("operators", [False, True])
def test_a_file_of_any_kind_locks(switch: KillSwitch, odd: str, operators: bool) -> None:
    file = switch.operator if operators else own(switch)
    assert switch.told() is None and switch.words == ""
    ODD[odd](file)
    told = switch.told()
    assert told and told.by == str(file) and len(told.reason) <= REASON_CHARS and told.reason.isprintable()
    with pytest.raises(LockedNow):
        switch.check()


@pytest.mark.parametrize("which", [0, 1])
def test_a_file_that_cannot_be_looked_for_locks(tmp_path: Path, which: int) -> None:
    (tmp_path / "file").touch()
    places = [tmp_path / "a", tmp_path / "b"]
    places[which] = tmp_path / "file" / "locked"
    told = KillSwitch(places[0], places[1]).told()
    assert told and told.since == "" and "cannot be looked at" in told.words


REASONS = {
    '{"reason": "strange queries"}': "strange queries",
    "strange\nqueries\t\x1b[31m since noon\x00": "strange queries [31m since noon",
    "a\u202eb\u200bc": "a b c",
    "long " * 100: ("long " * 100)[:REASON_CHARS],
}


@pytest.mark.parametrize("text", REASONS)
def test_a_reason_is_one_bounded_line_of_what_can_be_seen(switch: KillSwitch, text: str) -> None:
    switch.operator.write_text(text)
    told = switch.told()
    assert told and told.reason == REASONS[text]


def test_a_lock_is_private_says_since_when_and_a_second_one_leaves_it_as_it_is(switch: KillSwitch) -> None:
    assert switch.lock("the first") and not switch.lock("the second")
    told = switch.told()
    assert told and told.is_ours and told.reason == "the first" and "(the first)" in told.words
    assert told.since_s and abs(told.since_s - time.time()) < PATIENCE_S and told.since in told.words
    assert stat.S_IMODE(own(switch).stat().st_mode) == 0o600
    assert switch.unlock() and not switch.unlock() and switch.told() is None


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("[::1]", True),
        ("::ffff:127.0.0.1", True),
        ("localhost", True),
        ("LOCALHOST.", True),
        ("0.0.0.0", False),
        ("10.0.0.5", False),
        ("::ffff:10.0.0.5", False),
        ("spark.lan", False),
        ("localhost.evil.example", False),
        ("", False),
    ],
)
def test_only_loopback_is_this_machine(host: str, here: bool) -> None:
    assert is_loopback(host) is here


# -- unlocking


def test_the_file_of_the_operator_outlasts_unlock(switch: KillSwitch, capsys: pytest.CaptureFixture[str]) -> None:
    switch.operator.touch()
    switch.lock()
    with pytest.raises(SystemExit) as ended:
        end(switch, None, False)
    assert ended.value.code == 1 and f"sudo rm {switch.operator}" in capsys.readouterr().err
    assert not own(switch).exists() and switch.told()
    switch.operator.unlink()
    end(switch, None, False)
    assert "it was not locked" in capsys.readouterr().out


def test_a_lock_that_cannot_be_removed_stays_and_says_so(
    switch: KillSwitch, capsys: pytest.CaptureFixture[str]
) -> None:
    own(switch).mkdir()
    with pytest.raises(SystemExit):
        end(switch, None, False)
    assert str(switch.own) in capsys.readouterr().err and switch.told()


# -- the way out


class Door:
    """An egress with a switch of its own."""

    def __init__(self, folder: Path, switch: KillSwitch, **more: Any) -> None:
        self.path = folder / "state" / "audit.db"
        log = AuditLog(self.path, load_key(self.path.parent / "keys" / "audit.key"))
        policy = Policy(shipped(), deadline_s=PATIENCE_S)
        self.egress = Egress(policy, log, Guard(), switch=switch, **more)

    async def send(self, url: str, text: str = "llamas", **permit: Any) -> Sent | Refused | Failed:
        allowed = Permit(Caller(session="s"), "web_search", "searxng", url, **{"path": "/search"} | permit)
        return await self.egress.send(allowed, text, lambda text: Request(f"{url}/search", {"q": text}))

    def rows(self) -> list[tuple[str, str, str]]:
        """(verdict, what was sent, outcome), the oldest first."""
        return [(row["verdict"], row["sent"], row["outcome"]) for row in read_rows(self.path, limit=50)][::-1]


@pytest.fixture
def door(tmp_path: Path, switch: KillSwitch) -> Door:
    return Door(tmp_path, switch)


@pytest.mark.anyio
async def test_a_send_is_refused_with_a_row_that_says_why_and_nothing_comes_from_memory(
    door: Door, switch: KillSwitch, searxng: FakeSearxng
) -> None:
    assert isinstance(await door.send(searxng.url, cache_s=60.0), Sent)
    switch.lock()
    refused = await door.send(searxng.url, cache_s=60.0)
    assert isinstance(refused, Refused) and refused.rules == ("locked",)
    switch.unlock()
    again = await door.send(searxng.url, cache_s=60.0)
    assert isinstance(again, Sent) and again.cached
    assert door.rows() == [("allow", "llamas", "answered"), ("block", "", "withheld"), ("allow", "llamas", "cached")]
    assert read_rows(door.path, limit=2)[1]["findings"] == [{"rule": "locked"}]


@pytest.mark.anyio
async def test_a_row_that_is_refused_still_says_what_else_was_found(door: Door, switch: KillSwitch) -> None:
    switch.lock()
    refused = await door.send("http://127.0.0.1:9", "mail jane.roe@alder-bank.com")
    assert isinstance(refused, Refused) and refused.rules[-1] == "locked" and "pii" in refused.classes
    assert "alder" not in json.dumps(read_rows(door.path, limit=1))
    assert not await door.egress.lets(Permit(Caller(), "read_page", "web", "http://a.example"), "llamas")


@pytest.mark.anyio
async def test_what_is_under_way_is_cut_and_its_row_says_so(
    door: Door, switch: KillSwitch, searxng: FakeSearxng
) -> None:
    searxng.hold.clear()
    task = asyncio.ensure_future(door.send(searxng.url))
    await anyio.to_thread.run_sync(searxng.wait_for_request)
    switch.lock()
    assert await switch.enforce(PATIENCE_S) == (1, 0)
    failed = await task
    await anyio.to_thread.run_sync(searxng.wait_for_hang_up)
    assert isinstance(failed, Failed) and failed.kind == "locked"
    assert door.rows() == [("allow", "llamas", "locked")]


@pytest.mark.anyio
async def test_what_waits_for_an_equal_one_or_for_a_place_is_cut_as_well(
    door: Door, switch: KillSwitch, searxng: FakeSearxng
) -> None:
    searxng.hold.clear()
    tasks = [asyncio.ensure_future(door.send(searxng.url, "llamas", cache_s=60.0)) for _ in range(3)]
    tasks += [asyncio.ensure_future(door.send(searxng.url, f"llamas {number}")) for number in range(20)]
    await anyio.to_thread.run_sync(searxng.wait_for_request)
    switch.lock()
    await switch.enforce(PATIENCE_S)
    ended = await asyncio.gather(*tasks)
    arrived = len(searxng.requests)
    assert all(isinstance(one, Refused) or (isinstance(one, Failed) and one.kind == "locked") for one in ended)
    searxng.hold.set()
    assert isinstance(await door.send(searxng.url, "after"), Refused) and len(searxng.requests) == arrived


@pytest.mark.anyio
async def test_a_lock_that_comes_while_a_name_is_looked_up_lets_no_connection_be_made(
    tmp_path: Path, switch: KillSwitch, searxng: FakeSearxng
) -> None:
    async def locks(host: str, port: int) -> list[str]:
        switch.lock()
        return ["127.0.0.1"]

    door = Door(tmp_path, switch, resolver=locks)
    failed = await door.send(searxng.url.replace("127.0.0.1", "searxng.example"))
    assert isinstance(failed, Failed) and failed.kind == "locked" and searxng.requests == []


@pytest.mark.anyio
async def test_a_lock_that_comes_while_a_person_is_asked_counts(
    tmp_path: Path, switch: KillSwitch, searxng: FakeSearxng
) -> None:
    door = Door(tmp_path, switch)
    door.egress.policy = Policy.from_folder(_asks_about_mail(tmp_path), deadline_s=PATIENCE_S)

    async def agrees(_: Decision) -> bool:
        switch.lock()
        return True

    permit = Permit(Caller(session="s"), "web_search", "searxng", searxng.url, path="/search")
    text = "mail jane.roe@alder-bank.com"
    refused = await door.egress.send(permit, text, lambda left: Request(f"{searxng.url}/search", {"q": left}), agrees)
    assert switch.told() and isinstance(refused, Refused) and "locked" in refused.rules
    assert searxng.requests == [] and door.rows() == [("block", "", "withheld")]


def _asks_about_mail(folder: Path) -> Path:
    (folder / "profiles.toml").write_text('[[profile]]\ndestination = "searxng"\npii = "ask"\n')
    return folder


@pytest.mark.anyio
async def test_a_cut_ends_only_what_runs_within_it(switch: KillSwitch) -> None:
    switch.lock()
    with pytest.raises(LockedNow):
        async with switch.cuts():
            raise AssertionError("nothing may begin")
    switch.unlock()
    with pytest.raises(TimeoutError):
        async with switch.cuts(), asyncio.timeout(0):
            await asyncio.Event().wait()
    async with switch.cuts():
        pass
    switch.lock()
    assert await switch.enforce() == (0, 0)
    await asyncio.sleep(0)


# -- the doors to engines


def test_the_local_door_asks_loopback_alone_while_it_is_locked(switch: KillSwitch) -> None:
    with a_llama_cpp("qwen") as llama:
        doors = [LocalDoor([url], switch=switch) for url in (llama.url, foreign(llama.url))]
        assert [door.get(f"{url}/health").status for door, url in zip(doors, _both(llama), strict=True)] == [200, 200]
        switch.lock()
        assert doors[0].get(f"{llama.url}/health").status == 200
        before = len(llama.asked)
        with pytest.raises(LocalDoorError, match="locked") as refusal:
            doors[1].get(f"{foreign(llama.url)}/health")
        assert refusal.value.reason == "locked" and len(llama.asked) == before
        for door in doors:
            door.close()


def _both(engine: RecordedEngine) -> tuple[str, str]:
    return engine.url, foreign(engine.url)


def test_a_call_to_another_machine_that_is_under_way_is_cut(switch: KillSwitch, searxng: FakeSearxng) -> None:
    searxng.hold.clear()
    ended: list[str] = []

    def asks() -> None:
        with LocalDoor([foreign(searxng.url)], timeout_s=PATIENCE_S * 2, switch=switch) as door:
            try:
                door.post_form(f"{foreign(searxng.url)}/search", {"q": "x"})
            except LocalDoorError as error:
                ended.append(error.reason)

    thread = threading.Thread(target=asks)
    thread.start()
    searxng.wait_for_request()
    switch.lock()
    switch.look()
    thread.join(PATIENCE_S)
    assert ended == ["locked"]


@asynccontextmanager
async def a_silent_server() -> AsyncIterator[tuple[int, asyncio.Event]]:
    """(port, whether a request came) of one that takes requests and never answers."""
    came = asyncio.Event()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65_536):
            came.set()
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], came


@pytest.mark.anyio
async def test_the_streams_of_a_benchmark_to_another_machine_are_cut_and_loopback_goes_on(switch: KillSwitch) -> None:
    async with a_silent_server() as (port, came):
        async with StreamDoor(f"http://0.0.0.0:{port}", switch=switch) as door:
            into = Exchange()
            sending = asyncio.ensure_future(door.post("/v1/chat", b"{}", into, PATIENCE_S * 2))
            await came.wait()
            switch.lock()
            await sending
            assert "locked" in into.error
            with pytest.raises(StreamDoorError, match="locked"):
                await door.ask("GET", "/health")
        with pytest.raises(StreamDoorError, match="locked"):
            await StreamDoor(f"http://0.0.0.0:{port}", switch=switch).__aenter__()
        async with StreamDoor(f"http://127.0.0.1:{port}", switch=switch) as door:
            await door.connect(1)


def a_fleet(folder: Path, switch: KillSwitch, **urls: tuple[str, str]) -> Fleet:
    """Engines by name: (URL, kind)."""
    catalogue = {name: EngineSettings(url=url, engine=kind) for name, (url, kind) in urls.items()}
    return Fleet(catalogue, folder, runner(environment={"PATH": ""}), spawner(), switch=switch)


def test_an_engine_on_loopback_is_told_of_and_measured_and_one_elsewhere_is_not(
    tmp_path: Path, switch: KillSwitch
) -> None:
    with a_llama_cpp("qwen") as llama:
        urls = {"here": (llama.url, "llamacpp"), "lan": (foreign(llama.url), "llamacpp")}
        with a_fleet(tmp_path, switch, **urls) as fleet:
            assert [one.state for one in fleet.statuses().values()] == ["ready", "ready"]
            switch.lock()
            states = fleet.statuses()
            assert (states["here"].state, states["lan"].state) == ("ready", "unknown")
            assert any("locked" in words for words in states["lan"].warnings)
            assert choose("here", fleet).name == "here"
            assert fleet.locked("lan", states["lan"]) and not fleet.locked("here", states["here"])


def test_a_router_is_told_of_and_given_no_prompt(tmp_path: Path, switch: KillSwitch) -> None:
    router = RecordedEngine(recording("litellm")["answers"])
    with router, a_fleet(tmp_path, switch, router=(router.url, "litellm")) as fleet:
        switch.lock()
        assert fleet.status("router").state == "ready"
        with pytest.raises(CannotMeasure) as refusal:
            choose("router", fleet)
        assert refusal.value.code == "locked"
        assert not prove_host(router.url, ["m"], "router", fleet)
    assert not [path for path in router.asked if path.startswith("POST")]


def test_rows_wait_while_it_is_locked_and_are_shipped_afterwards(tmp_path: Path, switch: KillSwitch) -> None:
    path = tmp_path / "state" / "audit.db"
    log = AuditLog(path, b"k" * 32)
    for _ in range(3):
        log.intend(Intent(Caller(), "web_search", "searxng", "http://127.0.0.1:8888", "block", "", {}, [], [], "p", 7))
    with listening(Receiver()) as receiver:
        url, source = f"{foreign(receiver.url)}/v1/logs", Source("box", "1")
        away, here = (Collector(one, {}, source, PATIENCE_S, switch) for one in (url, f"{receiver.url}/v1/logs"))
        switch.lock("outage")
        (kept,) = ship(path, "away", away.send, batch=10)
        assert not kept.answer.taken and "outage" in kept.answer.detail and not receiver.records
        assert next(ship(path, "here", here.send, batch=10)).answer.taken
        switch.unlock()
        assert [one.rows for one in ship(path, "away", away.send, batch=10)] == [3]
        assert [row_of(record) for record in receiver.records] == [1, 2, 3, 1, 2, 3]


# -- every tool of every server


def a_service(tmp_path: Path, switch: KillSwitch) -> Services:
    config = tmp_path / "config.toml"
    config.write_text('[searxng]\nurl = "http://127.0.0.1:9"\n[engines.main]\nurl = "http://127.0.0.1:9"\n')
    return Services(config, tmp_path / "state", Guard(), switch)


def minimal(tool: Any) -> dict[str, Any]:
    """Something for every argument that is needed."""
    properties = tool.input_schema["properties"]
    texts = {"engine": "main", "name": "main", "url": "https://a.example/", "kind": "quick", "a": "1", "b": "2"}
    needed = tool.input_schema["required"]
    return {name: properties[name].get("enum", [texts.get(name, "llamas")])[0] for name in needed}


@pytest.mark.anyio
@pytest.mark.parametrize("toolset", BUILD)
async def test_every_tool_says_that_it_is_locked_and_since_when(
    toolset: str, tmp_path: Path, switch: KillSwitch
) -> None:
    services = a_service(tmp_path, switch)
    async with Client(BUILD[toolset](services, Caller(session="s"))) as client:
        tools = (await client.list_tools()).tools
        assert len(tools) >= 4
        switch.lock("strange queries")
        for tool in tools:
            for arguments in (minimal(tool), {"nonsense": 1}):
                answer = await client.call_tool(tool.name, arguments)
                told = answer.structured_content
                assert told and told["locked"].startswith("nothing leaves this machine since 2"), tool.name
                assert "strange queries" in told["locked"] and "gate unlock" in told["locked"]
                assert json.loads(answer.content[0].text) == told  # type: ignore[union-attr]
        unknown = await client.call_tool("no_such_tool", {})
        assert unknown.structured_content and unknown.structured_content["locked"]
        switch.unlock()
        answer = await client.call_tool(tools[0].name, minimal(tools[0]))
        assert "locked" not in (answer.structured_content or {})


@pytest.mark.anyio
async def test_a_fault_of_ours_says_it_as_well() -> None:
    async def fails(*_: Any) -> dict[str, Any]:
        raise RuntimeError

    flags = {"read_only": True, "destructive": False, "idempotent": True, "open_world": False}
    tool = Tool("t", "T", "It fails.", (), fails, **flags)
    async with Client(build_server("s", "S", "i", [tool], locked=lambda: "nothing leaves")) as client:
        answer = await client.call_tool("t", {})
    assert answer.is_error and "nothing leaves" in answer.content[0].text  # type: ignore[union-attr]


def test_the_longest_words_fit_an_answer(switch: KillSwitch) -> None:
    switch.lock("\N{GRINNING FACE}" * 1000)
    assert len(switch.words.encode()) <= 700


# -- the gate


@pytest.fixture
def host(box: Box, searxng: FakeSearxng) -> Iterator[Host]:
    box.use(searxng.url)
    made = box.host()
    made.initialize()
    assert made.search("before")["ok"]
    yield made


def lock(box: Box, *more: str) -> dict[str, Any]:
    ran = box.command("gate", "lock", "--json", *more)
    assert ran.returncode == 0, ran.stderr
    return dict(json.loads(ran.stdout))


def marks(box: Box) -> list[str]:
    with closing(sqlite3.connect(box.state / "audit.db")) as connection:
        return [what for (what,) in connection.execute("SELECT what FROM mark ORDER BY id")]


def test_locking_cuts_a_search_that_hangs_and_stops_the_next_one_until_it_is_unlocked(
    box: Box, host: Host, searxng: FakeSearxng
) -> None:
    searxng.wait_for_request()
    searxng.hold.clear()
    call = host.send("tools/call", {"name": "web_search", "arguments": {"query": "hangs"}})
    searxng.wait_for_request()
    told = lock(box, "--reason", "strange queries")
    searxng.wait_for_hang_up()
    assert (told["gate"], told["not_cut"]) == ("told", 0)
    assert told["cut"] in (0, 1)  # the gate may have looked, and cut, a moment before
    while (answer := host.read()).get("id") != call:
        pass
    cut = answer["result"]["structuredContent"]
    assert (cut["ok"], cut["code"]) == (False, "locked") and "strange queries" in cut["locked"]
    searxng.hold.set()
    refused = host.search("next")
    assert (refused["ok"], refused["code"]) == (False, "locked") and "locked" in refused
    assert searxng.queries() == ["before", "hangs"]
    assert [(row["verdict"], row["outcome"]) for row in box.rows()][1:] == [("allow", "locked"), ("block", "withheld")]
    status = box.gate_status()
    assert status["locked"]["reason"] == "strange queries" and status["locked"]["by"] == str(box.state / "locked")
    assert "strange queries" in box.command("gate", "status").stdout
    assert box.command("gate", "unlock").returncode == 0
    assert host.search("after")["ok"] and box.gate_status()["locked"] is None
    assert marks(box)[-2:] == ["locked", "unlocked"]
    assert box.command("audit", "verify").returncode == 0 and box.command("audit", "list").returncode == 0


def test_a_lock_outlasts_the_gate(box: Box, host: Host, searxng: FakeSearxng) -> None:
    lock(box)
    assert box.command("gate", "stop").returncode == 0
    assert box.gate_status()["running"] is False and box.gate_status()["locked"]
    again = box.host()
    again.initialize()
    assert again.search("after")["code"] == "locked" and searxng.queries() == ["before"]


def test_it_can_be_locked_before_there_is_a_gate_or_a_log(box: Box, searxng: FakeSearxng) -> None:
    box.use(searxng.url)
    assert lock(box)["gate"] == "absent" and not (box.state / "audit.db").exists()
    host = box.host()
    host.initialize()
    assert host.search("llamas")["code"] == "locked" and searxng.requests == []
    assert [row["findings"] for row in box.rows()] == [[{"rule": "locked"}]]


def test_a_gate_that_nobody_tells_notices_by_itself(box: Box, host: Host, searxng: FakeSearxng) -> None:
    """The command is killed between writing the file and telling the gate."""
    searxng.wait_for_request()
    searxng.hold.clear()
    call = host.send("tools/call", {"name": "web_search", "arguments": {"query": "hangs"}})
    searxng.wait_for_request()
    code = (
        "import os, signal, sys; from pathlib import Path; from sparkgate.policy.kill_switch import kill_switch_of\n"
        "kill_switch_of(Path(sys.argv[1])).lock('killed')\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-I", "-c", code, str(box.state)], check=False).returncode == -9
    searxng.wait_for_hang_up()
    while (answer := host.read()).get("id") != call:
        pass
    assert answer["result"]["structuredContent"]["code"] == "locked"
    until(lambda: box.events("locked"), "the gate says so in its log")


def test_a_gate_that_hangs_is_locked_and_sends_nothing_when_it_goes_on(
    box: Box, host: Host, searxng: FakeSearxng
) -> None:
    (pid,) = box.gate_pids()
    os.kill(pid, signal.SIGSTOP)
    call = host.send("tools/call", {"name": "web_search", "arguments": {"query": "meanwhile"}})
    try:
        told = lock(box)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert (told["gate"], told["pid"]) == ("silent", pid) and told["locked"]
    while (answer := host.read()).get("id") != call:
        pass
    assert answer["result"]["structuredContent"]["code"] == "locked" and searxng.queries() == ["before"]


def test_no_tool_and_no_connection_unlocks(box: Box, host: Host) -> None:
    lock(box)
    for do in ("unlock", "look", "status", "start"):
        with link.connect(str(box.socket)) as connection:
            connection.settimeout(PATIENCE_S)
            connection.sendall(link.hello("control", do=do, locked=None))
            with connection.makefile("rb") as answers:
                assert json.loads(answers.readline())["locked"]
    assert (box.state / "locked").exists() and host.search("after")["code"] == "locked"


def test_a_folder_that_is_none_locks_and_is_told(box: Box) -> None:
    box.state.parent.mkdir(parents=True, exist_ok=True)
    box.state.write_text("a file stands in its place")
    ran = box.command("gate", "lock")
    assert "Traceback" not in ran.stderr and str(box.state) in ran.stderr and "locked" in ran.stdout
    assert "cannot be looked at" in box.gate_status()["locked"]["reason"]
