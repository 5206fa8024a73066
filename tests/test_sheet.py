"""Guessed forms are looked at together first: what is in one of them is found as if it were looked at by itself."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from pathlib import Path
from time import monotonic

import pytest

from sparkgate.policy.finding import Label
from sparkgate.policy.forms.joins import LETTERED, joined
from sparkgate.policy.forms.turns import turned
from sparkgate.policy.forms.unwrap import encodings
from sparkgate.policy.forms.view import View
from sparkgate.policy.known.sources import Places
from sparkgate.policy.known.values import KnownValues
from sparkgate.policy.rules import Rulebook, shipped
from sparkgate.policy.sheet import Sheet, together
from sparkgate.policy.suspects import suspects
from sparkgate.policy.terms import Term, Terms
from sparkgate.policy.views import sheets

BOOK = Rulebook(shipped())
NAMES = ("Brellix Dynamics", "Vornado", "Project Woodlark", "Kroger & Hahnle", "Wombat Register")
VALUES = {"A_TOKEN": "kd82mDq0Zl4mWpo1", "B_SECRET": "correct-horse-battery-staple-9", "C_KEY": "Lq7vRz2K"}


def in_parts(text: str, size: int, sign: str) -> str:
    return sign.join(text[at : at + size] for at in range(0, len(text), size))


DRESSES: dict[str, Callable[[str], str]] = {
    "letter by letter": " ".join,
    "in a path": lambda text: f"https://example.org/a1b2c3d4e5f6a7b8/{in_parts(text, 6, '/')}",
    "backwards": lambda text: f"see {text[::-1]} or user@example.org",
    "by half the alphabet": lambda text: codecs.encode(f"see {text} or user@example.org", "rot13"),
    "of parts, and backwards": lambda text: in_parts(text, 5, "-")[::-1],
}


def of_several(text: str) -> list[Sheet]:
    return [sheet for sheet in sheets(text) if len(sheet.forms) > 1]


@pytest.mark.parametrize("dress", DRESSES)
def test_rules_find_in_a_form_on_a_sheet_what_they_find_in_the_form_by_itself(dress: str) -> None:
    hits = 0
    for rule in shipped():
        for sheet in of_several(DRESSES[dress](rule.leaks[0])):
            on_it = suspects(sheet, BOOK, (), monotonic() + 30)
            for view, accept in sheet.forms:
                alone = BOOK.find(view, monotonic() + 30, accept)
                assert BOOK.find(view, monotonic() + 30, accept, on_it.rules) == alone, (rule.id, view.text)
                hits += bool(alone)
    assert hits


@pytest.mark.parametrize("dress", DRESSES)
def test_who_finds_something_in_a_form_is_a_suspect_on_its_sheet(dress: str, tmp_path: Path) -> None:
    label = Label("term-1", "client", "redact", "[name]", "w")
    names = Terms(Term(label, (name,)) for name in NAMES)
    values = KnownValues(b"k" * 32, Places(tmp_path, VALUES, env=("*",)))
    hits = 0
    for secret in (*NAMES, *VALUES.values()):
        for sheet in of_several(DRESSES[dress](f"{secret} and {secret}")):
            on_it = suspects(sheet, BOOK, (names, values), monotonic() + 30)
            finders = [
                one for one in (names, values) if any(one.find(view, monotonic() + 30) for view, _ in sheet.forms)
            ]
            assert all(one in on_it.detectors for one in finders), secret
            hits += bool(finders)
    assert hits


@pytest.mark.parametrize("dress", DRESSES)
def test_an_encoding_that_may_be_in_a_form_may_be_on_its_sheet(dress: str) -> None:
    seen = set()
    for rule in shipped():
        for sheet in of_several(DRESSES[dress](f"{rule.leaks[0]} {rule.leaks[0].encode().hex()}")):
            there = {name for view, _ in sheet.forms for name in encodings(view)}
            assert there <= {*encodings(sheet.text)}, rule.id
            seen |= there
    assert len(seen) > 1


def test_every_form_is_on_one_sheet_in_its_order_and_no_sheet_is_long() -> None:
    sizes = (1, 500, 1499, 1, 2500, 700, 700, 700, 0, 1990, 5)
    forms = [View("reversed", "x" * size) for size in sizes]
    forms[6] = View("reversed", "é" * 10)
    forms[9] = View("percent", forms[9].text)
    made = list(together(forms))
    assert [view for sheet in made for view, _ in sheet.forms] == forms
    assert all(sheet.text.text.split("\n") == [view.text for view, _ in sheet.forms] for sheet in made)
    assert [len(sheet.forms) for sheet in made] == [2, 2, 1, 1, 1, 2, 1, 1]


@pytest.mark.parametrize("dress", DRESSES)
def test_what_is_put_together_in_other_letters_is_put_together_in_these(dress: str) -> None:
    several = 0
    for rule in shipped():
        view = View("raw", DRESSES[dress](rule.leaks[0]))
        there = {form.text for whole in joined(view) for form in turned(whole) if form.name == "rot13"}
        for other in (form for form in turned(view) if form.name == "rot13"):
            again = [form for form in joined(other) if form.name not in LETTERED]
            several += len(again)
            assert {form.text for form in again} <= there, rule.id
            assert {form.text for form in joined(other, lettered=True)} == {
                form.text for form in joined(other) if form.name in LETTERED
            }
    assert several
