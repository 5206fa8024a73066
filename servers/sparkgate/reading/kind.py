"""What a document is, by its first bytes and by what it is declared to be."""

from __future__ import annotations

import re

from sparkgate.reading.charset import MARKS, declared_by
from sparkgate.reading.page import Kind, NotReadable

HEAD_BYTES = 4096
MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"BZh", "application/x-bzip2"),
    (b"\xfd7zXZ", "application/x-xz"),
    (b"(\xb5/\xfd", "application/zstd"),
    (b"7z\xbc\xaf", "application/x-7z-compressed"),
    (b"\x7fELF", "application/x-executable"),
    (b"\xca\xfe\xba\xbe", "application/java-vm"),
    (b"\x00asm", "application/wasm"),
    (b"OggS", "audio/ogg"),
    (b"ID3", "audio/mpeg"),
    (b"\x1aE\xdf\xa3", "video/webm"),
    (b"wOF", "font/woff"),
    (b"SQLite format 3\x00", "application/vnd.sqlite3"),
    (b"\xd0\xcf\x11\xe0", "application/x-ole-storage"),
)
_HTML = re.compile(
    rb"\s*(?:<\?xml[^>]{0,200}\?>\s*)?(?:<!--.{0,1500}?-->\s*){0,5}"
    rb"<(?:!doctype\s+html|html|head|body|title|meta|script|style|div|h1|p|table|a|br|iframe|font|center)\b",
    re.I | re.S,
)
_HTML_ROOT = re.compile(rb"\s*(?:<\?xml[^>]{0,200}\?>\s*)?<(?:!doctype\s+html|html)\b", re.I)
_XML = re.compile(rb"\s*<(?:\?xml|rss|feed|rdf:RDF|svg|urlset|sitemapindex|opml|!DOCTYPE (?!html)\w)", re.I)
_JSON = re.compile(rb"\s*(?:\{\s*[\"}]|\[\s*[\[{\"\d\]tfn-])")
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_MEDIA = re.compile(r"(?:image|audio|video|font)/(?!svg\+xml)")
_SCRIPT = re.compile(
    r"application/(?:[\w.+-]*(?:javascript|ecmascript|yaml|toml|sh|sql|graphql|python|perl|ruby|php|tex|latex)"
    r"|x-ndjson|jsonl?|json-seq|rtf|mbox|x-patch)"
)
FEW_CONTROLS = 0.03
"""A document with a larger share of control characters at its beginning is no text."""


def kind_of(data: bytes, content_type: str) -> Kind:
    """The kind of a document.

    Raises:
        NotReadable: it is none that has text.
    """
    declared = content_type.partition(";")[0].strip().lower()
    head = data[:HEAD_BYTES]
    if b"%PDF-" in head[:1024] and "html" not in declared:
        return "pdf"
    for magic, name in MAGIC:
        if head.startswith(magic) and not _is_text(head, content_type):
            raise NotReadable("binary", declared if _says_more(declared) else name)
    if not _is_text(head, content_type):
        raise NotReadable("binary", declared if _says_more(declared) else "application/octet-stream")
    return _of_text(head.removeprefix(MARKS[0][0]), declared)


def _of_text(head: bytes, declared: str) -> Kind:
    if "html" in declared:
        return "html"
    if declared.endswith(("/json", "+json")):
        return "json"
    if declared.endswith(("/xml", "+xml")):
        return "html" if _HTML_ROOT.match(head) else "xml"
    if declared.startswith("text/") or _SCRIPT.fullmatch(declared):
        return "text"
    if declared == "application/pdf" and not _HTML.match(head):
        raise NotReadable("damaged")
    return _sniffed(head, declared)


def _sniffed(head: bytes, declared: str) -> Kind:
    """By its first bytes alone: what it is declared to be says nothing."""
    if _HTML.match(head):
        return "html"
    if _XML.match(head):
        return "xml"
    if _JSON.match(head):
        return "json"
    if _MEDIA.match(declared):
        raise NotReadable("binary", declared)
    return "text"


def _is_text(head: bytes, content_type: str) -> bool:
    if head.startswith(tuple(mark for mark, _ in MARKS)) or declared_by(b"", content_type).startswith("utf-16"):
        return True
    return len(_CONTROL.findall(head)) <= FEW_CONTROLS * len(head)


def _says_more(declared: str) -> bool:
    return "/" in declared and not declared.startswith("text/") and declared != "application/octet-stream"
