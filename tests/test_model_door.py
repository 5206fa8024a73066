"""The model door: streams pass untouched, and what would make an engine reach out for an agent does not pass."""

from __future__ import annotations

import base64
import json
import os
import re
import select
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from box import PATIENCE_S, is_running
from door_box import (
    CHAT,
    OK,
    Answered,
    DoorBox,
    Engine,
    Heard,
    answer,
    door_to,
    doors,
    environment_of,
    get,
    is_child_of_ours,
    part,
    post,
    pss_kib,
    read_all,
    read_request,
    read_some,
    says,
    until,
)
from scripted_model import ScriptedModel
from test_instances import certificate

from sparkgate.door_carry import DRAIN_S, HEAD_S, Carried
from sparkgate.door_loop import Loop
from sparkgate.door_process import COMMAND, ON_HUGE_PAGES, environment
from sparkgate.policy.guard import Guard
from sparkgate.policy.kill_switch import KillSwitch, Locked
from sparkgate.policy.model_door import fields, refusal, router, screen
from sparkgate.policy.model_door.framing import MAX_BODY_BYTES, MAX_HEAD_BYTES
from sparkgate.policy.model_door.lock import is_locked
from sparkgate.policy.model_door.plan import Door, First, written
from sparkgate.policy.model_door.reading import MAX_DEPTH
from sparkgate.policy.model_door.refusal import RULES
from sparkgate.policy.model_door.routes import ROUTES
from sparkgate.services import Services

SECRET = "the-word-of-an-agent"
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[DoorBox, Engine]]:
    """One door for all tests that only ask."""
    engine = Engine()
    with door_to(engine) as box:
        yield box, engine


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


# -- streams


def test_a_stream_passes_byte_for_byte_and_piece_by_piece_as_it_comes() -> None:
    pieces = [chunk(f"data: {number} {SECRET * number}\n\n".encode()) for number in range(8)]
    turns = threading.Semaphore(0)

    def stream(_heard: Heard, link: socket.socket) -> None:
        link.sendall(CHUNKED)
        for piece in pieces:
            turns.acquire(timeout=PATIENCE_S)
            link.sendall(piece)
        turns.acquire(timeout=PATIENCE_S)
        link.sendall(b"0\r\n\r\n")

    with door_to(Engine(stream)) as box, box.connect() as link:
        link.sendall(post(CHAT))
        assert read_some(link).endswith(b"\r\n\r\n")
        for piece in pieces:
            turns.release()
            got = b""
            while len(got) < len(piece):  # the engine sends no more before this has come
                got += read_some(link)
            assert got == piece
        turns.release()
        assert read_all(link) == b"0\r\n\r\n"


def test_the_engine_gets_the_agents_own_bytes_with_the_doors_own_headers(shared: tuple[DoorBox, Engine]) -> None:
    box, engine = shared
    body = b'{ "model":"m" , "messages":[{"role":"user","content":"\\u00e9 \xc3\xa9"}]}\n'
    box.ask(post(body, "/v1/chat/completions", "Cookie: a=b", "X-Forwarded-For: 1.2.3.4", "Authorization: Bearer own"))
    heard = engine.posted[-1]
    assert heard.body == body
    assert heard.headers == {
        "host": f"127.0.0.1:{engine.port}",
        "connection": "close",
        "accept-encoding": "identity",
        "content-type": "application/json",
        "content-length": str(len(body)),
        "authorization": "Bearer own",
    }


@pytest.mark.parametrize("body", [b"", b"x" * 300_000], ids=["empty", "long"])
def test_an_answer_of_known_length_ends_with_its_last_byte_though_the_engine_stays(body: bytes) -> None:
    stays = threading.Event()

    def handle(_heard: Heard, link: socket.socket) -> None:
        link.sendall(answer(body, "200 OK", "Keep-Alive: timeout=5", "Connection: keep-alive", "X-Own: 1"))
        stays.wait(PATIENCE_S)

    with door_to(Engine(handle)) as box:
        found = box.ask(post(CHAT))
        stays.set()
    assert found.body == body and "X-Own: 1" in found.head
    assert "keep-alive" not in found.head.lower() and found.head.endswith("Connection: close")


def test_an_answer_without_length_ends_with_its_connection() -> None:
    with door_to(Engine(says(b"HTTP/1.0 200 OK\r\n\r\nall of it"))) as box:
        assert box.ask(post(CHAT)).body == b"all of it"


def test_interim_answers_are_left_out() -> None:
    with door_to(Engine(says(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK))) as box:
        found = box.ask(post(CHAT))
    assert found.status == 200 and "103" not in found.head


def test_a_client_that_goes_away_stops_the_engine() -> None:
    heard, stopped = threading.Event(), threading.Event()

    def think(_heard: Heard, link: socket.socket) -> None:
        heard.set()
        if link.recv(1) == b"":
            stopped.set()

    with door_to(Engine(think)) as box:
        with box.connect() as link:
            link.sendall(post(CHAT))
            assert heard.wait(PATIENCE_S)
        assert stopped.wait(PATIENCE_S)


def test_a_client_that_goes_away_in_mid_stream_stops_the_engine_at_its_next_words() -> None:
    stopped = threading.Event()

    def stream(_heard: Heard, link: socket.socket) -> None:
        link.sendall(CHUNKED + chunk(b"data: 1\n\n"))
        with suppress(OSError):
            while not select.select([link], [], [], 0.02)[0]:
                link.sendall(chunk(b"data: more\n\n"))
        stopped.set()

    with door_to(Engine(stream)) as box:
        with box.connect() as link:
            link.sendall(post(CHAT))
            read_some(link)
        assert stopped.wait(PATIENCE_S)


def test_a_client_that_has_said_all_and_closes_its_side_still_gets_the_whole_answer() -> None:
    closed, body = threading.Event(), b"x" * 3_000_000

    def handle(_heard: Heard, link: socket.socket) -> None:
        assert closed.wait(PATIENCE_S)
        link.sendall(answer(body))

    with door_to(Engine(handle)) as box, box.connect() as link:
        link.sendall(post(CHAT))
        link.shutdown(socket.SHUT_WR)
        interim = read_some(link)
        assert interim == b"HTTP/1.1 100 Continue\r\n\r\n"  # by which the door tells who is gone
        closed.set()
        assert Answered(read_all(link)).body == body
        until(lambda: box.doors.counts.get("main", {}).get("open") == 0, "its connection is over")


def test_the_end_of_a_connection_is_told_also_when_nothing_else_has_happened_since() -> None:
    with door_to(Engine()) as box:
        with box.connect() as link:
            link.sendall(post(CHAT)[:-1])
            until(lambda: box.doors.counts.get("main", {}).get("open") == 1, "its connection is told of")
        until(lambda: box.doors.counts["main"]["open"] == 0, "its end is told")


def test_an_engine_that_goes_away_in_mid_stream_cuts_the_client() -> None:
    with door_to(Engine(says(CHUNKED + chunk(b"data: 1\n\n")))) as box:
        assert box.ask(post(CHAT)).body == chunk(b"data: 1\n\n")


