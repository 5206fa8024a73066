"""200 pages that no site should send, each through pipe, gate and reading process: all are answered, and none stays.

The seed is fixed: a failure names the case, and the same case is the same bytes in every run.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest
from box import Box, Host, held_mb
from fake_searxng import FakeSearxng, Reply, answer, result
from fake_web import FakeWeb
from reading_box import PAGES, words_pdf
from reading_fuzz import damaged

from sparkgate.page_problems import PROBLEMS
from sparkgate.reading.page import MESSAGES

DAMAGED, TOGETHER, MORE_MB = 170, 4, 20
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
Write = Callable[[Callable[[bytes], Any]], None]


def says(*pieces: bytes, again: bytes = b"", times: int = 0) -> Write:
    """Sends the pieces, and then the same over and over, until the client has gone."""

    def write(send: Callable[[bytes], Any]) -> None:
        for piece in pieces:
            send(piece)
        for _ in range(times):
            send(again)

    return write


def packed(body: bytes, encoding: str = "gzip") -> bytes:
    return HEAD + f"Content-Encoding: {encoding}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


BOMB = gzip.compress(bytes(100_000_000), 9)
ENDLESS = 10**7
BROKEN: tuple[Write, ...] = (
    says(packed(BOMB)),
    says(packed(gzip.compress(BOMB))),
    says(packed(gzip.compress(b"<p>text</p>" * 50)[:-9])),
    says(packed(b"no gzip at all")),
    says(packed(b"no gzip at all", "br")),
    says(packed(b"\x1f\x8b" + bytes(200))),
    says(CHUNKED, again=b"2000\r\n" + b"x" * 0x2000 + b"\r\n", times=ENDLESS),
    says(CHUNKED, b"zzzz\r\nno length\r\n"),
    says(CHUNKED, b"ffffffffffffffffff\r\nx"),
    says(CHUNKED, b"-5\r\nhello\r\n0\r\n\r\n"),
    says(HEAD + b"\r\n<p>", again=b"x" * 65_536, times=ENDLESS),
    says(HEAD + b"\r\n", again=b"<div>" * 10_000, times=60),
    says(HEAD + b"Content-Length: 5\r\n\r\n<p>longer than it says</p>"),
    says(HEAD + b"Content-Length: 500000\r\n\r\n<p>shorter than it says</p>"),
    says(HEAD + b"Content-Length: -7\r\n\r\n<p>text</p>"),
    says(HEAD + b"Content-Length: 7\r\nContent-Length: 9\r\n\r\n<p>text</p>"),
    says(HEAD + b"Content-Length: 99999999999999999999999\r\n\r\n<p>text</p>"),
    says(b"HTTP/1.1 200 OK\r\n", again=b"X-Many: of these\r\n", times=ENDLESS),
    says(b"HTTP/1.1 200 OK\r\nX-Long: ", again=b"y" * 65_536, times=ENDLESS),
    says(b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=" + b"z" * 5000 + b"\r\n\r\n<p>text</p>"),
    says(b"HTTP/1.1 200 OK\r\nContent-Type: \xff\xfe\x00\r\n\r\n<p>text</p>"),
    says(b"HTTP/9.9 999 ???\r\n\r\n"),
    says(b"HTTP/1.1 302 Found\r\nLocation: \xff\xfe//\r\nContent-Length: 0\r\n\r\n"),
    says(b"HTTP/1.1 302 Found\r\nLocation: http://[\r\nContent-Length: 0\r\n\r\n"),
    says(b"HTTP/1.1 100 Continue\r\n\r\n", again=b"HTTP/1.1 100 Continue\r\n\r\n", times=100_000),
    says(b"SSH-2.0-OpenSSH_9.9\r\n"),
    says(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    says(b""),
    says(b"\x00" * 100_000),
    says(HEAD + b"\r\n" + b"q" * 7_900_000),
)


def replies() -> list[Reply | Write]:
    """All 200, the broken ones among the others."""
    pages = [path.read_bytes() for path in sorted(PAGES.iterdir())]
    pages += [words_pdf("Words of a page", 3), b'{"a": [1, {"b": "c"}]}' * 3]
    bodies = (damaged(seed, pages) for seed in range(5000, 5000 + DAMAGED))
    found: list[Reply | Write] = [Reply(200, body.content_type, body.data) for body in bodies]
    for place, broken in enumerate(BROKEN):
        found.insert(5 + 6 * place, broken)
    return found


def read_all(host: Host, urls: list[str]) -> dict[str, dict[str, Any]]:
    """Every page, some at a time; the whole result of each call."""
    waiting, told, left = dict[int, str](), dict[str, dict[str, Any]](), list(urls)
    while left or waiting:
        while left and len(waiting) < TOGETHER:
            url = left.pop(0)
            waiting[host.send("tools/call", {"name": "read_page", "arguments": {"url": url}})] = url
        answered = host.read()
        told[waiting.pop(answered["id"])] = answered["result"]
    return told


@pytest.mark.fuzz
def test_200_broken_pages_are_all_answered_and_leave_the_gate_as_it_was(box: Box, searxng: FakeSearxng) -> None:
    with FakeWeb() as web:
        pages = f'[pages]\ninner = ["{web.url}"]\ncache_s = 60\ntimeout_s = 10.0\n'
        box.configure(f'[searxng]\nurl = "{searxng.url}"\nper_minute = 0\n{pages}')
        cases = replies()
        web.pages |= {f"/{number}": reply for number, reply in enumerate(cases)}
        urls = [f"{web.url}/{number}" for number in range(len(cases))]
        searxng.reply = answer(*(result(number, url=url) for number, url in enumerate(urls)))
        host = box.host()
        host.initialize()
        for start in range(1, len(urls) + 1, 20):
            assert host.search("pages", max_results=20, detail="full", start=start)["ok"]
        read_all(host, urls[:5])
        (gate,) = box.gate_pids()
        before_mb = held_mb(gate)
        told = read_all(host, urls)
        assert box.gate_pids() == [gate] and held_mb(gate) - before_mb < MORE_MB
        assert len(told) == 200
        outcomes = [outcome(one) for one in told.values()]
        assert set(outcomes) <= {"page", *PROBLEMS, *MESSAGES} - {"reader_failed"}
        assert outcomes.count("page") > 60
        assert all(len(json.dumps(one, ensure_ascii=False).encode()) < 20_000 for one in told.values())


def outcome(whole: dict[str, Any]) -> str:
    assert not whole.get("isError"), whole
    return str(whole["structuredContent"]["code"]) if "structuredContent" in whole else "page"
