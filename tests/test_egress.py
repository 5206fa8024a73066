"""The one way out: judged and logged before a byte leaves, scanned once more, bounded, and closed afterwards."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import json
import socket
import sqlite3
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from fake_searxng import FakeSearxng, Reply

from sparkgate.policy.answer_cache import Answer, AnswerCache
from sparkgate.policy.audit import AuditLog, Caller
from sparkgate.policy.egress import Egress, Failed, Permit, Refused, Request, Sent
from sparkgate.policy.guard import Guard
from sparkgate.policy.judge import Policy
from sparkgate.policy.keys import load_key
from sparkgate.policy.outflow import Outflow
from sparkgate.policy.places import PLACES
from sparkgate.policy.recent.budget import HOUR_S, Limit
from sparkgate.policy.rules import shipped
from sparkgate.policy.samples import fill
from sparkgate.policy.trail.read import read_rows

pytestmark = pytest.mark.anyio

PATIENCE_S = 30.0
RULES = shipped()
TOKEN = fill("hf_{mixed:34}")
MAIL = "jane.roe@alder-bank.com"
Build = Callable[[str], Request]


@dataclass
class Door:
    """An egress over a log of its own."""

    egress: Egress
    path: Path

    async def send(
        self, url: str, text: str = "hello", build: Build | None = None, **permit: Any
    ) -> Sent | Refused | Failed:
        allowed = Permit(Caller(session="s"), "web_search", "searxng", url, **{"path": "/search"} | permit)
        return await self.egress.send(allowed, text, build or (lambda text: Request(f"{url}/search", {"q": text})))

    def row(self) -> dict[str, Any]:
        return read_rows(self.path, limit=1)[0]

    def on_disk(self) -> bytes:
        return b"".join(file.read_bytes() for file in self.path.parent.rglob("*") if file.is_file())


@pytest.fixture
def door(tmp_path: Path) -> Door:
    path = tmp_path / "state" / "audit.db"
    log = AuditLog(path, load_key(path.parent / "keys" / "audit.key"))
    return Door(Egress(Policy(RULES, deadline_s=PATIENCE_S), log, Guard()), path)


@dataclass
class Raw:
    """A loopback server that sends whatever bytes a test wants. `requests` holds what came."""

    url: str
    requests: list[bytes] = field(default_factory=list)
    sent_bytes: int = 0
    hung_up: threading.Event = field(default_factory=threading.Event)


@contextmanager
def raw_server(reply: Callable[[Callable[[bytes], None]], None], host: str = "127.0.0.1") -> Iterator[Raw]:
    listener = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    port = listener.getsockname()[1]
    raw = Raw(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")

    def serve() -> None:
        while True:
            try:
                connection = listener.accept()[0]
            except OSError:
                return
            with connection:
                _answer(raw, connection, reply)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield raw
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(PATIENCE_S)


def _answer(raw: Raw, connection: socket.socket, reply: Callable[[Callable[[bytes], None]], None]) -> None:
    connection.settimeout(PATIENCE_S)

    def say(data: bytes) -> None:
        connection.sendall(data)
        raw.sent_bytes += len(data)

    try:
        raw.requests.append(connection.recv(65_536))
        reply(say)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65_536):
            continue
    except OSError:
        pass
    raw.hung_up.set()


def head(*lines: str, status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode()


def whole(body: bytes, *lines: str, status: str = "200 OK") -> Callable[[Callable[[bytes], None]], None]:
    return lambda say: say(head(f"Content-Length: {len(body)}", *lines, status=status) + body)


# -- the order


async def test_the_row_is_on_disk_without_an_outcome_when_the_request_arrives(door: Door, searxng: FakeSearxng) -> None:
    seen: list[dict[str, Any]] = []

    def look(_form: dict[str, str]) -> Reply:
        seen.extend(read_rows(door.path))
        return Reply(body=b"{}")

    searxng.reply = look
    sent = await door.send(searxng.url, f"ask {MAIL}")
    assert isinstance(sent, Sent) and (sent.status, sent.body) == (200, b"{}")
    assert [(row["sent"], row["verdict"], row["outcome"]) for row in seen] == [("ask [email]", "redact", None)]
    assert searxng.queries() == ["ask [email]"]
    row = door.row()
    assert (row["outcome"], row["status"], row["bytes"]) == ("answered", 200, 2)
    assert row["origin"] == searxng.url and row["session"] == "s" and row["elapsed_us"] > 0


async def test_a_blocked_text_sends_nothing_and_stands_nowhere(door: Door, searxng: FakeSearxng) -> None:
    built: list[str] = []
    refused = await door.send(searxng.url, f"why {TOKEN} and {MAIL}", lambda text: built.append(text) or Request(""))  # type: ignore[func-returns-value]
    assert isinstance(refused, Refused) and "huggingface-token" in refused.rules
    assert built == [] and searxng.requests == []
    assert (door.row()["verdict"], door.row()["sent"], door.row()["outcome"]) == ("block", "", "withheld")
    assert len(door.row()["withheld"]) == len(door.row()["findings"]) == 2
    for value in (TOKEN, MAIL):
        assert value.encode() not in door.on_disk() and value not in repr(refused)


async def test_a_redacted_value_stands_in_no_file(door: Door, searxng: FakeSearxng) -> None:
    sent = await door.send(searxng.url, f"ask {MAIL}")
    assert MAIL not in repr(sent) and MAIL.encode() not in door.on_disk()
    assert door.row()["withheld"] == [door.egress.log.fingerprint(MAIL)]


async def test_without_a_log_nothing_leaves(door: Door, searxng: FakeSearxng) -> None:
    with closing(sqlite3.connect(door.path)) as other:
        other.execute("DROP TABLE outbound")
    refused = await door.send(searxng.url, "hello there")
    assert isinstance(refused, Refused) and refused.rules == ("log-unavailable",)
    assert searxng.requests == [] and "hello there" not in repr(refused)


async def test_an_answer_is_given_although_its_outcome_cannot_be_written(door: Door, searxng: FakeSearxng) -> None:
    def spoil(_form: dict[str, str]) -> Reply:
        with closing(sqlite3.connect(door.path)) as other:
            other.execute("ALTER TABLE outcome RENAME TO elsewhere")
        return Reply(body=b"{}")

    searxng.reply = spoil
    sent = await door.send(searxng.url)
    assert isinstance(sent, Sent) and sent.body == b"{}"
    with closing(sqlite3.connect(door.path)) as other:
        assert other.execute("SELECT count(*) FROM outbound").fetchone() == (1,)
        assert other.execute("SELECT count(*) FROM elsewhere").fetchone() == (0,)


async def test_an_unexpected_byte_in_the_callers_folder_refuses_and_raises_nothing(
    door: Door, searxng: FakeSearxng
) -> None:
    permit = Permit(Caller(cwd="/w/\udcff"), "web_search", "searxng", searxng.url, "/search")
    sent = await door.egress.send(permit, "hello", lambda text: Request(f"{searxng.url}/search", {"q": text}))
    assert isinstance(sent, (Refused, Sent))
    assert len(searxng.requests) == (1 if isinstance(sent, Sent) else 0)


# -- the final scan

SMUGGLED: dict[str, Callable[[str, str], Request]] = {
    "path": lambda url, value: Request(f"{url}/{value}", {"q": "hello"}),
    "path, encoded": lambda url, value: Request(f"{url}/{_percent(value)}", {"q": "hello"}),
    "fragment": lambda url, value: Request(f"{url}#{value}", {"q": "hello"}),
    "query value": lambda url, value: Request(f"{url}?a={value}", {"q": "hello"}),
    "query key": lambda url, value: Request(f"{url}?{value}=1", {"q": "hello"}),
    "query without a key": lambda url, value: Request(f"{url}?{value}", {"q": "hello"}),
    "query, encoded": lambda url, value: Request(f"{url}?a={_percent(value)}", {"q": "hello"}),
    "another text": lambda url, value: Request(url, {"q": f"hello {value}"}),
    "a second text": lambda url, value: Request(f"{url}?q={value}", {"q": "hello"}),
    "form value": lambda url, value: Request(url, {"q": "hello", "note": value}),
    "form key": lambda url, value: Request(url, {"q": "hello", value: "1"}),
    "user name": lambda url, value: Request(url.replace("://", f"://{value}@"), {"q": "hello"}),
    "user name and password": lambda url, value: Request(url.replace("://", f"://u:{value}@"), {"q": "hello"}),
    "method": lambda url, value: Request(url, {"q": "hello"}, method=value),
}


def _percent(value: str) -> str:
    return "".join(f"%{byte:02x}" for byte in value.encode())


@pytest.mark.parametrize("way", SMUGGLED)
async def test_a_request_that_carries_the_withheld_text_anyway_is_refused(door: Door, way: str) -> None:
    with raw_server(whole(b"{}")) as server:
        sent = await door.send(server.url, "hello", lambda _: SMUGGLED[way](f"{server.url}/search", TOKEN))
    everything = b"".join(server.requests)
    assert isinstance(sent, Refused) and everything == b""
    assert TOKEN not in repr(sent)
    assert (door.row()["outcome"], door.row()["sent"]) == ("refused", "hello")
    assert base64.b64encode(TOKEN.encode())[:20] not in everything


@pytest.mark.parametrize("harmless", ["hello there", "", "hell", "hello "])
async def test_a_build_that_sends_another_text_than_was_logged_is_refused(door: Door, harmless: str) -> None:
    with raw_server(whole(b"{}")) as server:
        refused = await door.send(server.url, "hello", lambda _: Request(f"{server.url}/search", {"q": harmless}))
    assert isinstance(refused, Refused) and refused.rules == ("undeclared-field",)
    assert server.requests == [] and door.row()["outcome"] == "refused"


@pytest.mark.parametrize(
    "elsewhere",
    [
        "http://127.0.0.2:{port}/search",
        "http://127.0.0.1:1/search",
        "https://127.0.0.1:{port}/search",
        "http://localhost:{port}/search",
        "http://127.0.0.1:{port}@127.0.0.2/",
        "http://127.0.0.1:{port}\\@127.0.0.2/",
        "http://127.0.0.1.:{port}/search",
        "http://127.0.0.1:{port}/search/",
        "http://127.0.0.1:{port}/",
        "http://127.0.0.1/",
        "http://127.0.0.1:99999/",
        "http://[::1/",
        "//127.0.0.1:{port}/",
        "/search",
        "",
        "file:///etc/passwd",
    ],
)
async def test_a_request_built_for_elsewhere_is_refused(door: Door, elsewhere: str) -> None:
    with raw_server(whole(b"{}")) as server:
        url = elsewhere.format(port=server.url.rpartition(":")[2])
        refused = await door.send(server.url, "hello", lambda text: Request(url, {"q": text}))
    assert isinstance(refused, Refused) and refused.rules == ("other-origin",)
    assert server.requests == [] and door.row()["outcome"] == "refused"


@pytest.mark.parametrize("build", ["raises", "none", "list value"])
async def test_a_build_that_fails_is_a_refusal_with_a_closed_row_and_without_the_text(
    door: Door, searxng: FakeSearxng, build: str
) -> None:
    def broken(text: str) -> Any:
        if build == "raises":
            raise ValueError(f"cannot build {text}")
        return None if build == "none" else Request(f"{searxng.url}/search", {"q": text, "z": [text]})  # type: ignore[dict-item]

    refused = await door.send(searxng.url, "a quiet text", broken)
    assert isinstance(refused, Refused) and "a quiet text" not in repr(refused)
    assert searxng.requests == [] and door.row()["outcome"] is not None


@pytest.mark.parametrize("query", ["!!g", "x !wow", "x :de", "x <3"])
async def test_searxng_syntax_that_a_build_adds_is_refused(door: Door, searxng: FakeSearxng, query: str) -> None:
    refused = await door.send(searxng.url, "x", lambda _: Request(f"{searxng.url}/search", {"q": query}))
    in_url = await door.send(
        searxng.url, "x", lambda _: Request(f"{searxng.url}/search?q={_percent(query)}", method="GET")
    )
    assert isinstance(refused, Refused) and isinstance(in_url, Refused)
    assert searxng.requests == []


async def test_syntax_is_taken_out_on_the_way_and_noted_in_answer_and_log(door: Door, searxng: FakeSearxng) -> None:
    sent = await door.send(searxng.url, "ship !wow :wq <3")
    assert isinstance(sent, Sent) and len(sent.decision.notes) == 3
    assert searxng.queries() == ['ship wow ":wq" "<3"'] == [door.row()["sent"]]
    assert door.row()["verdict"] == "redact" and len(door.row()["findings"]) == 3


async def test_an_external_bang_is_blocked_with_a_closed_row(door: Door, searxng: FakeSearxng) -> None:
    refused = await door.send(searxng.url, "roadmap !!g")
    assert isinstance(refused, Refused) and refused.rules == ("searxng-external-bang",)
    assert (door.row()["verdict"], door.row()["sent"], door.row()["outcome"]) == ("block", "", "withheld")


# -- what goes out beside the text


def _always(request: Request, _: str) -> Request:
    return request


async def test_fields_are_logged_with_the_text_and_nothing_may_be_added_to_them(
    door: Door, searxng: FakeSearxng
) -> None:
    fields = {"language": "de", "pageno": "2"}
    for extra, answer in (({}, Sent), ({"theme": "x"}, Refused), ({"pageno": "3"}, Refused)):
        request = Request(f"{searxng.url}/search", {"q": "hello", **fields, **extra})
        sent = await door.send(searxng.url, "hello", partial(_always, request), fields=fields)
        assert isinstance(sent, answer)
    assert [request["form"]["pageno"] for request in searxng.requests] == ["2"]
    assert door.row()["fields"] == fields and door.row()["outcome"] == "refused"


async def test_words_of_the_operator_do_not_meet_our_own_constants(tmp_path: Path, searxng: FakeSearxng) -> None:
    """A term may be a word of a placeholder, of the address or of our headers."""
    terms = "".join(f'[[term]]\nname = "{name}"\n' for name in ("search", "User", "json", "email", "home", "path"))
    (tmp_path / "terms.toml").write_text(terms)
    log = AuditLog(tmp_path / "audit.db", b"k" * 32)
    door = Door(Egress(Policy.from_folder(tmp_path, deadline_s=PATIENCE_S), log, Guard()), tmp_path / "audit.db")
    request = {"q": "hello [email] [home path]/x.py", "format": "json"}
    sent = await door.send(
        searxng.url,
        f"hello {MAIL} /home/jane/x.py",
        partial(_always, Request(f"{searxng.url}/search", request)),
        fields={"format": "json"},
    )
    assert isinstance(sent, Sent) and searxng.requests[0]["form"] == request


async def test_an_address_that_swallows_packets_does_not_use_up_the_time_of_the_next(door: Door) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as working,
        socket.socket() as deaf,
        contextlib.ExitStack() as fillers,
    ):
        port = working.getsockname()[1]
        deaf.bind(("127.0.0.2", port))
        deaf.listen(0)
        for _ in range(4):
            filler = fillers.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.2", port))
        egress = Egress(door.egress.policy, door.egress.log, Guard(), resolver=_two_addresses)
        answering = threading.Thread(target=_answer_once, args=(working,))
        answering.start()
        sent = await Door(egress, door.path).send(f"http://two.example:{port}", timeout_s=4.0)
        answering.join()
    assert isinstance(sent, Sent)


async def _two_addresses(_host: str, _port: int) -> list[str]:
    return ["127.0.0.2", "127.0.0.1"]


def _answer_once(server: socket.socket) -> None:
    link, _ = server.accept()
    with link:
        link.recv(65_536)
        link.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")


async def test_a_field_with_a_secret_is_blocked_and_not_logged(door: Door, searxng: FakeSearxng) -> None:
    refused = await door.send(searxng.url, "hello", fields={"engines": TOKEN})
    assert isinstance(refused, Refused) and searxng.requests == []
    assert (door.row()["verdict"], door.row()["fields"]) == ("block", {})
    assert TOKEN.encode() not in door.on_disk()


async def test_all_that_decided_stands_in_the_row(door: Door, searxng: FakeSearxng) -> None:
    await door.send(searxng.url, "!!g why /home/jane/x.py")
    assert [found["rule"] for found in door.row()["findings"]] == ["home-path", "searxng-external-bang"]
    await door.send(searxng.url, "!alpha why /home/jane/x.py :de")
    expected = ["home-path", "searxng-engine-bang", "searxng-language"]
    assert [found["rule"] for found in door.row()["findings"]] == expected


@pytest.mark.parametrize(
    "query",
    [
        "my postgres password is !! k7#Vq9zLw2",
        "/home/jane/x.py and my postgres password is !! k7#Vq9zLw2",
    ],
)
async def test_what_comes_to_light_when_the_syntax_goes_is_refused(
    door: Door, searxng: FakeSearxng, query: str
) -> None:
    outcome = await door.send(searxng.url, query)
    assert isinstance(outcome, Refused)
    assert searxng.requests == []
    assert door.row()["verdict"] == "block"
    assert b"k7#Vq9zLw2" not in door.on_disk()


async def test_syntax_beside_something_redacted_still_leaves_without_both(door: Door, searxng: FakeSearxng) -> None:
    assert isinstance(await door.send(searxng.url, f"!alpha mail {MAIL} about llamas"), Sent)
    assert "!" not in door.row()["sent"] and MAIL not in door.row()["sent"]


async def test_only_so_many_requests_are_on_the_way_at_a_time(door: Door, searxng: FakeSearxng) -> None:
    searxng.hold.clear()
    async with anyio.create_task_group() as group:
        for number in range(PLACES["searxng"][0] * 2):
            group.start_soon(door.send, searxng.url, f"query {number}")
        for _ in range(PLACES["searxng"][0]):
            await anyio.to_thread.run_sync(searxng.wait_for_request)
        assert len(searxng.requests) == PLACES["searxng"][0]
        searxng.hold.set()
    assert len(searxng.requests) == PLACES["searxng"][0] * 2


# -- answers that are too long, too slow or broken


def endless(*lines: str, chunk: bytes = b"x" * 65_536) -> Callable[[Callable[[bytes], None]], None]:
    def reply(say: Callable[[bytes], None]) -> None:
        say(head(*lines))
        while True:
            say(chunk)

    return reply


def endless_after(start: bytes, chunk: bytes) -> Callable[[Callable[[bytes], None]], None]:
    def reply(say: Callable[[bytes], None]) -> None:
        say(head("Content-Encoding: gzip") + start)
        while True:
            say(chunk)

    return reply


ZEROS = b"\0" * 50_000_000


@pytest.mark.parametrize(
    "reply",
    [
        endless(),
        whole(gzip.compress(ZEROS), "Content-Encoding: gzip"),
        whole(gzip.compress(ZEROS), "Content-Encoding: x-gzip"),
        whole(zlib.compress(ZEROS), "Content-Encoding: deflate"),
        whole(b"x" * 10_001),
    ],
    ids=["endless", "gzip", "x-gzip", "deflate", "one too many"],
)
async def test_an_answer_longer_than_allowed_is_given_up(door: Door, reply: Any) -> None:
    with raw_server(reply) as server:
        failed = await door.send(server.url, max_bytes=10_000, timeout_s=PATIENCE_S)
        assert server.hung_up.wait(PATIENCE_S)
    assert isinstance(failed, Failed) and failed.kind == "too_large"
    assert door.row()["outcome"] == "too_large"


@pytest.mark.parametrize(
    "reply",
    [
        endless_after(gzip.compress(b"{}"), b"x" * 65_536),
        endless_after(gzip.compress(b"{}")[:10], b"\0\0\0\xff\xff" * 10_000),
        endless_after(gzip.compress(b"{}")[:3] + b"\x08" + bytes(6), b"n" * 65_536),
    ],
    ids=["after the end", "empty blocks", "a name without end"],
)
async def test_bytes_that_unpack_to_nothing_count_as_well(door: Door, reply: Any) -> None:
    with raw_server(reply) as server:
        sent = await door.send(server.url, max_bytes=10_000, timeout_s=1)
        assert server.hung_up.wait(PATIENCE_S)
    assert isinstance(sent, (Failed, Sent)) and getattr(sent, "kind", "") != "timeout"


async def test_an_answer_of_exactly_the_limit_is_read(door: Door) -> None:
    for reply in (whole(b"x" * 10_000), whole(gzip.compress(b"x" * 10_000), "Content-Encoding: gzip")):
        with raw_server(reply) as server:
            sent = await door.send(server.url, max_bytes=10_000)
        assert isinstance(sent, Sent) and len(sent.body) == 10_000


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (whole(gzip.compress(b"{}" * 1000)[:-9], "Content-Encoding: gzip"), "bad_encoding"),
        (whole(b"no gzip at all", "Content-Encoding: gzip"), "bad_encoding"),
        (lambda say: say(head("Content-Length: 100") + b"short"), "protocol"),
        (lambda say: say(b"SSH-2.0-OpenSSH\r\n"), "protocol"),
        (lambda say: None, "protocol"),
        (lambda say: say(head("Transfer-Encoding: chunked") + b"zz\r\n"), "protocol"),
        (lambda say: say(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 300_000), "protocol"),
    ],
    ids=["cut gzip", "no gzip", "cut body", "another protocol", "hang-up", "bad chunk", "long header"],
)
async def test_a_broken_answer_has_a_kind_and_a_closed_row(door: Door, reply: Any, kind: str) -> None:
    with raw_server(reply) as server:
        failed = await door.send(server.url, timeout_s=PATIENCE_S)
    assert isinstance(failed, Failed) and failed.kind == kind == door.row()["outcome"]


async def test_packed_answers_are_unpacked_whole(door: Door) -> None:
    raw_deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    for body, encoding in (
        (gzip.compress(b'{"a": 1}'), "gzip"),
        (zlib.compress(b'{"a": 1}'), "deflate"),
        (raw_deflate.compress(b'{"a": 1}') + raw_deflate.flush(), "deflate"),
        (gzip.compress(b'{"a":') + gzip.compress(b" 1}"), "gzip"),
        (b'{"a": 1}', "identity"),
    ):
        with raw_server(whole(body, f"Content-Encoding: {encoding}")) as server:
            sent = await door.send(server.url)
        assert isinstance(sent, Sent) and json.loads(sent.body) == {"a": 1}, encoding


async def test_an_empty_answer_that_claims_to_be_packed_keeps_its_status(door: Door) -> None:
    with raw_server(whole(b"", "Content-Encoding: gzip", status="403 Forbidden")) as server:
        sent = await door.send(server.url)
    assert isinstance(sent, Sent) and sent.status == 403


@pytest.mark.parametrize("part", ["head", "body", "nothing"])
async def test_the_deadline_covers_an_answer_that_drips(door: Door, part: str) -> None:
    stop = threading.Event()

    def drip(say: Callable[[bytes], None]) -> None:
        if part == "nothing":
            stop.wait(PATIENCE_S)
        say(head()[:-2] if part == "head" else head())
        while not stop.wait(0.01):
            say(b"X: y\r\n" if part == "head" else b"x")

    with raw_server(drip) as server:
        try:
            failed = await door.send(server.url, timeout_s=0.2)
        finally:
            stop.set()
    assert isinstance(failed, Failed) and failed.kind == "timeout" == door.row()["outcome"]


async def test_a_closed_port_and_an_unknown_name_have_their_kinds(door: Door) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]
    for url, kind in ((f"http://127.0.0.1:{port}", "connect"), ("http://n0such.invalid", "name_lookup")):
        failed = await door.send(url)
        assert isinstance(failed, Failed) and failed.kind == kind == door.row()["outcome"]
        assert "hello" not in failed.kind


@pytest.mark.parametrize("host", ["a" * 70 + ".example", "a..b", "xn--a"])
async def test_a_name_that_is_no_name_is_told_as_one_that_cannot_be_looked_up(door: Door, host: str) -> None:
    failed = await door.send(f"http://{host}")
    assert isinstance(failed, Failed) and failed.kind in ("name_lookup", "bad_url")


async def test_a_redirect_is_not_followed(door: Door) -> None:
    with raw_server(whole(b"{}")) as target:
        reply = whole(b"", f"Location: {target.url}/", status="302 Found")
        with raw_server(reply) as server:
            sent = await door.send(server.url)
    assert isinstance(sent, Sent) and sent.status == 302
    assert target.requests == [] and len(server.requests) == 1


async def test_each_send_stands_alone_without_cookies_of_the_last_one(door: Door) -> None:
    with raw_server(whole(b"{}", "Set-Cookie: id=42")) as server:
        await door.send(server.url)
        await door.send(server.url)
    assert b"cookie" not in server.requests[1].lower()


async def test_a_cancelled_send_is_closed_as_cancelled_and_hangs_up(door: Door, searxng: FakeSearxng) -> None:
    searxng.hold.clear()
    with anyio.move_on_after(PATIENCE_S) as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(door.send, searxng.url)
            await anyio.to_thread.run_sync(searxng.wait_for_request)
            group.cancel_scope.cancel()
    assert not scope.cancelled_caught
    await anyio.to_thread.run_sync(searxng.wait_for_hang_up)
    assert door.row()["outcome"] == "cancelled"


async def test_a_task_that_is_cancelled_from_outside_is_closed_as_well(door: Door, searxng: FakeSearxng) -> None:
    searxng.hold.clear()
    task = asyncio.ensure_future(door.send(searxng.url))
    await anyio.to_thread.run_sync(searxng.wait_for_request)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await anyio.to_thread.run_sync(searxng.wait_for_hang_up)
    assert door.row()["outcome"] == "cancelled"


@pytest.mark.parametrize("outside", [True, False])
async def test_one_that_is_cancelled_while_it_is_judged_leaves_no_row_that_is_open(
    door: Door, searxng: FakeSearxng, outside: bool
) -> None:
    for pause_s in (0.0, 0.0002, 0.0005, 0.001, 0.002) * 6:
        with anyio.CancelScope() as scope:
            task = asyncio.ensure_future(door.send(searxng.url)) if outside else None
            asyncio.get_running_loop().call_later(pause_s, task.cancel if task else scope.cancel)
            with contextlib.suppress(asyncio.CancelledError) if outside else contextlib.nullcontext():
                await (task or door.send(searxng.url))
    rows = read_rows(door.path, limit=100)
    assert {row["outcome"] for row in rows} <= {"cancelled", "answered"}
    assert len(searxng.requests) <= len(rows)


async def test_many_sends_at_once_keep_their_texts_and_rows_apart(door: Door, searxng: FakeSearxng) -> None:
    searxng.reply = lambda form: Reply(body=json.dumps(form["q"]).encode())
    found: dict[int, bytes] = {}

    async def one(number: int) -> None:
        sent = await door.send(searxng.url, f"text {number}")
        assert isinstance(sent, Sent)
        found[number] = sent.body

    for first in range(0, 24, 4):  # no more at once than the server lets wait
        async with anyio.create_task_group() as group:
            for number in range(first, first + 4):
                group.start_soon(one, number)
    assert found == {number: f'"text {number}"'.encode() for number in range(24)}
    assert {row["outcome"] for row in read_rows(door.path, limit=100)} == {"answered"}


# -- in a process of its own, guarded

PROGRAM = """
import asyncio, os, socket, sys, warnings
from pathlib import Path
from sparkgate.policy.audit import AuditLog, Caller
from sparkgate.policy.egress import Egress, Permit, Request
from sparkgate.policy.guard import Guard
from sparkgate.policy.judge import Policy
guard = Guard()
guard.install()
egress = Egress(Policy(()), AuditLog(Path(sys.argv[1]) / "audit.db", b"k" * 32), guard)
def send(url):
    permit = Permit(Caller(), "t", "searxng", url, "/search", timeout_s=10.0)
    return asyncio.run(egress.send(permit, "hello", lambda text: Request(url + "/search", {"q": text})))