def test_a_client_that_does_not_read_holds_the_engine_back_and_gets_all_in_the_end() -> None:
    total, sent, done = 64_000_000, [0], threading.Event()

    def flood(_heard: Heard, link: socket.socket) -> None:
        link.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {total}\r\n\r\n".encode())
        while sent[0] < total:
            sent[0] += link.send(b"x" * min(1_000_000, total - sent[0]))
        done.set()

    with door_to(Engine(flood)) as box, box.connect() as link:
        link.sendall(post(CHAT))
        read_some(link)
        held = until(
            lambda: (first := sent[0]) and not done.wait(0.3) and first == sent[0] and first, "it stands still"
        )
        assert held < total / 2 and pss_kib(box.pid) < 24_000
        assert len(read_all(link)) > total - 1_000_000
        assert done.wait(PATIENCE_S)


def test_two_hundred_requests_at_once_are_all_carried() -> None:
    meet = threading.Barrier(200)

    def together(heard: Heard, link: socket.socket) -> None:
        meet.wait(PATIENCE_S)
        link.sendall(answer(heard.body))

    def ask(box: DoorBox, number: int) -> bool:
        body = json.dumps({**CHAT, "seed": number}).encode()
        return box.ask(post(body)).body == body

    with door_to(Engine(together)) as box, ThreadPoolExecutor(200) as pool:
        assert all(pool.map(lambda number: ask(box, number), range(200)))


def test_a_client_that_waits_for_a_word_before_it_sends_the_body_gets_it(shared: tuple[DoorBox, Engine]) -> None:
    whole = post(CHAT, "/v1/chat/completions", "Expect: 100-continue")
    head, _, body = whole.partition(b"\r\n\r\n")
    with shared[0].connect() as link:
        link.sendall(head + b"\r\n\r\n")
        assert read_some(link) == b"HTTP/1.1 100 Continue\r\n\r\n"
        link.sendall(body)
        assert Answered(read_all(link)).status == 200


@pytest.mark.parametrize("cut", [1, 30, 90])
def test_a_request_may_come_in_pieces_of_any_size(shared: tuple[DoorBox, Engine], cut: int) -> None:
    box, engine = shared
    body = json.dumps(CHAT).encode()
    pieces = b"".join(chunk(body[at : at + 7]) for at in range(0, len(body), 7)) + b"0\r\n\r\n"
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    with box.connect() as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(head + pieces), cut):
            link.sendall((head + pieces)[at : at + cut])
        assert Answered(read_all(link)).status == 200
    assert engine.posted[-1].body == body


def test_the_scripted_model_of_the_host_tests_answers_through_the_door() -> None:
    with (
        ScriptedModel("search", {"query": "x"}) as model,
        doors({"main": f'engine = "openai"\nurl = "{model.url}"'}) as box,
    ):
        tool = {"type": "function", "function": {"name": "web_search", "parameters": {"properties": {"image_url": {}}}}}
        called = json.loads(box.ask(post({**CHAT, "tools": [tool]})).body)["choices"][0]
        assert called["message"]["tool_calls"][0]["function"]["name"] == "web_search"
        assert b"data: [DONE]" in box.ask(post({**CHAT, "tools": [tool], "stream": True})).body


# -- routes


def asked(route: Any) -> bytes:
    path = route.path.replace("*", "some/model-1.5")
    return get(path).replace(b"GET", route.method.encode()) if route.kind == "look" else post({"model": "m"}, path)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_each_route_of_the_table_is_carried(shared: tuple[DoorBox, Engine], route: Any) -> None:
    box, engine = shared
    assert box.ask(asked(route)).status == 200
    assert engine.heard[-1].first.split()[1] == route.path.replace("*", "some/model-1.5")


