"""The paragraphs of a page that have most of some words. Pure."""

from __future__ import annotations

import re

WORD = re.compile(r"\w{3,}")
MORE = " […]\n\n"
MAX_PARAGRAPHS = 20_000
MAX_PARAGRAPH_CHARS = 20_000
"""So much of each is looked at."""


def best(text: str, query: str, size_bytes: int) -> str:
    """The paragraphs of a text that hold most words of the query, in their order, as many as fit.

    A heading goes with what follows it. Of equal ones the first counts.
    """
    wanted = set(WORD.findall(query.casefold()))
    pieces = _pieces(text)
    scores = [_score(piece, wanted) for piece in pieces]
    kept, left = set[int](), size_bytes
    for place in sorted(range(len(pieces)), key=lambda place: -scores[place]):
        left -= len(pieces[place].encode("utf-8", "replace")) + 2
        if left < 0:
            break
        kept.add(place)
    if not kept:
        piece = pieces[scores.index(max(scores))] if pieces else ""
        return piece.encode("utf-8", "replace")[:size_bytes].decode("utf-8", "ignore")
    shown = [(MORE if place - 1 not in kept and place else "") + pieces[place] for place in sorted(kept)]
    return "\n\n".join(shown)


def _pieces(text: str) -> list[str]:
    """Paragraphs, each with the heading right before it."""
    pieces: list[str] = []
    heading = ""
    for paragraph in filter(None, map(str.strip, re.split(r"\n\s*\n", text, maxsplit=MAX_PARAGRAPHS)[:MAX_PARAGRAPHS])):
        if paragraph.startswith("#") and "\n" not in paragraph:
            heading = paragraph
            continue
        pieces.append(f"{heading}\n\n{paragraph}" if heading else paragraph)
        heading = ""
    return [*pieces, heading] if heading else pieces


def _score(piece: str, wanted: set[str]) -> int:
    return len(wanted & set(WORD.findall(piece[:MAX_PARAGRAPH_CHARS].casefold())))
