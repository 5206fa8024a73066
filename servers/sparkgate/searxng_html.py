"""The web page of results, for an instance that refuses JSON: the theme `simple` → the shape of SearXNG's JSON.

Templates: searx/templates/simple of SearXNG (2025.8 to 2026.8).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

MAX_BYTES = 1_500_000
MAX_RESULTS = 100
MAX_TEXT, MAX_PIECES = 4000, 200
MAX_TAGS = 20_000
DEEPEST = 60
VOID = frozenset(("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"))
Attributes = dict[str, str]


@dataclass(slots=True)
class _Open:
    """An element that is not closed yet. `into`: where its text goes."""

    tag: str
    mark: str
    into: list[str] | None = None


@dataclass(slots=True)
class _Result:
    """What is collected of one article."""

    template: str
    url: str = ""
    date: str = ""
    title: list[str] = field(default_factory=list)
    content: list[str] = field(default_factory=list)
    engines: list[list[str]] = field(default_factory=list)

    def told(self) -> dict[str, Any]:
        engines = list(filter(None, map(_joined, self.engines)))
        return {
            "url": self.url or None,
            "title": _joined(self.title),
            "content": _joined(self.content),
            "engine": engines[0] if engines else "",
            "engines": engines,
            "publishedDate": self.date or None,
            "template": f"{self.template}.html",
        }


class _Page(HTMLParser):
    """Collects what the theme marks; it knows no other page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.is_results = False
        self.results: list[_Result] = []
        self.answers: list[list[str]] = []
        self.words: dict[str, list[str]] = {"suggestions": [], "corrections": []}
        self.failed: list[tuple[list[str], list[str]]] = []
        self._tags = 0
        self._engine: list[str] = []
        self._open: list[_Open] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._tags += 1
        if self._tags > MAX_TAGS:
            return
        given = {name: value or "" for name, value in attrs}
        marks = {*given.get("class", "").split(), given.get("id", "")}
        self.is_results |= tag == "div" and given.get("id") == "results"
        if tag == "article" and "result" in marks and len(self.results) < MAX_RESULTS:
            self.results.append(_Result(_template(marks)))
        into = self._text_of(tag, marks, given)
        self._note(tag, given)
        if tag not in VOID and len(self._open) < DEEPEST:
            self._open.append(_Open(tag, _mark(tag, marks), into))

    def handle_endtag(self, tag: str) -> None:
        if self._tags <= MAX_TAGS and any(one.tag == tag for one in self._open):
            while self._open.pop().tag != tag:
                pass

    def handle_data(self, data: str) -> None:
        into = next((one.into for one in reversed(self._open) if one.into is not None), None)
        if into is not None and len(into) < MAX_PIECES and sum(map(len, into)) < MAX_TEXT:
            into.append(data[:MAX_TEXT])

    def _inside(self, mark: str) -> bool:
        return any(one.mark == mark for one in self._open)

    def _text_of(self, tag: str, marks: set[str], given: Attributes) -> list[str] | None:
        """Where the text of this element belongs; None where it does not matter, or belongs to the one around it."""
        if self._inside("article") and self.results:
            return _part(self.results[-1], tag, marks, self._inside("engines"))
        if tag == "span" and self._inside("answer"):
            return _new(self.answers)
        if "engine-name" in marks:
            self._engine = []
            return self._engine
        if "response-error" in marks:
            self.failed.append((self._engine, []))
            return self.failed[-1][1]
        return None

    def _note(self, tag: str, given: Attributes) -> None:
        """What stands in attributes."""
        if tag == "input" and given.get("type") == "submit":
            for name, words in self.words.items():
                if self._inside(name):
                    words.append(given.get("value", "")[:MAX_TEXT].lstrip("• "))
        if not (self._inside("article") and self.results):
            return
        result = self.results[-1]
        if tag == "a" and given.get("href", "").startswith(("http://", "https://")):
            result.url = result.url or given["href"]
        elif tag == "time":
            result.date = given.get("datetime", "")


def _template(marks: set[str]) -> str:
    kinds = sorted(mark.removeprefix("result-") for mark in marks if mark.startswith("result-"))
    return kinds[0] if kinds else "default"


def _mark(tag: str, marks: set[str]) -> str:
    """What is asked for when something inside it is met."""
    if tag == "article":
        return "article" if "result" in marks else ""
    return next((mark for mark in ("engines", "answer", "suggestions", "corrections") if mark in marks), "")


def _part(result: _Result, tag: str, marks: set[str], engines: bool) -> list[str] | None:
    if tag == "h3":
        return result.title
    if tag == "p" and "content" in marks and "empty_element" not in marks and not result.content:
        return result.content
    return _new(result.engines) if engines and tag == "span" else None


def _new(lists: list[list[str]]) -> list[str]:
    lists.append([])
    return lists[-1]


def _joined(parts: list[str]) -> str:
    return " ".join("".join(parts).split())


def read_results(body: bytes) -> dict[str, Any] | None:
    """The page of results → the shape of SearXNG's JSON; None when it is another page."""
    page = _Page()
    with suppress(AssertionError):  # what the parser of the standard library says of some broken declarations
        page.feed(body[:MAX_BYTES].decode("utf-8", "replace"))
    # Not closed: what is left is a broken tag, which the parser would try anew from every character of it.
    if not page.is_results:
        return None
    return {
        "results": [one.told() for one in page.results],
        "answers": list(filter(None, map(_joined, page.answers))),
        "infoboxes": [],
        **page.words,
        "unresponsive_engines": [[_joined(name), _joined(reason)] for name, reason in page.failed],
    }
