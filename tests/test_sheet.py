"""Guessed forms are looked at together first: what is in one of them is found as if it were looked at by itself."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from pathlib import Path
from time import monotonic

import pytest

from sparkgate.policy.acceptance import restriction
from sparkgate.policy.finding import Detector, Finding, Label
from sparkgate.policy.forms.joins import LETTERED, joined, turned
from sparkgate.policy.forms.view import View
from sparkgate.policy.known.sources import Places
from sparkgate.policy.known.values import KnownValues
from sparkgate.policy.rules import Rulebook, shipped
from sparkgate.policy.sheet import SHEET_CHARS, Guess, sheets, suspects
from sparkgate.policy.terms import Term, Terms
from sparkgate.policy.views import views

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


def guesses(text: str) -> list[Guess]:
    return [(view, accept) for view in views(text) if (accept := restriction(view))]


def found(detector: Detector, view: View) -> list[Finding]:
    return detector.find(view, monotonic() + 30)


@pytest.mark.parametrize("dress", DRESSES)
def test_rules_find_in_a_form_on_a_sheet_what_they_find_in_the_form_by_itself(dress: str) -> None:
    sheets_seen, hits = 0, 0
    for rule in shipped():
        for sheet in sheets(guesses(DRESSES[dress](rule.leaks[0]))):
            together = suspects(sheet, BOOK, (), monotonic() + 30)
            sheets_seen += together is not None
            for view, accept in sheet if together else ():
                alone = BOOK.find(view, monotonic() + 30, accept)
                assert together is not None
                assert BOOK.find(view, monotonic() + 30, accept, together.rules) == alone, (rule.id, view.text)
                hits += bool(alone)
    assert sheets_seen > 20
    assert hits


@pytest.mark.parametrize("dress", DRESSES)
def test_who_finds_something_in_a_form_is_a_suspect_on_its_sheet(dress: str, tmp_path: Path) -> None:
    label = Label("term-1", "client", "redact", "[name]", "w")
    names = Terms(Term(label, (name,)) for name in NAMES)
    values = KnownValues(b"k" * 32, Places(tmp_path, VALUES, env=("*",)))
    hits = 0
    for secret in (*NAMES, *VALUES.values()):
        for sheet in sheets(guesses(DRESSES[dress](f"{secret} and {secret}"))):
            together = suspects(sheet, BOOK, (names, values), monotonic() + 30)
            finders = [one for one in (names, values) if any(found(one, view) for view, _ in sheet)]
            assert together is None or all(one in together.detectors for one in finders), secret
            hits += bool(finders)
    assert hits


def test_every_form_is_on_one_sheet_in_its_order_and_no_sheet_is_long() -> None:
    sizes = (1, 500, 1499, 1, 2500, 700, 700, 700, 0, 1990, 5)
    forms = [(View("reversed", "x" * size), accept) for size in sizes for _, accept in guesses("a@b.example")[:1]]
    forms[6] = View("reversed", "é" * 10), forms[6][1]
    made = list(sheets(forms))
    assert [form for sheet in made for form in sheet] == forms
    assert all(len(sheet) == 1 or sum(len(view.text) for view, _ in sheet) <= SHEET_CHARS for sheet in made)
    assert all(len(sheet) == 1 or all(view.is_ascii for view, _ in sheet) for sheet in made)
    assert [len(sheet) for sheet in made] == [2, 2, 1, 1, 1, 2, 2]


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