def test_an_answer_to_head_ends_with_its_head_though_the_engine_stays() -> None:
    stays = threading.Event()

    def handle(_heard: Heard, link: socket.socket) -> None:
        link.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n")
        stays.wait(PATIENCE_S)

    with door_to(Engine(handle)) as box:
        found = box.ask(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n")
        stays.set()
        assert found.status == 200 and "Content-Length: 17" in found.head and found.body == b""
        assert box.ask(b"HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n").raw.endswith(b"\r\n\r\n")


NOT_CARRIED = (
    ("POST", "/api/pull", "POST /api/push POST /api/create POST /api/copy DELETE /api/delete POST /api/blobs/sha256"),
    ("POST", "/api/web_search", "POST /api/web_fetch POST /api/experimental/web_search POST /api/signout"),
    ("POST", "/models/load", "POST /models/unload POST /models GET /models/sse/../x POST /api/v1/models/load"),
    ("POST", "/api/v1/models/download", "POST /api/v1/chat GET /lms POST /cors-proxy GET /cors-proxy POST /tools"),
    ("POST", "/v1/load_lora_adapter", "POST /collective_rpc POST /sleep POST /update_weights_from_disk POST /generate"),
    (
        "POST",
        "/vertex_ai/v1",
        "POST /gemini/v1beta/models POST /anthropic/v1/messages POST /openai/v1/chat/completions",
    ),
    ("POST", "/model/new", "GET /model/info POST /key/generate POST /mcp POST /v1/mcp GET /config POST /v1/files"),
    ("GET", "/metrics", "GET /slots GET /server_info GET /docs GET /openapi.json POST /props DELETE /v1/responses/x"),
    ("POST", "/v1/audio/transcriptions", "POST /v1/images/edits POST /v1/batches PUT /v1/models OPTIONS /v1/models"),
)


@pytest.mark.parametrize("row", NOT_CARRIED, ids=lambda row: row[1])
def test_what_changes_an_engine_or_makes_it_fetch_is_no_route(shared: tuple[DoorBox, Engine], row: Any) -> None:
    box, engine = shared
    words = f"{row[0]} {row[1]} {row[2]}".split()
    before = len(engine.heard)
    for method, path in zip(words[::2], words[1::2], strict=True):
        found = box.ask(f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{{}}".encode())
        expected = {"not_offered", "bad_target", "bad_framing"} if method == "GET" else {"not_offered"}
        assert found.code in expected, (method, path)
    assert len(engine.heard) == before


def test_the_path_in_an_engines_url_stands_before_its_routes_and_runners_of_docker_have_theirs() -> None:
    with ExitStack() as stack:
        one, other = stack.enter_context(Engine()), stack.enter_context(Engine())
        tables = {
            "one": f'engine = "vllm"\nurl = "{one.url}/deep/v1"',
            "other": f'engine = "docker-model-runner"\nurl = "{other.url}"',
        }
        box = stack.enter_context(doors(tables))
        assert box.ask(post(CHAT, "/deep/v1/chat/completions"), "one").status == 200
        assert box.ask(post(CHAT, "/engines/v1/chat/completions"), "one").code == "not_offered"
        assert box.ask(post(CHAT, "/engines/llama.cpp/v1/chat/completions"), "other").status == 200


@pytest.mark.parametrize(
    "path", ["/v1/models?include_metadata=true", "/props?model=x", "/props?autoload=true", "/v1/messages?x=1"]
)
def test_query_strings_that_do_more_than_page_are_refused(shared: tuple[DoorBox, Engine], path: str) -> None:
    request = post({"model": "m"}, path) if "messages" in path else get(path)
    assert shared[0].ask(request).code == "query"


# -- what is in a body


LEAKS = (
    *("http://collect.example/x", "HTTPS://x.example", "file:///etc/passwd", "//x.example/a", " http://x.y"),
    *("/proc/self/environ", "/etc/hostname", "/home/user/picture", "etc/hostname", "picture", "a" * 84, "a" * 89),
    *("/home/" + "a" * 94, "data:", "data:image/png,x", "data:;base64,AA==", "DATA:image/png;base64,AA==", "dataset"),
    *("data:/etc;base64,AA==", "data:image/png;base64,../x", "data:image/png;base64,AA==\x00/etc/hostname"),
)
PICTURE = base64.b64encode(bytes(range(90))).decode()
JPEG = base64.b64encode(b"\xff\xd8\xff\xe0" + bytes(86)).decode()


@pytest.mark.parametrize("key", sorted(fields.MEDIA))
def test_media_come_within_the_request_or_not_at_all(shared: tuple[DoorBox, Engine], key: str) -> None:
    box, _ = shared
    for leak in LEAKS:
        for value in (leak, {"url": leak, "detail": "low"}, [leak], [{"url": leak}], {"data": leak}):
            for named in (key, key.upper()):
                found = box.ask(post(part(type=key, **{named: value})))
                assert found.code == "remote_media" and SECRET not in found.raw.decode(), (named, value)
    for clean in ("data:image/png;base64,iVBORw0KGgo=", PICTURE, JPEG, {"data": PICTURE, "format": "wav"}, "", None):
        assert box.ask(post(part(type=key, **{key: clean}))).status == 200, clean


@pytest.mark.parametrize("key", sorted(fields.ADDRESSES))
def test_an_address_in_a_part_that_is_a_medium_is_refused(shared: tuple[DoorBox, Engine], key: str) -> None:
    box, _ = shared
    for kind in sorted(fields.MEDIA_TYPES):
        assert box.ask(post(part(type=kind, **{key: "https://x.example/a.png"}))).code == "remote_media"
    assert box.ask(post(part(type="image", **{key: "data:image/png;base64,AA=="}))).status == 200
    assert (
        box.ask(post(part(type="text", text="see https://x.example/a.png", **{key: "https://x.example"}))).status == 200
    )


def test_anthropics_sources_hold_their_data(shared: tuple[DoorBox, Engine]) -> None:
    box, _ = shared
    for source in ({"type": "url", "url": "https://x"}, {"type": "file", "file_id": "f"}, {"data": "x"}):
        assert box.ask(post(part(type="image", source=source), "/v1/messages")).code == "remote_media"
    odd = {"type": "base64", "data": "AA==", "url": "https://x"}
    assert box.ask(post(part(type="image", source=odd), "/v1/messages")).code == "remote_media"
    for kind in sorted(fields.SOURCES):
        source = {"type": kind, "media_type": "text/plain", "data": "a page: https://x.example"}
        assert box.ask(post(part(type="document", source=source), "/v1/messages")).status == 200


@pytest.mark.parametrize("key", sorted(fields.KEYS))
def test_each_key_that_makes_an_engine_reach_out_is_refused_wherever_it_stands(
    shared: tuple[DoorBox, Engine], key: str
) -> None:
    box, _ = shared
    for named in (key, key.title(), key.replace("k", "\u212a").replace("s", "\u017f")):
        for body in (
            {**CHAT, named: SECRET},
            {**CHAT, "options": [{"a": {named: [SECRET]}}]},
            part(type="text", **{named: 1}),
        ):
            found = box.ask(post(body))
            assert found.code == fields.KEYS[key] and SECRET not in found.raw.decode(), body
            assert key in found.body.decode()
    empties: tuple[Any, ...] = (None, False, "", [], {})
    for nothing in empties:
        assert box.ask(post({**CHAT, key: nothing, "options": {key: nothing}})).status == 200, nothing
    schema = {"type": "function", "function": {"name": key, "parameters": {"properties": {key: {"type": "string"}}}}}
    called = {"id": "1", "type": "function", "function": {"name": key, "arguments": {key: "http://x"}}}
    clean = {
        "model": key,
        "messages": [{"role": "assistant", "content": key, "tool_calls": [called]}],
        "tools": [schema],
    }
    assert box.ask(post(clean)).status == 200


REMOTE_TOOLS = (
    *("mcp", "mcp_toolset", "web_search", "web_search_preview", "web_search_20250305", "web_fetch_20250910"),
    *("file_search", "code_interpreter", "code_execution_20250825", "image_generation", "Function", ""),
)


def test_tools_are_run_by_the_client(shared: tuple[DoorBox, Engine]) -> None:
    box, _ = shared
    for kind in REMOTE_TOOLS:
        assert box.ask(post({**CHAT, "tools": [{"type": kind, "name": "x"}]})).code == "remote_tool", kind
    odds: list[Any] = [
        {"google_search": {}},
        "mcp",
        1,
        {"type": None, "name": "x"},
        {"type": ["function"], "name": "x"},
    ]
    for odd in odds:
        assert box.ask(post({**CHAT, "tools": [odd]})).code == "remote_tool", odd
    assert box.ask(post({"model": "m", "TOOLS": [{"type": "mcp"}]})).code == "remote_tool"
    for kind in (*fields.TOOLS, "bash_20250124", "text_editor_20250728"):
        assert box.ask(post({**CHAT, "tools": [{"type": kind, "name": "x"}]})).status == 200, kind
    assert (
        box.ask(post({**CHAT, "tools": [{"name": "x", "input_schema": {"type": "object"}}]}, "/v1/messages")).status
        == 200
    )


def test_the_refusal_of_a_tool_calls_it_by_its_name_in_our_table_and_never_in_the_agents_words(
    shared: tuple[DoorBox, Engine],
) -> None:
    for kind, told in (("web_search_20250305", " web_search "), ("mcp", " mcp "), (SECRET, " a tool of this type ")):
        found = shared[0].ask(post({**CHAT, "tools": [{"type": kind, "name": SECRET}]})).body.decode()
        assert told in found and SECRET not in found


def test_keys_that_differ_by_their_case_alone_are_read_by_no_engine_in_two_ways(
    shared: tuple[DoorBox, Engine],
) -> None:
    box, _ = shared
    url = "https://x.example"
    for odd in (
        part(type="text", Type="image", url=url),
        part(type="text", text="a", TEXT="b"),
        part(type="image", source={"type": "base64", "Type": "url", "data": url}),
        part(type="image", image={"data": PICTURE, "Data": url}),
        {**CHAT, "tools": [{"type": "function", "TYPE": "mcp"}]},
    ):
        assert box.ask(post(odd)).code == "duplicate_key", odd
    assert box.ask(post(part(TYPE="Image", URL=url))).code == "remote_media"
    assert box.ask(post(part(type="image", source={"TYPE": "url", "URL": url}))).code == "remote_media"
    assert box.ask(post({**CHAT, "tools": [{"TYPE": "mcp", "name": "x"}]})).code == "remote_tool"
    cased = {"name": "x", "parameters": {"properties": {"path": {"type": "string"}, "Path": {"type": "string"}}}}
    assert box.ask(post({**CHAT, "tools": [{"type": "function", "function": cased}]})).status == 200


SCHEMAS: tuple[Callable[[Any], dict[str, Any]], ...] = (
    lambda schema: {"tools": [{"type": "function", "function": {"name": "x", "parameters": schema}}]},
    lambda schema: {"tools": [{"name": "x", "input_schema": schema}]},
    lambda schema: {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}},
    lambda schema: {"guided_json": json.dumps(schema)},
    lambda schema: {"structured_outputs": {"json": json.dumps(schema)}},
    lambda schema: {"format": schema},
)


@pytest.mark.parametrize("placed", SCHEMAS)
def test_a_schema_refers_to_itself_alone(shared: tuple[DoorBox, Engine], placed: Any) -> None:
    box, _ = shared
    for leak in ("https://x.example/s.json", "file:///etc/hostname", "other.json", ""):
        schema = {"type": "object", "properties": {"a": {"items": [{"$ref": leak}]}}}
        found = box.ask(post({**CHAT, **placed(schema)}))
        assert found.code == "remote_key" and "$ref" in found.body.decode(), leak
    clean = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": {"b": {"type": "string"}}}
    clean["properties"] = {"a": {"$ref": "#/$defs/b"}, "$ref": {"type": "string"}}
    assert box.ask(post({**CHAT, **placed(clean)})).status == 200


def test_names_of_files_and_environments_of_commands_are_data(shared: tuple[DoorBox, Engine]) -> None:
    box, _ = shared
    assert box.ask(post(part(type="note", file="src/main.py", files="a.py"))).status == 200
    assert box.ask(post(part(type="file", file="src/main.py"))).code == "remote_media"
    action = {"type": "exec", "command": ["ls"], "env": {"API_KEY": "x", "image": "a/b:1"}}
    ran = {"model": "m", "input": [{"type": "local_shell_call", "call_id": "1", "action": action}]}
    assert box.ask(post(ran, "/v1/responses")).status == 200
    assert box.ask(post(part(type="text", env={"api_key": "x"}))).code == "remote_key"


def test_pooling_does_not_fetch(shared: tuple[DoorBox, Engine]) -> None:
    for form in ("url", "path"):
        body = {"model": "m", "data": {"data": "https://x.example", "data_format": form}}
        assert shared[0].ask(post(body, "/pooling")).code == "remote_media"


def test_addresses_in_a_conversation_are_only_words(shared: tuple[DoorBox, Engine]) -> None:
    """What tools were called with is data; the conversation itself is not, whatever it says it is."""
    box, _ = shared
    used = {"type": "tool_use", "id": "1", "name": "browse", "input": {"image_url": "https://x.example", "mcp": 1}}
    result = {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "https://x.example"}]}
    chat = {"model": "m", "messages": [{"role": "assistant", "content": [used]}, {"role": "user", "content": [result]}]}
    assert box.ask(post(chat, "/v1/messages")).status == 200
    shown = {"type": "tool_result", "content": [{"type": "image", "source": {"type": "url", "url": "https://x"}}]}
    assert box.ask(post(part(**shown), "/v1/messages")).code == "remote_media"
    item = {"role": "user", "content": [{"type": "input_image", "image_url": "https://x.example"}]}
    assert box.ask(post({"model": "m", "type": "tool_use", "input": [item]}, "/v1/responses")).code == "remote_media"


