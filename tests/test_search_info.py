"""search_info: what each instance can do and what stands in its way, found out without asking a search engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from box import Box, Host, a_box
from fake_searxng import FakeSearxng, Reply
from real_searxng import shared

HTML = "text/html; charset=utf-8"
WERKZEUG = (
    b"<!doctype html><html lang=en><title>403 Forbidden</title><h1>Forbidden</h1><p>You don't have the permission"
)


@pytest.fixture
def host(box: Box, searxng: FakeSearxng) -> Host:
    box.use(searxng.url)
    opened = box.host()
    opened.initialize()
    return opened


def engine(name: str, *categories: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "categories": list(categories),
        "enabled": True,
        "paging": True,
        "time_range_support": True,
        **more,
    }


def the_one(told: dict[str, Any]) -> dict[str, Any]:
    [instance] = told["instances"]
    return dict(instance)


def test_a_healthy_instance_is_told_with_what_its_engines_cannot_do(host: Host, searxng: FakeSearxng) -> None:
    more: dict[str, Any] = {"version": "2026.8.22", "limiter": {"enabled": False}}
    searxng.config |= more
    searxng.config["engines"] = [
        engine("alpha", "general"),
        engine("beta", "general", "it", paging=False, time_range_support=False),
        engine("off", "general", enabled=False),
    ]
    assert the_one(host.call("search_info", {})) == {
        "place": searxng.url,
        "reachable": True,
        "json": "on",
        "credentials_sent": False,
        "version": "2026.8.22",
        "limiter": "off",
        "categories": {"general": 2, "it": 1},
        "engines": ["alpha", "beta"],
        "no_pages": ["beta"],
        "no_time_range": ["beta"],
    }
    assert the_one(host.call("search_info", {"category": "IT"}))["engines"] == ["beta"]


def test_nothing_is_searched_for(host: Host, box: Box, searxng: FakeSearxng) -> None:
    host.call("search_info", {})
    assert searxng.queries() == []
    assert sorted((one["method"], one["path"], str(one["form"])) for one in searxng.requests) == [
        ("GET", "/config", "{}"),
        ("POST", "/search", "{'format': 'json'}"),
    ]
    assert [(row["tool"], row["sent"]) for row in box.rows()] == [("search_info", "")] * 2


DIAGNOSES: list[tuple[str, Reply, Reply | None]] = [
    ("json_disabled", Reply(403, HTML, WERKZEUG), None),
    ("proxy_refused", Reply(403, HTML, WERKZEUG), Reply(403, HTML, WERKZEUG)),
    ("proxy_refused", Reply(403, HTML, b"<hr><center>nginx</center>"), Reply(403, HTML, b"")),
    ("login_required", Reply(401, HTML, b""), Reply(401, HTML, b"")),
    ("rate_limited", Reply(429, HTML, b"Too Many Requests"), Reply(429, HTML, b"")),
    ("limiter", Reply(302, HTML, b"", {"Location": "/"}), None),
    ("login_page", Reply(302, HTML, b"", {"Location": "https://sso.example/login"}), None),
    ("login_page", Reply(200, HTML, b"<title>Log in</title>"), Reply(200, HTML, b"<title>Log in</title>")),
    ("wrong_content_type", Reply(200, HTML, b"<title>My blog</title>"), Reply(404, HTML, b"")),
    ("not_found", Reply(404, HTML, b""), Reply(404, HTML, b"")),
    ("post_refused", Reply(405, HTML, b""), None),
    ("server_error", Reply(500, HTML, b""), None),
]


@pytest.mark.parametrize(("code", "probe", "config"), DIAGNOSES)
def test_what_stands_in_the_way_is_told_apart(
    host: Host, searxng: FakeSearxng, code: str, probe: Reply, config: Reply | None
) -> None:
    searxng.probe, searxng.config_reply = probe, config
    told = the_one(host.call("search_info", {}))
    assert told["problem"]["code"] == code and searxng.url in told["problem"]["message"]
    assert told["reachable"] and told.get("json") == ("off" if code == "json_disabled" else None)


def test_an_instance_that_is_down_is_told_beside_one_that_answers(box: Box, searxng: FakeSearxng) -> None:
    box.configure(f'[searxng]\nurl = "http://127.0.0.1:1"\nurls = ["{searxng.url}"]\nper_minute = 8\n')
    host = box.host()
    host.initialize()
    host.search("x")
    down, up = host.call("search_info", {})["instances"]
    assert (down["reachable"], down["problem"]["code"]) == (False, "connection_refused")
    assert down["not_asked_now"].startswith("connection_refused, again in ")
    assert up["reachable"] and up["json"] == "on" and up["searches_left_now"] == 1


def test_credentials_are_told_as_there_or_not_and_never_shown(box: Box, searxng: FakeSearxng) -> None:
    path = box.root / "auth"
    path.write_text("* bearer zebracorn-of-the-cellar\n")
    path.chmod(0o600)
    box.configure(f'[searxng]\nurl = "{searxng.url}"\nauth_file = "{path}"\n')
    host = box.host()
    host.initialize()
    searxng.wanted_headers = {"Authorization": "Bearer zebracorn-of-the-cellar"}
    told = host.call("search_info", {})
    assert the_one(told)["credentials_sent"] and the_one(told)["json"] == "on"
    assert "zebracorn" not in json.dumps(told)


def test_an_instance_with_hundreds_of_engines_fits_and_says_how_many_there_are(
    host: Host, searxng: FakeSearxng
) -> None:
    kinds = [f"kind {number}" for number in range(40)]
    searxng.config = {
        "engines": [engine(f"an engine with a long name {n}", kinds[n % 40], paging=n % 2 == 0) for n in range(300)],
        "categories": kinds,
    }
    told = host.call("search_info", {})
    assert len(json.dumps(told, indent=2).encode()) <= 6000
    assert " of 300: an engine with a long name 0, " in the_one(told)["engines"]
    assert the_one(host.call("search_info", {"category": "kind 7"}))["no_pages"][0] == "an engine with a long name 7"


def test_eight_large_instances_fit_as_well(box: Box) -> None:
    with FakeSearxng() as searxng:
        searxng.config = {
            "engines": [engine(f"an engine with a long name {n}", f"kind {n % 40}", paging=False) for n in range(300)],
            "categories": [f"kind {n}" for n in range(40)],
        }
        urls = json.dumps([f"{searxng.url}/{n}" for n in range(9)])
        box.configure(f"[searxng]\nurls = {urls}\n")
        host = box.host()
        host.initialize()
        told = host.call("search_info", {})
        assert len(json.dumps(told, indent=2).encode()) <= 6000
        assert len(told["instances"]) == 8 and told["instances_left_out"] == 1


def test_odd_words_of_an_instance_are_survived(host: Host, searxng: FakeSearxng) -> None:
    odd: dict[str, Any] = {
        "version": None,
        "limiter": [],
        "categories": [5, None],
        "engines": [None, {"name": 5}, {"name": "a"}],
    }
    searxng.config = odd
    assert the_one(host.call("search_info", {}))["engines"] == ["a"]


def test_without_any_searxng_the_answer_says_how_to_get_one(box: Box) -> None:
    host = box.host()
    host.initialize()
    assert host.call("search_info", {})["code"] == "not_configured"


@pytest.fixture(scope="module")
def real() -> Iterator[Host]:
    with a_box() as box:
        box.use(shared().url)
        host = box.host()
        host.initialize()
        yield host


def test_a_real_searxng_is_understood_and_its_engines_are_not_asked(real: Host) -> None:
    shared().upstream.forget()
    told = the_one(real.call("search_info", {}))
    assert told["json"] == "on" and told["limiter"] == "off" and {"alpha", "beta"} <= set(told["engines"])
    assert shared().upstream.requests == []
