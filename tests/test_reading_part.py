"""Parts, sections and passages of a page that was read."""

from __future__ import annotations

import random

import pytest

from sparkgate.reading.data_text import markdown_headings
from sparkgate.reading.find import MAX_SPAN_CHARS, find, words_of
from sparkgate.reading.page import Read
from sparkgate.reading.part import NoSection, hash_of, part, section

TEXT = """# Pool

Workers that wait.

## class pool.Pool(size=4)
Make a pool.

### submit(fn, *args)
Run fn in a worker.

### close()
End it.

## Options

Größe und Straße: the size. Le café est là.

## Notes on size

Nothing.
"""


def page_of(text: str) -> Read:
    return Read("html", "", text, markdown_headings(text))


PAGE = page_of(TEXT)


@pytest.mark.parametrize("max_chars", [1, 7, 40, 100, 10_000])
def test_parts_one_after_another_are_the_whole(max_chars: int) -> None:
    pieces, at = [], 0
    while True:
        one = part(PAGE, at, max_chars)
        assert one.text == TEXT[one.start : one.end] and len(one.text) <= max_chars
        pieces.append(one.text)
        if one.end == len(TEXT):
            break
        assert one.end > at
        at = one.end
    assert "".join(pieces) == TEXT


def test_a_part_ends_between_paragraphs_lines_or_words() -> None:
    assert part(PAGE, 0, 40).text == "# Pool\n\nWorkers that wait.\n\n"
    assert part(page_of("one line\nanother line\nmore"), 0, 15).text == "one line\n"
    assert part(page_of("some words in a row"), 0, 12).text == "some words "
    assert part(page_of("x" * 99), 0, 12).text == "x" * 12


@pytest.mark.parametrize(("start", "text"), [(-5, "# "), (10**9, ""), (len(TEXT), "")])
def test_a_part_from_outside_the_text_is_none_or_the_first(start: int, text: str) -> None:
    one = part(PAGE, start, 2)
    assert one.text == text and (text or one.end == len(TEXT))


@pytest.mark.parametrize(
    ("name", "begins", "ends"),
    [
        ("Options", "## Options", "là."),
        ("options", "## Options", "là."),
        ("  # OPTIONS:", "## Options", "là."),
        ("pool.Pool", "## class pool.Pool(size=4)", "End it."),
        ("submit", "### submit(fn, *args)", "Run fn in a worker."),
        ("submit(fn, *args)", "### submit(fn, *args)", "Run fn in a worker."),
        ("Pool", "# Pool", "Nothing."),
        ("notes on", "## Notes on size", "Nothing."),
    ],
)
def test_a_section_is_found_by_its_name(name: str, begins: str, ends: str) -> None:
    found = section(PAGE, name)
    assert isinstance(found, tuple)
    text = TEXT[slice(*found)]
    assert text.startswith(begins + "\n") and text.rstrip().endswith(ends)


def test_an_unknown_section_is_answered_by_those_that_come_close() -> None:
    assert section(PAGE, "Optoins") == NoSection(("Options",))
    assert section(PAGE, "zzzz") == NoSection(())
    assert section(PAGE, "  ") == NoSection(())
    assert section(page_of("no headings"), "x") == NoSection(())


def test_words_are_found_in_any_case_and_with_any_accents() -> None:
    for words in ("GROSSE", "größe", "grösse", "strasse", "STRAẞE", "cafe", "CAFÉ", "cafe\u0301", "la"):
        found = find(PAGE, [words], 5)
        assert found.hits >= 1 and not found.missing, words


def test_a_passage_tells_where_it_stands_and_under_which_heading() -> None:
    (passage,) = find(PAGE, ["café"], 12).passages
    assert passage.text == TEXT[passage.start : passage.end]
    assert "café" in passage.text and len(passage.text) <= 28 and passage.under == "Options"


def test_passages_that_overlap_are_one() -> None:
    found = find(page_of("a word and a word " + "x " * 200 + "a word"), ["word"], 30)
    assert found.hits == 3
    assert [passage.text.count("word") for passage in found.passages] == [2, 1]


def test_the_passages_with_most_of_the_words_are_shown_in_the_order_of_the_text() -> None:
    gap = " -" * 100
    text = f"red{gap} red green{gap} green{gap} blue green red{gap} red"
    found = find(page_of(text), ["red", "green", "blue", "none"], 10, 2)
    assert found.hits == 8 and found.missing == (3,)
    assert [("blue" in passage.text, "green" in passage.text) for passage in found.passages] == [
        (False, True),
        (True, True),
    ]


@pytest.mark.parametrize("words", [[], [""], ["  "], ["\u200b"]])
def test_no_words_are_nowhere(words: list[str]) -> None:
    assert find(PAGE, words).passages == () and find(PAGE, words).hits == 0


def test_what_is_asked_is_taken_apart_at_spaces_and_each_word_looked_for_once() -> None:
    assert words_of("  a b\na c ") == ["a", "b", "c"]
    assert len(words_of(" ".join(map(str, range(99))))) == 12


def test_a_word_that_stands_everywhere_is_counted_and_does_not_hide_the_others() -> None:
    text = "the " * 5000 + "needle " + "the " * 5000
    found = find(page_of(text), ["the", "needle"], 20)
    assert found.hits == 10_001 and found.missing == ()
    assert ["needle" in passage.text for passage in found.passages] == [True]


@pytest.mark.parametrize("text", ["e" * 100_000, "e" + "\u0301" * 100_000 + "e"])
def test_a_passage_is_never_long_however_dense_the_words_stand(text: str) -> None:
    found = find(page_of(text), ["e", "ee"], 100, 12)
    assert found.passages and max(len(passage.text) for passage in found.passages) <= MAX_SPAN_CHARS + 200


def test_words_of_a_list_may_hold_spaces_and_signs() -> None:
    assert find(PAGE, ["fn, *args", "size=4"], 3).hits == 2
    assert find(PAGE, ["a worker"], 3).hits == 1


def test_offsets_hold_whatever_the_characters_are() -> None:
    choice = random.Random(7)
    letters = "aAbß ﬁÅ\u030aéİ\n日ǅ\u0301𝐀"
    for _ in range(300):
        text = "".join(choice.choice(letters) for _ in range(60)) + "needle" + "ﬁ" * 3
        found = find(page_of(text), ["NEEDLE"], 0)
        assert [passage.text for passage in found.passages] == ["needle"], text


def test_the_hash_changes_with_the_text_and_with_nothing_else() -> None:
    assert hash_of(PAGE) == hash_of(Read("text", "another title", TEXT)) != hash_of(page_of(TEXT + "."))
    assert len(hash_of(PAGE)) == 12
