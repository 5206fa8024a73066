"""Interchangeable instances: in which order they are asked, how often, when they rest, and what lets us in."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from box import Box, Host, a_box
from fake_searxng import FakeSearxng, Reply, answer, result

from sparkgate.asking import Asking
from sparkgate.instances import Instances
from sparkgate.policy.audit import Caller
from sparkgate.policy.decision import Decision
from sparkgate.policy.egress import Ask, Failed, Permit, Request
from sparkgate.policy.samples import fill
from sparkgate.searxng import retry_after_s
from sparkgate.searxng_auth import AuthFileError, Logins, logins_of, read_logins
from sparkgate.services import Live
from sparkgate.setting_tables import SearxngSettings
from sparkgate.settings import Settings

A, B = "http://a.example", "http://b.example"
TOKEN = fill("{mixed:30}")
HTML = "text/html; charset=utf-8"


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def instances(clock: Clock) -> Instances:
    made = Instances(clock)
    made.keep([A, B], 30)
    return made


# -- what is remembered of an instance


def test_a_quarter_of_a_minutes_searches_may_come_at_once_and_more_come_with_time(
    instances: Instances, clock: Clock
) -> None:
    assert [instances.take(A) for _ in range(9)] == [True] * 8 + [False]
    wait = instances.wait(A)
    assert wait and (wait.why, wait.seconds) == ("per_minute", 2)
    clock.now_s += 2
    assert instances.take(A) and not instances.take(A)
    clock.now_s += 3600
    assert instances.tokens(A) == 8


def test_without_a_limit_every_search_may_go(clock: Clock) -> None:
    instances = Instances(clock)
    instances.keep([A], 0)
    assert all(instances.take(A) for _ in range(1000)) and instances.tokens(A) is None
    instances.keep([A], 4)
    assert instances.take(A) and not instances.take(A)


def test_a_fault_rests_an_instance_longer_each_time_until_it_answers(instances: Instances, clock: Clock) -> None:
    rests = []
    for _ in range(7):
        instances.rest(A, "timeout")
        assert instances.ready() == [B]
        wait = instances.wait(A)
        assert wait and wait.why == "timeout"
        rests.append(wait.seconds)
        clock.now_s += wait.seconds
        assert instances.ready() == [A, B]
    assert rests == [30, 60, 120, 240, 480, 600, 600]
    instances.well(A)
    instances.rest(A, "timeout")
    wait = instances.wait(A)
    assert wait and wait.seconds == 30


def test_a_rest_that_the_instance_asked_for_is_kept_to_the_second_and_never_over_an_hour(
    instances: Instances, clock: Clock
) -> None:
    instances.rest(A, "rate_limited", 7)
    instances.well(A)
    wait = instances.wait(A)
    assert wait and wait.seconds == 7
    clock.now_s += 7
    assert instances.wait(A) is None
    instances.rest(A, "rate_limited", 10**9)
    wait = instances.wait(A)
    assert wait and wait.seconds == 3600


def test_a_rest_that_was_asked_for_is_not_shortened_by_a_fault_of_a_question_beside_it_or_by_a_second_wish(
    clock: Clock,
) -> None:
    alone = Instances(clock)
    alone.keep([A], 30)
    alone.rest(A, "limiter", 60)
    alone.rest(A, "server_error")
    alone.rest(A, "rate_limited", 7)
    assert alone.ready() == []
    wait = alone.wait(A)
    assert wait and wait.seconds == 60
    clock.now_s += 60
    assert alone.ready() == [A] and alone.wait(A) is None
    alone.rest(A, "server_error")
    assert alone.ready() == [A]


def test_the_only_instance_is_asked_again_after_a_fault_but_not_while_it_wants_to_be_let_be(clock: Clock) -> None:
    alone = Instances(clock)
    alone.keep([A], 30)
    alone.rest(A, "connection_refused")
    assert alone.ready() == [A] and alone.wait(A) is None
    alone.rest(A, "rate_limited", 60)
    assert alone.ready() == []


def test_an_instance_that_stays_in_the_configuration_keeps_its_rest_and_a_new_one_has_none(
    instances: Instances,
) -> None:
    instances.rest(A, "timeout")
    instances.keep(["http://new.example", A], 30)
    assert instances.ready() == ["http://new.example"]
    instances.keep([B], 30)
    instances.keep([A, B], 30)
    assert instances.ready() == [A, B]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": " 0 "}, 0.0),
        ({"retry-after": "Sun, 29 Nov 2026 16:22:00 GMT", "date": "Sun, 29 Nov 2026 16:21:28 GMT"}, 32.0),
        ({"retry-after": "Sun, 29 Nov 2020 16:22:00 GMT", "date": "Sun, 29 Nov 2026 16:21:28 GMT"}, 1.0),
        ({"retry-after": "Sun, 29 Nov 2020 16:22:00 GMT"}, 1.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "²"}, None),
        ({"retry-after": "Sun, 99 Nov 2026 16:22:00 GMT"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_understood_as_seconds_and_as_a_date(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers) == seconds


# -- one question to the set


class Down:
    """A way out behind which nothing answers: every send takes all the time it is given."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.permits = clock, list[Permit]()

    async def send(self, permit: Permit, text: str, build: object, ask: Ask | None) -> Failed:
        self.permits.append(permit)
        self.clock.now_s += permit.timeout_s
        decision = Decision("block", "", asked="a question", askable=("x",))
        if ask:
            await ask(decision)
        return Failed("timeout", decision)


