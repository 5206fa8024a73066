"""The main job with nothing pretended: the stdio server, the gate, and a real SearXNG whose engines are on loopback."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from box import Box, Host, a_box
from real_searxng import Live, search, shared

from sparkgate.policy.samples import fill
from sparkgate.searxng_html import read_results


@pytest.fixture(scope="module")
def real() -> Iterator[tuple[Live, Box, Host]]:
    running = shared()
    with a_box() as box:
        box.use(running.url)
        host = box.host()
        host.initialize()
        yield running, box, host


def test_engines_receive_exactly_what_the_log_says_was_sent(real: tuple[Live, Box, Host]) -> None:
    running, box, host = real
    running.upstream.forget()
    token = fill("hf_{mixed:34}")
    clean = host.search("asyncio task group")
    redacted = host.search("error in /home/jane/secret/run.py torch")
    blocked = host.search(f"why does {token} fail")
    assert clean["ok"] and redacted["ok"] and not blocked["ok"]
    rows = box.rows()
    assert [row["verdict"] for row in rows] == ["allow", "redact", "block"]
    assert [row["outcome"] for row in rows] == ["answered", "answered", "withheld"]
    sent = [row["sent"] for row in rows if row["verdict"] != "block"]
    assert set(running.upstream.queries()) == set(sent)
    everything = str(running.upstream.requests)
    assert "jane" not in everything and token not in everything


def test_results_of_two_engines_are_merged_and_named(real: tuple[Live, Box, Host]) -> None:
    _, _, host = real
    answer = host.search("asyncio", max_results=10, detail="full")
    assert {name for one in answer["results"] for name in one["engines"]} >= {"alpha", "beta"}
    assert all(one["url"].startswith("http") and one["title"] for one in answer["results"])


def test_chosen_engines_are_the_ones_asked(real: tuple[Live, Box, Host]) -> None:
    _, _, host = real
    assert {tuple(one["engines"]) for one in host.search("asyncio", engines=["alpha"], detail="full")["results"]} == {
        ("alpha",)
    }
    assert host.search("asyncio", engines=["no such"])["code"] == "unknown_engines"


def test_engines_that_all_fail_are_named_with_their_reasons(real: tuple[Live, Box, Host]) -> None:
    _, _, host = real
    answer = host.search("asyncio", categories=["broken"])
    assert answer["code"] == "engines_failed"
    assert {one["engine"] for one in answer["engines_failed"]} and all(
        one["reason"] for one in answer["engines_failed"]
    )


def test_query_syntax_of_searxng_does_not_reach_it_alive(real: tuple[Live, Box, Host]) -> None:
    """An engine bang would leave out beta, a language word would vanish from the query."""
    running, _, host = real
    running.upstream.forget()
    answer = host.search("!alpha :fr heart <3", detail="full")
    assert set(running.upstream.queries()) == {'alpha ":fr" heart "<3"'} == {answer["query"]}
    assert {name for one in answer["results"] for name in one["engines"]} >= {"alpha", "beta"}


def test_a_long_query_works_as_it_is_posted(real: tuple[Live, Box, Host]) -> None:
    running, _, host = real
    running.upstream.forget()
    query = " ".join(f"word{n}" for n in range(240))
    assert host.search(query)["ok"]
    assert set(running.upstream.queries()) == {query}


def test_the_web_page_of_results_says_what_the_json_says() -> None:
    fields = {"q": "asyncio task group", "categories": "general,broken"}
    with httpx.Client(trust_env=False, timeout=10) as client:
        page = read_results(client.post(f"{shared().url}/search", data=fields).content)
    told = search(shared().url, **fields)
    assert page is not None
    for name in ("url", "title", "content"):
        assert sorted(one[name] for one in page["results"]) == sorted(one[name] for one in told["results"])
    assert [set(one["engines"]) for one in page["results"]] and page["unresponsive_engines"]
    assert sorted(page["suggestions"]) == sorted(told["suggestions"])
