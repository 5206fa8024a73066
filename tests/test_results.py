"""What SearXNG found, as a model reads it: each kind of result with what matters of it, nothing twice."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from sparkgate.results import (
    KINDS,
    Shown,
    canonical,
    find_result,
    of_sites,
    plain,
    read_answer,
    read_infobox,
    without_twins,
)

RESULT = {"title": "T", "url": "https://a.example/1", "content": "S", "engine": "e", "engines": ["e"]}
TYPED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "paper": (
        {
            "template": "paper.html",
            "authors": ["A. One", "B. Two", "C. Three", "D. Four", "E. Five"],
            "journal": "J. Things",
            "doi": "10.1000/1",
            "pdf_url": "https://a.example/1.pdf",
            "comments": None,
        },
        {
            "kind": "paper",
            "authors": "A. One, B. Two, C. Three, D. Four and 1 more",
            "journal": "J. Things",
            "doi": "10.1000/1",
            "pdf": "https://a.example/1.pdf",
        },
    ),
    "code": (
        {
            "template": "code.html",
            "repository": "https://git.example/r",
            "filename": "a.py",
            "code_language": "python",
            "codelines": [[7, "def f(x):"], [8, "    return x <b>1</b>"], "odd", [9]],
        },
        {
            "kind": "code",
            "repository": "https://git.example/r",
            "file": "a.py",
            "language": "python",
            "code": "def f(x):\n    return x <b>1</b>",
        },
    ),
    "code of a guessed language": ({"template": "code.html", "code_language": "<guess>"}, {"kind": "code"}),
    "file": (
        {"template": "file.html", "filename": "a.iso", "size": "4 GB", "mimetype": "application/x-iso", "time": 5},
        {"kind": "file", "file": "a.iso", "size": "4 GB", "type": "application/x-iso"},
    ),
    "image": (
        {
            "template": "images.html",
            "img_src": "https://a.example/1.png",
            "resolution": "10 x 20",
            "thumbnail_src": "x",
        },
        {"kind": "image", "image": "https://a.example/1.png", "resolution": "10 x 20"},
    ),
    "image within the text": ({"template": "images.html", "img_src": "data:image/png;base64,AAAA"}, {"kind": "image"}),
    "video": (
        {"template": "videos.html", "length": 3725.0, "views": "1M", "author": "someone"},
        {"kind": "video", "length": "1:02:05", "views": "1M", "author": "someone"},
    ),
    "short video": ({"template": "videos.html", "length": "3:20"}, {"kind": "video", "length": "3:20"}),
    "torrent": (
        {"template": "torrent.html", "filesize": "1 GB", "seed": 5, "leech": 2, "magnetlink": "magnet:?xt=1"},
        {"kind": "torrent", "size": "1 GB", "seeders": "5", "leechers": "2"},
    ),
    "package": (
        {
            "template": "packages.html",
            "package_name": "p",
            "version": "1.2",
            "license_name": "MIT",
            "tags": ["a", None],
        },
        {"kind": "package", "package": "p", "version": "1.2", "license": "MIT", "tags": "a"},
    ),
    "product": ({"template": "products.html", "price": "5 €"}, {"kind": "product", "price": "5 €"}),
    "place": (
        {"template": "map.html", "latitude": 48.1, "longitude": 11.5},
        {"kind": "place", "latitude": "48.1", "longitude": "11.5"},
    ),
    "facts": (
        {"template": "keyvalue.html", "kvmap": {"a": 1, "b": None, "<b>c</b>": "x\ny"}},
        {"kind": "facts", "facts": {"a": "1", "b": "", "c": "x y"}},
    ),
    "plain": ({"template": "default.html"}, {}),
    "unknown": ({"template": "hologram.html", "depth": 3}, {}),
}


@pytest.mark.parametrize("name", TYPED)
def test_each_kind_of_result_has_what_matters_of_it(name: str) -> None:
    given, more = TYPED[name]
    base = {"title": "T", "url": "https://a.example/1", "snippet": "S", "engines": ["e"]}
    assert read_result(RESULT | given, 300) == base | more


def test_facts_without_title_and_address_are_a_result() -> None:
    found = read_result(
        {"template": "keyvalue.html", "url": None, "title": "", "kvmap": {"a": "b"}, "caption": "C"}, 300
    )
    assert found is not None and (found["title"], found["facts"]) == ("C", {"a": "b"})


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_that_a_field_may_hold_makes_reading_fail(kind: str) -> None:
    odd: list[Any] = [
        None,
        0,
        -1.5,
        float("nan"),
        True,
        "",
        "\u202e" * 9,
        [],
        [None, [1]],
        {},
        {"a": {}},
        "http://[",
        b"x",
    ]
    chance = random.Random(3)
    names = ["authors", "codelines", "kvmap", "length", "tags", "img_src", "doi", "pdf_url", "url", "title", "content"]
    for _ in range(300):
        item = {name: chance.choice(odd) for name in chance.sample(names, 8)} | {"template": f"{kind}.html"}
        read_result(item, 50)


ANSWERS = {
    "an object": ({"answer": "42", "url": None}, "42"),
    "a string, as before 2025": ("42", "42"),
    "nothing": (None, ""),
    "translations": (
        {
            "translations": [
                {"text": "Haus", "synonyms": ["Heim", "Bau"], "examples": ["mein Haus"]},
                {"text": "Hütte"},
                5,
            ]
        },
        "Haus (also: Heim, Bau) (as in: mein Haus); Hütte",
    ),
    "the weather": (
        {
            "current": {"summary": "Berlin: 12 °C, light rain"},
            "forecasts": [{"summary": "Berlin: 14 °C, fair", "datetime": "2026-12-01T12:00:00"}, None],
        },
        "Berlin: 12 °C, light rain. Then 2026-12-01T12:00 Berlin: 14 °C, fair",
    ),
    "the weather without a summary": (
        {"current": {"temperature": {"val": 12, "unit": "°C"}, "condition": "fog"}},
        "12 °C, fog",
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_told_in_words_whatever_kind_it_is(name: str) -> None:
    given, told = ANSWERS[name]
    assert read_answer(given, Counter()) == told


def test_an_infobox_without_anything_is_none() -> None:
    assert read_infobox({"infobox": None, "attributes": [None], "urls": "x"}) is None


@pytest.mark.parametrize(
    "other",
    [
        "http://a.example/p?b=2&a=1",
        "https://www.a.example/p/?a=1&b=2",
        "https://A.Example:443/p?a=1&b=2#part",
        "https://a.example./p?a=1&b=2&utm_source=x&UTM_medium=y",
        "https://a.example/p?a=1&fbclid=xyz&b=2&gclid=1",
    ],
)
def test_spellings_of_one_page_are_one_page(other: str) -> None:
    assert canonical(other) == canonical("https://a.example/p?a=1&b=2")


@pytest.mark.parametrize(
    "other",
    [
        "https://a.example/q?a=1&b=2",
        "https://a.example/p?a=1&b=3",
        "https://a.example:8443/p?a=1&b=2",
        "https://b.a.example/p?a=1&b=2",
        "https://a.example/p?a=1&b=2#!/part",
        "https://a.example:x/p",
    ],
)
def test_other_pages_stay_others(other: str) -> None:
    assert canonical(other) != canonical("https://a.example/p?a=1&b=2")


def test_a_page_is_shown_once_where_it_came_first_with_the_engines_of_all() -> None:
    results: list[dict[str, Any]] = [
        {"title": "1", "url": "https://a.example/p", "engines": ["x"]},
        {"title": "2", "url": "https://b.example/", "engines": ["x"]},
        {"title": "3", "url": "http://www.a.example/p/#top", "engines": ["y"]},
        {"title": "4"},
        {"title": "5"},
    ]
    found = without_twins(results)
    assert [(one["title"], one.get("engines")) for one in found] == [
        ("1", ["x", "y"]), ("2", ["x"]), ("4", None), ("5", None)
    ]  # fmt: skip


def test_only_results_of_the_wanted_sites_are_shown() -> None:
    results = [
        {"url": f"https://{host}/"} for host in ("docs.vllm.ai", "vllm.ai", "notvllm.ai", "a.example", "b.a.example")
    ]
    hosts = [
        one["url"][8:-1]
        for one in of_sites([*results, {"title": "no address"}], ("vllm.ai", "a.example"), ("b.a.example",))
    ]
    assert hosts == ["docs.vllm.ai", "vllm.ai", "a.example"]
    assert len(of_sites([*results, {"title": "no address"}], (), ("vllm.ai",))) == 4


def test_what_nobody_sees_is_out_of_every_field_and_counted_once() -> None:
    found = read_result({"title": "hi\u202e\u200b\U000e0041", "url": "https://a.example/", "content": "x\x00y"}, 50)
    assert found is not None and (found["title"], found["snippet"]) == ("hi", "xy")
    assert found.removed == Counter(
        {"bidi control": 1, "zero-width character": 1, "tag character": 1, "control character": 1}
    )


def test_half_a_surrogate_pair_is_replaced_and_an_end_of_a_line_is_a_blank() -> None:
    assert plain("bad \ud800") == "bad \ufffd"
    assert plain("x\nURL: https://evil.example/\u2028y\x85z") == "x URL: https://evil.example/ y z"


def test_lines_of_code_stay_lines_and_hide_nothing() -> None:
    item = {"template": "code.html", "title": "T", "codelines": [[1, "\tif x:\u202e"], [2, "\x1b[31my\nz"]]}
    found = read_result(item, 50)
    assert found is not None and found["code"] == "\tif x:\ny z"
    assert found.removed == Counter({"bidi control": 1, "terminal escape": 1})


def test_text_of_the_web_keeps_what_looks_like_a_tag_and_is_none() -> None:
    assert plain("#include &lt;string.h&gt; and <vector> of <b>T</b>") == "#include <string.h> and <vector> of T"


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("https://a.example/?a=1&section=2&region=eu&copy=3", "https://a.example/?a=1&section=2&region=eu&copy=3"),
        ("https://a.example/x&lt;y", "https://a.example/x&lt;y"),
        ("https://a.example/<b>bold</b>", "https://a.example/<b>bold</b>"),
        (" https://a.example/x y ", "https://a.example/x%20y"),
        ("https://a.example/a\u200bb\u202ec\nd", "https://a.example/a%E2%80%8Bb%E2%80%AEc%0Ad"),
        ("https://müller.example/ü", "https://müller.example/ü"),
        ("https://a.example/\ud800", "https://a.example/%3F"),
        ("https://a.example/" + "x" * 2000, ""),
    ],
)
def test_an_address_stays_the_one_that_it_is(sent: str, shown: str) -> None:
    found = read_result({"title": "T", "url": sent}, 100)
    assert found is not None and found.get("url", "") == shown
    paper = read_result({"title": "T", "url": "https://b.example/", "template": "paper.html", "pdf_url": sent}, 100)
    assert paper is not None and paper.get("pdf", "") == (shown if sent.startswith("http") else "")


def read_result(item: object, snippet_chars: int) -> Shown | None:
    """All of one result, if it is one."""
    found = find_result(item)
    return found.shown(snippet_chars) if found else None
