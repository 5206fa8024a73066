"""What the tests of reading pages share: documents made here, and a look at the processes of this one."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import anyio

from sparkgate.reading.reader import Asked, Body, Shown, Unreadable

PAGES = Path(__file__).parent / "pages"
URL = "https://docs.example.org/lib/page.html"
PATIENCE_S = 30.0
FIRST = Asked(max_chars=40_000)
"""As much of a page as is ever shown at once."""


def page(name: str, content_type: str = "text/html") -> Body:
    return Body((PAGES / name).read_bytes(), content_type, URL)


def html(inside: str) -> Body:
    return Body(f"<!doctype html><html><body>{inside}</body></html>".encode(), "text/html; charset=utf-8", URL)


def text_of(answer: Shown | Unreadable) -> str:
    assert isinstance(answer, Shown), answer
    return "".join(piece.text for piece in answer.pieces)


def told(script: str) -> tuple[str, ...]:
    """A command that a Reader can start instead of its own."""
    return (sys.executable, "-I", "-c", script)


def worker_that(expression: str, chosen: str = "read") -> tuple[str, ...]:
    """The real process, with reading a document replaced by an expression for its text, and one for what is shown."""
    return told(
        "import os, resource, socket, subprocess, sys\n"
        "from sparkgate.reading import document, worker\n"
        "from sparkgate.reading.page import Read\n"
        f"document.read = lambda body, out_of_time: Read('text', '', str({expression}))\n"
        "choose = worker.chosen\n"
        f"worker.chosen = lambda read, asked: choose({chosen}, asked)\n"
        "worker.main()"
    )


def children(of: int | str = "self") -> set[int]:
    """The processes that this one, or another, has started and that are still there."""
    found: set[int] = set()
    for thread in Path(f"/proc/{of}/task").iterdir():
        with suppress(OSError):  # a thread that has ended meanwhile
            found.update(map(int, (thread / "children").read_text().split()))
    return found


async def until(holds: Callable[[], bool]) -> None:
    """Look until it does; fails when it does not within the patience of the tests."""
    for _ in range(int(PATIENCE_S / 0.01)):
        if holds():
            return
        await anyio.sleep(0.01)
    raise AssertionError("it never came about")


def pdf(objects: Sequence[bytes]) -> bytes:
    """A file of these objects, numbered from 1; the first is its catalog."""
    out = b"%PDF-1.5\n"
    places = []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    end = b"trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (size, len(out))
    return out + b"xref\n0 %d\n0000000000 65535 f \n" % size + table + end


def stream(data: bytes, filters: bytes = b"") -> bytes:
    return b"<</Length %d%b>>\nstream\n%b\nendstream" % (len(data), filters, data)


def pdf_of(content: bytes, pages: int = 1, filters: bytes = b"") -> bytes:
    """A file whose pages all draw `content`."""
    kids = b" ".join(b"%d 0 R" % (5 + number) for number in range(pages))
    each = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources<</Font<</F1 3 0 R>>>>>>"
    return pdf(
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Kids[%b]/Count %d>>" % (kids, pages),
            b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
            stream(content, filters),
            *[each] * pages,
        ]
    )


def words_pdf(words: str, pages: int = 1) -> bytes:
    return pdf_of(b"BT /F1 12 Tf 72 700 Td (%b) Tj ET" % words.encode("ascii"), pages)


def packed_pdf(content: bytes) -> bytes:
    return pdf_of(zlib.compress(content, 9), filters=b"/Filter/FlateDecode")


def encrypted_pdf() -> bytes:
    """One that opens with a password only (RC4, as of PDF 1.4)."""
    from io import BytesIO

    from pypdf import PdfReader, PdfWriter

    writer = PdfWriter(clone_from=PdfReader(BytesIO(words_pdf("Nobody is meant to read this page"))))
    writer.encrypt("a word", algorithm="RC4-128")
    out = BytesIO()
    writer.write(out)
    return out.getvalue()
