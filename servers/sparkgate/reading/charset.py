"""Bytes of the web as text: by byte order mark, header, declaration in the text, and a guess at last. Never fails."""

from __future__ import annotations

import codecs
import re

HEAD_BYTES, GUESS_BYTES = 4096, 32_768
MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_DECLARED = re.compile(
    rb"""(?:<meta[^>]{0,300}?charset|<\?xml[^>]{0,100}?encoding)\s*=\s*["']?\s*([\w:.-]{2,40})""", re.I
)
_IN_HEADER = re.compile(r"""charset\s*=\s*["']?\s*([\w:.-]{2,40})""", re.I)
_NOT_ASCII = re.compile(rb"[\x80-\xff\x1b]")
AS_BROWSERS_DO = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "big5": "big5hkscs",
    "utf-16": "utf-16-le",
}
"""Name of a codec → the one that is meant by it (encoding.spec.whatwg.org)."""
_TEXT = re.compile(
    r"utf-(?:8|16|16-le|16-be)|cp(?:125\d|866|874|932|949)|iso8859-\d+|koi8-[ru]|mac-(?:roman|cyrillic)"
    r"|gb18030|hz|big5hkscs|euc_jp|iso2022_jp"
)
"""Codecs that documents are written in; others that Python has are programs rather than tables."""


def decoded(data: bytes, content_type: str) -> tuple[str, str, bool]:
    """The text, the name of its codec, and whether something could not be decoded, which reads U+FFFD then."""
    for mark, name in MARKS:
        if data.startswith(mark):
            return _with(data[len(mark) :], name)
    declared = declared_by(data, content_type)
    if declared not in ("utf-16-le", "utf-16-be", "iso2022_jp", "hz") and (text := _utf8(data)) is not None:
        return text, "utf-8", False
    if declared and declared != "utf-8":
        return _with(data, declared)
    if declared and data.decode("utf-8", "ignore").count("\ufffd") * 200 < len(data) and _mostly_utf8(data):
        return _with(data, "utf-8")
    return _with(data, _guess(data))


def declared_by(data: bytes, content_type: str) -> str:
    """The codec that the header or the text itself names; "" when it is none that text is written in."""
    if found := codec(match[1] if (match := _IN_HEADER.search(content_type)) else ""):
        return found
    inside = _DECLARED.search(data[:HEAD_BYTES])
    found = codec(inside[1].decode("ascii", "replace")) if inside else ""
    # A declaration that can be read as ASCII is not written in UTF-16.
    return "utf-8" if found.startswith("utf-16") else found


def codec(label: str) -> str:
    """The name of Python's codec for a label, where it is one of documents; else ""."""
    try:
        name = codecs.lookup(label).name if label else ""
    except (LookupError, ValueError):
        return ""
    name = AS_BROWSERS_DO.get(name, name)
    return name if _TEXT.fullmatch(name) else ""


def _utf8(data: bytes) -> str | None:
    """It is UTF-8 where it is valid as such, whatever it claims; the last character may be cut."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return None


def _mostly_utf8(data: bytes) -> bool:
    return data.decode("utf-8", "replace").count("\ufffd") * 20 <= len(_NOT_ASCII.findall(data))


def _with(data: bytes, name: str) -> tuple[str, str, bool]:
    text = data.decode(name, "replace")
    return text, name, "\ufffd" in text


def _guess(data: bytes) -> str:
    """A look at a part of it, from where it stops being ASCII on."""
    from charset_normalizer import from_bytes

    first = _NOT_ASCII.search(data)
    start = max(0, first.start() - 1000) if first else 0
    best = from_bytes(data[start : start + GUESS_BYTES]).best()
    return (codec(best.encoding) if best else "") or "cp1252"
