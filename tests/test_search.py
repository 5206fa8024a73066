"""web_search as a host sees it: a real pipe and gate, and a loopback SearXNG on good and bad days."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from box import Box, Host, a_box
from fake_searxng import FakeSearxng, Reply, answer, result, zipped

from sparkgate.policy.samples import fill
from sparkgate.searxng_html import read_results

TOKEN = fill("hf_{mixed:34}")
NUMBERS = count()
HTML = "text/html; charset=utf-8"


@pytest.fixture(scope="module")
def opened() -> Iterator[tuple[Box, FakeSearxng, Host]]:
    """One gate for the tests of this file that leave it as they found it."""
    with a_box() as box, FakeSearxng() as searxng:
        box.use(searxng.url)
        host = box.host()
        host.initialize()
        yield box, searxng, host


@pytest.fixture
def searxng(opened: tuple[Box, FakeSearxng, Host]) -> FakeSearxng:
    opened[1].reset()
    return opened[1]


@pytest.fixture
def box(opened: tuple[Box, FakeSearxng, Host]) -> Iterator[Box]:
    """The shared box; rows of earlier tests do not count."""
    opened[0].forget_rows()
    yield opened[0]
    (opened[0].config.parent / "terms.toml").unlink(missing_ok=True)


@pytest.fixture
def host(opened: tuple[Box, FakeSearxng, Host], box: Box, searxng: FakeSearxng) -> Host:
    return opened[2]


@pytest.fixture
def unseen(host: Host, box: Box, searxng: FakeSearxng) -> Iterator[Host]:
    """The host with an instance of which nothing is remembered, neither before nor after."""
    box.use(f"{searxng.url}/unseen{next(NUMBERS)}")
    yield host
    box.use(searxng.url)


@pytest.fixture
def own_box() -> Iterator[Box]:
    """A box for a test that needs another configuration, or ends its gate."""
    with a_box() as made:
        yield made


# -- what leaves


def test_a_clean_query_leaves_as_it_is_by_post(host: Host, box: Box, searxng: FakeSearxng) -> None:
    host.search('C++ std::span vs gsl::span 100% "quoted" ÄÖ')
    sent = searxng.requests[0]
    assert sent["method"] == "POST" and sent["path"] == "/search"
    assert sent["form"] == {
        "q": "C++ std::span vs gsl::span 100% \"quoted\" ÄÖ", "format": "json", "pageno": "1", "safesearch": "0",
    }  # fmt: skip
    row = box.rows()[0]
    assert {"q": row["sent"], **row["fields"]} == sent["form"]


def test_a_query_with_a_secret_never_leaves(host: Host, box: Box, searxng: FakeSearxng) -> None:
    refused = host.search(f"why does {TOKEN} give 401")
    assert (refused["ok"], refused["code"], refused["rules"]) == (False, "blocked", ["huggingface-token"])
    assert searxng.requests == []
    assert box.rows()[0]["verdict"] == "block" and box.rows()[0]["sent"] == ""
    everything = b"".join(path.read_bytes() for path in box.root.rglob("*") if path.is_file())
    assert TOKEN.encode() not in everything and TOKEN not in json.dumps(refused)


def test_a_home_path_is_replaced_and_the_answer_says_so(host: Host, box: Box, searxng: FakeSearxng) -> None:
    shown = host.search("FileNotFoundError /home/jane/secret-project/run.py torch")
    assert searxng.queries() == [box.rows()[0]["sent"]] == [shown["query"]]
    assert "jane" not in shown["query"] and "secret-project" not in shown["query"]
    assert shown["query"].startswith("FileNotFoundError") and shown["query"].endswith("torch")
    assert any("home" in change for change in shown["policy"])


def test_an_external_bang_is_refused_and_other_syntax_is_defused(host: Host, searxng: FakeSearxng) -> None:
    assert host.search("roadmap !!g")["rules"] == ["searxng-external-bang"]
    assert host.search("roadmap \u200b!!g")["code"] == "blocked"
    assert searxng.requests == []
    shown = host.search("ship it !wow :wq <3")
    assert searxng.queries() == ['ship it wow ":wq" "<3"']
    assert len(shown["policy"]) == 3


def test_all_arguments_reach_searxng(host: Host, searxng: FakeSearxng) -> None:
    host.search(
        "x", page=3, time_range="week", language="pt_br", safesearch="strict", engines=["ALPHA", "beta news"],
        categories="IT",
    )  # fmt: skip
    assert searxng.requests[0]["path"] == "/config"
    assert searxng.requests[1]["form"] == {
        "q": "x", "format": "json", "pageno": "3", "language": "pt-BR", "time_range": "week", "safesearch": "2",
        "engines": "alpha,Beta News", "categories": "it",
    }  # fmt: skip


def test_names_that_this_searxng_does_not_have_send_nothing_to_its_default_engines(
    host: Host, searxng: FakeSearxng
) -> None:
    refused = host.search("x", engines=["alpha", "google"])
    assert refused["code"] == "unknown_engines" and "It has alpha, Beta News." in refused["message"]
    assert host.search("x", categories=["social media"])["code"] == "unknown_engines"
    assert searxng.queries() == []


def test_a_secret_in_any_other_argument_does_not_leave_either(host: Host, searxng: FakeSearxng) -> None:
    searxng.config["engines"] = [{"name": TOKEN}]
    assert host.search("x", engines=[TOKEN])["code"] == "blocked"
    assert host.search("x", language=TOKEN)["code"] == "invalid_argument"
    assert host.search("x", time_range=TOKEN)["code"] == "invalid_argument"
    assert searxng.queries() == []


def test_headers_name_us_and_forge_nothing(host: Host, searxng: FakeSearxng) -> None:
    host.search("x")
    headers = searxng.requests[0]["headers"]
    assert headers["User-Agent"].startswith("sparkgate/") and "text/html" in headers["Accept"]
    assert not any(name.lower().startswith(("x-forwarded", "x-real", "cookie", "referer")) for name in headers)


def test_get_is_used_only_where_the_operator_allows_it(own_box: Box, searxng: FakeSearxng) -> None:
    own_box.use(searxng.url)
    host = own_box.host()
    host.initialize()
    searxng.reply = Reply(405, "text/html", b"")
    refused = host.search("one two")
    assert refused["code"] == "post_refused" and "searxng.allow_get = true" in refused["message"]
    assert [request["method"] for request in searxng.requests] == ["POST"]
    own_box.configure(f'[searxng]\nurl = "{searxng.url}"\nallow_get = true\n')
    searxng.get_reply = answer(result(7))
    assert [one["title"] for one in host.search("one two")["results"]] == ["Result 7"]
    assert searxng.requests[-1]["method"] == "GET" and searxng.queries()[-1] == "one two"
    assert host.search("cat /home/jane/x.py")["query"] == searxng.queries()[-1] == "cat [home path]/x.py"


def test_a_base_path_of_searxng_is_kept(own_box: Box, searxng: FakeSearxng) -> None:
    own_box.use(f"{searxng.url}/sx/")
    host = own_box.host()
    host.initialize()
    assert host.search("x")["ok"] and searxng.requests[0]["path"] == "/sx/search"


# -- what comes back


def test_an_answer_has_everything_searxng_knows_and_nothing_empty(host: Host, searxng: FakeSearxng) -> None:
    searxng.reply = answer(
        result(1, publishedDate="2026-01-02T00:00:00", engines=["beta", "alpha"]),
        answers=[{"answer": "42", "url": None}, "an older shape"],
        infoboxes=[{"infobox": "Python", "content": "A language.", "urls": [{"title": "W", "url": "https://w.example"}],
                    "attributes": [{"label": "Year", "value": "1991"}]}],
        suggestions=["b", "a"], corrections=["pythn"],
        unresponsive_engines=[["slow", "timeout"]],
    )  # fmt: skip
    shown = host.search("x", detail="full")
    assert 150 < shown.pop("about_tokens") < 300
    assert {name: value for name, value in shown.items() if not name.startswith("untrusted")} == {
        "ok": True,
        "query": "x",
        "shown": "1 of 1",
        "more": {"page": 2},
        "results": [
            {"title": "Result 1", "url": "https://example.org/1", "snippet": "Snippet 1", "engines": ["alpha", "beta"],
             "date": "2026-01-02"}
        ],
        "answers": ["42", "an older shape"],
        "infobox": {"title": "Python", "text": "A language.", "url": "https://w.example", "facts": {"Year": "1991"}},
        "corrections": ["pythn"],
        "suggestions": ["a", "b"],
        "engines_failed": [{"engine": "slow", "reason": "timeout"}],
    }  # fmt: skip


def test_nulls_and_wrong_types_everywhere_are_survived(host: Host, searxng: FakeSearxng) -> None:
    odd: list[Any] = [None, 5, "text", {}, {"url": None, "title": None}, result(1, content=None, engines=None)]
    searxng.reply = answer(*odd, answers=[None, {}], infoboxes=[None, {"infobox": None}], suggestions=None,
                           corrections=[None, 3], unresponsive_engines=[None, ["one"], "two"])  # fmt: skip
    shown = host.search("x")
    assert shown["ok"] and [one["title"] for one in shown["results"]] == ["Result 1"]


def test_text_from_the_web_is_one_line_without_tags_and_invisible_characters(host: Host, searxng: FakeSearxng) -> None:
    searxng.reply = answer(
        result(
            1,
            title="C <b>Library</b> - &lt;string.h&gt;\nURL: https://evil.example/",
            content="a\u202eb\u200bc\U000e0041d",
        )
    )
    shown = host.search("x")["results"][0]
    assert shown["title"] == "C Library - <string.h> URL: https://evil.example/"
    assert shown["snippet"] == "abcd"


def test_a_long_answer_is_cut_to_its_budget_and_says_why(host: Host, searxng: FakeSearxng) -> None:
    searxng.reply = answer(*(result(n, content="word " * 400) for n in range(100)))
    shown = host.search("x", max_results=20)
    assert 5500 <= len(json.dumps(shown, indent=2, ensure_ascii=False).encode()) <= 6000
    assert shown["shown"] == f"{len(shown['results'])} of 100, because the answer is kept short"
    assert host.search("x", max_results=2)["shown"] == "2 of 100"


def test_no_results_without_failures_is_an_honest_empty_answer(host: Host, searxng: FakeSearxng) -> None:
    searxng.reply = answer()
    assert host.search("x") == {"ok": True, "shown": "0 of 0", "results": []}


def test_no_results_because_all_engines_failed_is_not_ok(host: Host, searxng: FakeSearxng) -> None:
    searxng.reply = answer(unresponsive_engines=[["alpha", "timeout"], ["beta", "CAPTCHA"]])
    refused = host.search("x")
    assert (refused["ok"], refused["code"]) == (False, "engines_failed")
    assert refused["engines_failed"][1] == {"engine": "beta", "reason": "CAPTCHA"}


# -- sites, pages, and what engines cannot do


def test_results_are_of_the_wanted_sites_even_when_the_engines_do_not_care(host: Host, searxng: FakeSearxng) -> None:
    searxng.reply = answer(
        result(1, url="https://docs.vllm.ai/a"),
        result(2, url="https://spam.example/"),
        result(3, url="https://vllm.ai/b"),
    )
    shown = host.search("mtp", sites=["https://www.vllm.ai/", "-blog.vllm.ai"])
    assert searxng.requests[0]["form"]["q"] == "mtp site:vllm.ai -site:blog.vllm.ai"
    assert [one["url"] for one in shown["results"]] == ["https://docs.vllm.ai/a", "https://vllm.ai/b"]
    assert shown["shown"] == "2 of 2 (1 more were the same page, or of other sites)"


def test_several_sites_are_asked_for_together(host: Host, searxng: FakeSearxng) -> None:
    host.search("mtp", sites=["vllm.ai", "sglang.ai"])
    assert searxng.requests[0]["form"]["q"] == "mtp (site:vllm.ai OR site:sglang.ai)"


@pytest.mark.parametrize("site", ["localhost", "a b.example", "x.example/secret", "-", "a..example", "user@a.example"])
def test_what_is_no_host_name_is_refused_before_anything_is_sent(host: Host, searxng: FakeSearxng, site: str) -> None:
    refused = host.search("mtp", sites=[site])
    assert (refused["ok"], refused["code"]) == (False, "bad_site")
    assert searxng.requests == []


def test_a_site_passes_the_policy_as_every_word_does(host: Host, searxng: FakeSearxng, box: Box) -> None:
    host.search("mtp", sites=["wiki.alder.internal"])
    assert "alder" not in searxng.requests[0]["form"]["q"]
    assert box.rows()[0]["verdict"] == "redact"


def test_what_the_named_engines_cannot_do_is_said(host: Host, searxng: FakeSearxng) -> None:
    able = {"paging": True, "time_range_support": True, "categories": ["general"], "enabled": True}
    searxng.config["engines"] = [
        {"name": "alpha", **able, "paging": False},
        {"name": "beta", **able, "time_range_support": False},
    ]
    shown = host.search("x", engines=["alpha", "beta"], page=2)
    assert shown["notes"] == ["alpha has no further pages, and is not asked"]
    searxng.reply = answer(result(1, engines=["beta", "gamma"]))
    shown = host.search("x", engines=["beta"], time_range="week")
    assert shown["notes"] == [
        "beta cannot filter by time, and is not asked",
        "engines that were not named have answered: gamma",
    ]


def test_the_same_page_is_shown_once(host: Host, searxng: FakeSearxng) -> None:
    searxng.reply = answer(
        result(1, url="https://a.example/p?utm_source=x"), result(2, url="http://www.a.example/p/", engines=["beta"])
    )
    shown = host.search("x", detail="full")
    assert [one["engines"] for one in shown["results"]] == [["alpha", "beta"]]
    assert shown["shown"] == "1 of 1 (1 more were the same page, or of other sites)"


def test_full_detail_shows_more_of_each_result(host: Host, searxng: FakeSearxng) -> None:
    searxng.reply = answer(*(result(number, content="long words " * 90) for number in range(20)))
    brief = host.search("x", max_results=20)
    full = host.search("x", max_results=20, detail="full")
    assert len(full["results"][0]["snippet"]) > 3 * len(brief["results"][0]["snippet"])
    assert full["results"][0]["engines"] == ["alpha"] and "engines" not in brief["results"][0]
    assert full["query"] == "x" and "query" not in brief
    assert full["about_tokens"] > 2000 and "about_tokens" not in brief
    assert len(json.dumps(full, ensure_ascii=False, indent=2).encode()) <= 20_400


# -- what follows


def test_what_was_left_out_is_shown_on_request_and_then_comes_the_next_page(host: Host, searxng: FakeSearxng) -> None:
    searxng.reply = answer(*(result(number) for number in range(1, 8)))
    first = host.search("x", max_results=3)
    assert first["more"] == {"start": 4}
    second = host.search("x", max_results=3, **first["more"])
    assert [one["title"] for one in second["results"]] == ["Result 4", "Result 5", "Result 6"]
    assert second["shown"] == "4 to 6 of 7" and second["more"] == {"start": 7}
    third = host.search("x", max_results=3, **second["more"])
    assert third["shown"] == "7 to 7 of 7" and third["more"] == {"page": 2}
    host.search("x", **third["more"])
    assert [request["form"]["pageno"] for request in searxng.requests] == ["1", "1", "1", "2"]


def test_what_does_not_fit_can_be_reached_without_asking_again(own_box: Box, searxng: FakeSearxng) -> None:
    own_box.configure(f'[searxng]\nurl = "{searxng.url}"\n')
    host = own_box.host()
    host.initialize()
    searxng.reply = answer(*(result(number, content="word " * 400) for number in range(1, 31)))
    seen, more = [], {"start": 1}
    while "start" in more:
        shown = host.search("x", max_results=20, **more)
        assert len(json.dumps(shown, indent=2, ensure_ascii=False).encode()) <= 6000
        seen += [one["title"] for one in shown["results"]]
        more = shown["more"]
    assert seen == [f"Result {number}" for number in range(1, 31)] and more == {"page": 2}
    assert len(searxng.requests) == 1


def test_past_the_last_result_there_is_only_the_next_page_and_past_the_last_page_nothing(
    host: Host, searxng: FakeSearxng
) -> None:
    assert host.search("x", start=9)["shown"] == "0 of 3"
    assert host.search("x", start=9)["more"] == {"page": 2}
    assert "more" not in host.search("x", page=50)
    searxng.reply = answer()
    assert "more" not in host.search("x", page=2)


# -- the web page instead of JSON

PAGE = """<!DOCTYPE html><html><body class="results_endpoint"><form id="search"></form>
<div id="results"><div id="answers"><h4 class="title">Answers</h4>
<div class="answer"><span>42 is it</span><a href="https://why.example" class="answer-url">why.example</a></div></div>
<div id="sidebar"><div id="suggestions"><ul><li><form><input type="hidden" name="q" value="no">
<input type="submit" class="suggestion" value="&bull; zebra facts"></form></li></ul></div>
<div id="engines_msg"><table><tr><td class="engine-name"><a href="/stats?engine=slow">slow</a></td>
<td class="response-error">timeout</td></tr></table></div></div>
<div id="urls" role="main"><article class="result result-default category-general">
<a href="https://one.example/?a=1&amp;b=2" class="url_header"><div class="url_wrapper">
<span class="url_o1">https://one.example</span></div></a>
<h3><a href="https://one.example/?a=1&amp;b=2">The <span class="highlight">zebra</span> &lt;stdio.h&gt;</a></h3>
<time class="published_date" datetime="2026-01-02 00:00:00+0000">Jan 2</time>
<p class="content">A <span class="highlight">zebra</span>
is striped.</p><div class="engines"><span>alpha</span><span>beta</span><svg><path d="x"/></svg>
<a href="https://web.archive.org/x" class="cache_link">cached</a></div></article>
<article class="result result-default"><a href="javascript:x" class="url_header"></a>
<h3><a href="javascript:x">Bad</a></h3>
<p class="content empty_element">No description.</p></article></div></div></body></html>"""


def test_where_json_is_off_the_web_page_is_read_only_when_the_operator_wants_it(
    own_box: Box, searxng: FakeSearxng
) -> None:
    own_box.use(searxng.url)
    host = own_box.host()
    host.initialize()
    searxng.reply, searxng.page = Reply(403, HTML, b""), Reply(200, HTML, PAGE.encode())
    assert host.search("zebra")["code"] == "json_disabled"
    own_box.configure(f'[searxng]\nurl = "{searxng.url}"\nhtml_fallback = true\n')
    shown = host.search("zebra /home/jane/x.py", time_range="week")
    assert searxng.requests[-1]["form"] == {
        "q": "zebra [home path]/x.py", "pageno": "1", "safesearch": "0", "time_range": "week",
    }  # fmt: skip
    assert shown["results"][0] == {
        "title": "The zebra <stdio.h>", "url": "https://one.example/?a=1&b=2", "snippet": "A zebra is striped.",
        "date": "2026-01-02",
    }  # fmt: skip
    assert "url" not in shown["results"][1] and shown["answers"] == ["42 is it"]
    assert shown["suggestions"] == ["zebra facts"]
    assert shown["engines_failed"] == [{"engine": "slow", "reason": "timeout"}]
    assert any(note.startswith("degraded") for note in shown["notes"])
    assert [row["outcome"] for row in own_box.rows()] == ["answered"] * 3


def test_another_page_than_that_of_results_is_no_answer(own_box: Box, searxng: FakeSearxng) -> None:
    own_box.configure(f'[searxng]\nurl = "{searxng.url}"\nhtml_fallback = true\n')
    host = own_box.host()
    host.initialize()
    searxng.reply = Reply(403, HTML, b"")
    for page, code in ((b"<p>hi", "wrong_content_type"), (b'<input type="password">', "login_page")):
        searxng.page = Reply(200, HTML, page)
        assert host.search("zebra")["code"] == code
    searxng.page = Reply(429, HTML, b"")
    assert host.search("zebra")["code"] == "rate_limited"


def test_a_page_that_is_all_tags_is_read_to_its_bound() -> None:
    for tags in ("<div>", "<span><article class='result'>", "</div>", "<td class='response-error'>x", "<p "):
        found = read_results(b'<div id="results">' + tags.encode() * 300_000)
        assert found is not None and len(found["results"]) <= 100


# -- bad days of SearXNG

BAD_DAYS: list[tuple[str, Reply, list[str]]] = [
    ("json_disabled", Reply(403, HTML, b"<h1>Forbidden</h1>"), ["search:", "formats: [html, json]"]),
    ("rate_limited", Reply(429, "text/plain", b"Too Many Requests"), ["limiter: false"]),
    ("login_page", Reply(302, HTML, b"", {"Location": "https://sso.corp.example/login?rd=x"}), ["login page"]),
    ("login_page", Reply(200, HTML, b'<form><input type="password"></form>'), ["login page"]),
    ("login_page", Reply(302, HTML, b"", {"Location": "/oauth2/start?rd=%2Fsearch"}), ["login page"]),
    ("login_page", Reply(200, HTML, b"<title>Sign in - Corp SSO</title>"), ["login page"]),
    ("login_page", Reply(200, HTML, b'<form id="k" action="https://sso.corp.example/saml?x=1">'), ["login page"]),
    ("login_required", Reply(401, HTML, b""), ["searxng.auth_file"]),
    ("login_required", Reply(407, HTML, b""), ["searxng.auth_file"]),
    ("proxy_refused", Reply(403, HTML, b"<center>403 Forbidden</center><hr><center>nginx</center>"), ["A proxy"]),
    ("proxy_refused", Reply(403, HTML, b'<input type="password">'), ["A proxy"]),
    ("limiter", Reply(302, HTML, b"", {"Location": "/"}), ["limiter: false"]),
    ("redirected", Reply(302, HTML, b"", {"Location": "/" * 9}), ["another path of the same host"]),
    ("server_error", Reply(304, HTML, b""), ["304"]),
    ("server_error", Reply(302, HTML, b""), ["302"]),
    ("blocked_address", Reply(429, "text/plain", b"IP is on BLOCKLIST"), ["block_ip"]),
    ("server_error", Reply(503, HTML, b"", {"Retry-After": "7"}), ["503"]),
    ("redirected", Reply(302, HTML, b"", {"Location": "https://other.example/find?q=zebracorn"}), ["other.example"]),
    ("wrong_content_type", Reply(200, HTML, b"<html>hi</html>"), ["instead of JSON"]),
    ("not_found", Reply(404, HTML, b""), ["404"]),
    ("bad_request", Reply(400, "application/json", b'{"error":"x"}'), ["400"]),
    ("server_error", Reply(500, "application/json", b'{"error":"search error"}'), ["500"]),
    ("server_error", Reply(418, HTML, b""), ["418"]),
    ("invalid_answer", Reply(200, "application/json", b"{"), ["not the JSON"]),
    ("invalid_answer", Reply(200, "application/json", b"[1]"), ["not the JSON"]),
    ("invalid_answer", Reply(200, "application/json", b"[" * 100_000), ["not the JSON"]),
    ("invalid_answer", zipped(answer(result(1)), cut=40), ["not the JSON"]),
    ("too_large", zipped(Reply(body=b"0" * 50_000_000)), ["max_answer_bytes"]),
    ("too_large", Reply(body=b"0" * 5_000_000), ["max_answer_bytes"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "reply", "words"), BAD_DAYS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_each_bad_answer_has_its_own_code_and_says_what_to_do(
    unseen: Host, searxng: FakeSearxng, code: str, reply: Reply, words: list[str]
) -> None:
    searxng.reply = reply
    refused = unseen.search("zebracorn")
    assert (refused["ok"], refused["code"]) == (False, code)
    assert all(word in refused["message"] for word in words)
    assert "zebracorn" not in refused["message"]
    assert len(searxng.requests) == 1


def test_a_gzipped_answer_is_read(host: Host, searxng: FakeSearxng) -> None:
    searxng.reply = zipped(answer(result(1)))
    assert host.search("x")["shown"] == "1 of 1"


def test_a_redirect_is_never_followed(host: Host, searxng: FakeSearxng) -> None:
    with FakeSearxng() as third_party:
        searxng.reply = Reply(302, HTML, b"", {"Location": f"{third_party.url}/search?q=x"})
        host.search("x")
        assert third_party.requests == []


def test_a_searxng_that_is_down_is_named_with_the_way_out(own_box: Box) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    own_box.use(f"http://127.0.0.1:{port}")
    host = own_box.host()
    host.initialize()
    refused = host.search("x")
    assert refused["code"] == "connection_refused"
    assert f"127.0.0.1:{port}" in refused["message"] and "sparkgate searxng up" in refused["message"]
    assert own_box.rows()[0]["outcome"] == "connect"


def test_a_searxng_that_never_answers_is_given_up(own_box: Box, searxng: FakeSearxng) -> None:
    own_box.configure(f'[searxng]\nurl = "{searxng.url}"\ntimeout_s = 3\n')
    host = own_box.host()
    host.initialize()
    searxng.hold.clear()
    assert host.search("x")["code"] == "timeout"
    searxng.wait_for_hang_up()
    assert own_box.rows()[0]["outcome"] == "timeout"


def test_without_any_searxng_the_answer_says_how_to_get_one(own_box: Box) -> None:
    host = own_box.host()
    host.initialize()
    refused = host.search("x")
    assert refused["code"] == "not_configured" and "sparkgate searxng up" in refused["message"]


def test_a_recorded_searxng_that_no_longer_runs_is_not_asked(own_box: Box, searxng: FakeSearxng) -> None:
    """After a reboot, the port may belong to somebody else."""
    record = {"url": searxng.url, "source": "pinned", "pid": 1, "birth": "another boot/5"}
    (own_box.state / "searxng").mkdir(parents=True)
    (own_box.state / "searxng" / "instance.json").write_text(json.dumps(record))
    host = own_box.host()
    host.initialize()
    assert host.search("x")["code"] == "not_configured"
    (own_box.state / "searxng" / "instance.json").write_text(json.dumps(record | {"source": searxng.url}))
    assert host.search("x")["ok"]


def test_cancelling_a_call_closes_the_connection_to_searxng(own_box: Box, searxng: FakeSearxng) -> None:
    own_box.use(searxng.url)
    host = own_box.host()
    host.initialize()
    searxng.hold.clear()
    call = host.send("tools/call", {"name": "web_search", "arguments": {"query": "slow"}})
    searxng.wait_for_request()
    host.send("notifications/cancelled", {"requestId": call}, notify=True)
    searxng.wait_for_hang_up()
    host.send("notifications/cancelled", {"requestId": call}, notify=True)
    assert host.ask("ping")["result"] == {}
    own_box.command("gate", "stop")
    assert own_box.rows()[0]["outcome"] == "cancelled"


# -- the world around


@pytest.mark.parametrize(
    "environment",
    [
        {"HTTP_PROXY": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9"},
        {"ALL_PROXY": "socks5://127.0.0.1:9", "all_proxy": "socks://127.0.0.1:9"},
        {"NO_PROXY": "localhost,[::1],fd00::/8", "HTTP_PROXY": "http://127.0.0.1:9"},
    ],
    ids=["http", "socks", "ipv6"],
)
def test_whatever_the_environment_says_of_proxies_the_query_goes_to_searxng_itself(
    own_box: Box, searxng: FakeSearxng, environment: dict[str, str]
) -> None:
    own_box.use(searxng.url)
    host = own_box.host(**environment)
    host.initialize()
    assert host.search("x")["ok"] and len(searxng.requests) == 1


# -- bad input: a clear answer, and nothing is changed

BAD_INPUT: list[tuple[dict[str, Any] | None, str, str]] = [
    ({"query": ""}, "empty_query", "say what to search for"),
    ({"query": " \u3000 \x00"}, "empty_query", "say what to search for"),
    ({"query": "word " * 2048}, "query_too_long", "at most 2000"),
    (None, "missing_argument", "query is needed"),
    ({"query": None}, "missing_argument", "query is needed"),
    ({"query": ["a"]}, "invalid_argument", "query must be text"),
    ({"query": {"text": "a"}}, "invalid_argument", "query must be text"),
    ({"query": "x", "max_results": "many"}, "invalid_argument", "max_results must be a whole number"),
    ({"query": "x", "max_results": True}, "invalid_argument", "max_results must be a whole number"),
    ({"query": "x", "max_results": "1e999"}, "invalid_argument", "max_results must be a whole number"),
    ({"query": "x", "max_results": 50}, "invalid_argument", "between 1 and 20"),
    ({"query": "x", "page": 0}, "invalid_argument", "between 1 and 50"),
    ({"query": "x", "time_range": "hour"}, "invalid_argument", "day, week, month, year"),
    ({"query": "x", "language": "Klingon!"}, "invalid_argument", "pt-BR"),
    ({"query": "x", "language": "pas-SW"}, "invalid_argument", "pt-BR"),
    ({"query": "x", "language": "de-deu"}, "invalid_argument", "pt-BR"),
    ({"query": "x", "language": "zh-Hans-CN-x"}, "invalid_argument", "pt-BR"),
    ({"query": "x", "language": "all-US"}, "invalid_argument", "pt-BR"),
    ({"query": "x", "start": 0}, "invalid_argument", "between 1 and 200"),
    ({"query": "x", "engines": [1]}, "invalid_argument", "a list of names"),
    ({"query": "x", "max_result": 3}, "unknown_argument", "did you mean 'max_results'"),
    ({"query": "x", TOKEN: 3}, "unknown_argument", "no argument of that name"),
]


@pytest.mark.parametrize(("arguments", "code", "words"), BAD_INPUT)
def test_bad_input_gets_a_clear_answer_and_changes_nothing(
    host: Host, box: Box, searxng: FakeSearxng, arguments: dict[str, Any] | None, code: str, words: str
) -> None:
    refused = host.call("web_search", arguments)
    assert (refused["ok"], refused["code"]) == (False, code)
    assert words in refused["message"] and TOKEN not in refused["message"]
    assert searxng.requests == [] and box.rows() == []


@pytest.mark.parametrize("max_results", ["2", 2.0, "2.0"])
def test_numbers_in_any_shape_are_taken(host: Host, max_results: object) -> None:
    assert len(host.search("x", max_results=max_results)["results"]) == 2


@pytest.mark.parametrize(("given", "sent"), [(0, "0"), ("1", "1"), (2, "2"), ("Strict", "2"), ("off", "0")])
def test_safesearch_is_understood_in_words_and_numbers(
    host: Host, searxng: FakeSearxng, given: object, sent: str
) -> None:
    host.search("x", safesearch=given)
    assert searxng.requests[0]["form"]["safesearch"] == sent


@pytest.mark.parametrize(
    ("arguments", "ok"), [('{"query": "x"}', True), ("x", False), (["x"], False), (5, False), ('["x"]', False)]
)
def test_arguments_that_are_no_object_are_understood_or_explained(host: Host, arguments: object, ok: bool) -> None:
    answer = host.call("web_search", arguments)
    assert answer["ok"] is ok and (ok or "an object with query" in answer["message"])


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("zh-Hans", "zh"), ("zh-Hans-CN", "zh-CN"), ("sr_Latn_RS", "sr-RS"), ("German", "de"), ("chinese", "zh"),
        ("EN", "en"), ("en_us", "en-US"), ("auto", "auto"), (" all ", "all"), ("Fil-ph", "fil-PH"),
    ],
)  # fmt: skip
def test_a_language_is_sent_as_searxng_takes_it(host: Host, searxng: FakeSearxng, given: str, sent: str) -> None:
    host.search("x", language=given)
    assert searxng.requests[0]["form"]["language"] == sent


@pytest.mark.parametrize("nothing", [None, "", "null"])
def test_an_optional_argument_without_a_value_means_its_default(host: Host, nothing: object) -> None:
    names = ("max_results", "page", "time_range", "language", "categories", "engines", "safesearch")
    assert host.search("x", **dict.fromkeys(names, nothing))["ok"]


def test_a_nul_in_a_query_becomes_a_space(host: Host, searxng: FakeSearxng) -> None:
    host.search("one\x00two")
    assert searxng.queries() == ["one two"]


def test_an_unknown_tool_is_answered_with_those_there_are(host: Host) -> None:
    refused = host.call("open_page", {"url": "x"})
    assert refused["code"] == "unknown_tool" and "web_search" in refused["message"]


def test_a_setting_with_a_typo_refuses_every_call_until_it_is_mended(own_box: Box, searxng: FakeSearxng) -> None:
    own_box.configure(f'[searxng]\nurll = "{searxng.url}"\n')
    host = own_box.host()
    assert host.initialize()["serverInfo"]["name"] == "sparksearch"
    refused = host.search("x")
    assert refused["code"] == "config_error"
    assert f"{own_box.config}:2: searxng.urll" in refused["message"] and "did you mean 'url'" in refused["message"]
    own_box.use(searxng.url)
    assert host.search("x")["ok"]


def test_a_broken_rule_file_of_the_operator_refuses_every_call(own_box: Box, searxng: FakeSearxng) -> None:
    own_box.use(searxng.url)
    rules = own_box.config.parent / "rules"
    rules.mkdir()
    (rules / "mine.toml").write_text('[[rule]]\nid = "x"\n')
    host = own_box.host()
    host.initialize()
    refused = host.search("x")
    assert refused["code"] == "policy_error" and "mine.toml" in refused["message"]
    assert searxng.requests == []


def test_a_rule_file_that_breaks_later_leaves_the_last_good_policy_in_force_and_every_answer_says_so(
    own_box: Box, searxng: FakeSearxng
) -> None:
    own_box.use(searxng.url)
    terms = own_box.config.parent / "terms.toml"
    terms.write_text('[[term]]\nname = "Globex"\n')
    host = own_box.host()
    host.initialize()
    assert "warning" not in host.search("vllm")
    terms.write_text("[[term]]\nnam = 5\n")
    answers = [host.search("globex outage"), host.search("again")]
    assert searxng.queries()[1:] == ["[name] outage", "again"]
    assert all(answer["ok"] and "terms.toml" in answer["warning"] for answer in answers)
    [told] = [row for row in own_box.rows() if row["tool"] == "policy_load"]
    assert "terms.toml" in told["fields"]["fault"] and told["verdict"] == "block" and told["sent"] == ""
    terms.write_text('[[term]]\nname = "Initech"\n')
    assert "warning" not in host.search("globex initech") and searxng.queries()[-1] == "globex [name]"


def test_a_term_of_the_operator_is_kept_from_the_next_query_on(host: Host, box: Box, searxng: FakeSearxng) -> None:
    host.search("Globex outage")
    (box.config.parent / "terms.toml").write_text('[[term]]\nname = "Globex"\n')
    host.search("globex outage")
    assert searxng.queries() == ["Globex outage", "[name] outage"]


def test_a_log_that_cannot_be_written_lets_nothing_leave(own_box: Box, searxng: FakeSearxng) -> None:
    own_box.use(searxng.url)
    own_box.state.mkdir(parents=True)
    (own_box.state / "audit.db").write_bytes(b"this is not a database, and long enough to be looked at " * 50)
    host = own_box.host()
    host.initialize()
    assert host.search("x")["code"] == "log_unavailable"
    assert searxng.requests == []


# -- what hosts need of the listing


def test_the_listing_is_small_flat_and_annotated(host: Host) -> None:
    tools = host.ask("tools/list")["result"]["tools"]
    assert [tool["name"] for tool in tools] == ["web_search", "read_page", "search_info", "outbound_log"]
    assert len(json.dumps(tools)) < 6000
    for tool in tools:
        assert set(tool["annotations"]) >= {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
        assert len(tool["name"]) <= 32
        for schema in tool["inputSchema"]["properties"].values():
            assert schema["type"] in ("string", "integer", "number", "boolean", "array")
            assert set(schema) <= {"type", "description", "default", "enum", "items"}


def test_the_lite_profile_lists_little_and_still_names_what_it_does_not_know(
    own_box: Box, searxng: FakeSearxng
) -> None:
    own_box.configure(f'[searxng]\nurl = "{searxng.url}"\n[search]\nlite = true\n')
    host = own_box.host()
    host.initialize()
    tools = host.ask("tools/list")["result"]["tools"]
    assert "web_search" in [tool["name"] for tool in tools] and len(json.dumps(tools)) <= 1536
    [search] = [tool for tool in tools if tool["name"] == "web_search"]
    assert len(json.dumps(search)) <= 800
    assert list(search["inputSchema"]["properties"]) == ["query", "page", "time_range"]
    assert all(len(tool["annotations"]) == 4 for tool in tools)
    assert host.search("x", page="2", time_range="day")["ok"]
    assert searxng.requests[0]["form"] == {
        "q": "x", "format": "json", "pageno": "2", "safesearch": "0", "time_range": "day",
    }  # fmt: skip
    assert host.search("x", engines=["alpha"])["code"] == "unknown_argument"


def test_prompts_and_resources_are_neither_offered_nor_answered(host: Host) -> None:
    for method in ("prompts/list", "resources/list", "resources/templates/list"):
        assert host.ask(method)["error"]["code"] == -32601
