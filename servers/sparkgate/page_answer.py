"""The answer of read_page: a part of the page that a small model can read, and how to get the rest."""

from __future__ import annotations

from typing import Any

from sparkgate.brief import size_bytes
from sparkgate.page_fetch import Page
from sparkgate.page_problems import problem
from sparkgate.reading.find import words_of
from sparkgate.reading.notes import words
from sparkgate.reading.reader import Asked, Shown
from sparkgate.reading.shown import MAX_WORDS_CHARS
from sparkgate.refusals import refusal
from sparkgate.toolset import PAGE_TEXT, Arguments
from sparkgate.untrusted import Incoming

BYTES_A_TOKEN = 4.2
"""Of Markdown in English, as the vocabularies of 2024 to 2026 cut it; an estimate."""


def asked_of(arguments: Arguments, budget_bytes: int) -> Asked:
    """What a call wants to see of a page."""
    texts = {name: arguments[name].strip()[:MAX_WORDS_CHARS] for name in ("section", "find")}
    return Asked(arguments["start"], arguments["max_chars"], **texts, budget_bytes=budget_bytes)


def answer(url: str, page: Page, shown: Shown, asked: Asked) -> dict[str, Any]:
    """What the page says, between two lines with a boundary; our own words stand before them.

    Args:
        url: what was asked for. Where it led to in the end are words of the web, and stand between the lines.
    """
    incoming = Incoming()
    if shown.missed:
        told = refusal(problem(shown.missed, chars=shown.chars))
        return told | incoming.fenced({"sections": incoming.tree(shown.names)} if shown.names else {})
    told = {"ok": True, "url": url, "kind": shown.kind, **_told(shown, asked), "hash": shown.hash}
    text = _passages(shown) if asked.find else _names(shown) + shown.pieces[0].text
    if shown.title and asked.start == 1 and not asked.section:
        text = f"# {incoming.line(shown.title)}\n\n{text}"
    if page.redirected:
        text = f"Redirected to {page.url}\n\n{text}"
    whole = incoming.wrapped(text)
    if notes := [*page.notes, *words(shown.notes), *incoming.notes()]:
        told["notes"] = notes
    told["about_tokens"] = round((size_bytes(told) + len(whole.encode())) / BYTES_A_TOKEN)
    return told | {PAGE_TEXT: whole}


def _told(shown: Shown, asked: Asked) -> dict[str, Any]:
    """Which part of the page it is."""
    if asked.find:
        wanted = words_of(asked.find)
        missing = [wanted[place] for place in shown.missing if place < len(wanted)]
        passages = f"{len(shown.pieces)} passages of {shown.hits} places; read on with start"
        return {"shown": passages} | ({"not_on_page": missing} if missing else {})
    start, end = shown.pieces[0].start, shown.pieces[0].end
    to_its_end = ", to the end of the section" if shown.ends else ""
    told: dict[str, Any] = {"shown": f"characters {start + 1} to {end} of {shown.chars}{to_its_end}"}
    return told | ({"next": {"start": end + 1}} if end < shown.chars else {})


def _passages(shown: Shown) -> str:
    pieces = ((f", under {one.under!r}" if one.under else "", one) for one in shown.pieces)
    return "\n\n".join(f"[from character {one.start + 1}{under}]\n{one.text}" for under, one in pieces)


def _names(shown: Shown) -> str:
    """The sections in one line."""
    more = f" · and {shown.sections - len(shown.names)} more" if shown.sections > len(shown.names) else ""
    return f"Sections: {' · '.join(shown.names)}{more}\n\n" if shown.names else ""