def asking_through(egress: Any, clock: Clock, settings: SearxngSettings, ask: Ask | None = None) -> Asking:
    instances = Instances(clock)
    instances.keep(settings.instances, 0)
    live = Live(Settings(searxng=settings), egress, instances, settings.instances)
    return Asking(live, Caller(), "web_search", ask)


async def ask_each(asking: Asking) -> Any:
    return await asking.first(lambda url: asking.send(url, "x", "/search", {}, lambda text: Request(url)))


@pytest.mark.anyio
@pytest.mark.parametrize(("timeout_s", "waits"), [(15, [15, 15, 15]), (20, [20, 20, 5]), (44.5, [44.5]), (90, [90])])
async def test_all_instances_together_get_no_more_time_than_a_host_gives(
    clock: Clock, timeout_s: float, waits: list[float]
) -> None:
    urls = tuple(f"http://{name}.example" for name in "abcde")
    egress = Down(clock)
    told = await ask_each(asking_through(egress, clock, SearxngSettings(urls=urls, timeout_s=timeout_s)))
    assert told.code == "timeout" and [permit.timeout_s for permit in egress.permits] == waits


@pytest.mark.anyio
async def test_a_person_is_asked_once_for_all_instances(clock: Clock) -> None:
    asked = []

    async def ask(decision: Decision) -> bool:
        asked.append(decision.asked)
        return True

    egress = Down(clock)
    await ask_each(asking_through(egress, clock, SearxngSettings(urls=(A, B)), ask))
    assert len(egress.permits) == 2 and asked == ["a question"]


@pytest.mark.anyio
async def test_an_instance_gets_its_own_headers_and_authority_and_no_other_origin_is_permitted(clock: Clock) -> None:
    egress = Down(clock)
    asking = asking_through(egress, clock, SearxngSettings(urls=(A, f"{B}/sx/"), ca_file="~/ca.pem"))
    asking.live = replace(asking.live, logins=Logins({"http://b.example:80": {"X-Key": TOKEN}}))
    await ask_each(asking)
    first, second = egress.permits
    assert (first.origin, second.origin) == (A, f"{B}/sx") and first.destination == "searxng"
    assert "X-Key" not in first.headers and second.headers["X-Key"] == TOKEN
    assert first.ca_file == str(Path.home() / "ca.pem")


# -- the file of credentials


