"""200 answers that no SearXNG should give, each through pipe and one gate: every one is answered, none leaves a mark.

Half are recorded answers with fields swapped, the rest are broken on the wire. The seed is fixed: a failure names the
case, and the same case is the same bytes in every run.
"""

from __future__ import annotations

import copy
import gzip
import json
import random
import select
import socketserver
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socket import socket
from typing import Any, Self
from urllib.parse import parse_qs

import pytest
from box import Box, Host, a_box, held_mb

RECORDED = Path(__file__).parent / "searxng_answers"
BUDGET_BYTES = 6000
DEADLINE_S = 1
TOGETHER = 4
"""Calls at a time; more would wait for one another within their own deadlines."""
MORE_MB = 20
DRIP_S = 0.05
SLOW = 7
"""The last of the cases, which are never done."""
CONFIG = f"""
[searxng]
url = "{{url}}"
timeout_s = {DEADLINE_S}
per_minute = 0
[search]
cache_s = 0
"""

Write = Callable[[socket], None]
"""Says one answer on a connection whose request has been read."""


# -- a server that says exactly the bytes it is told


class Scripted(socketserver.ThreadingTCPServer):
    """Answers the search for `case N` with the N-th of `cases`, whatever bytes these are."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, cases: list[Write]) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.cases = cases

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class _Connection(socketserver.StreamRequestHandler):
    server: Scripted

    def handle(self) -> None:
        length = 0
        while (line := self.rfile.readline()).strip():
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        words = parse_qs(self.rfile.read(length).decode())["q"][0].split()
        with suppress(OSError):
            self.server.cases[int(words[1])](self.connection)


def has_hung_up(connection: socket, wait_s: float) -> bool:
    """Whether the client went away within that time; it has nothing more to say, so any event is that."""
    return bool(select.select([connection], [], [], wait_s)[0])


def http(body: bytes, content_type: str = "application/json", status: str = "200 OK", **headers: str) -> bytes:
    """A whole answer; `headers` of None are left out."""
    told = {"Content-Type": content_type, "Content-Length": str(len(body))}
    told |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in told.items() if value)
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode("utf-8", "surrogateescape") + body


def at_once(data: bytes) -> Write:
    return lambda connection: connection.sendall(data)


def repeated(head: bytes, again: bytes, times: int = 10**9) -> Write:
    """Says `again` so many times, or until the client has gone."""

    def write(connection: socket) -> None:
        connection.sendall(head)
        for _ in range(times):
            connection.sendall(again)

    return write


def dripping(data: bytes, at_a_time: int = 1) -> Write:
    """Never silent, and never done before any deadline."""

    def write(connection: socket) -> None:
        place = 0
        while not has_hung_up(connection, DRIP_S):
            connection.sendall(data[place : place + at_a_time] or b" ")
            place += at_a_time

    return write


def silent(connection: socket) -> None:
    has_hung_up(connection, 60)


# -- what is said


def recorded() -> list[dict[str, Any]]:
    files = [json.loads(path.read_text()) for path in sorted(RECORDED.glob("*.json"))]
    bodies = [case["body"] for cases in files for case in cases.values()]
    return [body for body in bodies if isinstance(body, dict) and "results" in body]


ODD: list[Any] = [
    None, True, False, 0, -1, 1e308, 10**400, float("nan"), float("inf"), "", "null", [], {}, [[]], [None] * 40,
    {"a": {"b": [1]}}, "bad \ud800 surrogate", "\udcff" * 50, "\x00\x1b[31m\x7f", "a\u202eb\u200bc\U000e0041d",
    "x" * 100_000, "word " * 20_000, "😀" * 5000, "<" * 50_000, "&" * 50_000, "&amp;" * 20_000, "\n" * 10_000,
    "http://[", "https://[::1", "javascript:alert(1)", "data:text/html,x", "https://a.example:99999999/",
    "https://a.example/?" + "a=b&" * 5000, "https://" + "a" * 5000 + ".example/", "//x", "https://ab\ud800.example/",
    ["name " + "y" * 60] * 2000, [["engine", "reason " * 30]] * 1000, [{"answer": "z" * 5000}] * 50,
    [{"title": "t" * 500, "url": f"https://a.example/{'u' * 3000}"}] * 300,
    [{"label": "l" * 500, "value": "v" * 500}] * 100, {f"key {n} " * 30: "v" * 500 for n in range(200)},
]  # fmt: skip


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container in `value` with each key or index in it."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from places(value[key])


def swapped(draw: random.Random, body: dict[str, Any]) -> bytes:
    """A few fields hold something else, and now and then one is gone or a list is forty times as long."""
    body = copy.deepcopy(body)
    anywhere, above = list(places(body)), [(body, key) for key in body]
    for inside, key in draw.choices(anywhere, k=draw.randint(0, 3)) + draw.choices(above, k=draw.randint(0, 3)):
        inside[key] = copy.deepcopy(draw.choice(ODD))
    inside, key = draw.choice(above)
    change = draw.random()
    if change < 0.1:
        del inside[key]
    elif change < 0.3 and isinstance(inside[key], list):
        inside[key] *= 40
    return json.dumps(body).encode()


def damaged(draw: random.Random, text: bytes) -> bytes:
    """Bytes that are not what they were: changed, cut off, doubled or put in between."""
    data = bytearray(text)
    for _ in range(draw.randint(1, 20)):
        data[draw.randrange(len(data))] = draw.randrange(256)
    cut = draw.randrange(len(data))
    return bytes(draw.choice([data, data[:cut], data + data[cut:], data[:cut] + b"\xff\xfe\x00" + data[cut:]]))


def wire_cases(text: bytes) -> list[Write]:
    """Answers that are broken below their JSON."""
    zeros, many = gzip.compress(bytes(20_000_000)), gzip.compress(b"") * 50_000
    nested = b'{"results":' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    wide = b'{"results":[' + b",".join([b'{"title":"t","url":"https://a.example/"}'] * 80_000) + b"]}"
    whole = [
        http(nested), http(b"[" * 3_900_000), http(b'{"a":' * 300_000), http(wide),
        http(b'{"results":' + b"9" * 99_999 + b"}"),
        http(b""), http(b"null"), http(b'"text"'), http(b"\xef\xbb\xbf" + text), http(text.decode().encode("utf-16")),
        http(text.decode().encode("utf-32")), http(text, "application/json; charset=utf-16"), http(b"\xff" * 5000),
        http(text, ""), http(text, "text/html"), http(text, "APPLICATION/JSON ; x"), http(text, "application/json\xe9"),
        http(text, "application/ld+json"), http(text, Content_Length=""),
        http(text, Content_Length=str(len(text) + 99)),
        http(text, Content_Length="5"), http(text, Content_Length="-5"), http(text, Content_Length="x"),
        http(text, Content_Length=f"{len(text)}\r\nContent-Length: 7"), http(text, Transfer_Encoding="chunked"),
        http(b"5\r\n{\"a\":\r\nffffffff\r\n", Content_Length="", Transfer_Encoding="chunked"),
        http(zeros, Content_Encoding="gzip"), http(many, Content_Encoding="gzip"), http(text, Content_Encoding="gzip"),
        http(zlib.compress(bytes(20_000_000)), Content_Encoding="deflate"), http(text, Content_Encoding="br"),
        http(gzip.compress(gzip.compress(text)), Content_Encoding="gzip, gzip"), http(text, Content_Encoding="\xff"),
        http(gzip.compress(text)[:-9], Content_Encoding="gzip"),
        http(gzip.compress(text) + b"!", Content_Encoding="gzip"), http(text, status="999 Odd"),
        http(text, status="204 No Content"), http(text, status="304 Not Modified"), http(text, status="206 Partial"),
        http(text, status="301 Moved", Location="http://[::1"), http(b"", status="302 Found", Location="\xff\xfe"),
        http(b"", status="302 Found", Location="/" * 9000), http(b"", status="302 Found"),
        http(text, status="99999 Odd"),
        b"", b"\r\n", b"HTTP/1.1 200", b"HTTP/9.9 200 OK\r\n\r\n", text, b"\x16\x03\x01\x02\x00" * 50, b"\x00" * 70_000,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 50, b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 100_000 + b"\r\n",
        http(text, X_Long="y" * 300_000), http(text, Set_Cookie="a=b; Domain=.example"), http(text, Location="x"),
    ]  # fmt: skip
    chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    chunked = http(b"", Content_Length="", Transfer_Encoding="chunked")
    forever = [repeated(chunked, chunk), repeated(http(b"", Content_Length=""), b"[" * 65_536)]
    forever += [repeated(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 2000)]
    forever += [repeated(http(b"", Content_Length="", Content_Encoding="gzip"), gzip.compress(b"") * 2000)]
    megabyte, fifty = b"x" * 1_000_000, {"Content_Length": "50000000"}
    forever += [repeated(http(b"", **fifty), megabyte, 50), repeated(http(b'{"query":"', **fifty), megabyte, 50)]
    slow = [dripping(http(text)), dripping(http(text), 9), dripping(chunked + b"1\r\n \r\n" * 9999, 30), dripping(b"")]
    slow += [dripping(http(gzip.compress(text), Content_Encoding="gzip", Content_Length="999999"), 20)]
    slow += [dripping(b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 9999, 6), silent]
    assert len(slow) == SLOW
    return [*map(at_once, whole), *forever, *slow]


def all_cases() -> list[Write]:
    draw, bodies = random.Random(20260), recorded()
    text = json.dumps(bodies[0]).encode()
    wire = wire_cases(text)
    broken = [at_once(http(damaged(draw, json.dumps(draw.choice(bodies)).encode()))) for _ in range(30)]
    return (
        [at_once(http(swapped(draw, draw.choice(bodies)))) for _ in range(200 - len(wire) - len(broken))]
        + broken
        + wire
    )


# -- the run


@contextmanager
def asked(cases: list[Write]) -> Iterator[tuple[Box, Host]]:
    with a_box() as box, Scripted(cases) as server:
        box.configure(CONFIG.format(url=server.url))
        host = box.host()
        host.initialize()
        yield box, host


def ask_all(host: Host, numbers: range) -> dict[int, dict[str, Any]]:
    """Number of the case → the whole JSON-RPC answer."""
    told: dict[int, dict[str, Any]] = {}
    for start in numbers[::TOGETHER]:
        wave = range(start, min(start + TOGETHER, numbers.stop))
        sent = {host.send("tools/call", {"name": "web_search", "arguments": {"query": f"case {n}"}}): n for n in wave}
        for _ in wave:
            answer = host.read()
            told[sent[answer["id"]]] = answer
    return told


def objection(answer: dict[str, Any]) -> str:
    """What is wrong with an answer; "" for nothing."""
    result = answer.get("result")
    if not isinstance(result, dict) or result.get("isError"):
        return f"an error: {str(answer)[:300]}"
    [block] = result["content"]
    if json.loads(block["text"]) != result["structuredContent"]:
        return "text and structure differ"
    size = len(block["text"].encode())  # a lone surrogate would not encode
    if size > BUDGET_BYTES:
        return f"{size} bytes"
    return "" if isinstance(result["structuredContent"]["ok"], bool) else "no ok"


@pytest.mark.fuzz
def test_two_hundred_broken_answers_are_each_answered_and_leave_no_memory_behind() -> None:
    """Memory is that of the gate, first after ordinary searches: what the cases took must have gone back."""
    cases = all_cases()
    assert len(cases) == 200
    ordinary = [at_once(http(json.dumps(recorded()[0]).encode()))] * 40
    with asked([*cases, *ordinary]) as (box, host):
        assert {n: wrong for n, one in ask_all(host, range(200, 240)).items() if (wrong := objection(one))} == {}
        [gate] = box.gate_pids()
        before_mb = held_mb(gate)
        told = ask_all(host, range(200))
        grown_mb = held_mb(gate) - before_mb
        assert box.gate_pids() == [gate]
        assert len(told) == 200
        assert {n: wrong for n, answer in sorted(told.items()) if (wrong := objection(answer))} == {}
        assert grown_mb < MORE_MB
        never_done = [told[n]["result"]["structuredContent"]["code"] for n in range(200 - SLOW, 200)]
        assert set(never_done) <= {"timeout", "network"}
        assert {row["outcome"] for row in box.rows()} <= {
            "answered", "too_large", "bad_encoding", "protocol", "network", "timeout",
        }  # fmt: skip