MODELS_REFUSED = (
    ("cloud_model", "gpt-oss:120b-cloud"),
    ("cloud_model", "glm-4.6:cloud"),
    ("cloud_model", "GLM-4.6:CLOUD "),
    ("model_path", "https://x.example/m"),
    ("model_path", "hf://a/b"),
    ("model_path", "../../m"),
    ("model_path", "~/m"),
    ("model_path", "\\\\host\\m"),
    ("model_path", "a\nb"),
    ("model_path", 7),
    ("model_path", ["m"]),
)


@pytest.mark.parametrize("rule,model", MODELS_REFUSED)
def test_names_of_models_that_lead_elsewhere_are_refused(shared: tuple[DoorBox, Engine], rule: str, model: Any) -> None:
    for path in ("/v1/chat/completions", "/api/chat"):
        assert shared[0].ask(post({"model": model}, path)).code == rule


@pytest.mark.parametrize(
    "model", ["org/model-1.5B", "/models/x.gguf", "qwen3:8b", "my-cloud", "registry.local/ns/m:tag"]
)
def test_names_as_engines_list_them_pass(shared: tuple[DoorBox, Engine], model: str) -> None:
    assert shared[0].ask(post({"model": model, "messages": []})).status == 200


def test_a_model_has_one_name(shared: tuple[DoorBox, Engine]) -> None:
    box, _ = shared
    assert box.ask(post({"model": "m", "Model": "x:cloud"}, "/api/chat")).code == "duplicate_key"
    assert box.ask(post({"model": "m", "name": "n"}, "/api/show")).code == "duplicate_key"
    assert box.ask(post({"name": "m:cloud"}, "/api/show")).code == "cloud_model"
    assert box.ask(post({"name": "m", "model": "m"}, "/api/show")).status == 200


def test_an_engine_that_loads_what_it_is_asked_for_is_asked_for_what_it_lists_only() -> None:
    with door_to(Engine(), 'engine = "mlx"\n') as box:
        assert box.ask(post(CHAT)).status == 200
        assert box.ask(post({**CHAT, "model": "evil/collects-names"})).code == "unknown_model"


# -- how it is written

NO_JSON = {
    "not_json": [
        b"",
        b"[]",
        b'"x"',
        b"{} {}",
        b"{}x",
        b"\xef\xbb\xbf{}",
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b"{'a':1}",
        b'{"a":1,}',
        b'{"a":"\xff"}',
        b'{"a":"\n"}',
        b"{\x00}",
        b'{"a":' + b"9" * 5000 + b"}",
        '{"a":1}'.encode("utf-16"),
    ],
    "duplicate_key": [b'{"model":"m","model":"x"}', b'{"a":[{"b":1,"b":1}]}', b'{"a":1,"\\u0061":2}'],
    "too_nested": [
        b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}",
        b"".join([b'{"a":' * (MAX_DEPTH + 1), b"1", b"}" * (MAX_DEPTH + 1)]),
    ],
}


@pytest.mark.parametrize("rule", sorted(NO_JSON))
def test_a_body_that_readers_could_differ_about_does_not_pass(shared: tuple[DoorBox, Engine], rule: str) -> None:
    box, engine = shared
    before = len(engine.heard)
    for body in NO_JSON[rule]:
        assert box.ask(post(body)).code == rule, body[:60]
    assert len(engine.heard) == before


def test_a_body_with_more_values_than_any_engine_needs_does_not_pass(shared: tuple[DoorBox, Engine]) -> None:
    body = b'{"model":"m","prompt":[' + b"1," * 2_000_001 + b"1]}"
    assert shared[0].ask(post(body)).code == "too_nested"


