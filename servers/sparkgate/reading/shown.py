"""What is asked of a page and what is shown of it, as it passes between the gate and the process that has the page."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeVar, get_args

from sparkgate.reading.links import LINK
from sparkgate.reading.notes import MOST, Note, is_number, note_from
from sparkgate.reading.page import (
    MAX_HEADING_CHARS,
    MAX_LINK_CHARS,
    MAX_LINKS,
    MAX_LINKS_CHARS,
    MAX_TITLE_CHARS,
    Kind,
)
from sparkgate.reading.part import Piece

Missed = Literal["", "unknown_section", "no_headings", "past_the_end", "not_on_page"]
One = TypeVar("One")
MAX_SHOWN_CHARS = 40_000
"""Of all pieces together."""
MAX_PIECES, MAX_NAMES, MAX_NOTES = 12, 100, 20
MAX_WORDS_CHARS = 2000
"""Of each text that is asked."""
KINDS: tuple[Kind, ...] = get_args(Kind)
MISSED: tuple[Missed, ...] = get_args(Missed)
_HASH = re.compile(r"[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Asked:
    """Which part of the page: from a character on, in a section, where words stand, or what has most of a query.

    Attributes:
        start: the first character is 1.
        max_chars: 0 for as many as fit.
        budget_bytes: size of the whole answer that a part is kept to.
    """

    start: int = 1
    max_chars: int = 0
    section: str = ""
    find: str = ""
    query: str = ""
    budget_bytes: int = 8000


@dataclass(frozen=True, slots=True)
class Shown:
    """What is shown of a page. All text in it is foreign.

    Attributes:
        hash: changes with the text of the whole page.
        chars: of the whole text.
        pieces: a part, the passages where words stand, or the best paragraphs as one.
        names: of sections: at the beginning of a longer page the first ones; those that may have been meant.
        sections: how many the page has.
        hits: how often the words stand on the page.
        missing: the words that do not, by their place among those asked for.
        missed: why there is no piece, as a key of the gate's messages.
        ends: the section that was asked for ends with the piece.
    """

    kind: Kind
    title: str
    hash: str
    chars: int
    pieces: tuple[Piece, ...] = ()
    names: tuple[str, ...] = ()
    sections: int = 0
    hits: int = 0
    missing: tuple[int, ...] = ()
    missed: Missed = ""
    ends: bool = False
    links: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()


def to_json(shown: Shown) -> dict[str, Any]:
    return asdict(shown) | {"notes": [(one.code, min(one.count, MOST), min(one.of, MOST)) for one in shown.notes]}


def from_json(told: Mapping[str, Any]) -> Shown:
    """What a process told. It has read foreign data, so its every field is looked at.

    Raises:
        ValueError, KeyError, TypeError: it is not what is told of a page.
    """
    pieces = _all(told["pieces"], MAX_PIECES, _piece)
    links = _all(told["links"], MAX_LINKS, _link)
    if sum(len(one.text) for one in pieces) > MAX_SHOWN_CHARS or sum(map(len, links)) > MAX_LINKS_CHARS:
        raise ValueError("too much")
    if bool(pieces) == bool(told["missed"]) or not _HASH.fullmatch(told["hash"]):
        raise ValueError("no page")
    return Shown(
        kind=KINDS[KINDS.index(told["kind"])],
        title=_text(told["title"], MAX_TITLE_CHARS),
        hash=told["hash"],
        chars=_number(told["chars"]),
        pieces=pieces,
        names=_all(told["names"], MAX_NAMES, _name),
        sections=_number(told["sections"]),
        hits=_number(told["hits"]),
        missing=_all(told["missing"], MAX_PIECES, _number),
        missed=MISSED[MISSED.index(told["missed"])],
        ends=told["ends"] is True,
        links=links,
        notes=_all(told["notes"], MAX_NOTES, note_from),
    )


def _all(told: object, most: int, one: Callable[[Any], One]) -> tuple[One, ...]:
    if not isinstance(told, list) or len(told) > most:
        raise ValueError("list")
    return tuple(map(one, told))


def _piece(told: Any) -> Piece:
    return Piece(
        _text(told["text"], MAX_SHOWN_CHARS), _number(told["start"]), _number(told["end"]), _name(told["under"])
    )


def _link(told: object) -> str:
    link = _text(told, MAX_LINK_CHARS)
    if not LINK.fullmatch(link):
        raise ValueError("link")
    return link


def _name(told: object) -> str:
    return _text(told, MAX_HEADING_CHARS)


def _text(told: object, most: int) -> str:
    if not isinstance(told, str) or len(told) > most:
        raise ValueError("text")
    told.encode()  # half of a character is none
    return told


def _number(told: object) -> int:
    if not is_number(told):
        raise ValueError("number")
    return told
