"""What is asked of a reading process and what it finds; plain data, as it passes between the two sides."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

Kind = Literal["html", "pdf", "json", "xml", "text"]
_KINDS: tuple[Kind, ...] = get_args(Kind)
MAX_TEXT_BYTES = 1_400_000
"""Longest text of a page, in UTF-8."""
MAX_LINKS, MAX_LINK_CHARS = 500, 1000
MAX_HEADINGS, MAX_HEADING_CHARS = 2000, 200
MAX_TITLE_CHARS = 300

MESSAGES: Mapping[str, str] = {
    "image_only_pdf": "This PDF holds pictures of its pages and no text. Look for a version in HTML, or its abstract.",
    "encrypted_pdf": "This PDF opens with a password only. Look for another copy of it.",
    "binary": "This address holds {type}, which is no text. Look for the page that describes it.",
    "empty_page": "This page came without text: {why}. Look for another page, its API, or its source repository.",
    "login_wall": "This page shows a login form and hardly any text. Look for a public copy of it.",
    "damaged": "This document is damaged or built in a way that cannot be read. Look for another copy of it.",
    "too_slow": "Reading this page took too long, so it was stopped. Try again once, or look for a shorter page.",
    "too_much_memory": "Reading this page takes more memory than is allowed. Look for a shorter page or a part of it.",
    "reader_failed": "The process that reads pages failed on this one. Try another page.",
}
"""Code → what is wrong and what to do instead. Nothing of a page or of an exception is ever put in."""
WHY_EMPTY: Mapping[str, str] = {
    "javascript": "JavaScript builds it in a browser, which is not run here",
    "nothing": "there is nothing in it",
}
_TYPE = re.compile(r"[a-z0-9][a-z0-9.+-]{0,60}/[a-z0-9][a-z0-9.+-]{0,80}")


@dataclass(frozen=True, slots=True)
class Body:
    """A document as it came from the web.

    Attributes:
        data: the body, unpacked.
        content_type: the Content-Type header as it came; "" when there was none.
        url: the address it came from; links are resolved against it.
    """

    data: bytes
    content_type: str
    url: str


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading; `start` is the index of its first character in the Markdown, its marks included."""

    level: int
    text: str
    start: int


@dataclass(frozen=True, slots=True)
class Read:
    """What a page says. All of it is foreign text.

    Attributes:
        markdown: the text; pictures are in it by their description only, links by their words only.
        headings: in the order of the page.
        links: absolute http(s) addresses in the order of the page, each once, without fragment, at most `MAX_LINKS`.
        language: as the page names it, such as "en-GB"; "" when it does not.
        charset: the name of the codec it was decoded with; "" for a PDF.
        notes: what was left out or lost on the way, one sentence each, in our words.
        truncated: the text goes on beyond `MAX_TEXT_BYTES`.
    """

    kind: Kind
    title: str
    markdown: str
    headings: tuple[Heading, ...] = ()
    links: tuple[str, ...] = ()
    language: str = ""
    charset: str = ""
    notes: tuple[str, ...] = ()
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Why there is no text, by a key of `MESSAGES`, and what to do instead, in our words."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Robots:
    """What a robots.txt says of one address and one user agent; `crawl_delay_s` is None when it names none."""

    allowed: bool
    crawl_delay_s: float | None


class NotReadable(Exception):
    """There is no text to be had.

    Args:
        code: a key of `MESSAGES`.
        detail: a MIME type for `binary`, a key of `WHY_EMPTY` for `empty_page`.
    """

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(code)
        self.code, self.detail = code, detail


def unreadable(code: object, detail: object = "") -> Unreadable:
    """The answer in words; a code or a detail that is not ours is told as a failure, or not at all."""
    known = code if isinstance(code, str) and code in MESSAGES else "reader_failed"
    kind = detail if isinstance(detail, str) and _TYPE.fullmatch(detail) else "a file of an unknown type"
    why = WHY_EMPTY.get(str(detail), WHY_EMPTY["nothing"])
    return Unreadable(known, MESSAGES[known].format(type=kind, why=why))


def to_json(read: Read) -> dict[str, Any]:
    return asdict(read)


def from_json(told: Mapping[str, Any]) -> Read:
    """A Read from what a process told. It has read foreign data, so its every field is looked at.

    Raises:
        ValueError: it is not one.
    """
    headings = tuple(Heading(int(one["level"]), str(one["text"]), int(one["start"])) for one in _list(told, "headings"))
    kind = next((name for name in _KINDS if name == told.get("kind")), None)
    if kind is None or not isinstance(told.get("markdown"), str):
        raise ValueError("no page")
    return Read(
        kind=kind,
        title=str(told["title"]),
        markdown=told["markdown"],
        headings=headings[:MAX_HEADINGS],
        links=tuple(map(str, _list(told, "links")))[:MAX_LINKS],
        language=str(told["language"]),
        charset=str(told["charset"]),
        notes=tuple(map(str, _list(told, "notes"))),
        truncated=bool(told["truncated"]),
    )


def _list(told: Mapping[str, Any], name: str) -> list[Any]:
    value = told.get(name)
    if not isinstance(value, list):
        raise ValueError(name)
    return value