P = b"POST /v1/chat/completions HTTP/1.1\r\n"
H = b"Host: x\r\n"
BODY = json.dumps(CHAT).encode()
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
TE = b"Transfer-Encoding: chunked\r\n"
WRITTEN_BADLY = {
    "two lengths": ("bad_framing", P + H + LENGTH + LENGTH + b"\r\n" + BODY),
    "length and chunks": ("bad_framing", P + H + LENGTH + TE + b"\r\n" + BODY),
    "two codings": ("bad_framing", P + H + TE + TE + b"\r\n"),
    "another coding": ("bad_framing", P + H + b"Transfer-Encoding: gzip, chunked\r\n\r\n"),
    "a hidden coding": ("bad_framing", P + H + b"Transfer-Encoding : chunked\r\n\r\n"),
    "a coding with a tab": ("bad_framing", P + H + b"Transfer-Encoding: \x0bchunked\r\n\r\n"),
    "a folded header": ("bad_framing", P + H + b"X: a\r\n b\r\n" + LENGTH + b"\r\n" + BODY),
    "a bare line feed": ("bad_framing", P + H + b"X: a\nContent-Length: 3\r\n\r\n"),
    "a bare carriage return": ("bad_framing", P + H + b"X: a\rb\r\n\r\n"),
    "a NUL": ("bad_framing", P + H + b"X: a\x00b\r\n\r\n"),
    "a sign": ("bad_framing", P + H + b"Content-Length: +5\r\n\r\nabcde"),
    "a zero before": ("bad_framing", P + H + b"Content-Length: 05\r\n\r\nabcde"),
    "a list of lengths": ("bad_framing", P + H + b"Content-Length: 5, 5\r\n\r\nabcde"),
    "a second request": ("bad_framing", P + H + LENGTH + b"\r\n" + BODY + b"GET /metrics HTTP/1.1\r\n\r\n"),
    "a second request behind chunks": ("bad_framing", P + H + TE + b"\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n"),
    "a body of a look": ("bad_framing", b"GET /v1/models HTTP/1.1\r\n" + H + b"Content-Length: 2\r\n\r\n{}"),
    "a chunk too long": ("bad_framing", P + H + TE + b"\r\n3\r\nabcd\r\n0\r\n\r\n"),
    "a chunk with an extension": ("bad_framing", P + H + TE + b"\r\n3;a=b\r\nabc\r\n0\r\n\r\n"),
    "a chunk of nothing": ("bad_framing", P + H + TE + b"\r\n\r\n"),
    "a size with a sign": ("bad_framing", P + H + TE + b"\r\n-3\r\nabc\r\n0\r\n\r\n"),
    "a size of hex with 0x": ("bad_framing", P + H + TE + b"\r\n0x3\r\nabc\r\n0\r\n\r\n"),
    "a trailer": ("bad_framing", P + H + TE + b"\r\n0\r\nContent-Length: 5\r\n\r\n"),
    "no host": ("bad_framing", P + LENGTH + b"\r\n" + BODY),
    "two hosts": ("bad_framing", P + H + H + LENGTH + b"\r\n" + BODY),
    "an old version": ("bad_framing", b"GET /v1/models HTTP/1.0\r\n" + H + b"\r\n"),
    "no version": ("bad_framing", b"GET /v1/models\r\n" + H + b"\r\n"),
    "a space before": ("bad_framing", b" GET /v1/models HTTP/1.1\r\n" + H + b"\r\n"),
    "two spaces": ("bad_framing", b"GET  /v1/models HTTP/1.1\r\n" + H + b"\r\n"),
    "an absolute target": ("bad_target", b"GET http://x.example/v1/models HTTP/1.1\r\n" + H + b"\r\n"),
    "a tunnel": ("upgrade", b"CONNECT x.example:443 HTTP/1.1\r\n" + H + b"\r\n"),
    "an upgrade": (
        "upgrade",
        b"GET /v1/models HTTP/1.1\r\n" + H + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    ),
    "dots": ("bad_target", b"GET /v1/../metrics HTTP/1.1\r\n" + H + b"\r\n"),
    "escapes": ("bad_target", b"GET /v1%2fmodels HTTP/1.1\r\n" + H + b"\r\n"),
    "two slashes": ("bad_target", b"GET //x.example/v1/models HTTP/1.1\r\n" + H + b"\r\n"),
    "a fragment": ("bad_target", b"GET /v1/models# HTTP/1.1\r\n" + H + b"\r\n"),
    "an expectation": ("expectation", P + H + b"Expect: more\r\n" + LENGTH + b"\r\n" + BODY),
    "a compressed body": ("encoded", P + H + b"Content-Encoding: gzip\r\n" + LENGTH + b"\r\n" + BODY),
    "a form": ("content_type", P + H + b"Content-Type: multipart/form-data; boundary=x\r\n" + LENGTH + b"\r\n" + BODY),
    "another charset": ("content_type", P + H + b"Content-Type: application/json; charset=utf-16\r\n\r\n"),
    "a head without end": ("head_too_large", b"GET /v1/models HTTP/1.1\r\nX: " + b"a" * (MAX_HEAD_BYTES + 9)),
    "a hundred headers": ("head_too_large", P + H + b"X: a\r\n" * 101 + b"\r\n"),
    "a long body": ("body_too_large", P + H + b"Content-Length: %d\r\n\r\n" % (MAX_BODY_BYTES + 1)),
    "a long chunk": ("body_too_large", P + H + TE + b"\r\n%x\r\n" % (MAX_BODY_BYTES + 1)),
}


@pytest.mark.parametrize("name", WRITTEN_BADLY)
def test_a_request_that_could_be_read_in_two_ways_is_read_in_none(shared: tuple[DoorBox, Engine], name: str) -> None:
    box, engine = shared
    rule, request = WRITTEN_BADLY[name]
    before = len(engine.heard)
    assert box.ask(request).code == rule
    assert len(engine.heard) == before


def test_every_refusal_says_what_is_wrong_in_the_shape_of_its_api_and_repeats_nothing(
    shared: tuple[DoorBox, Engine],
) -> None:
    box, _ = shared
    asked = {"model": f"{SECRET}:cloud", "messages": [{"role": "user", "content": SECRET}]}
    openai, anthropic, ollama = (
        json.loads(box.ask(post(asked, path)).body) for path in ("/v1/chat/completions", "/v1/messages", "/api/chat")
    )
    assert openai["error"]["type"] == "permission_error" and openai["error"]["code"] == "sparkgate_cloud_model"
    assert anthropic["type"] == "error" and anthropic["error"]["message"] == openai["error"]["message"]
    assert ollama["error"] == openai["error"]["message"] and SECRET not in str((openai, anthropic, ollama))


@pytest.mark.parametrize("rule", sorted(RULES))
def test_every_rule_has_words_and_a_way_out(rule: str) -> None:
    found = Answered(refusal.answer("main", refusal.Refused(rule, "image")))
    text = json.loads(found.body)["error"]["message"]
    assert found.status == RULES[rule].status and found.code == rule
    assert "{" not in text and len(text) > 40 and re.search(r"[;,] |so ", text)


