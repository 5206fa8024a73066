"""The text of a PDF, page by page. What a page looks like, such as its tables and columns, is lost."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, TypeVar

from sparkgate.reading.links import Links
from sparkgate.reading.notes import Note
from sparkgate.reading.page import MAX_TEXT_BYTES, Heading, NotReadable, Read
from sparkgate.reading.visible import clean

if TYPE_CHECKING:
    from pypdf import PageObject, PdfReader

Got = TypeVar("Got")
MAX_PAGES = 100
FEW_CHARS = 8
"""Characters a page; a PDF with less is one of pictures."""
MAX_NOTES_OF_PAGE = 200


@dataclass(slots=True)
class _Text:
    """What has been read so far; `size` in characters."""

    pieces: list[str] = field(default_factory=list)
    headings: list[Heading] = field(default_factory=list)
    first: str = ""
    size: int = 0
    said: int = 0
    pages: int = 0
    failed: int = 0

    def add(self, number: int, text: str | None) -> None:
        self.pages += 1
        self.failed += text is None
        text = "\n".join(line.rstrip() for line in clean(text or "").split("\n")).strip("\n")
        self.said += len(text.strip())
        self.first = self.first or text.strip().partition("\n")[0]
        self.headings.append(Heading(2, f"Page {number}", self.size))
        piece = f"## Page {number}\n\n{text}\n\n"
        self.pieces.append(piece)
        self.size += len(piece)


def read_pdf(data: bytes, out_of_time: type[BaseException]) -> Read:
    """The pages that could be read by the time that `out_of_time` was raised.

    Raises:
        NotReadable: it has a password, holds pictures only, or is damaged.
    """
    reader = _opened(data)
    total = _of_damaged(lambda: len(reader.pages))
    text, links = _Text(), Links("")
    try:
        for number in range(min(total, MAX_PAGES)):
            page = _page(reader, number)
            text.add(number + 1, _text_of(page))
            _add_links(page, links)
            if text.size > MAX_TEXT_BYTES:
                break
    except out_of_time:
        if not text.said:
            raise
    if text.failed == text.pages:
        raise NotReadable("damaged")
    if text.said < FEW_CHARS * text.pages:
        raise NotReadable("image_only_pdf")
    markdown, headings = "".join(text.pieces), tuple(text.headings)
    title = _title(reader) or text.first
    return Read("pdf", title, markdown, headings, links.all(), notes=_notes(text, total))


def _opened(data: bytes) -> PdfReader:
    # Imported for a PDF only: it is the larger half of what a waiting process would hold.
    from pypdf import PdfReader
    from pypdf.errors import DependencyError

    def opened() -> PdfReader:
        reader = PdfReader(BytesIO(data))
        try:
            if reader.is_encrypted and not reader.decrypt(""):
                raise NotReadable("encrypted_pdf")
        except DependencyError:
            raise NotReadable("encrypted_pdf") from None
        return reader

    return _of_damaged(opened)


def _of_damaged(act: Callable[[], Got]) -> Got:
    """What `act` gives; the library raises whatever it meets in a damaged file.

    Raises:
        NotReadable: any of that.
    """
    try:
        return act()
    except (NotReadable, MemoryError):
        raise
    except Exception:
        raise NotReadable("damaged") from None


def _page(reader: PdfReader, number: int) -> PageObject | None:
    with suppress(NotReadable):
        page: PageObject = _of_damaged(lambda: reader.pages[number])
        return page
    return None


def _text_of(page: PageObject | None) -> str | None:
    if page is None:
        return None
    with suppress(NotReadable):
        return str(_of_damaged(page.extract_text))
    return None


def _add_links(page: PageObject | None, links: Links) -> None:
    def add() -> None:
        for one in list((page and page.annotations) or [])[:MAX_NOTES_OF_PAGE]:
            links.add(str(one.get_object().get("/A", {}).get("/URI", "")))

    with suppress(NotReadable):
        _of_damaged(add)


def _title(reader: PdfReader) -> str:
    with suppress(NotReadable):
        return str(_of_damaged(lambda: (reader.metadata and reader.metadata.title) or ""))
    return ""


def _notes(text: _Text, total: int) -> tuple[Note, ...]:
    notes = [Note("pdf_layout")]
    if text.pages < total:
        notes.append(Note("pdf_pages", text.pages, total))
    if text.failed:
        notes.append(Note("pdf_failed", text.failed))
    return tuple(notes)
