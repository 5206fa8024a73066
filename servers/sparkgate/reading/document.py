"""A document of any kind as text: bytes in, a Read out. Pure."""

from __future__ import annotations

from dataclasses import replace

from sparkgate.reading import data_text, pdf_text, xml_text
from sparkgate.reading.charset import decoded
from sparkgate.reading.html_page import read_html
from sparkgate.reading.kind import kind_of
from sparkgate.reading.notes import Note
from sparkgate.reading.page import MAX_TEXT_BYTES, MAX_TITLE_CHARS, Body, NotReadable, Read
from sparkgate.reading.visible import clean


def read(body: Body, out_of_time: type[BaseException]) -> Read:
    """The text of a document.

    Args:
        out_of_time: what is raised from outside when the time is over; where a part is of use, that is told then.

    Raises:
        NotReadable: there is none.
    """
    kind = kind_of(body.data, body.content_type)
    if kind == "pdf":
        return _bounded(pdf_text.read_pdf(body.data, out_of_time))
    text, _, lossy = decoded(body.data, body.content_type)
    text = clean(text)
    if kind == "html":
        found = read_html(text, body.url)
    elif kind == "json":
        found = data_text.read_json(text)
    elif kind == "xml":
        found = xml_text.read_xml(text, body.url)
    else:
        found = data_text.read_plain(text, is_markdown=_is_markdown(body))
    return _bounded(replace(found, notes=(*found.notes, Note("lossy"))) if lossy else found)


def _is_markdown(body: Body) -> bool:
    return "markdown" in body.content_type.lower() or body.url.lower().partition("?")[0].endswith((".md", ".markdown"))


def _bounded(found: Read) -> Read:
    """Never longer than what is read of a page.

    Raises:
        NotReadable: nothing is left.
    """
    text = found.markdown.rstrip()
    if not text.strip():
        raise NotReadable("empty_page", "nothing")
    found = replace(found, markdown=text, title=clean(" ".join(found.title.split()))[:MAX_TITLE_CHARS])
    if len(text) <= MAX_TEXT_BYTES // 4 or len(raw := text.encode("utf-8", "replace")) <= MAX_TEXT_BYTES:
        return found
    text = raw[:MAX_TEXT_BYTES].decode("utf-8", "ignore")
    headings = tuple(heading for heading in found.headings if heading.start < len(text))
    return replace(found, markdown=text, headings=headings, notes=(*found.notes, Note("longer")))
