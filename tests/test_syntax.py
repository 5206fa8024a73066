"""Words that SearXNG would read as commands are refused or defused; every other word is left alone."""

from __future__ import annotations

import random

import pytest

from sparkgate.policy.syntax import FORMS, form_of, neutralise

UNCHANGED = [
    "",
    " ",
    "plain words",
    "  spaces   stay \t when nothing is live ",
    "a != b",
    "wow!",
    "!",
    "! important",
    "a!b a!!b",
    "!=",
    "!=0 !== !~ !(x)",
    ":)",
    ": :: :: std::vector",
    "::",
    "::1 :::",
    ":p",
    ":-D :3 :8080 :0",
    "http://h:80/a?b=!c",
    "<html>",
    "<3x <-3 <= < <<EOF a<3",
    "C:\\ C:\\Windows D:",
    '"!wow" ":de" "<3" "!!g"',
    "'!wow",
    "(!wow)",
    "-!wow +!!g",
    "¡hola! ¿:de?",
    "！wow ：de ＜3",
]


@pytest.mark.parametrize("query", UNCHANGED)
def test_a_query_without_live_words_comes_back_as_it_is(query: str) -> None:
    result = neutralise(query)
    assert (result.text, result.forms, result.refused) == (query, (), False)


@pytest.mark.parametrize(
    ("query", "text", "rules"),
    [
        ("!! cats", "cats", ["searxng-lucky"]),
        ("!!", "", ["searxng-lucky"]),
        ("cats !wow", "cats wow", ["searxng-engine-bang"]),
        ("!go !images cats", "go images cats", ["searxng-engine-bang"]),
        ("!1337x", "1337x", ["searxng-engine-bang"]),
        ("!_x", "_x", ["searxng-engine-bang"]),
        ("!wow!!", "wow!!", ["searxng-engine-bang"]),
        ("!日本 !été", "日本 été", ["searxng-engine-bang"]),
        (":de katze", '":de" katze', ["searxng-language"]),
        (":de-AT :zh_TW :français :中文", '":de-AT" ":zh_TW" ":français" ":中文"', ["searxng-language"]),
        (":wq vim", '":wq" vim', ["searxng-language"]),
        ("<3 <30 <5000", '"<3" "<30" "<5000"', ["searxng-timeout"]),
        ("<٣ x", '"<٣" x', ["searxng-timeout"]),
        ("ship !it :wq <3", 'ship it ":wq" "<3"', ["searxng-engine-bang", "searxng-language", "searxng-timeout"]),
        ("a\u00a0!wow\u3000:de\u2028<3\u0085b", 'a wow ":de" "<3" b', None),
        ("a\x1c!wow\x1f:de\x0b<3", 'a wow ":de" "<3"', None),
        ("\u200b!wow", "wow", ["searxng-engine-bang"]),
        ("!\u00adwow", "wow", ["searxng-engine-bang"]),
        ("\ufeff:de", '":de"', ["searxng-language"]),
        ("<\u20603", '"<3"', ["searxng-timeout"]),
        ("!\u200b! cats", "cats", ["searxng-lucky"]),
    ],
)
def test_a_live_word_is_defused_and_named(query: str, text: str, rules: list[str] | None) -> None:
    result = neutralise(query)
    assert (result.text, result.refused) == (text, False)
    assert rules is None or [form.rule for form in result.forms] == rules


@pytest.mark.parametrize(
    "query",
    [
        "!!g",
        "cats !!g",
        "!!!",
        "!!!g",
        "!!-",
        "!! !!w",
        "a\u3000!!g",
        "a\u00a0!!g",
        "\u200b!!g",
        "!\u200b!g",
        "!!\u00adg",
        "\U000e0041!!g",
        "!\x00!g",
    ],
)
def test_a_word_that_sends_the_query_to_another_site_refuses_it(query: str) -> None:
    result = neutralise(query)
    assert result.refused and "searxng-external-bang" in [form.rule for form in result.forms]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.rule)
def test_every_form_says_what_was_done_and_shows_no_query(form: object) -> None:
    assert len(getattr(form, "note", "")) > 10


@pytest.mark.parametrize("query", ["<²", "<³⁴", "<①"])
def test_a_digit_that_searxng_takes_for_a_number_is_defused_too(query: str) -> None:
    assert query[1:].isdigit()
    assert neutralise(query).text == f'"{query}"'


def test_words_are_split_where_python_splits_them() -> None:
    for code in range(0x3100):
        between = chr(code)
        if len(f"a{between}b".split()) == 2:
            assert neutralise(f"a{between}!!g").refused, hex(code)


def test_what_comes_out_holds_no_live_word_and_is_not_changed_again() -> None:
    source = random.Random(7)
    pieces = [
        "!",
        "!!",
        ":",
        "<",
        "3",
        "de",
        "wow",
        '"',
        " ",
        "\u3000",
        "\u200b",
        "\u00ad",
        "-",
        "_",
        "\x1c",
        "٣",
        "é",
        "\\",
    ]
    for _ in range(20_000):
        query = "".join(source.choices(pieces, k=source.randint(1, 9)))
        result = neutralise(query)
        if not result.refused:
            assert [word for word in result.text.split() if form_of(word)] == [], repr(query)
            assert neutralise(result.text) == type(result)(result.text, ()), repr(query)


def test_a_very_long_query_is_read_in_one_pass() -> None:
    for query in ("!" * 16_000, ":" * 16_000, "! " * 8_000, ":de " * 4_000, "\u200b" * 16_000 + "!!g"):
        neutralise(query)