found = send(sys.argv[2])
print(getattr(found, "status", None) or getattr(found, "kind", None) or found)
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[2].rpartition(":")[2])), 5)
    print("open")
except OSError as error:
    print(type(error).__name__)
"""


def in_a_guarded_process(folder: Path, url: str, **environment: str) -> list[str]:
    argv = [sys.executable, "-I", "-W", "ignore", "-c", PROGRAM, str(folder), url]
    done = subprocess.run(argv, capture_output=True, text=True, env=environment, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "127.1"])
async def test_a_host_name_works_under_the_guard_and_is_closed_afterwards(
    tmp_path: Path, searxng: FakeSearxng, host: str
) -> None:
    url = searxng.url.replace("127.0.0.1", host)
    assert in_a_guarded_process(tmp_path, url) == ["200", "ConnectionRefusedByPolicy"]
    assert searxng.queries() == ["hello"]


@pytest.mark.parametrize("spelling", ["::1", "0:0:0:0:0:0:0:1", "0000::0001", "::0001"])
async def test_an_ipv6_address_works_under_the_guard_in_every_spelling(tmp_path: Path, spelling: str) -> None:
    try:
        with raw_server(whole(b"{}"), "::1") as server:
            url = server.url.replace("::1", spelling)
            assert in_a_guarded_process(tmp_path, url)[0] == "200"
    except OSError:
        pytest.skip("no IPv6 on loopback here")


async def test_proxies_of_the_environment_are_ignored(tmp_path: Path, searxng: FakeSearxng) -> None:
    with raw_server(whole(b"{}")) as recorder:
        names = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
        found = in_a_guarded_process(tmp_path, searxng.url, **dict.fromkeys(names, recorder.url))
    assert found[0] == "200" and recorder.requests == [] and len(searxng.requests) == 1


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        ["93.184.215.14", "127.0.0.1"],
        ["::ffff:127.0.0.1"],
        ["64:ff9b::7f00:1"],
        ["fe80::1%lo"],
        ["10.0.0.1"],
    ],
)
async def test_a_name_of_the_web_that_leads_to_this_machine_or_network_is_not_connected_to(
    door: Door, addresses: list[str]
) -> None:
    with raw_server(lambda send: send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")) as server:
        port = server.url.rpartition(":")[2]
        egress = Egress(door.egress.policy, door.egress.log, Guard(), resolver=_leads_to(addresses))
        origin = f"http://rebind.test:{port}"
        permit = Permit(Caller(session="s"), "read_page", "web", origin, public=True)
        failed = await egress.send(permit, f"{origin}/x", by_get)
        assert isinstance(failed, Failed) and failed.kind == "special_address"
        assert server.requests == []
    assert door.row()["outcome"] == "special_address"


async def test_a_name_is_looked_up_once_so_that_no_second_answer_counts(door: Door) -> None:
    """The second look-up would lead to a server on loopback, and there is none."""
    asked: list[str] = []

    async def rebinding(host: str, _port: int) -> list[str]:
        asked.append(host)
        return ["192.0.2.1"] if len(asked) == 1 else ["127.0.0.1"]

    egress = Egress(door.egress.policy, door.egress.log, Guard(), resolver=rebinding)
    permit = Permit(Caller(session="s"), "read_page", "web", "http://rebind.test", timeout_s=PATIENCE_S, public=True)
    failed = await egress.send(permit, "http://rebind.test/x", by_get)
    assert isinstance(failed, Failed) and failed.kind == "special_address"
    assert asked == ["rebind.test"]


def _leads_to(addresses: list[str]) -> Callable[[str, int], Any]:
    async def resolve(_host: str, _port: int) -> list[str]:
        return addresses

    return resolve


# -- pages of the web: the text is the address


def by_get(address: str) -> Request:
    return Request(address, method="GET")


async def read(door: Door, url: str, build: Build = by_get, **permit: Any) -> Sent | Refused | Failed:
    origin = "/".join(url.split("/")[:3])
    allowed = Permit(Caller(session="s"), "read_page", "web", origin, whole=True, **permit)
    return await door.egress.send(allowed, url, build)


async def test_a_page_is_asked_for_by_exactly_the_address_that_is_logged(door: Door) -> None:
    with raw_server(whole(b"a page")) as server:
        sent = await read(door, f"{server.url}/docs/install?lang=en&page=2")
        assert isinstance(sent, Sent) and sent.body == b"a page"
        assert server.requests[0].startswith(b"GET /docs/install?lang=en&page=2 HTTP/1.1")
    assert (door.row()["sent"], door.row()["verdict"]) == (f"{server.url}/docs/install?lang=en&page=2", "allow")


@pytest.mark.parametrize("held", [TOKEN, MAIL, TOKEN.replace("hf_", "%68%66_")])
async def test_an_address_that_would_be_changed_is_not_asked_for_at_all(door: Door, held: str) -> None:
    with raw_server(whole(b"a page")) as server:
        refused = await read(door, f"{server.url}/collect?note={held}")
        assert isinstance(refused, Refused) and refused.rules
        assert server.requests == []
    assert (door.row()["verdict"], door.row()["sent"]) == ("block", "")
    assert held.encode() not in door.on_disk()


@pytest.mark.parametrize(
    "build",
    [
        lambda address: Request(address + "&more=1", method="GET"),
        lambda address: Request(address.replace("/a?", "/b?"), method="GET"),
        lambda address: Request(address.replace("127.0.0.1", "127.0.0.1.evil.example"), method="GET"),
        lambda address: Request(address, {"also": "this"}, method="GET"),
        lambda address: Request(address),
    ],
)
async def test_a_page_request_that_is_not_the_judged_address_is_refused(door: Door, build: Build) -> None:
    with raw_server(whole(b"a page")) as server:
        assert isinstance(await read(door, f"{server.url}/a?b=c", build), Refused)
        assert server.requests == []
    assert door.row()["outcome"] == "refused"


# -- answers kept for a while


async def test_an_equal_request_is_answered_from_memory_and_still_has_its_row(door: Door) -> None:
    with raw_server(whole(b"{}")) as server:
        for _ in range(3):
            sent = await door.send(server.url, "same words", cache_s=60)
            assert isinstance(sent, Sent) and (sent.status, sent.body) == (200, b"{}")
        assert len(server.requests) == 1
        await door.send(server.url, "other words", cache_s=60)
        await door.send(server.url, "same words")
        assert len(server.requests) == 3
    outcomes = [row["outcome"] for row in read_rows(door.path, limit=10)][::-1]
    assert outcomes == ["answered", "cached", "cached", "answered", "answered"]


async def test_equal_requests_at_the_same_time_share_one_answer(door: Door) -> None:
    with raw_server(whole(b"{}")) as server:
        sent = await asyncio.gather(*(door.send(server.url, "same words", cache_s=60) for _ in range(5)))
        assert all(isinstance(one, Sent) and one.body == b"{}" for one in sent)
        assert len(server.requests) == 1
    assert len(read_rows(door.path, limit=10)) == 5


async def test_one_who_waits_for_an_equal_request_asks_itself_when_that_is_cancelled(door: Door) -> None:
    let_go, arrived = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def silent_until_told(_send: object) -> None:
        loop.call_soon_threadsafe(arrived.set)
        let_go.wait(PATIENCE_S)

    with raw_server(silent_until_told) as silent:
        first = asyncio.create_task(door.send(silent.url, "same words", cache_s=60))
        second = asyncio.create_task(door.send(silent.url, "same words", cache_s=60, timeout_s=0.5))
        await arrived.wait()
        first.cancel()
        failed = await second
        let_go.set()
    assert isinstance(failed, Failed)
    assert {row["outcome"] for row in read_rows(door.path, limit=10)} == {"cancelled", failed.kind}


@pytest.mark.parametrize("status", [302, 404, 429, 503])
async def test_only_a_good_answer_is_kept(door: Door, status: int) -> None:
    head = f"HTTP/1.1 {status} X\r\nContent-Length: 2\r\n\r\n".encode()
    with raw_server(lambda send: send(head + b"no")) as server:
        for _ in range(2):
            await door.send(server.url, "same words", cache_s=60)
        assert len(server.requests) == 2


async def test_an_answer_that_is_forgotten_is_asked_for_again(door: Door) -> None:
    with raw_server(whole(b"{}")) as server:
        sent = await door.send(server.url, "same words", cache_s=60)
        assert isinstance(sent, Sent)
        door.egress.forget(sent)
        await door.send(server.url, "same words", cache_s=60)
        assert len(server.requests) == 2


async def test_a_secret_is_refused_though_its_redacted_text_was_answered_before(door: Door) -> None:
    with raw_server(whole(b"{}")) as server:
        await door.send(server.url, f"mail to {MAIL}", cache_s=60)
        again = await door.send(server.url, f"mail to {MAIL.replace('jane', 'john')}", cache_s=60)
        assert isinstance(again, Sent) and len(server.requests) == 1
        assert isinstance(await door.send(server.url, f"mail to {TOKEN}", cache_s=60), Refused)
    assert [row["outcome"] for row in read_rows(door.path, limit=3)][::-1] == ["answered", "cached", "withheld"]


def test_the_answers_kept_have_a_bounded_size_and_end_with_their_time() -> None:
    now_s = [0.0]
    kept = AnswerCache(max_bytes=100, now_s=lambda: now_s[0])
    for name in "abc":
        kept.put(name, Answer(200, {}, bytes(40)), 10)
    assert [bool(kept.get(name)) for name in "abc"] == [False, True, True]
    kept.put("long", Answer(200, {}, bytes(101)), 10)
    assert kept.get("long") is None and kept.size_bytes == 80
    assert kept.get("b")
    kept.put("d", Answer(200, {}, bytes(40)), 20)
    assert [bool(kept.get(name)) for name in "bcd"] == [True, False, True]
    now_s[0] = 10.0
    assert [bool(kept.get(name)) for name in "bcd"] == [False, False, True]
    assert kept.size_bytes == 40


async def test_a_file_that_holds_no_authorities_is_a_failure_of_its_own(door: Door, tmp_path: Path) -> None:
    (tmp_path / "no.pem").write_text("none")
    for file in (tmp_path / "no.pem", tmp_path / "missing.pem"):
        with raw_server(whole(b"{}")) as server:
            failed = await door.send(server.url, ca_file=str(file))
            assert isinstance(failed, Failed) and failed.kind == "ca_file"
            assert server.requests == []


# -- places on the way


def until_told(let_go: threading.Event) -> Callable[[Callable[[bytes], None]], None]:
    def silent(_send: Callable[[bytes], None]) -> None:
        let_go.wait(PATIENCE_S)

    return silent


async def test_slow_pages_of_one_session_keep_nobody_else_from_leaving(door: Door, searxng: FakeSearxng) -> None:
    let_go = threading.Event()
    with raw_server(until_told(let_go)) as slow:
        own, all_ = PLACES["web"][1], PLACES["web"][0]
        reading = [asyncio.create_task(read(door, f"{slow.url}/{number}")) for number in range(own + 2)]
        await started(door, own + 2)
        assert isinstance(await door.send(searxng.url, "a search of the same session"), Sent)
        other = Permit(Caller(session="other"), "read_page", "web", searxng.url, whole=True)
        assert isinstance(await door.egress.send(other, f"{searxng.url}/x", by_get), Sent)
        assert all_ > own
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
        let_go.set()


async def test_who_gets_no_place_is_told_that_and_has_sent_nothing(door: Door) -> None:
    let_go = threading.Event()
    with raw_server(until_told(let_go)) as slow:
        reading = [asyncio.create_task(read(door, f"{slow.url}/{number}")) for number in range(PLACES["web"][1])]
        await started(door, len(reading))
        failed = await read(door, f"{slow.url}/late", timeout_s=0.1)
        assert isinstance(failed, Failed) and failed.kind == "busy"
        assert door.row()["outcome"] == "busy"
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
        let_go.set()
    assert not any(b"/late" in request for request in slow.requests)


async def started(door: Door, rows: int) -> None:
    """Until so many sends have their row, and the loop has gone on with them."""
    with anyio.fail_after(PATIENCE_S):
        while len(read_rows(door.path, limit=100)) < rows:
            await anyio.lowlevel.checkpoint()
        for _ in range(50):
            await anyio.lowlevel.checkpoint()


async def test_an_answer_from_memory_costs_no_budget_also_after_a_restart(door: Door) -> None:
    limited = Outflow((Limit("queries", HOUR_S, 2),))
    egress = Egress(door.egress.policy, door.egress.log, Guard(), outflow=limited)
    with raw_server(whole(b"{}")) as server:
        for _ in range(5):
            assert isinstance(await Door(egress, door.path).send(server.url, "same words", cache_s=60), Sent)
        assert isinstance(await Door(egress, door.path).send(server.url, "other words", cache_s=60), Sent)
        assert isinstance(await Door(egress, door.path).send(server.url, "more words", cache_s=60), Refused)
    assert [row["sent"] for row in door.egress.log.since(0)] == ["same words", "other words"]