def test_each_line_of_the_file_is_for_one_origin_or_for_all() -> None:
    text = f"""
# the box in the cellar
https://sx.corp:443/sx/ basic jane:pa:ss word
http://other.corp Bearer {TOKEN}
* header CF-Access-Client-Id: abc
* header X-Who: agent
https://sx.corp header X-Who: jane
"""
    found = logins_of(text)
    assert found == {
        "https://sx.corp:443": {"Authorization": "Basic amFuZTpwYTpzcyB3b3Jk", "X-Who": "jane"},
        "http://other.corp:80": {"Authorization": f"Bearer {TOKEN}"},
        "*": {"CF-Access-Client-Id": "abc", "X-Who": "agent"},
    }


def test_credentials_go_to_the_exact_origin_only(tmp_path: Path) -> None:
    logins = read_logins(str(secret_file(tmp_path, f"https://sx.corp bearer {TOKEN}\n")))
    assert logins.for_url("https://sx.corp/sx") == {"Authorization": f"Bearer {TOKEN}"}
    for other in ("http://sx.corp", "https://sx.corp:8443", "https://www.sx.corp", "https://sx.corp.evil.example"):
        assert logins.for_url(other) == {}
    assert TOKEN not in repr(logins)


@pytest.mark.parametrize(
    "line",
    [
        "https://sx.corp",
        "https://sx.corp bearer",
        f"https://sx.corp bearer {TOKEN} {TOKEN}",
        f"https://sx.corp token {TOKEN}",
        f"https://sx.corp basic {TOKEN}",
        f"sx.corp bearer {TOKEN}",
        f"ftp://sx.corp bearer {TOKEN}",
        f"https://jane@sx.corp bearer {TOKEN}",
        f"https://sx.corp:99999 bearer {TOKEN}",
        f"https://sx.corp header Bad Name: {TOKEN}",
        f"https://sx.corp header X-Key: {TOKEN}\u0085x",
        f"https://sx.corp header Host: {TOKEN}",
        f"https://sx.corp header content-length: {TOKEN}",
        f"https://sx.corp header X-Forwarded-For: {TOKEN}",
        f"https://sx.corp header Transfer-Encoding: {TOKEN}",
    ],
)
def test_a_line_that_cannot_be_used_is_named_by_its_number_and_nothing_of_it_is_told(line: str) -> None:
    with pytest.raises(AuthFileError) as told:
        logins_of(f"# one\n{line}\n")
    assert "line 2" in str(told.value) and TOKEN not in str(told.value)


@pytest.mark.parametrize(("mode", "words"), [(0o640, "chmod 600"), (0o604, "chmod 600"), (0o600, ""), (0o400, "")])
def test_a_file_that_others_can_read_is_refused_with_the_way_out(tmp_path: Path, mode: int, words: str) -> None:
    path = secret_file(tmp_path, f"* bearer {TOKEN}\n", mode)
    logins = read_logins(str(path))
    assert words in logins.fault and bool(logins.fault) is bool(words)
    assert bool(logins.headers) is not bool(words)


def test_what_is_no_file_or_no_text_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo", 0o600)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    (tmp_path / "bytes").chmod(0o600)
    for name in ("gone", ".", "fifo", "bytes"):
        assert f"{tmp_path / name}" in read_logins(str(tmp_path / name)).fault


