"""Many literals in one pass: each wherever it stands, in any text that Python can hold."""

from __future__ import annotations

import pytest

from sparkgate.policy.literals import Literals, any_of


def test_every_literal_is_found_wherever_it_stands_also_within_another() -> None:
    known = Literals({"she": 1, "he": 2, "hers": 3, "é": 4})
    assert sorted(known.values("ushers é")) == [1, 2, 3, 4]
    assert sorted(known.places("ushers é")) == [(4, 1), (4, 2), (6, 3), (8, 4)]


@pytest.mark.parametrize("text", ["\ud800he", "he\udfff", "\ud83d \ude00 he"])
def test_half_of_a_surrogate_pair_hides_nothing_and_moves_nothing(text: str) -> None:
    assert Literals({"he": 2}).places(text) == [(text.index("he") + 2, 2)]
    assert any_of(["he"])(text) and not any_of(["she"])(text)


def test_among_no_literals_none_is_found() -> None:
    assert Literals[int]({}).values("he") == [] and not any_of([])("he")