class Waiting:
    """A house in which no time passes but what a test says."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.loop = Loop()
        self.doors = {"main": Door(screen.Engine("main", "vllm", "x"), "http", "127.0.0.1", 1, ())}

    def refused(self, _name: str, refused: refusal.Refused, *_: object) -> None:
        self.told.append(refused.rule)

    def ended(self, _one: object) -> None:
        self.told.append("ended")


def test_a_request_that_stays_half_is_ended() -> None:
    ours, theirs = socket.socketpair()
    house: Any = Waiting()
    with ours, theirs:
        one = Carried(house, "main", ours.detach())
        since_s = house.loop.now_s
        one.overdue(since_s + HEAD_S - 1)
        assert house.told == []
        one.overdue(since_s + HEAD_S + 1)
        assert house.told == ["slow_request"] and Answered(theirs.recv(4096)).code == "slow_request"
        one.overdue(since_s + HEAD_S + DRAIN_S + 9)
        assert house.told == ["slow_request", "ended"]


# -- engines that fail


def test_an_engine_that_is_down_is_named_and_no_row_of_the_log() -> None:
    engine = Engine()
    with door_to(engine) as box:
        engine.close()
        found = box.ask(post(CHAT))
        assert found.code == "unreachable" and "main" in found.body.decode()
        assert until(lambda: box.doors.counts.get("main", {}).get("failed"), "a count") and not box.rows()


@pytest.mark.parametrize(
    "bad",
    [b"", b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 101 Switching Protocols\r\n\r\n", b"HTTP/1.1 200 OK\r\nbad header\r\n\r\n"],
)
def test_an_answer_that_is_none_is_told_as_such(bad: bytes) -> None:
    with door_to(Engine(says(bad))) as box:
        assert box.ask(post(CHAT)).code == "no_answer"


def test_an_engine_that_nobody_has_named_is_closed_until_it_is_known() -> None:
    engine = Engine()
    with door_to(engine, "") as box:
        assert box.ask(post(CHAT)).status == 200
    with doors({"main": 'url = "http://127.0.0.1:1"'}) as box:
        assert box.ask(post(CHAT)).code == "not_known_yet"


def test_an_engine_behind_tls_is_believed_when_its_certificate_is(tmp_path: Path) -> None:
    chain, key = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)
    body = b"x" * 400_000
    with Engine(says(answer(body)), context) as engine, socket.create_server(("127.0.0.1", 0)) as listener:
        door = Door(screen.Engine("main", "vllm", "x"), "https", "127.0.0.1", engine.port, ("127.0.0.1",))
        for trusted, status in ((chain, 200), (tmp_path / "none.pem", 502)):
            (tmp_path / "none.pem").touch()
            process = subprocess.Popen(
                [*COMMAND],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                env={"SSL_CERT_FILE": str(trusted), "SSL_CERT_DIR": str(tmp_path)},
                pass_fds=[listener.fileno()],
            )
            with process, socket.create_connection(listener.getsockname(), timeout=PATIENCE_S) as link:
                assert process.stdin
                process.stdin.write(written([door], First({"main": listener.fileno()}, ())))
                process.stdin.flush()
                link.sendall(post({**CHAT, "user": "u" * 300_000}))
                found = Answered(read_all(link))
                process.stdin.close()
            assert found.status == status and (found.body == body) is (status == 200)
    assert len(engine.posted) == 1 and len(engine.posted[0].body) > 300_000


# -- keys


def test_the_operators_key_goes_to_its_engine_alone(tmp_path: Path) -> None:
    key = "sk-0123456789-of-the-operator"
    (tmp_path / "key").write_text(key + "\n")

    def handle(heard: Heard, link: socket.socket) -> None:
        told = heard.headers.get("authorization", "")
        status = "401 Unauthorized" if b"wrong" in heard.body else "200 OK"
        link.sendall(answer({"error": told if b"echo" in heard.body else "no"}, status, f"X-Echo: {told}"))

    with door_to(Engine(handle), f'engine = "vllm"\nkey_file = "{tmp_path / "key"}"\n') as box:
        found = box.ask(post(CHAT, "/v1/chat/completions", "Authorization: Bearer mine", "X-Api-Key: mine"))
        assert found.status == 200 and key not in found.head
        refused = box.ask(post({**CHAT, "user": "wrong echo"}))
        assert refused.code == "key_echoed" and key.encode() not in refused.raw
        plain = box.ask(post({**CHAT, "user": "wrong"}))
        assert plain.status == 401 and key.encode() not in plain.raw
        assert key.encode() not in environment_of(box.pid)
        assert all(key not in str(row) for row in box.rows())


# -- the process


def test_what_clients_began_to_say_is_not_kept_when_they_are_gone() -> None:
    whole = post(b"x" * 4_000_000)
    with door_to(Engine()) as box:
        for _ in range(40):
            with box.connect() as link:
                link.sendall(whole[:2_000_000])
        until(lambda: box.doors.counts.get("main", {}).get("connections") == 40, "all were taken")
        until(lambda: box.doors.counts["main"]["open"] == 0, "all are over")
        assert pss_kib(box.pid) < 24_000


def test_the_door_process_is_small_and_a_child_without_words() -> None:
    with door_to(Engine()) as box:
        assert box.ask(post(CHAT)).status == 200
        assert pss_kib(box.pid) < 14_000 and is_child_of_ours(box.pid)
        assert str(box.config).encode() not in environment_of(box.pid)
        told = Path(f"/proc/{box.pid}/environ").read_text().rstrip("\0").replace(":", "\0")  # as some glibc does
        given = "\0".join(f"{name}={value}" for name, value in environment().items()).replace(":", "\0")
        assert sorted(told.split("\0")) == sorted(given.split("\0"))


@pytest.mark.parametrize(
    ("size", "are_used"),
    [("2097152\n", True), ("536870912\n", False), ("0\n", False), ("", False), ("many\n", False), (None, False)],
)
def test_huge_pages_are_used_where_one_is_no_larger_than_the_process_may_be(
    tmp_path: Path, size: str | None, are_used: bool
) -> None:
    file = tmp_path / "hpage_pmd_size"
    if size is not None:
        file.write_text(size)
    assert (environment(file).items() >= ON_HUGE_PAGES.items()) is are_used


def test_the_door_process_reaches_the_addresses_of_its_doors_and_no_other() -> None:
    script = """
import socket, sys
from sparkgate.door import House
from sparkgate.policy.guard import Guard
from sparkgate.policy.model_door.plan import Door, First, written
from sparkgate.policy.model_door.screen import Engine
listener = socket.create_server(("127.0.0.1", 0))
there, other = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))
port, another = there.getsockname()[1], other.getsockname()[1]
guard = Guard()
guard.install()
door = Door(Engine("main", "vllm", "x"), "http", "127.0.0.1", port, ("127.0.0.1",))
house = House(written([door], First({"main": listener.fileno()}, ())), b"", guard)
for host, at in (("127.0.0.1", port), ("127.0.0.1", another), ("::1", port), ("192.0.2.1", port), ("localhost", port)):
    link = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        link.connect((host, at))
        print("open")
    except PermissionError:
        print("closed")