def secret_file(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "searxng.auth"
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


# -- through the pipe and the gate


class Set:
    """Two instances of one box."""

    def __init__(self, box: Box, first: FakeSearxng, second: FakeSearxng) -> None:
        self.box, self.first, self.second = box, first, second
        first.reply, second.reply = answer(result(1)), answer(result(2))

    def open(self, more: str = "", search: str = "cache_s = 0") -> Host:
        urls = f'url = "{self.first.url}"\nurls = ["{self.second.url}/"]'
        self.box.configure(f"[searxng]\n{urls}\n{more}\n[search]\n{search}\n")
        host = self.box.host()
        host.initialize()
        return host

    @property
    def asked(self) -> tuple[int, int]:
        return len(self.first.queries()), len(self.second.queries())


@pytest.fixture
def pair() -> Iterator[Set]:
    with ExitStack() as stack:
        yield Set(stack.enter_context(a_box()), stack.enter_context(FakeSearxng()), stack.enter_context(FakeSearxng()))


def titles(shown: dict[str, Any]) -> list[str]:
    return [one["title"] for one in shown["results"]]


def test_the_first_instance_is_asked_as_long_as_it_answers(pair: Set) -> None:
    host = pair.open()
    assert [titles(host.search(word)) for word in ("one", "two")] == [["Result 1"]] * 2
    assert pair.asked == (2, 0)


FAULTS = {
    "timeout": None,
    "server_error": Reply(502, HTML, b""),
    "rate_limited": Reply(429, "text/plain", b""),
    "json_disabled": Reply(403, HTML, b""),
    "login_page": Reply(302, HTML, b"", {"Location": "/login"}),
    "wrong_content_type": Reply(200, HTML, b"<p>hi"),
    "invalid_answer": Reply(200, "application/json", b"["),
}


@pytest.mark.parametrize(("code", "reply"), FAULTS.items())
def test_another_instance_answers_instead_and_the_answer_says_so(pair: Set, code: str, reply: Reply | None) -> None:
    host = pair.open("timeout_s = 3" if reply is None else "")
    if reply is None:
        pair.first.hold.clear()
    else:
        pair.first.reply = reply
    shown = host.search("zebracorn")
    assert titles(shown) == ["Result 2"]
    assert any(f"{pair.second.url} answered instead of {pair.first.url} ({code})" in note for note in shown["notes"])
    assert pair.asked == (1, 1)
    again = host.search("another")
    assert pair.asked == (1, 2) and code in again["notes"][0]
    rows = [(row["destination"], row["sent"], row["outcome"]) for row in pair.box.rows()]
    first = "timeout" if reply is None else "answered"
    assert rows == [
        ("searxng", "zebracorn", first), ("searxng", "zebracorn", "answered"), ("searxng", "another", "answered"),
    ]  # fmt: skip


def test_an_instance_that_nothing_answers_for_is_passed_over(pair: Set) -> None:
    pair.first._server.server_close()
    assert titles(pair.open().search("x")) == ["Result 2"]


def test_what_is_wrong_with_the_question_is_not_put_to_the_next_instance(pair: Set) -> None:
    host = pair.open()
    pair.first.reply = Reply(400, "application/json", b"{}")
    assert host.search("x")["code"] == "bad_request"
    assert host.search("x", engines=["nobody"])["code"] == "unknown_engines"
    pair.first.reply = answer(result(1))
    assert host.search(f"x {fill('hf_{mixed:34}')}")["code"] == "blocked"
    assert titles(host.search("x")) == ["Result 1"] and pair.asked == (2, 0)


def test_names_are_checked_with_each_instance_so_that_none_asks_its_default_engines(pair: Set) -> None:
    host = pair.open()
    pair.first.reply = Reply(500, HTML, b"")
    pair.second.config["engines"] = [{"name": "gamma"}]
    refused = host.search("x", engines=["alpha"])
    assert refused["code"] == "instances_down" and "It has gamma" in refused["message"]
    assert pair.asked == (1, 0)


def test_when_all_instances_rest_nothing_is_sent_and_each_is_named_with_its_time(pair: Set) -> None:
    host = pair.open()
    pair.first.reply = Reply(429, "text/plain", b"", {"Retry-After": "50"})
    pair.second.reply = Reply(500, HTML, b"")
    refused = host.search("zebracorn")
    assert refused["code"] == "instances_down" and "(429)" in refused["message"] and "(500)" in refused["message"]
    rows = len(pair.box.rows())
    refused = host.search("zebracorn")
    assert refused["code"] == "rate_limited" and 20 <= refused["retry_in_s"] <= 30
    for url, word in ((pair.first.url, "rate_limited, again in "), (pair.second.url, "server_error, again in ")):
        assert f"{url}: {word}" in refused["message"]
    assert pair.asked == (1, 1) and len(pair.box.rows()) == rows
    assert "zebracorn" not in json.dumps(refused)


def test_what_is_left_of_the_minute_goes_to_the_next_instance_and_then_to_nobody(pair: Set) -> None:
    host = pair.open("per_minute = 4")
    assert [titles(host.search(word)) for word in ("one", "two")] == [["Result 1"], ["Result 2"]]
    refused = host.search("three")
    assert refused["code"] == "rate_limited" and 1 <= refused["retry_in_s"] <= 15
    assert "searxng.per_minute is used up" in refused["message"] and pair.asked == (1, 1)


def test_the_rest_of_an_instance_outlives_the_session_and_a_change_of_the_configuration(pair: Set) -> None:
    host = pair.open()
    pair.first.reply = Reply(429, "text/plain", b"", {"Retry-After": "3000"})
    host.search("x")
    other = pair.open("timeout_s = 5")
    assert titles(other.search("y")) == ["Result 2"] and pair.asked == (1, 2)


def test_search_info_finds_that_an_instance_is_mended_and_it_is_asked_again(pair: Set) -> None:
    host = pair.open()
    pair.first.reply = Reply(500, HTML, b"")
    host.search("x")
    pair.first.reply = answer(result(1))
    assert host.call("search_info", {})["ok"]
    assert titles(host.search("y")) == ["Result 1"]


def test_equal_questions_are_answered_from_memory_with_a_row_each(pair: Set) -> None:
    host = pair.open(search="")
    assert titles(host.search("x")) == titles(host.search("x", max_results=1)) == ["Result 1"]
    assert pair.asked == (1, 0)
    assert [row["outcome"] for row in pair.box.rows()] == ["answered", "cached"]


def test_an_answer_that_is_none_is_not_kept(pair: Set) -> None:
    host = pair.open(search="")
    pair.first.reply = Reply(200, "application/json", b"[")
    assert titles(host.search("x")) == ["Result 2"]
    pair.first.reply = answer(result(1))
    host.call("search_info", {})
    assert titles(host.search("x")) == ["Result 1"]


def test_after_a_cancel_no_other_instance_is_asked(pair: Set) -> None:
    host = pair.open()
    pair.first.hold.clear()
    call = host.send("tools/call", {"name": "web_search", "arguments": {"query": "slow"}})
    pair.first.wait_for_request()
    host.send("notifications/cancelled", {"requestId": call}, notify=True)
    pair.first.wait_for_hang_up()
    assert host.ask("ping")["result"] == {}
    pair.first.hold.set()
    assert titles(host.search("next")) == ["Result 1"]
    assert pair.second.requests == []
    pair.box.command("gate", "stop")
    assert [row["outcome"] for row in pair.box.rows()] == ["cancelled", "answered"]


def test_the_steps_are_told_to_a_host_that_asks_for_progress(pair: Set) -> None:
    host = pair.open()
    pair.first.reply = Reply(500, HTML, b"")
    call = host.send(
        "tools/call",
        {"name": "web_search", "arguments": {"query": "x", "engines": ["alpha"]}, "_meta": {"progressToken": "p"}},
    )
    told = []
    while (message := host.read()).get("id") != call:
        told.append((message["params"]["progress"], message["params"]["message"]))
    names = "checking the names of engines and categories"
    assert told == [
        (1.0, f"asking {pair.first.url}"),
        (2.0, names),
        (3.0, f"asking the next instance, {pair.second.url}"),
        (4.0, names),
    ]


# -- credentials and certificates, through the gate


def test_an_instance_behind_a_login_gets_its_token_and_nothing_else_does(pair: Set) -> None:
    path = secret_file(pair.box.root, f"{pair.first.url} bearer {TOKEN}\n")
    host = pair.open(f'auth_file = "{path}"')
    pair.first.wanted_headers = {"Authorization": f"Bearer {TOKEN}"}
    assert titles(host.search("one")) == ["Result 1"]
    pair.first.wanted_headers = {}
    pair.first.reply = Reply(302, HTML, b"", {"Location": f"{pair.second.url}/search"})
    shown = host.search("two")
    assert titles(shown) == ["Result 2"]
    assert not any("Authorization" in request["headers"] for request in pair.second.requests)
    assert TOKEN not in json.dumps(shown)
    stored = b"".join(file.read_bytes() for file in pair.box.state.rglob("*") if file.is_file())
    assert TOKEN.encode() not in stored


def test_a_wrong_token_is_told_without_it(pair: Set) -> None:
    path = secret_file(pair.box.root, f"* header X-Api-Key: {TOKEN}\n")
    pair.box.configure(f'[searxng]\nurl = "{pair.first.url}"\nauth_file = "{path}"\n')
    host = pair.box.host()
    host.initialize()
    pair.first.wanted_headers = {"X-Api-Key": "another"}
    refused = host.search("one")
    assert refused["code"] == "login_required" and TOKEN not in json.dumps(refused)
    assert pair.first.requests[0]["headers"]["X-Api-Key"] == TOKEN


def test_a_credential_of_the_file_never_leaves_in_a_query(pair: Set) -> None:
    path = secret_file(pair.box.root, f"{pair.first.url} basic jane:{TOKEN}\n")
    host = pair.open(f'auth_file = "{path}"')
    refused = host.search(f"what is {TOKEN}")
    assert (refused["code"], refused["rules"]) == ("blocked", ["known-value"])
    assert host.search(f"is {pair.first.url} up")["ok"] and pair.asked == (1, 0)


def test_a_file_of_credentials_that_others_can_read_stops_every_search_until_it_is_mended(pair: Set) -> None:
    path = secret_file(pair.box.root, f"* bearer {TOKEN}\n", 0o644)
    host = pair.open(f'auth_file = "{path}"')
    for told in (host.search("x"), host.call("search_info", {})):
        assert told["code"] == "auth_file" and f"chmod 600 {path}" in told["message"]
    assert pair.asked == (0, 0)
    path.chmod(0o600)
    assert host.search("x")["ok"]


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    chain, key = folder / "chain.pem", folder / "key.pem"
    names = ("-subj", "/CN=test searxng", "-addext", "subjectAltName=IP:127.0.0.1")
    command = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    files = ("-keyout", str(key), "-out", str(chain), "-days", "2")
    subprocess.run([*command, *names, *files], check=True, capture_output=True)
    return chain, key


def test_a_certificate_of_an_authority_of_ones_own_is_trusted_only_when_it_is_named(box: Box, tmp_path: Path) -> None:
    chain, key = certificate(tmp_path)
    with FakeSearxng((chain, key)) as searxng:
        box.use(searxng.url)
        host = box.host()
        host.initialize()
        refused = host.search("x")
        assert refused["code"] == "certificate" and "searxng.ca_file" in refused["message"]
        assert searxng.requests == []
        box.configure(f'[searxng]\nurl = "{searxng.url}"\nca_file = "{chain}"\n')
        assert titles(host.search("x")) == ["Result 1", "Result 2", "Result 3"]
        box.configure(f'[searxng]\nurl = "{searxng.url}"\nca_file = "{tmp_path / "gone.pem"}"\n')
        assert host.search("y")["code"] == "ca_file"


@pytest.mark.parametrize("url", ["localhost:8888", "http://u:p@h", "http://h/?q=1", ""])
def test_every_further_instance_must_be_a_base_address(box: Box, url: str) -> None:
    box.configure(f'[searxng]\nurls = ["{url}"]\n')
    host = box.host()
    host.initialize()
    refused = host.search("x")
    assert refused["code"] == "config_error" and "searxng.urls" in refused["message"]
