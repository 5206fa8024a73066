"""JSON, indented, and text as it is."""

from __future__ import annotations

import json
import re

from sparkgate.reading.notes import Note
from sparkgate.reading.page import MAX_HEADINGS, MAX_TEXT_BYTES, Heading, NotReadable, Read
from sparkgate.reading.visible import clean

_HEADING = re.compile(r"^(#{1,6})[ \t]+(\S.{0,199})|^(?:```|~~~)", re.M)


def read_json(text: str) -> Read:
    """Indented by two; as it came, with a note, where it is not valid, too deep or has numbers nobody can hold."""
    try:
        return Read("json", "", clean(json.dumps(json.loads(text), indent=2, ensure_ascii=False)))
    except (ValueError, RecursionError):
        return Read("json", "", text, notes=(Note("json_broken"),))


def read_plain(text: str, *, is_markdown: bool = False) -> Read:
    """Text as it is; the headings of Markdown are headings."""
    if not text.strip():
        raise NotReadable("empty_page", "nothing")
    headings = markdown_headings(text[:MAX_TEXT_BYTES]) if is_markdown else ()
    return Read("text", headings[0].text if headings else "", text, headings)


def markdown_headings(text: str) -> tuple[Heading, ...]:
    """The ATX headings outside fenced code."""
    found: list[Heading] = []
    fenced = False
    for match in _HEADING.finditer(text):
        if not match[1]:
            fenced = not fenced
        elif not fenced and len(found) < MAX_HEADINGS:
            found.append(Heading(len(match[1]), match[2].rstrip(" #"), match.start()))
    return tuple(found)
