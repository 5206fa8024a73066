"""What kinds of characters stand where: each outline shows what it says, and none keeps what the policy should see."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import replace
from time import monotonic

import pytest

from sparkgate.policy.forms import joins
from sparkgate.policy.forms.outline import OUTLINES, Outlines
from sparkgate.policy.forms.view import View
from sparkgate.policy.judge import Policy
from sparkgate.policy.rules import Rule, Rulebook, shipped

POLICY = Policy(shipped(), deadline_s=30)
BOUND = [rule for rule in shipped() if rule.outline]


@pytest.mark.parametrize("name", OUTLINES)
def test_an_outline_shows_what_its_example_says(name: str) -> None:
    example = re.search(r": `(.*)` → `(.*)`$", OUTLINES[name].shows)
    assert example is not None
    made = Outlines(example[1].encode())[name]
    assert made.endswith(example[2]) and len(made) - len(example[2]) <= 1
    assert OUTLINES[name].letters >= set(example[2])


def variants(text: str) -> Iterator[str]:
    """The text in other case, with other digits, and with other signs and blanks between its parts."""
    draw = random.Random(text)
    yield from (text, text.upper(), text.lower(), text.swapcase())
    yield re.sub(r"\d", lambda _: draw.choice("0123456789"), text)
    for old, new in (
        ("-", " "),
        (" ", "-"),
        (" ", "  "),
        (" ", " - "),
        (".", " "),
        ("-", ""),
        (" ", ""),
        (" ", "."),
        (":", "-"),
    ):
        yield text.replace(old, new)
    yield from (f"é {text} é", f"({text})", f"x={text};", f"\n{text}\n")


@pytest.mark.parametrize("rule", BOUND, ids=lambda rule: rule.id)
def test_a_rule_finds_with_its_outline_what_it_finds_without(rule: Rule) -> None:
    bound, free = Rulebook([rule]), Rulebook([replace(rule, outline=())])
    for text in (other for leak in (*rule.leaks, *rule.clean) for other in variants(leak)):
        found = [
            [(hit.start, hit.end) for hit in book.find(View("raw", text), monotonic() + 30)] for book in (bound, free)
        ]
        assert found[0] == found[1], text


@pytest.mark.parametrize(
    "text", ["plate ABC - 123", "License plate: ABC  123", "plate no. XYZ -  99", "plate AB C - 12"]
)
def test_a_plate_whose_number_stands_apart_is_withheld(text: str) -> None:
    assert "number-plate" in POLICY.judge(text).rules


def test_no_cache_holds_a_word_of_a_text_with_other_letters() -> None:
    joins._is_odd.cache_clear()
    text = "张伟 李娜 Ä1b2 C3d4 E5f6 G7h8 i9J0 A1b2"
    list(joins.joined(View("raw", text)))
    kept = joins._is_odd.cache_info().currsize
    assert kept
    for word in text.split():
        if not word.isascii():
            joins._is_odd(Outlines(word.encode())["kinds"].strip())
            kept += 1
            assert joins._is_odd.cache_info().currsize == kept, word
