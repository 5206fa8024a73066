"""What a page is and what it says, and in which words it is told that it says nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sparkgate.reading.notes import Note

Kind = Literal["html", "pdf", "json", "xml", "text"]
MAX_TEXT_BYTES = 1_400_000
"""Longest text of a page, in UTF-8."""
MAX_LINKS, MAX_LINK_CHARS, MAX_LINKS_CHARS = 500, 1000, 200_000
"""How many, and characters of one and of all together."""
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
_OTHER_TYPE = "a file of an unknown type"
_FAMILIES: Mapping[str, str] = {"image": "a picture", "audio": "sound", "video": "a film", "font": "a font"}
_TYPE_NAMES = (
    "image/png image/jpeg image/gif image/webp image/avif image/bmp image/tiff image/x-icon image/heic audio/ogg"
    " audio/mpeg audio/flac audio/wav audio/x-wav audio/aac audio/mp4 video/webm video/mp4 video/mpeg video/ogg"
    " video/quicktime font/woff font/woff2 font/ttf font/otf application/zip application/gzip application/x-gzip"
    " application/x-tar application/x-bzip2 application/x-xz application/zstd application/x-7z-compressed"
    " application/vnd.rar application/x-executable application/java-vm application/java-archive application/wasm"
    " application/vnd.sqlite3 application/x-ole-storage application/msword application/vnd.ms-excel"
    " application/vnd.ms-powerpoint application/vnd.oasis.opendocument.text application/epub+zip"
    " application/vnd.oasis.opendocument.spreadsheet application/vnd.oasis.opendocument.presentation"
    " application/vnd.openxmlformats-officedocument.wordprocessingml.document"
    " application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
    " application/vnd.openxmlformats-officedocument.presentationml.presentation"
    " application/vnd.android.package-archive application/vnd.debian.binary-package application/x-rpm"
    " application/x-iso9660-image application/x-apple-diskimage application/x-msdownload"
)
_TYPES = frozenset(_TYPE_NAMES.split())
"""Types that are told by their name; any other name is the word of a stranger."""


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
        notes: what was left out or lost on the way.
    """

    kind: Kind
    title: str
    markdown: str
    headings: tuple[Heading, ...] = ()
    links: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Why there is no text, by a key of `MESSAGES`, and what to do instead, in our words."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Robots:
    """What a robots.txt says of one address and one user agent."""

    allowed: bool


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
    why = WHY_EMPTY.get(str(detail), WHY_EMPTY["nothing"])
    return Unreadable(known, MESSAGES[known].format(type=_type_of(str(detail)), why=why))


def _type_of(declared: str) -> str:
    return declared if declared in _TYPES else _FAMILIES.get(declared.partition("/")[0], _OTHER_TYPE)