"""
    done = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["open", "closed", "closed", "closed", "closed"]


def test_a_door_process_that_dies_is_started_anew() -> None:
    with door_to(Engine()) as box:
        before = box.pid
        os.kill(before, signal.SIGKILL)
        after = until(lambda: (pid := box.pid) != before and pid, "another process")
        assert box.ask(post(CHAT)).status == 200
        box.close()
        until(lambda: not is_running(after), "its end")


def test_a_door_process_that_keeps_dying_is_given_up_and_its_doors_are_shut() -> None:
    with door_to(Engine()) as box:
        while not box.doors.fault:
            process = until(
                lambda: box.doors.fault or (box.doors._process and box.doors._process.pid), "another, or none"
            )
            if isinstance(process, int):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
        assert "start the agent anew" in box.doors.fault
        with pytest.raises(ConnectionRefusedError):
            box.connect()


# -- the gate


def test_each_engine_has_a_door_at_its_port_and_the_first_keeps_it() -> None:
    tables = {
        "one": 'url = "http://127.0.0.1:8000"\nengine = "vllm"',
        "two": 'url = "http://192.0.2.7:8000/v1"',
        "three": 'url = "https://box.lan"',
        "gate": 'url = "http://127.0.0.1:8001"',
    }
    with doors(tables) as box:
        assert [(one.name, one.port, one.engine) for one in box.doors.offered()] == [
            ("one", 8000, "vllm"),
            ("three", 443, ""),
            ("gate", 8001, ""),
        ]
        assert box.doors.refused() == ("two: port 8000 is that of one; give one of them another port",)


def test_refusals_are_rows_without_a_word_of_the_agent() -> None:
    with door_to(Engine()) as box:
        box.ask(post({**CHAT, "api_base": SECRET}))
        box.ask(post(CHAT, f"/{SECRET}"))
        rows = until(lambda: len(rows := box.rows()) == 2 and rows, "two rows")
        origin = box.doors._url("main")
    for row, rule, path in zip(rows, ("remote_key", "not_offered"), ("/v1/chat/completions", "other"), strict=True):
        assert (row["verdict"], row["outcome"], row["sent"]) == ("block", "withheld", "")
        assert (row["destination"], row["origin"], row["session"]) == ("engine", origin, "of-a-test")
        assert row["fields"] == {"door": "main", "method": "POST", "path": path}
        assert [finding["rule"] for finding in row["findings"]] == [rule] and row["confined"] == "c1"
        assert SECRET not in str(row)


def test_a_flood_of_refusals_does_not_fill_the_log() -> None:
    with door_to(Engine()) as box, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: box.ask(post(CHAT, ROUTES[number % 9].path)), range(400)))
        until(lambda: box.doors.counts.get("main", {}).get("refused") == 400, "all are counted")
        box.close()
        rows = box.rows()
    assert len(rows) <= 31
    assert sum(int(row["fields"].get("count", 1)) for row in rows) == 400


def test_a_change_of_the_configuration_reaches_open_doors() -> None:
    with Engine() as one, Engine() as other:
        tables = {"one": f'engine = "vllm"\nurl = "{one.url}"', "other": f'engine = "vllm"\nurl = "{other.url}"'}
        with doors(tables) as box:
            assert box.ask(post(CHAT), "other").status == 200
            box.configure({"one": tables["one"]})
            until(lambda: box.ask(post(CHAT), "other").code == "removed", "it is closed")
            assert box.ask(post(CHAT), "one").status == 200
            box.configure({"one": "no_such_key = 1"})
            until(lambda: box.ask(post(CHAT), "one").code == "misconfigured", "it is closed")
            box.configure({"one": tables["other"], "other": tables["other"]})
            until(lambda: box.ask(post(CHAT), "one").status == 200, "it is open")
            assert len(other.posted) >= 2


# -- routers

FROM_HERE = {router.API_BASE: "http://localhost:8000/v1", router.FALLBACKS: "0"}


class Router(Engine):
    """Speaks as LiteLLM does: `routes` are name → api_base, `told` the headers of its answers."""

    def __init__(self, routes: dict[str, str], **told: str) -> None:
        super().__init__(self._chat)
        self.tells = True
        self.routes, self.told = routes, FROM_HERE | {name.replace("_", "-"): value for name, value in told.items()}

    def _chat(self, _heard: Heard, link: socket.socket) -> None:
        link.sendall(answer({"id": SECRET}, "200 OK", *(f"{name}: {value}" for name, value in self.told.items())))

    def _one(self, link: socket.socket) -> None:
        with link, suppress(OSError):
            heard = read_request(link)
            if heard is None:
                self.silent += 1
                return
            self.heard.append(heard)
            path = heard.first.split()[1].partition("?")[0]
            rows = [
                {
                    "model_name": name,
                    "litellm_params": {"model": "openai/x", "api_base": base},
                    "model_info": {"id": name},
                }
                for name, base in self.routes.items()
            ]
            listed = [{"id": name, "owned_by": "openai", "metadata": {"fallbacks": []}} for name in self.routes]
            bodies: dict[str, Any] = {
                "/health/readiness": {"status": "healthy", "db": "Not connected"},
                "/model/info": {"data": rows},
                "/v1/models": {"object": "list", "data": listed},
                "/router/settings": {"current_values": {}},
            }
            if heard.first.startswith("POST"):
                self._chat(heard, link)
            else:
                link.sendall(
                    answer(bodies.get(path, {}), "200 OK" if path in bodies and self.tells else "404 Not Found")
                )


HOME = "http://127.0.0.1:8000/v1"
AWAY = "https://api.cloud.example/v1"


def ask_for(box: DoorBox, model: str, **more: Any) -> Answered:
    return box.ask(post({**CHAT, "model": model, **more}))


def test_an_engine_hears_not_a_byte_of_a_request_before_it_is_judged_and_a_router_not_even_a_connection() -> None:
    refused = post(part(type="image_url", image_url={"url": "http://192.0.2.1/x.png"}))
    engine, routing = Engine(), Router({"m": HOME})
    with door_to(engine) as box, door_to(routing, 'engine = "litellm"\n') as router_box:
        assert box.ask(refused).code == router_box.ask(refused).code == "remote_media"
        until(lambda: engine.silent == 1, "the connection that was made meanwhile has ended")
        assert box.ask(post(CHAT)).status == router_box.ask(post(CHAT)).status == 200
        assert (len(engine.posted), engine.silent) == (len(routing.posted), routing.silent + 1) == (1, 1)


def test_a_router_is_asked_without_fallbacks_and_every_other_byte_is_the_agents() -> None:
    engine = Router({"spark-only": HOME})
    with door_to(engine, 'engine = "litellm"\n') as box:
        body = b' {"model":"spark-only", "messages":[] }'
        assert box.ask(post(body)).status == 200
        assert engine.posted[-1].body == b' {"disable_fallbacks":true,"model":"spark-only", "messages":[] }'
        assert ask_for(box, "spark-only", disable_fallbacks=False).code == "router_key"
        assert ask_for(box, "spark-only", disable_fallbacks=True).status == 200


def test_only_models_of_which_all_requests_stay_are_asked_for() -> None:
    routes = {"spark-only": HOME, "cloud": AWAY, "*": HOME, "lan": "http://192.168.1.9:8000/v1"}
    with door_to(Router(routes), 'engine = "litellm"\n') as box:
        assert ask_for(box, "spark-only").status == 200
        for model in ("cloud", "lan", "any-other", "spark-only,cloud", "a-deployments-id", ""):
            assert ask_for(box, model).code == "model_leaves", model
    with door_to(Router({"spark-only": HOME, "*": HOME}), 'engine = "litellm"\n') as box:
        assert ask_for(box, "any-other").status == 200
        assert ask_for(box, "one,two").code == "model_leaves"
    with door_to(Router(routes), 'engine = "litellm"\nhome = ["192.168.1.9:8000"]\n') as box:
        assert ask_for(box, "lan").status == 200
    with door_to(Router(routes), 'engine = "litellm"\n', '[control]\noff_box = ["127.0.0.1:8000"]') as box:
        assert ask_for(box, "spark-only").code == "model_leaves"


@pytest.mark.parametrize("field", ["metadata", "previous_response_id", "tags", "langfuse_public_key", SECRET])
def test_a_field_that_is_not_known_to_be_harmless_does_not_reach_a_router(field: str) -> None:
    with door_to(Router({"spark-only": HOME}), 'engine = "litellm"\n') as box:
        found = ask_for(box, "spark-only", **{field: "x"})
        assert found.code == "router_key" and SECRET not in found.body.decode()


def test_a_field_of_nothing_does_not_take_the_place_of_what_the_operator_has_set_at_a_router() -> None:
    with door_to(Router({"spark-only": HOME}), 'engine = "litellm"\n') as box:
        for field in ("api_base", "fallbacks"):
            found = ask_for(box, "spark-only", **{field: None})
            assert found.code == "router_key" and field in found.body.decode()
        assert ask_for(box, "spark-only", repeat_penalty=1.1, stop_token_ids=[1], client_metadata={}).status == 200


def test_a_router_is_asked_by_fewer_routes_than_an_engine() -> None:
    with door_to(Router({"spark-only": HOME}), 'engine = "litellm"\n') as box:
        for route in ROUTES:
            request = asked(route) if route.kind == "look" else post({"model": "spark-only"}, route.path)
            assert (box.ask(request).code == "not_by_router") is not route.router, route.path


STRAYED = {
    "another base": {"x_litellm_model_api_base": AWAY},
    "a fallback": {"x_litellm_attempted_fallbacks": "1"},
    "no base": {"x_litellm_model_api_base": ""},
    "a base that is none": {"x_litellm_model_api_base": "http://127.0.0.1:8000@evil.example/"},
}


@pytest.mark.parametrize("name", STRAYED)
def test_an_answer_from_elsewhere_is_withheld_told_as_loud_as_can_be_and_its_model_closed(name: str) -> None:
    engine = Router({"spark-only": HOME, "other": HOME}, **STRAYED[name])
    with door_to(engine, 'engine = "litellm"\n') as box:
        found = ask_for(box, "spark-only")
        assert found.code == "left_the_box" and SECRET not in found.raw.decode()
        assert ask_for(box, "spark-only").code == "model_closed"
        row = until(lambda: [one for one in box.rows() if one["outcome"] == "left_the_box"], "a row")[0]
        assert (row["verdict"], row["status"], row["sent"]) == ("allow", 200, "")
        assert row["fields"]["model"] == "spark-only" and row["bytes"] > 100
        assert len(engine.posted) == 1
        engine.told = dict(FROM_HERE)
        box.run(box.doors._ask_all())
        assert ask_for(box, "spark-only").code == "model_closed"
        assert ask_for(box, "other").status == 200
        box.configure({"main": f'url = "{engine.url}"\nengine = "litellm"\ntimeout_s = 4\n'})
        until(lambda: ask_for(box, "spark-only").status == 200, "it is open again")


def test_where_the_operator_allows_it_an_answer_from_elsewhere_passes_and_is_written_down() -> None:
    engine = Router(
        {"spark-only": HOME, "cloud": AWAY}, x_litellm_model_api_base=AWAY, x_litellm_attempted_fallbacks="1"
    )
    with door_to(engine, 'engine = "litellm"\nstays_home = false\n') as box:
        assert ask_for(box, "spark-only").status == 200
        engine.told = dict(FROM_HERE)  # what one deployment does by itself, LiteLLM does not tell
        assert ask_for(box, "cloud").status == 200 and ask_for(box, "spark-only").status == 200
        assert b"disable_fallbacks" not in engine.posted[-1].body
        rows = until(lambda: len(rows := box.rows()) == 2 and rows, "two rows")
    assert [row["outcome"] for row in rows] == ["left_the_box"] * 2
    assert [row["fields"]["came_from"] for row in rows] == ["api.cloud.example:443", "localhost:8000"]


def test_a_router_where_an_engine_is_configured_is_found_out() -> None:
    engine = Router({"spark-only": HOME, "cloud": AWAY})
    with door_to(engine, 'engine = "vllm"\n') as box:  # what answers counts, not what is written
        assert ask_for(box, "cloud").code == "model_leaves"
    owned = Engine()
    owned.models = answer({"object": "list", "data": [{"id": "m", "owned_by": "openai"}]})
    with door_to(owned, 'engine = "openai"\n') as box:  # who owns its models proves nothing
        assert box.ask(post(CHAT)).status == 200
    plain = Engine(says(answer({}, "200 OK", "X-LiteLLM-Version: 1")))
    with door_to(plain) as box:
        assert box.ask(post(CHAT)).code == "hidden_router"
        assert until(box.rows, "a row")[0]["outcome"] == "left_the_box"


def test_a_router_that_is_too_busy_to_tell_its_routes_again_stays_open() -> None:
    engine = Router({"spark-only": HOME})
    with door_to(engine, 'engine = "litellm"\n') as box:
        engine.routes = {}
        engine.tells = False
        box.doors._answers = {name: (0.0, answers) for name, (_, answers) in box.doors._answers.items()}
        box.run(box.doors._ask_all())
        assert ask_for(box, "spark-only").status == 200


def test_a_router_that_does_not_tell_its_routes_is_closed() -> None:
    with doors({"main": 'url = "http://127.0.0.1:1"\nengine = "litellm"\n'}) as box:
        assert box.ask(post(CHAT)).code == "routes_unknown"


class Deaf(KillSwitch):
    """The switch of a gate that hangs."""

    def told(self) -> Locked | None:
        return None


@pytest.mark.parametrize("by", ["own", "operator"])
def test_the_door_obeys_the_kill_switch_though_its_gate_hangs(tmp_path: Path, by: str) -> None:
    class Streaming(Router):
        def _chat(self, heard: Heard, link: socket.socket) -> None:
            told = "".join(f"{name}: {value}\r\n" for name, value in self.told.items()).encode()
            link.sendall(CHUNKED[:-2] + told + b"\r\n" + chunk(b"data: 1\n\n"))
            link.recv(1)

    with Engine() as near, Streaming({"spark-only": HOME}) as far:
        tables = {"near": f'url = "{near.url}"\nengine = "vllm"', "far": f'url = "{far.url}"\nengine = "litellm"'}
        box = DoorBox(tmp_path, tables)
        box.services = Services(box.config, box.state, Guard(), Deaf(box.switch.own, box.switch.operator))
        box.open()
        try:
            with box.connect("far") as away:
                away.sendall(post({**CHAT, "model": "spark-only"}))
                while b"data: 1" not in read_some(away):
                    pass
                file = getattr(box.switch, by)
                file.touch()
                assert box.ask(post({**CHAT, "model": "spark-only"}), "far").code == "locked"
                assert len(far.posted) == 1
                assert read_all(away) == b""
            assert box.ask(post(CHAT), "near").status == 200
            file.unlink()
            assert box.ask(get("/v1/models"), "far").status == 200
        finally:
            box.close()


def test_the_door_reads_the_files_of_the_kill_switch_as_the_gate_does(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    for name, locked in (("none", False), ("no/folder", False), ("file", True), ("link", True), ("file/below", True)):
        file = tmp_path / name
        assert is_locked([str(tmp_path / "none"), str(file)]) is locked
        assert (KillSwitch(file, tmp_path / "none").told() is not None) is locked


def test_while_locked_engines_of_this_machine_go_on_and_routers_are_cut() -> None:
    go_on = threading.Event()

    def stream(_heard: Heard, link: socket.socket) -> None:
        link.sendall(CHUNKED + chunk(b"data: 1\n\n"))
        go_on.wait(PATIENCE_S)
        link.sendall(chunk(b"data: 2\n\n") + b"0\r\n\r\n")

    class Streaming(Router):
        def _chat(self, heard: Heard, link: socket.socket) -> None:
            told = "".join(f"{name}: {value}\r\n" for name, value in self.told.items()).encode()
            link.sendall(CHUNKED[:-2] + told + b"\r\n" + chunk(b"data: 1\n\n"))
            link.recv(1)

    with Engine(stream) as local, Streaming({"spark-only": HOME}) as far:
        tables = {"near": f'url = "{local.url}"\nengine = "vllm"', "far": f'url = "{far.url}"\nengine = "litellm"'}
        with doors(tables) as box, box.connect("near") as near, box.connect("far") as away:
            for link, model in ((near, "m"), (away, "spark-only")):
                link.sendall(post({**CHAT, "model": model}))
                began = b""
                while b"data: 1" not in began:
                    began += read_some(link)
            box.switch.lock()
            box.switch.look()
            assert read_all(away) == b""
            go_on.set()
            assert read_all(near).endswith(b"0\r\n\r\n")
            assert box.ask(post(CHAT), "near").status == 200
            assert box.ask(post({**CHAT, "model": "spark-only"}), "far").code == "locked"
            box.switch.unlock()
            until(lambda: box.ask(get("/v1/models"), "far").status == 200, "it is open again")
