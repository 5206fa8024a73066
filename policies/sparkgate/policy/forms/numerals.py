"""Digits that were written as words, as a phone number is dictated."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from sparkgate.policy.forms.view import Edit, View

_DIGITS: Mapping[str, str] = {
    "0": "zero oh null zéro cero nula ноль нуль",
    "1": "one eins un uno um один",
    "2": "two zwei zwo deux dos due dois два",
    "3": "three drei trois tres tre três три",
    "4": "four vier quatre cuatro quattro quatro четыре",
    "5": "five fünf fuenf funf cinq cinco cinque пять",
    "6": "six sechs seis sei шесть",
    "7": "seven sieben sept siete sette sete семь",
    "8": "eight acht huit ocho otto oito восемь",
    "9": "nine neun neuf nueve nove девять",
    "+": "plus",
}
NUMERALS: Mapping[str, str] = {word: digit for digit, words in _DIGITS.items() for word in words.split()}
LEAST = 5
"""Words of a number that is looked at, other than `plus`."""

_NUMERAL = "|".join(sorted(NUMERALS, key=len, reverse=True))
_RUN = re.compile(
    rf"(?<!\w)(?:(?:{_NUMERAL}|\+?\d{{1,4}})(?:[ \t]{{1,2}}|[,.-][ \t]?)){{4,}}(?:{_NUMERAL}|\d{{1,4}})(?!\w)", re.I
)
_STOPPED = {f"{word}{stop}" for word in NUMERALS for stop in ("", ",", ".")}
_WORD = re.compile(r"\w+")
_GAP = re.compile(r"\W+")


def may_be_said(view: View) -> bool:
    """Whether there are enough words for digits in it, with no more than two others between them."""
    if NUMERALS.keys().isdisjoint(view.letters) or sum(map(NUMERALS.__contains__, view.letters)) < LEAST:
        return False
    words = view.lower.replace("-", " ").split()
    places = [place for place, word in enumerate(words) if word in _STOPPED]
    return any(last - first < LEAST + 2 for first, last in zip(places, places[LEAST - 1 :], strict=False))


def said(text: str) -> Iterator[Edit]:
    """Each word of a number as its digit, without what stands between them."""
    for run in _RUN.finditer(text):
        end = run.start()
        for word in _WORD.finditer(text, *run.span()):
            if word.start() > end and text[word.start() - 1] != "+":
                yield end, word.start(), ""
            end = word.end()
            if digit := NUMERALS.get(word[0].lower()):
                yield word.start(), end, digit
